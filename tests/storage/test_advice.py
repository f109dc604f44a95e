"""Advice: kept as it changes, and compared with what the scheduler did next."""

from dataclasses import replace

import pytest

from idlewatt.storage.advice import Following
from idlewatt.storage.recommendations import Alternative, Instead, Placed, Placement
from idlewatt.storage.records import Allocation, JobState, Request, SchedulerSnapshot


def start(history, make, start_s: float, *nodes: str, **more) -> None:
    job = make.running(start_s, *(Allocation(node, 2) for node in nodes), **more)
    history.record_snapshot(SchedulerSnapshot(start_s + 5, jobs=(job,)))


def verdicts(history, job_id: str = "1") -> list[dict[str, str]]:
    return [run.verdicts for run in history.job(job_id).runs]


def test_repeated_advice_is_one_row_that_lasts_longer(history, make):
    for issued_s in (10.0, 20.0, 30.0, 25.0):
        history.record_recommendations([make.advice(issued_s, "a", reason=f"because {issued_s}")])
    history.record_recommendations([make.advice(40.0, "b")])
    assert [(item.recommendation.issued_s, item.last_issued_s) for item in history.recommendations(0, 100)] == [
        (10.0, 30.0), (40.0, 40.0)]


def test_advice_comes_back_as_it_was_given(history, make):
    given = make.advice(10.0, "a", "b",
                        alternatives=(Alternative(Placement(("c",), (4,)), "breaks a hole", 1.5, 0.48),),
                        interval_s=(-5.0, 2.0), expected_start_s=12.0, shadow=True, wait_change_s=-1.5,
                        reasons=("short", "waited long"),
                        instead=Instead("fifo", "hold", Placement(("d",), (2,)), 90.0), communication_cost=2.25,
                        gpu_indexes=((0, 1), (6, 7)))
    history.record_recommendations([given])
    assert history.recommendations(0, 100)[0].recommendation == given


@pytest.mark.parametrize(("advised", "held", "verdict"), [
    (("a", "b"), ("b", "a"), "followed"), (("a",), ("a", "b"), "not_followed"), (("a",), ("b",), "not_followed"),
])
def test_a_start_follows_when_the_nodes_are_the_advised_ones(history, make, advised, held, verdict):
    history.record_recommendations([make.advice(110.0, *advised)])
    start(history, make, 120.0, *held)
    assert verdicts(history) == [{"easy": verdict}]


def test_a_hold_that_was_started_anyway_is_not_followed(history, make):
    history.record_recommendations([make.advice(110.0, "a", action="hold")])
    start(history, make, 120.0, "a")
    assert verdicts(history) == [{"easy": "not_followed"}]


def test_advice_of_the_second_in_which_a_job_started_may_have_been_followed(history, make):
    """Slurm says 120 for a start at 120.9."""
    history.record_recommendations([make.advice(110.0, "a", action="hold")])
    history.record_recommendations([make.advice(120.4, "a")])
    start(history, make, 120.0, "a")
    assert verdicts(history) == [{"easy": "followed"}]


def test_a_start_that_nobody_advised_is_counted_as_such(history, make):
    start(history, make, 120.0, "a")
    history.record_recommendations([make.advice(121.0, "a")])
    start(history, make, 120.0, "a", reason="again")
    assert verdicts(history) == [{"": "no_advice"}]


def test_only_the_last_advice_before_the_start_counts(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    history.record_recommendations([make.advice(115.0, "b")])
    history.record_recommendations([make.advice(125.0, "a")])
    start(history, make, 120.0, "b")
    assert verdicts(history) == [{"easy": "followed"}]


def test_each_policy_is_judged_and_totals_are_kept(history, make):
    history.record_recommendations([make.advice(110.0, "a"), make.advice(110.0, "b", policy="scorer", shadow=True)])
    start(history, make, 120.0, "a")
    assert history.following() == (Following("easy", False, "followed", 1),
                                   Following("scorer", True, "not_followed", 1))


def test_a_rerun_is_judged_by_advice_given_since_the_run_before(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    start(history, make, 120.0, "a")
    history.record_snapshot(SchedulerSnapshot(140.0, jobs=(make.job(restarts=1),)))
    start(history, make, 160.0, "a", restarts=1)
    assert verdicts(history) == [{"easy": "followed"}, {"": "no_advice"}]


def test_a_start_is_judged_once_its_nodes_are_known(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    start(history, make, 120.0)
    assert verdicts(history) == [{}]
    history.record_finished([make.ended(120.0, 130.0, JobState.COMPLETED, allocations=(Allocation("a", 2),))])
    assert verdicts(history) == [{"easy": "followed"}]


def test_advice_for_the_waiting_rest_of_an_array_counts_for_its_tasks(history, make):
    history.record_recommendations([make.advice(110.0, "a", job_id="7")])
    start(history, make, 120.0, "a", job_id="7_3")
    assert verdicts(history, "7_3") == [{"easy": "followed"}]


def test_running_jobs_of_several_gpus_are_told_with_where_they_were_advised(history, make):
    history.record_recommendations([make.advice(110.0, "a", "b")])
    start(history, make, 120.0, "b", "c")

    assert history.placed() == (Placed("gpu", Placement(("b", "c"), (2, 2)), Placement(("a", "b"), (2, 2))),)


@pytest.mark.parametrize("told", [{"action": "hold"}, {"shadow": True}])
def test_a_job_that_nobody_in_charge_would_have_started_has_no_other_place(history, make, told):
    history.record_recommendations([make.advice(110.0, "a", "b", **told)])
    start(history, make, 120.0, "b", "c")

    assert history.placed() == ()


def test_a_job_that_has_ended_or_holds_one_gpu_is_nowhere(history, make):
    for job_id in ("1", "2"):
        history.record_recommendations([make.advice(110.0, "a", job_id=job_id)])
    start(history, make, 120.0, "b", job_id="1")
    assert len(history.placed()) == 1
    small = replace(make.running(120.0, Allocation("b", 1), job_id="2"), request=Request(1))
    history.record_snapshot(SchedulerSnapshot(125.0, jobs=(small,)))
    history.record_finished([make.ended(120.0, 130.0, job_id="1")])
    assert history.placed() == ()
