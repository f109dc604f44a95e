"""Advice: kept as it changes, and compared with what the scheduler did next."""

from dataclasses import replace

import pytest
from sqlalchemy import select, text

from idlewatt.storage import schema
from idlewatt.storage.advice import REASON_EVERY_S, AdviceChange
from idlewatt.storage.following import IN_FORCE_S, WITHIN_S, Following, Stood, verdict_on, verdicts_on
from idlewatt.storage.recommendations import Alternative, Instead, Placed, Placement
from idlewatt.storage.records import Allocation, JobState, Request, SchedulerSnapshot


def start(history, make, start_s: float, *nodes: str, **more) -> None:
    job = make.running(start_s, *(Allocation(node, 2) for node in nodes), **more)
    history.record_snapshot(SchedulerSnapshot(start_s + 5, jobs=(job,)))


def verdicts(history, job_id: str = "1") -> list[dict[str, str]]:
    return [run.verdicts for run in history.job(job_id).runs]


def stood(history) -> list[tuple[float, float]]:
    return [(item.recommendation.issued_s, item.last_issued_s) for item in history.recommendations(0, 1e6)]


def noted(history) -> list[tuple[float, str, str]]:
    return [(change.time_s, change.action, change.reason) for change in history.advice_changes(0, 1e6)]


def test_the_advice_in_force_is_one_row_that_is_overwritten(history, make):
    for issued_s in (10.0, 20.0, 30.0, 25.0):
        history.record_recommendations([make.advice(issued_s, "a", reason=f"because {issued_s}")])
    assert stood(history) == [(10.0, 30.0)]
    assert history.recommendations(0, 100)[0].recommendation.reason == "because 30.0"
    history.record_recommendations([make.advice(40.0, "b")])
    assert stood(history) == [(40.0, 40.0)]


def test_a_change_is_noted_where_the_action_or_the_binding_reason_changed(history, make):
    """Not where a held job's node flaps, nor where the figures in its reason do."""
    for number in range(20):
        history.record_recommendations([make.advice(1000.0 + 30 * number, "ab"[number % 2], action="hold",
                                                    reason=f"needs 8 GPUs, {number} are free in p#1")])
    history.record_recommendations([make.advice(1600.0, "a", action="start", reason="fits exactly")])
    history.record_recommendations([make.advice(1630.0, action="hold", reason="no GPU is free")])
    assert noted(history) == [(1000.0, "hold", "needs 8 GPUs, 0 are free in p#1"), (1600.0, "start", "fits exactly"),
                              (1630.0, "hold", "no GPU is free")]
    assert history.advice_changes(1600.0, 1630.0) == (
        AdviceChange(1600.0, "1", 100.0, "easy", "start", "fits exactly"),)
    assert history.advice_changes(0, 1e6, job_id="2") == ()


def test_a_reason_that_flaps_is_noted_now_and_then_only(history, make):
    for number in range(100):
        history.record_recommendations([make.advice(1000.0 + 30 * number, action="hold",
                                                    reason=("scattered", "no GPU is free")[number % 2])])
    assert 2 <= len(noted(history)) <= 100 * 30 / REASON_EVERY_S


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
    (("a", "b"), ("b", "a"), "followed"), (("a",), ("a", "b"), "elsewhere"), (("a", "b"), ("a",), "elsewhere"),
    (("a",), ("b",), "elsewhere"),
])
def test_a_start_follows_when_the_nodes_are_the_advised_ones(history, make, advised, held, verdict):
    history.record_recommendations([make.advice(110.0, *advised)])
    start(history, make, 120.0, *held)
    assert verdicts(history) == [{"easy": verdict}]


def test_advice_whose_gpus_are_not_recorded_is_followed_by_nobody():
    assert verdict_on(Stood(10.0, 20.0, "start", "", ["a"], None, None), {"a": 2}, 15.0) == "elsewhere"


def test_other_gpus_on_the_same_nodes_are_elsewhere(history, make):
    history.record_recommendations([make.advice(110.0, "a", "b")])
    job = make.running(120.0, Allocation("a", 3), Allocation("b", 1))
    history.record_snapshot(SchedulerSnapshot(125.0, jobs=(job,)))
    assert verdicts(history) == [{"easy": "elsewhere"}]


@pytest.mark.parametrize(("action", "node", "expected_s", "start_s", "verdict"), [
    ("start", "a", 100_010.0, 100_020.0, "followed"),
    ("start", "a", 100_010.0, 100_010.0 + WITHIN_S + 1, "later"),
    ("hold", "a", 100_010.0 + WITHIN_S, 100_020.0, "followed"),
    ("hold", "a", 103_600.0, 100_020.0, "earlier"),
    ("hold", "a", 100_100.0, 100_100.0 + WITHIN_S + 1, "later"),
    ("hold", "b", 100_100.0, 100_100.0, "elsewhere"),
    ("hold", "a", None, 100_020.0, "not advised"),
    ("hold", "b", None, 100_020.0, "not advised"),
])
def test_a_start_on_the_advised_nodes_follows_at_the_advised_moment(history, make, action, node, expected_s, start_s,
                                                                    verdict):
    for issued_s in (100_010.0, 100_015.0, start_s - 1):
        history.record_recommendations([make.advice(issued_s, "a", action=action, expected_start_s=expected_s)])
    start(history, make, start_s, node)
    assert verdicts(history) == [{"easy": verdict}]
    assert history.following() == (Following("easy", False, action, verdict, 1),)


@pytest.mark.parametrize("reason", ["not eligible yet: the scheduler says Dependency", "can never run: too large"])
def test_a_hold_that_names_no_place_advises_nothing(history, make, reason):
    history.record_recommendations([make.advice(110.0, action="hold", reason=reason)])
    start(history, make, 120.0, "a")
    assert verdicts(history) == [{"easy": "not advised"}]


def test_advice_that_was_not_repeated_for_long_is_not_in_force(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    start(history, make, 110.0 + IN_FORCE_S + 1, "a")
    assert verdicts(history) == [{"": "not advised"}]


def test_advice_is_frozen_when_its_job_starts_and_takes_one_row(history, make):
    given = make.advice(110.0, "a", "b", reason="fits on 2 of 3 nodes", expected_start_s=110.0)
    history.record_recommendations([given])
    start(history, make, 120.0, "a", "b")
    (kept,) = history.recommendations(0, 1e6)
    assert (kept.recommendation, kept.last_issued_s) == (given, 110.0)
    assert history.recommendations(0, 100) == history.recommendations(0, 1e6, job_id="2") == ()
    with history._reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM recommendations")).scalar_one() == 0


def test_advice_given_while_a_start_was_not_seen_yet_does_not_hide_what_stood_at_it(history, make):
    for issued_s, node in ((60.0, "c"), (90.0, "a"), (130.0, "b"), (160.0, "d")):
        history.record_recommendations([make.advice(issued_s, node)])
    job = make.running(120.0, Allocation("a", 2))
    history.record_snapshot(SchedulerSnapshot(170.0, jobs=(job,)))
    assert verdicts(history) == [{"easy": "followed"}]


def test_advice_of_the_second_in_which_a_job_started_may_have_been_followed(history, make):
    """Slurm says 120 for a start at 120.9."""
    history.record_recommendations([make.advice(110.0, "a", action="hold")])
    history.record_recommendations([make.advice(120.4, "a")])
    start(history, make, 120.0, "a")
    assert verdicts(history) == [{"easy": "followed"}]


def test_a_start_that_nobody_advised_is_counted_as_such(history, make):
    start(history, make, 120.0, "a")
    history.record_recommendations([make.advice(121.0, "a")])
    start(history, make, 120.0, "a", reason_text="again")
    assert verdicts(history) == [{"": "not advised"}]


def test_only_the_last_advice_before_the_start_counts(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    history.record_recommendations([make.advice(115.0, "b")])
    history.record_recommendations([make.advice(125.0, "a")])
    start(history, make, 120.0, "b")
    assert verdicts(history) == [{"easy": "followed"}]


def test_each_policy_is_judged_and_totals_are_kept(history, make):
    history.record_recommendations([make.advice(110.0, "a"), make.advice(110.0, "b", policy="scorer", shadow=True)])
    start(history, make, 120.0, "a")
    assert history.following() == (Following("easy", False, "start", "followed", 1),
                                   Following("scorer", True, "start", "elsewhere", 1))


def test_what_became_of_advice_adds_up_over_snapshots(history, make):
    for start_s, jobs in ((120.0, "12"), (150.0, "345")):
        history.record_recommendations([make.advice(start_s - 10, "a", job_id=job_id) for job_id in jobs])
        running = tuple(make.running(start_s, Allocation("a", 2), job_id=job_id) for job_id in jobs)
        history.record_snapshot(SchedulerSnapshot(start_s + 5, jobs=running))
    assert history.following() == (Following("easy", False, "start", "followed", 5),)


def test_the_verdicts_on_a_job_are_those_on_its_own_runs(history, make):
    history.record_recommendations([make.advice(110.0, "a", job_id=job_id) for job_id in "123"])
    running = tuple(make.running(120.0, Allocation("a", 2), job_id=job_id) for job_id in "123")
    history.record_snapshot(SchedulerSnapshot(125.0, jobs=running))
    with history._reading() as connection:
        found = [verdicts_on(connection, job) for job in connection.execute(select(schema.jobs.c.id)).scalars()]
    assert [list(by_run.values()) for by_run in found] == [[{"easy": "followed"}]] * 3
    assert len({run for by_run in found for run in by_run}) == 3


def test_a_rerun_is_judged_by_advice_given_since_the_run_before(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    start(history, make, 120.0, "a")
    history.record_snapshot(SchedulerSnapshot(140.0, jobs=(make.job(restarts=1),)))
    start(history, make, 160.0, "a", restarts=1)
    assert verdicts(history) == [{"easy": "followed"}, {"": "not advised"}]


def test_the_start_of_another_job_hides_no_advice(history, make):
    start(history, make, 100.0, "b")
    history.record_recommendations([replace(make.advice(110.0, "a"), job_id="2")])
    start(history, make, 115.0, "b", job_id="1", restarts=1)
    start(history, make, 120.0, "a", job_id="2")
    assert verdicts(history, "2") == [{"easy": "followed"}]


def test_a_start_is_judged_once_its_nodes_are_known(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    start(history, make, 120.0)
    assert verdicts(history) == [{}]
    history.record_finished([make.ended(120.0, 130.0, JobState.COMPLETED, allocations=(Allocation("a", 2),))])
    assert verdicts(history) == [{"easy": "followed"}]


def test_advice_for_the_waiting_rest_of_an_array_counts_for_its_tasks(history, make):
    history.record_recommendations([make.advice(110.0, "a", job_id="7")])
    start(history, make, 120.0, "a", job_id="7_3", array="7")
    assert verdicts(history, "7_3") == [{"easy": "followed"}]


def test_running_jobs_of_several_gpus_are_told_with_where_they_were_advised(history, make):
    history.record_recommendations([make.advice(110.0, "a", "b")])
    start(history, make, 120.0, "b", "c")

    assert history.placed() == (Placed("gpu", Placement(("b", "c"), (2, 2)), Placement(("a", "b"), (2, 2))),)


@pytest.mark.parametrize("told", [{"action": "hold"}, {"shadow": True}])
def test_a_job_that_no_active_policy_would_have_started_has_no_other_place(history, make, told):
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
