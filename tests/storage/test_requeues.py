"""A job that is submitted anew when it is put back into the queue leaves no submission without an end."""

import pytest

from idlewatt.storage.batches import Batch, SnapshotChanges, decode, encode
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, SchedulerSnapshot

HELD = Allocation("a", 2, (0, 1), 8, 1 << 30)


def see(history: History, time_s: float, *jobs: Job) -> None:
    history.record_snapshot(SchedulerSnapshot(time_s, jobs=jobs))


def former(history: History) -> tuple[JobState, float | None, list[tuple[float, float | None, str]]]:
    found = history.job("1", 100.0)
    return found.job.state, found.job.end_s, [(run.start_s, run.end_s, run.state.value) for run in found.runs]


def test_without_accounting_a_former_submission_ends_when_the_job_is_submitted_anew(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.job(submit_s=145.0, restarts=1))
    assert former(history) == (JobState.PREEMPTED, 145.0, [(125.0, 145.0, "preempted")])
    assert [(change.time_s, change.state) for change in history.job("1", 100.0).changes][-1] == (
        145.0, JobState.PREEMPTED)
    assert history.job("1", 145.0).job.state is JobState.PENDING
    assert history.open_jobs() == ()


def test_a_former_submission_that_was_shown_as_it_completed_ends_too(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 140.5, make.job(state=JobState.COMPLETING, start_s=140.0, restarts=1, allocations=(HELD,)))
    see(history, 170.0, make.running(165.0, HELD, submit_s=141.0, restarts=1))
    assert former(history) == (JobState.PREEMPTED, 141.0, [(125.0, 141.0, "preempted")])


def test_a_daemon_that_was_restarted_ends_the_former_submission_too(url, make):
    with History.open(url) as history:
        see(history, 130.0, make.running(125.0, HELD))
    with History.open(url) as history:
        see(history, 150.0, make.job(submit_s=145.0, restarts=1))
        assert former(history)[:2] == (JobState.PREEMPTED, 145.0)


def test_accounting_says_better_how_the_former_submission_ended(history, make):
    see(history, 130.0, make.running(125.0, HELD))
    see(history, 150.0, make.job(submit_s=145.0, restarts=1))
    history.record_finished([make.ended(125.0, 140.0, JobState.NODE_FAILED)])
    assert former(history) == (JobState.NODE_FAILED, 140.0, [(125.0, 140.0, "node_failed")])
    assert [change.state.value for change in history.job("1", 100.0).changes] == ["pending", "running", "node_failed"]


@pytest.mark.parametrize("other", [{"user": "bob"}, {"restarts": 0}], ids=["of another user", "never put back"])
def test_a_job_of_another_cluster_with_the_same_number_goes_on(history, make, other):
    see(history, 130.0, make.running(125.0, HELD, user="ada"))
    see(history, 150.0, make.job(**{"submit_s": 145.0, "restarts": 1, "user": "ada"} | other))
    assert former(history) == (JobState.RUNNING, None, [(125.0, None, "running")])


def test_a_job_that_is_shown_beside_the_later_one_is_another_cluster_s_and_goes_on(history, make):
    running = make.running(125.0, HELD)
    see(history, 130.0, running)
    see(history, 150.0, running, make.job(submit_s=145.0, restarts=1))
    assert former(history) == (JobState.RUNNING, None, [(125.0, None, "running")])


def test_ids_that_several_jobs_have_wait_on_disk_too():
    batch = Batch("seen", SnapshotChanges((), (), 5.0, shared_ids=("1",)), 1)
    assert decode(encode(batch)).facts.shared_ids == ("1",)


def test_a_job_of_another_cluster_that_is_away_goes_on_though_user_and_partition_are_the_same(history, make):
    see(history, 130.0, make.running(125.0, HELD, source="north"))
    see(history, 150.0, make.job(submit_s=145.0, restarts=1, source="south"))
    assert former(history) == (JobState.RUNNING, None, [(125.0, None, "running")])
    see(history, 160.0, make.job(submit_s=146.0, restarts=1, source="north"))
    assert former(history)[:2] == (JobState.PREEMPTED, 146.0)
