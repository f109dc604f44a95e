"""Jobs that hold idle GPUs: who, since when, what ending them frees, and whom it lets start."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.reclaim import ReclaimRecommender, without
from idlewatt.daemon.settings.recommenders import ReclaimSettings
from idlewatt.daemon.waste import Assessment, GpuVerdict
from idlewatt.exporters.publish import check
from idlewatt.storage.details import Details
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.reclaim import Started
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import License, SchedulerRules
from idlewatt.storage.telemetry import Telemetry

NOW, HOUR = 1_800_000_000.0, 3600.0
NODES = (Node("n0", ("p",), 4, cpus=64, cpus_allocated=20, gpus_allocated=4, gpu_indexes_allocated=(0, 1, 2, 3)),)
PARTITIONS = (Partition("p", ("n0",)),)
RUNNING = tuple(Job(job_id, NOW - 9 * HOUR, JobState.RUNNING, "p", Request(2, 1, 2), user=user, account="lab",
                    start_s=NOW - 8 * HOUR, limit_s=86400.0, allocations=(Allocation("n0", 2, places, 10),))
                for job_id, user, places in (("a", "ann", (0, 1)), ("b", "bob", (2, 3))))
WAITING = Job("9", NOW - 60, JobState.PENDING, "p", Request(2, 1, 2, 4), user="cat", limit_s=HOUR)


def gpu(index, job_id, since_s=NOW - HOUR, state=PowerClass.ALLOCATED_IDLE):
    return GpuVerdict("n0", index, f"GPU-{index}", "A100", "p", state, 60.0, job_id=job_id, since_s=since_s,
                      run=(job_id, NOW - 9 * HOUR, NOW - 8 * HOUR) if job_id else None)


def considered(*gpus, policies=(), waiting=(WAITING,), age_s=0.0):
    snapshot = SchedulerSnapshot(NOW, NODES, PARTITIONS, (*RUNNING, *waiting))
    advice = Advice(NOW, policies=tuple(policies)) if policies else None
    return ReclaimRecommender(ReclaimSettings()).recommend(RecommenderContext(
        NOW, snapshot, Telemetry(), advice, assessment=Assessment(NOW - age_s, gpus)))


def test_a_row_says_who_holds_how_many_idle_gpus_since_when_and_what_ending_it_frees():
    found = considered(gpu(0, "a", NOW - 3 * HOUR), gpu(1, "a"), gpu(2, "b", NOW - 60))
    (row,) = found.rows
    assert (row.job_id, row.user, row.gpus_idle, row.gpus_held, row.whole) == ("a", "ann", 2, 2, True)
    assert (row.since_s, row.idle_watts, row.cpus, row.nodes, row.starts) == (NOW - HOUR, 120.0, 10, ("n0",), None)
    assert found.metrics == {"reclaimable_gpus": {"p": 2.0}, "reclaimable_since_timestamp_seconds": {
        ("p", "a", "ann", "2"): NOW - HOUR}}
    check(found.metrics)


def test_whom_ending_it_lets_start_is_asked_of_the_gate_that_decides_on_starts():
    found = considered(gpu(0, "a"), gpu(1, "a"), policies=["scorer@1", "fifo+first-fit+easy"])
    assert found.rows[0].starts == (Started("9", "cat", 2),)
    assert considered(gpu(0, "a"), policies=["fifo+first-fit+easy"], waiting=()).rows[0].starts == ()


@pytest.mark.parametrize(("gpus", "age_s"), [
    ((gpu(0, "a", None),), 0.0), ((gpu(0, "a"),), 600.0), ((gpu(0, "gone"),), 0.0), ((gpu(0, ""),), 0.0),
    ((gpu(0, "a", state=PowerClass.UNMEASURED),), 0.0), ((), 0.0)])
def test_nobody_is_listed_by_what_is_not_known(gpus, age_s):
    assert considered(*gpus, age_s=age_s).rows == ()


def test_a_job_of_another_cluster_with_the_same_number_is_not_listed_for_it():
    other = replace(RUNNING[0], submit_s=NOW - 10 * HOUR, user="dan", allocations=(Allocation("n9", 2, (0, 1), 10),))
    found = considered(gpu(0, "a"), gpu(1, "a"), waiting=(other, WAITING), policies=["fifo+first-fit+easy"])
    assert [(row.user, row.gpus_idle, row.starts) for row in found.rows] == [("ann", 2, (Started("9", "cat", 2),))]


def test_a_job_that_had_the_same_number_on_the_same_node_is_not_listed_for_it():
    former = replace(RUNNING[0], submit_s=NOW - 10 * HOUR, user="dan")
    found = considered(gpu(0, "a"), gpu(1, "a"), waiting=(former,))
    assert [(row.user, row.gpus_idle) for row in found.rows] == [("ann", 2)]


def test_a_job_of_which_something_works_is_not_whole_and_unmeasured_watts_are_unknown():
    (row,) = considered(replace(gpu(0, "a"), watts=None)).rows
    assert (row.whole, row.idle_watts) == (False, None)


def test_a_cluster_without_a_job_has_its_room_and_keeps_that_of_others():
    left = without(SchedulerSnapshot(NOW, NODES, PARTITIONS, RUNNING), RUNNING[0])
    assert [job.job_id for job in left.jobs] == ["b"]
    assert (left.nodes[0].gpus_allocated, left.nodes[0].gpu_indexes_allocated, left.nodes[0].cpus_allocated) == (
        2, (2, 3), 10)


def freed(job, *others, licenses=None, **facts):
    node = replace(NODES[0], **facts)
    rules = SchedulerRules(licenses=licenses)
    return without(SchedulerSnapshot(NOW, (node,), PARTITIONS, (job, *others), rules), job)


def asking(job, **details):
    return replace(job, request=replace(job.request, details=Details(**details)))


def test_a_node_is_open_to_others_once_the_last_job_that_keeps_it_for_its_user_has_ended():
    alone = asking(RUNNING[0], exclusive_user=True)
    other = replace(RUNNING[1], user="ann")
    assert freed(alone, owner="ann").nodes[0].owner == ""
    assert freed(alone, other, owner="ann").nodes[0].owner == ""
    assert freed(alone, asking(other, exclusive_user=True), owner="ann").nodes[0].owner == "ann"
    assert freed(other, RUNNING[0], owner="ann").nodes[0].owner == "ann"  # which of the two keeps it nobody knows
    assert freed(alone, owner="dan").nodes[0].owner == "dan"


def test_the_parts_of_gpus_that_a_job_held_are_free():
    job = asking(RUNNING[0], slices=(("mig-1g", 3),))
    parts = (replace(job.allocations[0], members=("x/a", "x/b")), Allocation("n1", 0, members=("x/c",)))
    node = freed(replace(job, allocations=parts), slices=(("mig-1g", 7, 5), ("mig-2g", 3, 1))).nodes[0]
    assert node.slices == (("mig-1g", 7, 3), ("mig-2g", 3, 1))


@pytest.mark.parametrize(("asked", "used"), [("matlab:2", 1), ("matlab,matlab", 1), ("matlab|ansys", 3), ("", 3)])
def test_the_licences_that_a_job_held_are_free_where_it_is_known_which(asked, used):
    licences = (License("matlab", 3, 3), License("ansys", 1, 1))
    left = freed(asking(RUNNING[0], licenses=asked), licenses=licences).rules.licenses
    assert [licence.used for licence in left] == [used, 1]


def test_a_row_is_shown_in_a_table():
    subject = subjects()["reclaim"]
    found = considered(gpu(0, "a"), gpu(1, "a"), policies=["fifo+first-fit+easy"])
    (row,) = TypeAdapter(tuple[subject.row, ...]).dump_python(found.rows, mode="json")
    cells = subject.cells(row)
    assert [cells[key] for key in subject.columns] == ["a", "ann", "p", "2 of 2", "1h 0m", 120.0, "9 (2)"]
