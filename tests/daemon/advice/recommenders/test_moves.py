"""Recommendations on moves: for whom, how much, and how it is told."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.moves import MoveRecommender
from idlewatt.daemon.settings.recommenders import MovesSettings
from idlewatt.exporters.metrics.declared import ADVICE
from idlewatt.exporters.publish import check
from idlewatt.storage.moves import Move, Relief
from idlewatt.storage.recommendations import Placement, Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import Telemetry
from idlewatt.storage.waiting import WaitReason

NOW, HOUR = 1_800_000_000.0, 3600.0
NODES = tuple(Node(name, ("p",), 8, gpus_allocated=held) for name, held in (("n0", 2), ("n1", 2), ("n2", 4)))
RUNNING = tuple(Job(job_id, NOW - HOUR, JobState.RUNNING, "p", Request(gpus, 1, gpus), user="ann", start_s=NOW - HOUR,
                    allocations=(Allocation(node, gpus),))
                for job_id, node, gpus in (("a", "n0", 2), ("b", "n1", 2), ("c", "n2", 4)))


def waits(job_id, gpus=8, **facts):
    return Job(job_id, NOW - 60, JobState.PENDING, "p", Request(gpus, 1, gpus), user="bob", **facts)


def said(job_id, action, placement=None, start_s=NOW + HOUR, shadow=False):
    return Recommendation(job_id, NOW - 60, "p", NOW, "fifo", "wait", action, "", placement, start_s, shadow=shadow)


def considered(*waiting, advice=(), **options):
    scene = RecommenderContext(NOW, SchedulerSnapshot(NOW, NODES, (), (*RUNNING, *waiting)), Telemetry(),
                  Advice(NOW, tuple(advice)) if advice else None)
    return MoveRecommender(MovesSettings(**options)).recommend(scene)


def test_a_row_says_what_to_move_for_whom_and_what_is_gained():
    found = considered(waits("9"), advice=[said("9", "hold")])

    assert found.rows == (Relief("9", NOW - 60, "p", "bob", NOW, Placement(("n0",), (8,)),
                                   (Move("a", "ann", 2, "n0", "n2", HOUR),), 2, NOW + HOUR),)
    assert found.rows[0].nodes == ("n0", "n2")
    assert found.metrics == {"move_info": {("a", "n0", "n2", "2", "9"): 1.0}, "moves_freed_gpus": {"p": 8.0},
                               "moves_moved_gpus": {"p": 2.0}}
    check(found.metrics)


def test_who_is_advised_first_is_helped_first_and_rows_can_be_carried_out_together():
    found = considered(waits("8"), waits("9"), waits("10"),
                         advice=[said("10", "hold"), said("9", "hold"), said("8", "hold")])

    assert [(row.job_id, [(move.job_id, move.destination) for move in row.moves]) for row in found.rows] == [
        ("10", [("a", "n2")]), ("9", [("b", "n2")])]


def test_room_that_the_advice_gives_away_is_not_used():
    start = said("7", "start", Placement(("n2",), (4,)), NOW)

    assert considered(waits("7", 4), waits("9"), advice=[start, said("9", "hold")]).rows[0].moves[0].destination == "n1"


@pytest.mark.parametrize("job", [
    waits("9", reason=WaitReason.DEPENDENCY), waits("9", eligible_s=NOW + HOUR), waits("9", 4), waits("9", 0),
    replace(waits("9"), state=JobState.COMPLETED)])
def test_nothing_is_moved_for_a_job_that_could_not_start_or_has_room(job):
    assert considered(job).rows == ()


def test_nothing_is_moved_for_a_job_that_starts_soon_whatever_a_shadow_says():
    soon = [said("9", "hold", start_s=NOW + 300), said("9", "hold", shadow=True)]

    assert considered(waits("9"), advice=soon).rows == ()
    assert len(considered(waits("9"), advice=soon, gain="4m").rows) == 1
    assert len(considered(waits("9"), advice=[said("9", "hold", start_s=None)]).rows) == 1


@pytest.mark.parametrize(("limit_s", "where"), [(None, []), (HOUR, []), (299.0, [("n0",)])])
def test_whoever_is_helped_delays_nobody_who_is_expected_to_start_first(limit_s, where):
    first = [said(job_id, "hold", Placement((node,), (8,)), NOW + 300) for job_id, node in (("7", "n0"), ("8", "n1"))]
    jobs = waits("7"), waits("8"), waits("9", limit_s=limit_s)

    assert [row.placement.nodes for row in considered(*jobs, advice=[*first, said("9", "hold")]).rows] == where
    assert len(considered(*jobs, advice=[said("9", "hold"), *first]).rows) == 1


def test_who_is_helped_keeps_no_other_nodes():
    first = said("8", "hold", Placement(("n1",), (8,)), NOW + HOUR)

    assert [row.job_id for row in considered(waits("8"), waits("9"), advice=[first, said("9", "hold")]).rows] == [
        "8", "9"]


def test_no_row_is_cut_where_there_are_more_moves_than_are_published():
    count = ADVICE // 3 + 1
    nodes = [Node(f"h{number}", ("p",), 8, gpus_allocated=3) for number in range(count)]
    homes = [Node(f"g{number}", ("p",), 2, gpus_allocated=1) for number in range(3 * count)]
    jobs = [Job(f"{number}-{part}", NOW - HOUR, JobState.RUNNING, "p", Request(1, 1, 1), start_s=NOW - HOUR,
                allocations=(Allocation(f"h{number}", 1),)) for number in range(count) for part in range(3)]
    snapshot = SchedulerSnapshot(NOW, (*nodes, *homes), (), (*jobs, *(waits(f"w{number}") for number in range(count))))
    found = MoveRecommender(MovesSettings()).recommend(RecommenderContext(NOW, snapshot, Telemetry()))

    assert len(found.metrics["move_info"]) == sum(len(row.moves) for row in found.rows) == ADVICE // 3 * 3


def test_without_advice_the_oldest_is_helped_first():
    older = replace(waits("10"), submit_s=NOW - 600)

    assert [row.job_id for row in considered(waits("9"), older).rows] == ["10", "9"]


def owned(*owners):
    nodes = tuple(replace(node, owner=owner) for node, owner in zip(NODES, owners, strict=True))
    scene = RecommenderContext(NOW, SchedulerSnapshot(NOW, nodes, (), (*RUNNING, waits("9"))), Telemetry())
    return [(row.placement.nodes, row.moves[0].destination) for row in MoveRecommender(MovesSettings()).recommend(
        scene).rows]


@pytest.mark.parametrize(("owners", "found"), [
    (("zoe", "zoe", "zoe"), []), (("bob", "zoe", "zoe"), []), (("bob", "ann", "zoe"), [(("n0",), "n1")]),
    (("zoe", "", ""), [(("n1",), "n2")])])
def test_nobody_starts_or_moves_to_a_node_that_serves_another_user(owners, found):
    assert owned(*owners) == found


def test_nothing_is_moved_for_a_job_of_which_a_fact_is_unknown():
    assert considered(waits("9")).rows
    assert considered(waits("9").with_unknown(["where shards are free"])).rows == ()


def test_a_table_shows_it_in_words():
    subject = subjects()["moves"]
    (row,) = considered(waits("9"), advice=[said("9", "hold")]).rows
    shown = subject.cells(TypeAdapter(Relief).dump_python(row, mode="json"))

    assert [shown[key] for key in subject.columns] == ["9", "p", 8, "n0:8", "a (2 GPUs) n0 -> n2", 2, 2.0, "in 1h 0m"]
