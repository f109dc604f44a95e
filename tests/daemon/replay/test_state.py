"""The live state: a snapshot in the engine's terms, and what may be decided on it."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, live
from idlewatt.daemon.replay.state import ClusterState, Preempt, Start
from idlewatt.storage.details import Details
from idlewatt.storage.eligibility import Constraint, eligible
from idlewatt.storage.records import (
    Allocation,
    Job,
    JobState,
    Node,
    NodeState,
    Partition,
    Request,
    SchedulerSnapshot,
)
from idlewatt.storage.waiting import WaitReason

NOW = 1_000_000.0


def node(name, **facts):
    return Node(name, **{"partitions": ("p",), "gpus": 8, "cpus": 64, "memory_bytes": 1 << 40} | facts)


def waits(job_id, gpus=1, nodes=1, each=None, submit=NOW - 60, **facts):
    requested = {name: facts.pop(name) for name in list(facts) if name in Request.__dataclass_fields__}
    request = Request(gpus, nodes, each, **{"cpus": 1} | requested)
    return Job(job_id, submit, JobState.PENDING, **{"partition": "p", "request": request, "limit_s": 3600.0} | facts)


def runs(job_id, *parts, limit_s=3600.0, start=NOW - 600, **facts):
    held = tuple(Allocation(name, gpus, None, cpus) for name, gpus, cpus in parts)
    return Job(job_id, start, JobState.RUNNING, "p", Request(sum(part.gpus for part in held), len(held)),
               start_s=start, limit_s=limit_s, allocations=held, **facts)


def state_of(nodes, *jobs, partitions=()):
    return ClusterState.from_snapshot(SchedulerSnapshot(NOW, tuple(nodes), tuple(partitions), jobs), NOW)


def started(nodes, *jobs, policy="fifo+first-fit+greedy", partitions=()):
    """Return where each job starts, by id."""
    state = state_of(nodes, *jobs, partitions=partitions)
    return {state.records[action.job].job_id: tuple(state.cluster.names[row] for row in action.nodes)
            for action in named(policy).decide(state)}


@pytest.mark.parametrize(("requested", "where"), [
    ({"features": "ib"}, "b"), ({"features": "(ib|hbm)&nvlink"}, "c"), ({"features": "!ib&!hbm"}, "a"),
    ({"excluded_nodes": ("a", "b")}, "c"), ({"required_nodes": ("c",)}, "c"), ({"gpu_model": "H100"}, "b"),
    ({"reservation": "course"}, "r"), ({"partition": "other,q"}, "c"), ({"partition": "p,q"}, "a")])
def test_a_job_starts_only_where_it_may(requested, where):
    nodes = [node("r", reservation="course", state=NodeState.RESERVED), node("a", gpu_model="a100"),
             node("b", gpu_model="h100", features=("ib",)),
             node("c", features=("hbm", "nvlink"), partitions=("p", "q"))]
    assert started(nodes, waits("1", **requested)) == {"1": (where,)}


def test_running_jobs_sit_on_the_gpus_that_the_scheduler_names_and_islands_are_known():
    halves = ((0, 1, 2, 3), (4, 5, 6, 7))
    held = [Allocation("a", 2, (5, 7), 1), Allocation("a", 1, (0,), 1)]
    jobs = [replace(runs(str(number), ("a", part.gpus, 1), start=NOW - 600 + number), allocations=(part,))
            for number, part in enumerate(held)]
    state = state_of([node("a", islands=halves), node("b")], *jobs)
    assert state.occupant[0].tolist() == [1, -1, -1, -1, -1, 0, -1, 0]
    assert state.cluster.islands == {"a": halves}
    assert state.arrays.islands.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [0] * 8]


@pytest.mark.parametrize("indexes", [((0, 1), None), ((0, 1), (1,)), ((0, 9), (1,)), ((0,), (1,))])
def test_where_the_named_gpus_do_not_add_up_jobs_still_hold_their_number(indexes):
    jobs = [replace(runs(str(number), ("a", gpus, 1)), allocations=(Allocation("a", gpus, named, 1),))
            for number, (gpus, named) in enumerate(zip((2, 1), indexes, strict=True))]
    assert Counter(state_of([node("a")], *jobs).occupant[0].tolist()) == {-1: 5, 0: 2, 1: 1}


@pytest.mark.parametrize("facts", [
    {"state": NodeState.DRAINED}, {"state": NodeState.DRAINING}, {"state": NodeState.DOWN}, {"reservation": "course"},
    {"state": NodeState.RESERVED}, {"state": NodeState.UNKNOWN}, {"state": NodeState.POWERED_DOWN}])
def test_a_node_that_is_set_aside_is_closed_but_no_reason_to_say_never(facts):
    state = state_of([node("a", **facts)], waits("1"))
    assert named("fifo").decide(state) == []
    assert state.rejected == []


def test_a_planned_node_is_open_and_a_partition_that_is_down_is_not():
    assert started([node("a", state=NodeState.PLANNED)], waits("1")) == {"1": ("a",)}
    down = Partition("p", ("a",), up=False), Partition("q", ("b",))
    nodes = [node("a"), node("b", partitions=("q",))]
    assert started(nodes, waits("1"), partitions=down) == {}
    assert started(nodes, waits("1", partition="p,q"), partitions=down) == {"1": ("b",)}


def test_an_exclusive_job_wants_an_empty_node_whatever_its_size_and_keeps_others_off():
    nodes = [node("big", cpus=256), node("small", cpus=32)]
    assert started(nodes, runs("1", ("big", 1, 1)), waits("2", exclusive=True), waits("3")) == {
        "2": ("small",), "3": ("big",)}
    assert started(nodes[1:], waits("2", exclusive=True, submit=NOW - 90), waits("3")) == {"2": ("small",)}


def test_nodes_that_are_asked_for_are_given_though_the_total_says_less():
    assert started([node("a"), node("b"), node("c")], waits("1", 4, nodes=2, each=4)) == {"1": ("a", "b")}
    assert started([node("a"), node("b")], waits("1", 0, nodes=1, each=8), waits("2", 8)) == {"1": ("a",), "2": ("b",)}


def test_gpus_without_a_count_per_node_go_on_one_node_if_one_can_hold_them_else_on_few():
    assert started([node("a", gpus=4), node("b")], waits("1", 6)) == {"1": ("b",)}
    assert started([node("a"), node("b"), node("c")], waits("1", 12)) == {"1": ("a", "b")}


def test_the_tasks_of_an_array_each_need_room():
    state = state_of([node("a")], waits("7_[1-5]", 3, tasks=5))
    assert [action.job for action in named("fifo").decide(state)] == [0, 1]
    expected = [when.start - NOW for _, when in sorted(engine.forecast(state, named("fifo")).items())]
    assert expected == [0, 0, 3600, 3600, 7200]
    many = state_of([node("a")], waits("8", tasks=10**9), waits("9", tasks=10**9))
    assert len(many.records) == live.MOST_TASKS + 2


def test_a_reused_id_is_another_job_and_a_repeated_record_is_not():
    state = state_of([node("a"), node("a")], waits("1", submit=NOW - 5), waits("1", submit=NOW - 9),
                     waits("1", submit=NOW - 9))
    assert [job.submit_s for job in state.records] == [NOW - 9, NOW - 5]
    assert len(state.cluster) == 1


def test_a_dependency_is_on_the_last_submission_before():
    state = state_of([node("a")], runs("1", ("a", 8, 8), start=NOW - 900), runs("1", ("a", 0, 0), limit_s=7200.0),
                     waits("2", 1, dependency="afterok:1", reason=WaitReason.DEPENDENCY))
    assert state.workload.dependency.tolist() == [-1, -1, 1]


def test_a_job_runs_where_it_runs_whatever_was_asked():
    # Split over two nodes by the scheduler; in a partition that is gone; longer than its limit.
    odd = replace(runs("1", ("a", 4, 4), ("b", 2, 2), limit_s=60.0), partition="gone")
    state = state_of([node("a", gpus_allocated=4), node("b", gpus_allocated=2)], odd,
                     waits("2", 8, details=Details(most_nodes=1)))
    assert state.arrays.nodes.free_gpus.tolist() == [4, 6]
    assert state.rejected == []
    assert engine.forecast(state, named("fifo"))[1].start == NOW + live.OVERRUN_S


def test_what_is_taken_beyond_the_known_jobs_never_comes_back():
    state = state_of([node("a", gpus_allocated=6, cpus_allocated=60)], runs("1", ("a", 2, 2)), waits("2", 5),
                     waits("3", 4, cpus=4))
    assert state.arrays.nodes.free_gpus.tolist() == [2]
    expected = engine.forecast(state, named("fifo+greedy"))
    assert list(expected) == [2]
    assert expected[2].start == NOW + 3000


def test_nodes_that_hold_more_than_they_have_are_full_and_end_up_no_larger():
    state = state_of([node("a")], runs("1", ("a", 8, 64)), runs("2", ("a", 8, 64)), waits("3", 8, cpus=64))
    assert state.arrays.nodes.free_gpus.tolist() == [0]
    assert named("fifo").decide(state) == []
    assert engine.forecast(state, named("fifo"))[2].start == NOW + 3000


def test_a_job_without_gpus_holds_its_cpus():
    state = state_of([node("a")], runs("1", ("a", 0, 60)), waits("2", 1, cpus=8))
    assert named("fifo").decide(state) == []
    assert engine.forecast(state, named("fifo"))[1].start == NOW + 3000


# Whatever the snapshot.

@st.composite
def snapshots(draw):
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    names = [f"n{number}" for number in range(draw(st.integers(1, 5)))]
    nodes = [node(name, gpus=pick(4, 8), cpus=pick(0, 16, 64), state=pick(*[NodeState.UP] * 4, *NodeState),
                  partitions=pick(("p",), ("q",), ("p", "q"), ()), gpu_model=pick("", "a100", "h100"),
                  features=pick((), ("ib",), ("ib", "hbm")), reservation=pick("", "", "", "course"),
                  gpus_allocated=draw(st.integers(0, 9)), cpus_allocated=draw(st.integers(0, 70))) for name in names]
    jobs = [runs(str(number), *((name, draw(st.integers(0, 9)), draw(st.integers(0, 70)))
                                for name in draw(st.lists(st.sampled_from([*names, "ghost"]), max_size=3))),
                 limit_s=pick(None, 1.0, 3600.0), start=NOW - draw(st.integers(-100, 9000)))
            for number in range(draw(st.integers(0, 4)))]
    jobs += [waits(str(draw(st.integers(0, 6))), draw(st.integers(0, 20)), pick(1, 1, 2, 3), pick(None, None, 2, 8),
                   submit=NOW - pick(5, 50, 500), partition=pick("p", "q", "p,q", "q,none", "none", ""),
                   cpus=pick(0, 1, 20), memory_bytes=pick(0, 1 << 39, 1 << 62), gpu_model=pick("", "", "a100"),
                   features=pick("", "", "ib", "ib&!hbm", "(ib|hbm)&hbm", "((&"), exclusive=pick(False, False, True),
                   required_nodes=pick((), (), ("n0",), ("n0", "n1", "n2")), excluded_nodes=pick((), ("n1",)),
                   reservation=pick("", "", "course"), tasks=pick(1, 1, 3), limit_s=pick(None, 60.0, 7200.0),
                   reason=pick(WaitReason.NONE, WaitReason.RESOURCES, WaitReason.DEPENDENCY, WaitReason.HELD),
                   dependency=pick("", "", "afterok:1"))
             for _ in range(draw(st.integers(0, 8)))]
    partitions = draw(st.lists(st.sampled_from([Partition("p", ("n0", "n1")), Partition("q", ("n1",), up=False)]),
                               unique_by=lambda partition: partition.name))
    return SchedulerSnapshot(NOW, tuple(nodes), tuple(partitions), tuple(jobs))


@settings(max_examples=150, deadline=None)
@given(snapshots(), st.sampled_from(["limit-aged+best-fit+easy", "fifo+first-fit", "drf+nearest+greedy", "las",
                                     "wfp3+fragmentation+easy", "random-feasible"]))
def test_no_decision_overcommits_a_node_or_uses_one_that_the_job_may_not(snapshot, policy):
    state = ClusterState.from_snapshot(snapshot, NOW)
    nodes = {place.name: place for place in snapshot.nodes}
    down = {partition.name for partition in snapshot.partitions if not partition.up}
    members = {(partition.name, name) for partition in snapshot.partitions for name in partition.nodes}
    taken, shared, alone = Counter(), Counter(), set()
    actions = named(policy).decide(state)
    given_up = [action.job for action in actions if isinstance(action, Preempt)]
    for action in actions:
        if not isinstance(action, Start):
            continue
        job = state.records[action.job]
        request, constraint = job.request, Constraint.of(job.request)
        assert eligible(job, NOW)
        assert sum(action.gpus) >= request.gpus
        for name, gpus in zip((state.cluster.names[row] for row in action.nodes), action.gpus, strict=True):
            place = nodes[name]
            assert place.state.schedulable or (place.state is NodeState.RESERVED and request.reservation)
            assert place.reservation == request.reservation
            assert constraint is None or constraint.admits(name, place.features)
            assert not request.gpu_model or request.gpu_model == place.gpu_model
            assert not job.partition or any((part in place.partitions or (part, name) in members) and part not in down
                                            for part in job.partition.split(","))
            taken[name] += gpus
            shared[name] += 1
            alone |= {name} if request.exclusive else set()
    for name in taken if not given_up else ():
        assert taken[name] + nodes[name].gpus_allocated <= nodes[name].gpus
    for name in alone:
        assert shared[name] == 1
        assert given_up or nodes[name].gpus_allocated == 0
    state.apply(actions)
    assert (state.arrays.nodes.free_gpus >= 0).all()
    for expectation in engine.forecast(state, named(policy)).values():
        assert expectation.start >= NOW
    assert (state.arrays.nodes.free_gpus <= state.arrays.nodes.gpus).all()
