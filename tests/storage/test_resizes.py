"""A run whose record of the accounts begins with a change of size is the run that is known already."""

from dataclasses import replace

import pytest

from idlewatt.storage.records import Allocation, JobState, SchedulerSnapshot

HELD = Allocation("a", 2, (0, 1), 8, 1 << 30)


@pytest.mark.parametrize("vanished", [True, False], ids=["vanished", "seen as it ended"])
def test_the_record_after_a_change_of_size_completes_the_run_that_was_seen(history, make, vanished):
    for time_s, *jobs in ((130.0, make.running(125.0, HELD, eligible_s=101.0)),
                          (170.0, *(() if vanished else (make.ended(125.0, 160.0, eligible_s=101.0),)))):
        history.record_snapshot(SchedulerSnapshot(time_s, jobs=tuple(jobs)))
    history.record_finished([make.ended(125.0, 160.0, submit_s=140.0, eligible_s=140.0)])
    (job,) = history.jobs(0, 1e9)
    assert (job.submit_s, job.eligible_s, job.end_s, job.state) == (100.0, 101.0, 160.0, JobState.COMPLETED)
    assert [(run.start_s, run.end_s) for run in history.job("1").runs] == [(125.0, 160.0)]
    assert history.open_jobs() == ()


def test_the_record_of_a_run_that_nobody_has_seen_is_kept_as_it_is_told(history, make):
    history.record_finished([make.ended(125.0, 160.0, submit_s=140.0)])
    assert [job.submit_s for job in history.jobs(0, 1e9)] == [140.0]


def test_a_run_that_was_resized_in_the_second_of_its_start_is_the_run_that_was_seen(history, make):
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(125.0, HELD, eligible_s=101.0),)))
    history.record_finished([make.ended(125.0, 160.0, submit_s=125.0, eligible_s=125.0)])
    assert [(job.submit_s, job.end_s) for job in history.jobs(0, 1e9)] == [(100.0, 160.0)]
    assert history.open_jobs() == ()


def test_a_run_of_another_partition_that_starts_in_that_second_is_another_clusters(history, make):
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(125.0, HELD),)))
    history.record_finished([replace(make.ended(125.0, 160.0, submit_s=125.0), partition="other")])
    assert sorted(job.submit_s for job in history.jobs(0, 1e9)) == [100.0, 125.0]


@pytest.mark.parametrize("submit_s", [125.0, 125.015625], ids=["as told", "moved beside the other"])
def test_a_run_of_another_source_that_starts_in_that_second_is_another_clusters(history, make, submit_s):
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(125.0, HELD, source="north"),)))
    history.record_finished([make.ended(125.0, 160.0, submit_s=submit_s, source="south")])
    assert sorted(job.submit_s for job in history.jobs(0, 1e9)) == [100.0, submit_s]


def test_a_resized_run_is_the_one_of_its_source(history, make):
    for submit_s, source in ((100.0, "north"), (100.015625, "south")):
        history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(
            125.0, HELD, submit_s=submit_s, source=source),)))
    history.record_finished([make.ended(125.0, 160.0, submit_s=140.0, source="south")])
    assert {job.submit_s: job.end_s for job in history.jobs(0, 1e9)} == {100.0: None, 100.015625: 160.0}
