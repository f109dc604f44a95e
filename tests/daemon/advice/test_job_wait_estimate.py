"""When a waiting job starts, what stands before it, and which smaller request would start now."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.job_wait_estimate import JobWaitEstimates
from idlewatt.daemon.advice.smaller_shapes import _fewer_gpus, smaller_shapes
from idlewatt.storage.details import Details
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import License, SchedulerRules, SchedulerSettings
from idlewatt.storage.waiting import WaitReason

NOW, HOUR, GIB = 1_000_000.0, 3600.0, 2**30
POLICY = "limit-aged+best-fit+easy"
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=False)


def node(name, used=0):
    return Node(name, ("p",), 8, "a100", 64, 512 * GIB, gpus_allocated=used, cpus_allocated=used * 8,
                memory_allocated_bytes=used * 64 * GIB)


def runs(job_id, place, gpus, ends_in=HOUR):
    return Job(job_id, NOW - HOUR, JobState.RUNNING, "p", Request(gpus), start_s=NOW - HOUR, limit_s=HOUR + ends_in,
               allocations=(Allocation(place, gpus, None, gpus * 8, gpus * 64 * GIB),))


def waits(job_id, gpus, limit_s=HOUR, waited=60.0, **more):
    request = Request(gpus, 1, gpus, gpus * 8, gpus * 64 * GIB, details=more.pop("details", Details()))
    return Job(job_id, NOW - waited, JobState.PENDING, "p", request, limit_s=limit_s, reason=WaitReason.RESOURCES,
               **more)


def estimate(job_id, nodes, *jobs, draws=20, **rules):
    names = tuple(node.name for node in nodes)
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), (Partition("p", names),), jobs, SchedulerRules(site=SITE, **rules))
    return next(iter(JobWaitEstimates(snapshot, NOW, POLICY, draws=draws).of(job_id)), None)


def test_start_is_told_as_an_interval_before_the_latest():
    found = estimate("5", [node("a", 8)], runs("1", "a", 8, ends_in=2 * HOUR), waits("5", 8))
    assert (found.verdict, found.latest_s, found.futures) == ("waits", NOW + 2 * HOUR, 20)
    low, high = found.interval_s
    assert NOW < low < found.median_s < high <= found.latest_s
    assert [(one.job_id, one.free_s) for one in found.ahead] == [("1", NOW + 2 * HOUR)]


def test_a_job_that_could_start_is_told_so_and_nothing_else():
    found = estimate("5", [node("a")], waits("5", 2))
    assert (found.verdict, found.placement.nodes, found.ahead, found.shapes) == ("starts", ("a",), (), ())


def test_each_cluster_that_has_a_waiting_job_of_one_number_has_an_estimate_of_its_own():
    jobs = (waits("5", 8), replace(waits("5", 2, waited=90.0), user="bob"), waits("6", 2),
            *(waits(f"7_{task}", 2, array="7") for task in range(2)))
    snapshot = SchedulerSnapshot(NOW, (node("a"),), (Partition("p", ("a",)),), jobs, SchedulerRules(site=SITE))
    made = JobWaitEstimates(snapshot, NOW, POLICY)
    assert [(one.job_id, NOW - one.submit_s) for one in made.of("5")] == [("5", 60.0), ("5", 90.0)]
    assert [one.job_id for one in made.of("7")] == ["7_0"], "tasks of one array are of one cluster"
    assert made.of("8") == ()


def test_who_comes_first_is_counted_and_named():
    found = estimate("6", [node("a", 8)], runs("1", "a", 8), waits("5", 8, waited=9000.0), waits("6", 8))
    assert found.position == 1
    assert [one.job_id for one in found.ahead] == ["1", "5"]
    assert found.ahead[1].free_s == NOW + HOUR


def verdicts(found):
    return {one.change: one.verdict for one in found.shapes}


def test_the_largest_smaller_request_that_starts_now_is_told_with_where():
    found = estimate("5", [node("a", 4), node("b", 6)], runs("1", "a", 4), runs("2", "b", 6), waits("5", 8))
    found_verdicts = verdicts(found)
    assert found_verdicts["4 of its 8 GPUs"] == "starts"
    (shape,) = (one for one in found.shapes if one.change == "4 of its 8 GPUs")
    assert (shape.placement.nodes, shape.options) == (("a",), "--nodes=1 --gpus-per-node=4")
    assert found_verdicts["a quarter of its CPUs and memory"] == "waits"


def test_the_same_gpus_on_two_nodes_may_start_where_one_is_too_full():
    found = estimate("5", [node("a", 4), node("b", 4)], runs("1", "a", 4), runs("2", "b", 4), waits("5", 8))
    assert verdicts(found)["its 8 GPUs on 2 nodes"] == "starts"


def test_a_shorter_limit_starts_before_the_one_that_comes_first():
    """Four GPUs are free for an hour, until the first in line takes all eight."""
    first = waits("5", 8, waited=9000.0)
    found = estimate("6", [node("a", 4)], runs("1", "a", 4), first, waits("6", 4, limit_s=1.9 * HOUR))
    assert found.verdict == "waits"
    assert {one.change: (one.verdict, one.options) for one in found.shapes}["a limit of 57 min"] == \
        ("starts", "--time=57")
    assert verdicts(found)["1 of its 4 GPUs"] == "waits", "it would delay the first in line as well"


def test_what_is_not_known_stays_unknown():
    """How many licences are free is not told: no shape changes that, and none is promised."""
    job = waits("5", 8, details=Details(licenses="ansys"))
    found = estimate("5", [node("a")], job, licenses=None)
    assert found.verdict == "unknown"
    assert (found.latest_s, found.interval_s, found.shapes) == (None, None, ())


def test_no_interval_is_told_of_one_that_is_held_or_without_futures():
    held = replace(waits("5", 8), reason=WaitReason.HELD)
    found = estimate("5", [node("a", 8)], runs("1", "a", 8), held)
    assert (found.verdict, found.interval_s, found.latest_s, found.shapes) == ("waits", None, None, ())
    few = estimate("5", [node("a", 8)], runs("1", "a", 8), waits("5", 8), draws=0)
    assert (few.interval_s, few.latest_s) == (None, NOW + HOUR)


def test_only_waiting_jobs_have_a_wait_estimate():
    jobs = runs("1", "a", 8), waits("7_2", 8, array="7")
    assert estimate("1", [node("a", 8)], *jobs) is None
    assert estimate("nobody", [node("a", 8)], *jobs) is None
    assert estimate("7", [node("a", 8)], *jobs).job_id == "7_2"


@pytest.mark.parametrize("licences", [(), (License("ansys", 1, 0),)])
def test_components_of_heterogeneous_jobs_are_not_asked_about(licences):
    assert smaller_shapes(SchedulerSnapshot(NOW), NOW, waits("5+0", 8, group="5"), None, None) == ()


def test_no_smaller_request_is_told_for_a_partition_that_takes_no_new_jobs():
    job = waits("5", 8)
    snapshot = SchedulerSnapshot(NOW, (node("a", 4),), (Partition("p", ("a",), draining=True),), (job,),
                                 SchedulerRules(site=SITE))
    found = next(iter(JobWaitEstimates(snapshot, NOW, POLICY, draws=2).of("5")))
    assert found.shapes == ()
    other = estimate("5", [node("a", 4)], runs("1", "a", 4), job)
    assert other.shapes


@pytest.mark.parametrize(("nodes", "each"), [(5, 4), (9, 8), (10, 3), (2, 8)])
def test_of_equal_nodes_a_smaller_request_is_of_the_gpus_that_its_options_ask_for(nodes, each):
    job = replace(waits("5", 8), request=Request(nodes * each, nodes, each))
    for change, options, fewer in _fewer_gpus(job):
        request = fewer.request
        assert request.gpus == request.nodes * request.gpus_per_node < nodes * each
        assert change == f"{request.gpus} of its {nodes * each} GPUs"
        assert options.startswith(f"--nodes={request.nodes} --gpus-per-node={request.gpus_per_node}")
