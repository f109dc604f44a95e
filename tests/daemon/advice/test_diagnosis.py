"""What binds, in words with their figures."""

import pytest

from idlewatt.daemon.advice.diagnosis import Diagnosis
from idlewatt.storage.details import Details
from idlewatt.storage.recommendations import Placement
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, Request, SchedulerSnapshot
from idlewatt.storage.waiting import WaitReason

NOW = 1_800_000_000.0
NOWHERE = "on no node that meets its constraints (type, features, reservation, node lists, owner)"

ROOM = "there is room now, but jobs that come first take it or would be delayed"
BESIDE = "GPUs are free in gpu, but jobs of other users are on nodes that it needs, and "


def node(name: str, free: int, **more) -> Node:
    return Node(name, **{"partitions": ("gpu",), "gpus": 8, "gpus_allocated": 8 - free, "cpus": 64} | more)


def job(request: Request, **more) -> Job:
    return Job(**{"job_id": "9", "submit_s": NOW - 60, "state": JobState.PENDING, "partition": "gpu",
                  "request": request} | more)


def diagnosis(*nodes: Node, jobs: tuple[Job, ...] = ()) -> Diagnosis:
    return Diagnosis(SchedulerSnapshot(NOW, nodes, jobs=jobs), NOW)


def runs(user: str, name: str, gpus: int, *, alone: bool = False) -> Job:
    return job(Request(gpus, details=Details(exclusive_user=alone)), job_id=f"of {user}", user=user,
               state=JobState.RUNNING, allocations=(Allocation(name, gpus),))


@pytest.mark.parametrize(("nodes", "request_", "reason"), [
    ((), Request(1), "no GPU is free in gpu"),
    ((node("a", 0),), Request(1), "no GPU is free in gpu"),
    ((node("a", 8, state=NodeState.DRAINED),), Request(1), "no GPU is free in gpu"),
    ((node("a", 2), node("b", 3)), Request(6), "needs 6 GPUs, 5 are free in gpu"),
    ((node("a", 1),), Request(2), "needs 2 GPUs, 1 is free in gpu"),
    ((node("a", 1, gpu_model="a100"),), Request(1, gpu_model="h100"),
     f"1 GPU is free in gpu, but {NOWHERE}"),
    ((node("a", 4), node("b", 4)), Request(8, 1, 8),
     "8 GPUs are free in gpu but scattered: at most 4 on one node, it needs 8 on one"),
    ((node("a", 8), node("b", 4), node("c", 4)), Request(16, 2, 8),
     "16 GPUs are free in gpu but scattered: at most 8 on one node, it needs 8 on each of 2"),
    ((node("a", 8, cpus_allocated=60),), Request(1, 1, 1, cpus=8),
     "GPUs are free in gpu, but not the 8 CPUs beside them that it asks for"),
    ((node("a", 8, memory_bytes=2**30),), Request(1, 1, 1, memory_bytes=2 * 2**30),
     "GPUs are free in gpu, but not the 2 GiB of memory beside them that it asks for"),
    ((node("a", 8, gpu_model="a100"),), Request(1, gpu_model="h100"),
     f"8 GPUs are free in gpu, but {NOWHERE}"),
    ((node("a", 8),), Request(1), "there is room now, but jobs that come first take it or would be delayed"),
    ((node("a", 8),), Request(0, cpus=4), "asks for no GPU; its CPUs or memory are not free, or others come first"),
])
def test_the_first_constraint_that_binds_is_named_with_its_figures(nodes, request_, reason):
    assert diagnosis(*nodes).why_wait(job(request_)) == reason


@pytest.mark.parametrize(("user", "reason", "room"), [
    ("ann", f"8 GPUs are free in gpu, but {NOWHERE}", []),
    ("zoe", "there is room now, but jobs that come first take it or would be delayed", ["a"])])
def test_a_node_that_serves_one_user_has_no_room_for_others(user, reason, room):
    found, wish = diagnosis(node("a", 8, owner="zoe")), job(Request(1), user=user)
    assert (found.why_wait(wish), found.nodes_with_room(wish, Placement(("a",), (1,)), {})) == (reason, room)


def test_free_gpus_of_another_partition_do_not_count():
    assert diagnosis(node("a", 8, partitions=("other",))).why_wait(job(Request(1))) == "no GPU is free in gpu"


@pytest.mark.parametrize(("free", "request_", "reason"), [
    ({"x": (2,), "y": (3,)}, Request(6), "needs 6 GPUs, 3 are free in y; needs 6 GPUs, 2 are free in x"),
    ({"x": (2,), "y": (2,)}, Request(6), "needs 6 GPUs, 2 are free in each of x/y"),
    ({"x": (2,), "y": (2,)}, Request(4), "needs 4 GPUs, 2 are free in each of x/y"),
    ({"x": (4,), "y": (4,)}, Request(8, 2, 4), "needs 8 GPUs, 4 are free in each of x/y"),
    ({"x": (2, 2), "y": (1,)}, Request(4, 1, 4),
     "4 GPUs are free in x but scattered: at most 2 on one node, it needs 4 on one; needs 4 GPUs, 1 is free in y"),
    ({"x": (), "y": (1,)}, Request(2), "needs 2 GPUs, 1 is free in y; no GPU is free in x"),
    ({"x": (), "y": ()}, Request(2), "no GPU is free in x/y"),
    ({"x": (1,), "y": (2,)}, Request(2), "there is room now, but jobs that come first take it or would be delayed"),
    ({"a": (1,), "b": (2,), "c": (3,), "d": (4,), "e": (4,), "f": (5,)}, Request(6),
     "needs 6 GPUs, 5 are free in f; needs 6 GPUs, 4 are free in each of d/e; needs 6 GPUs, 3 are free in c; "
     "nor is there room in b/a"),
    ({"x": (1,)}, Request(2), "needs 2 GPUs, 1 is free in x")])
def test_a_job_is_told_of_each_partition_by_itself_since_it_runs_in_one_of_them(free, request_, reason):
    nodes = [node(f"{name}{number}", gpus, partitions=(name,))
             for name, gpus_free in free.items() for number, gpus in enumerate(gpus_free)]
    assert diagnosis(*nodes).why_wait(job(request_, partition=",".join((*free, *free)))) == reason


def test_partitions_that_share_a_node_do_not_have_its_free_gpus_twice():
    found = diagnosis(node("a", 3, partitions=("x", "y")))
    assert found.why_wait(job(Request(4), partition="x,y")) == "needs 4 GPUs, 3 are free in each of x/y"


@pytest.mark.parametrize(("named", "partition", "reason"), [
    (("a",), "x,y", f"16 GPUs are free in y, but {NOWHERE}; needs 16 GPUs, 8 are free in x"),
    (("b",), "x,y", ROOM), (("b",), "x", f"8 GPUs are free in x, but {NOWHERE}"),
    (("few",), "z", "there is room in z, but not on few, which it names"), (("d",), "z", ROOM), ((), "z", ROOM)])
def test_a_node_that_a_job_cannot_do_without_is_needed_in_the_partition_that_it_runs_in(named, partition, reason):
    nodes = [node(name, free, partitions=(where,)) for name, free, where in (
        ("b", 8, "y"), ("c", 8, "y"), ("few", 2, "z"), ("d", 8, "z"), ("e", 8, "z"))]
    found = diagnosis(node("a", 8, partitions=("x", "other")), *nodes)
    assert found.why_wait(job(Request(16, 2, 8, required_nodes=named), partition=partition)) == reason


@pytest.mark.parametrize(("user", "alone", "reason"), [
    ("ann", True, ROOM), ("eve", True, f"{BESIDE}it shares none with them"), ("cid", True, ROOM),
    ("eve", False, ROOM), ("ann", False, ROOM)])
def test_of_a_job_that_is_to_be_alone_it_is_said_that_jobs_of_others_are_on_the_nodes(user, alone, reason):
    wish = job(Request(4, details=Details(exclusive_user=alone)), user=user)
    jobs = wish, runs("ann", "a", 4), runs("cid", "c", 4, alone=True)
    assert diagnosis(node("a", 4), node("c", 4), jobs=jobs).why_wait(wish) == reason


def test_of_a_job_that_others_share_no_node_with_it_is_said_who_is_there():
    wish, jobs = job(Request(4), user="eve"), (runs("cid", "c", 4, alone=True),)
    assert diagnosis(node("c", 4), jobs=jobs).why_wait(wish) == f"{BESIDE}they share none with it"


@pytest.mark.parametrize(("facts", "reason"), [
    ({"reason": WaitReason.DEPENDENCY, "reason_text": "Dependency"}, "not eligible yet: the scheduler says Dependency"),
    ({"eligible_s": NOW + 60}, "not eligible yet: the scheduler says its begin time has not come")])
def test_the_schedulers_own_reason_comes_first(facts, reason):
    assert diagnosis().why_wait(job(Request(1), **facts)) == reason


@pytest.mark.parametrize(("free", "gpus", "reason"), [
    (8, 8, "fits exactly: no GPU of the node stays free"),
    (8, 2, "opens an empty node and leaves 6 of its GPUs free"),
    (4, 1, "leaves 3 GPUs free beside running jobs")])
def test_what_a_placement_leaves_speaks_for_it(free, gpus, reason):
    assert diagnosis(node("a", free)).why_here(job(Request(gpus)), Placement(("a",), (gpus,)), {}) == reason


def test_what_a_placement_leaves_counts_what_starts_there_before_it():
    wish, here = job(Request(2)), Placement(("a",), (2,))
    assert diagnosis(node("a", 8)).why_here(wish, here, {"a": 2}) == (
        "leaves 4 GPUs free beside what is advised to start there before it")
    assert diagnosis(node("a", 8)).why_here(wish, here, {"a": 6}) == "fits exactly: no GPU of the node stays free"
    assert diagnosis(node("a", 8)).why_here(wish, here, {"b": 2}) == "opens an empty node and leaves 6 of its GPUs free"


def test_a_placement_on_several_nodes_is_counted():
    assert diagnosis().why_here(job(Request(16)), Placement(("a", "b"), (8, 8)), {}) == "fits now on 2 nodes"


@pytest.mark.parametrize(("names", "reason"), [
    (("a1", "a2"), "fits now on 2 nodes of NVLink domain rack-a"),
    (("a1", "b1"), "fits now on 2 nodes of 2 NVLink domains: one alone has room, and is left whole"),
    (("b1", "c1"), "fits now on 2 nodes of 2 NVLink domains: one alone has room, and is left whole"),
    (("a1", "plain"), "fits now on 2 nodes")])
def test_a_placement_tells_how_it_lies_in_nvlink_domains(names, reason):
    nodes = [node(name, 8, domain=domain, leaf=domain) for name, domain in (
        ("a1", "rack-a"), ("a2", "rack-a"), ("b1", "rack-b"), ("c1", "rack-c"), ("plain", ""))]
    wish = job(Request(16, 2, 8))
    assert diagnosis(*nodes).why_here(wish, Placement(names, (8, 8)), {}) == reason
    without = [one for one in nodes if one.name != "a2"]
    if "a2" not in names and "plain" not in names:
        assert diagnosis(*without).why_here(wish, Placement(names, (8, 8)), {}).endswith("none has room for all of it")


def test_a_node_that_has_gone_meanwhile_is_no_error():
    reason = diagnosis().why_here(job(Request(2)), Placement(("gone",), (2,)), {})
    assert reason == "fits exactly: no GPU of the node stays free"
    assert diagnosis(node("a", 8)).free_gpus("gone", {}) == 0


def test_nodes_with_room_come_with_the_least_left_first():
    found = diagnosis(node("a", 8), node("b", 2), node("c", 4), node("d", 1))
    assert found.nodes_with_room(job(Request(2)), Placement(("b",), (2,)), {}) == ["b", "c", "a"]
    assert found.nodes_with_room(job(Request(0)), Placement(("b",), (0,)), {}) == []
    assert found.nodes_with_room(job(Request(2)), Placement(("b",), (2,)), {"c": 3, "a": 6}) == ["b", "a"]


@pytest.mark.parametrize("each", [2, None])
def test_a_node_with_room_has_the_cpus_and_the_memory_too(each):
    def left(name, gpus, cpus, memory_bytes):
        return node(name, gpus, cpus_allocated=64 - cpus, memory_bytes=100, memory_allocated_bytes=100 - memory_bytes)

    found = diagnosis(left("exactly", 3, 8, 40), left("more", 4, 64, 100), left("few CPUs", 2, 7, 40),
                      left("little memory", 2, 8, 39))
    wish, there = job(Request(2, 1, each, cpus=8, memory_bytes=40)), Placement(("more",), (2,))
    assert found.nodes_with_room(wish, there, {}) == ["exactly", "more"]


@pytest.mark.parametrize(("request_", "gpus", "where"), [
    (Request(4, 1, 4), 4, "b:1,a:3"), (Request(6), 6, "b:1,a:3,c:2"), (Request(1), 1, "b:1"),
    (Request(4, 1, 4, cpus=100), 4, "a:2,c:2"), (Request(4, 1, 4, memory_bytes=8 * 2**30), 4, "a:1,b:1,c:2"),
    (Request(13), 13, None), (Request(0), 0, None)])
def test_what_is_left_over_is_taken_from_the_nodes_with_least(request_, gpus, where):
    nodes = (node("a", 3, memory_bytes=9 * 2**30, memory_allocated_bytes=6 * 2**30), node("b", 1, cpus_allocated=50),
             node("c", 8), node("d", 8, partitions=("other",)))
    found = diagnosis(*nodes).left_over(job(request_), Placement(("d",), (gpus,)))
    assert (found and str(found)) == where


@pytest.mark.parametrize(("partition", "there", "names", "left"), [
    ("x", ("a", "b"), ["a", "b"], "a:8,b:8"), ("x,y", ("a", "b"), ["a", "b"], "a:8,b:8"),
    ("x,y", ("c", "d"), ["c", "d", "both"], "c:8,d:8"), ("y,x", ("c", "both"), ["c", "d", "both"], "c:8,d:8"),
    ("x,y", ("full", "d"), ["c", "d", "both"], "c:8,d:8"),
    ("x,y", ("gone", "d"), ["a", "b", "c", "d", "both"], "a:8,b:8")])
def test_another_placement_is_in_the_partition_of_the_one_that_is_advised(partition, there, names, left):
    nodes = [node(name, 8, partitions=(where,)) for name, where in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))]
    found = diagnosis(*nodes, node("both", 8, partitions=("y", "z")), node("full", 0, partitions=("y",)))
    wish, placement = job(Request(16, 2, 8), partition=partition), Placement(there, (8, 8))
    assert found.nodes_with_room(wish, placement, {}) == names
    assert str(found.left_over(wish, placement)) == left


@pytest.mark.parametrize(("user", "alone", "names"), [
    ("ann", True, ["anns", "empty"]), ("bob", True, ["bobs", "empty"]), ("eve", True, ["empty"]),
    ("ann", False, ["anns", "bobs", "empty"]), ("cid", False, ["anns", "bobs", "cids", "empty"]),
    ("cid", True, ["cids", "empty"])])
def test_another_placement_is_not_beside_jobs_with_which_the_job_shares_no_node(user, alone, names):
    nodes = [node(name, free) for name, free in (("anns", 4), ("bobs", 5), ("cids", 6), ("empty", 8))]
    wish, there = job(Request(2, 1, 2, details=Details(exclusive_user=alone)), user=user), Placement(("empty",), (2,))
    jobs = wish, runs("ann", "anns", 4), runs("bob", "bobs", 3), runs("cid", "cids", 2, alone=True)
    found = diagnosis(*nodes, jobs=jobs)
    assert found.nodes_with_room(wish, there, {}) == names
    assert str(found.left_over(wish, there)) == f"{names[0]}:2"
