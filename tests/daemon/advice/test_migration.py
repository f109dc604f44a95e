"""Room for waiting jobs: the fewest GPUs moved, and never a move that cannot be."""

from dataclasses import replace
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.migration import MigrationPlanner
from idlewatt.daemon.replay.state import ClusterState, Preempt, Start
from idlewatt.daemon.waste.stranded import need, need_now
from idlewatt.storage.eligibility import Constraint
from idlewatt.storage.recommendations import Placement
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
from idlewatt.storage.steering import Budget, Steering

NOW = 1_800_000_000.0


def runs(job_id, *held, ran_s=600.0, state=JobState.RUNNING, **request):
    """Return a job that holds GPUs by node, eight CPUs beside each."""
    parts = tuple(Allocation(node, gpus, None, 8 * gpus) for node, gpus in held)
    gpus = sum(part.gpus for part in parts)
    partition = request.pop("partition", "p")
    return Job(job_id, NOW - ran_s, state, partition, Request(gpus, len(parts), parts[0].gpus, 8 * gpus, **request),
               start_s=NOW - ran_s, allocations=parts)


def stays(job_id, *held):
    """Return such a job that cannot be moved."""
    return runs(job_id, *held, state=JobState.SUSPENDED)


def waits(gpus, nodes=1, each=None, cpus=0, **request):
    partition = request.pop("partition", "p")
    return Job("new", NOW - 60, JobState.PENDING, partition, Request(gpus, nodes, each, cpus or 8 * gpus, **request))


def world(sizes, *jobs, **facts):
    """Return a snapshot with nodes n0, n1, … of so many GPUs, or of such facts."""
    nodes = []
    for number, size in enumerate(sizes):
        given = {"gpus": size} if isinstance(size, int) else size
        held = [part for job in jobs for part in job.allocations if part.node == f"n{number}"]
        taken = {"gpus_allocated": sum(part.gpus for part in held), "cpus_allocated": sum(part.cpus for part in held)}
        nodes.append(Node(f"n{number}", **{"partitions": ("p",), "cpus": 8 * given.get("gpus", 8), "gpus": 8} | taken
                          | given))
    return SchedulerSnapshot(NOW, tuple(nodes), **facts, jobs=jobs)


def planned(snapshot, job, most=3):
    """Return who goes where, and where the job starts; None when nothing is to be done."""
    ground = MigrationPlanner(snapshot, NOW)
    plan = ground.make_room(need_now(job, NOW, ground.owners), most)
    return plan and ({movable.job.job_id: home for movable, home in plan.moves}, str(plan.placement))


SEVERAL = {"gpus": 8, "gpu_model": "a100", "gpu_models": ("a100", "v100")}
A100, V100, UNNAMED = ({"gpus": 8, "gpu_model": model} for model in ("a100", "v100", ""))


def test_who_names_a_type_of_gpu_is_not_started_on_a_node_of_several():
    jobs = runs("1", ("n0", 2), gpu_model="a100"), stays("2", ("n1", 4)), stays("3", ("n2", 1))
    assert planned(world([SEVERAL, SEVERAL], *jobs[:1]), waits(8, 1, 8)) is None  # n1 is empty
    assert planned(world([SEVERAL, A100], *jobs[:2]), waits(8, 1, 8)) == ({"1": "n1"}, "n0:8")
    assert planned(world([SEVERAL, A100], *jobs[:2]), waits(8, 1, 8, gpu_model="a100")) is None


@pytest.mark.parametrize(("named", "origin", "home", "moves"), [
    ("", A100, A100, True), ("", A100, A100 | {"gpu_model": "A100"}, True), ("", A100, V100, False),
    ("", A100, UNNAMED, False), ("", UNNAMED, UNNAMED, True),
    ("", A100, SEVERAL, False), ("", SEVERAL, A100, False), ("", SEVERAL, SEVERAL, False),
    ("a100", A100, SEVERAL, False), ("a100", SEVERAL, SEVERAL, False), ("a100", SEVERAL, A100, True),
    ("a100", SEVERAL, UNNAMED, False), ("v100", SEVERAL, A100, False), ("v100", SEVERAL, V100, True)])
def test_nobody_is_moved_where_it_might_get_gpus_of_another_type_than_it_has(named, origin, home, moves):
    snapshot = world([origin, home], runs("1", ("n0", 2), gpu_model=named), stays("2", ("n1", 4)))
    assert planned(snapshot, waits(8, 1, 8)) == (({"1": "n1"}, "n0:8") if moves else None)


def test_a_job_of_which_a_fact_is_unknown_is_not_moved():
    moved, other = runs("1", ("n0", 2)), stays("2", ("n1", 4))
    assert planned(world([8, 8], moved, other), waits(8, 1, 8)) == ({"1": "n1"}, "n0:8")
    assert planned(world([8, 8], moved.with_unknown(["where shards are free"]), other), waits(8, 1, 8)) is None


def test_the_smallest_job_that_makes_room_goes_to_the_fullest_node_that_takes_it():
    snapshot = world([8, 8, 8], runs("1", ("n0", 2)), runs("2", ("n1", 4)), runs("3", ("n2", 7)))

    assert planned(snapshot, waits(8, 1, 8)) == ({"1": "n1"}, "n0:8")


def test_of_jobs_of_the_same_size_the_one_that_has_least_to_lose_is_moved():
    jobs = runs("old", ("n0", 2), ran_s=9000), runs("young", ("n1", 2), ran_s=60)

    assert planned(world([8, 8], *jobs), waits(8, 1, 8)) == ({"young": "n0"}, "n1:8")


def test_two_small_jobs_are_moved_where_that_is_less_than_one_large():
    jobs = runs("a", ("n0", 1)), runs("b", ("n0", 1)), runs("c", ("n1", 3)), runs("d", ("n2", 6))

    assert planned(world([8, 8, 8], *jobs), waits(8, 1, 8)) == ({"a": "n2", "b": "n2"}, "n0:8")
    assert planned(world([8, 8, 8], *jobs), waits(8, 1, 8), most=1) == ({"c": "n0"}, "n1:8")


def test_a_job_of_several_nodes_gets_empty_ones_and_one_that_is_emptied():
    jobs = runs("a", ("n0", 2)), runs("b", ("n2", 5))

    assert planned(world([8, 8, 8], *jobs), waits(16, 2, 8)) == ({"a": "n2"}, "n1:8,n0:8")


def test_the_parts_of_a_job_of_several_nodes_share_the_moves_that_it_may_cause():
    snapshot = world([8, 8, 8], runs("a", ("n0", 2)), runs("b", ("n1", 2)), runs("c", ("n2", 4)))

    assert planned(snapshot, waits(16, 2, 8), most=2) == ({"a": "n2", "b": "n2"}, "n0:8,n1:8")
    assert planned(snapshot, waits(16, 2, 8), most=1) is None


def test_a_job_of_several_nodes_is_given_one_nvlink_domain_where_moves_can_do_that():
    """Emptying n1 beside n4 moves least, and would lead out of the rack."""
    def rack(name):
        return {"gpus": 4, "domain": name, "leaf": name}

    jobs = runs("1", ("n0", 2)), runs("2", ("n1", 1)), runs("3", ("n2", 1)), runs("4", ("n3", 3)), runs("5", ("n4", 1))
    snapshot = world([rack("a"), rack("a"), rack("b"), rack("b"), 8], *jobs)

    assert planned(snapshot, waits(8, 2, 4))[1] == "n1:4,n0:4"
    apart = world([rack("a"), rack("b"), rack("c"), rack("d"), 8], *jobs)
    assert planned(apart, waits(8, 2, 4))[1] == "n4:4,n1:4"


def test_in_a_deeper_tree_room_is_made_in_the_lowest_place_where_moves_can_do_that():
    """Moving from n1 alone would do, over two pods; a little more is moved for one pod."""
    def hung(leaf, spine, pod):
        return {"gpus": 4, "leaf": leaf, "spine": spine, "above": (pod,)}

    jobs = runs("1", ("n0", 2)), runs("2", ("n1", 1)), runs("3", ("n2", 2)), runs("4", ("n3", 1))
    places = [hung("a", "A", "x"), hung("b", "B", "x"), hung("c", "C", "y"), hung("d", "D", "z"),
              hung("e", "E", "w") | {"gpus": 8}]
    assert planned(world(places, *jobs), waits(8, 2, 4))[1] == "n1:4,n0:4"


def test_switches_whose_names_have_slashes_are_not_taken_for_others():
    """The leaf ``a/b`` below ``c`` is not the leaf ``a`` below ``b/c``: room is made below one switch, d."""
    def hung(leaf, spine):
        return {"gpus": 4, "leaf": leaf, "spine": spine}

    jobs = runs("1", ("n0", 1)), runs("2", ("n2", 1)), runs("3", ("n3", 1)), stays("4", ("n4", 5))
    places = [hung("a/b", "c"), hung("a", "b/c"), hung("d", "D"), hung("d", "D"), {"gpus": 8, "leaf": "e"}]
    assert planned(world(places, *jobs), waits(8, 2, 4))[1] == "n2:4,n3:4"


def within(job, switches=1):
    return replace(job, request=replace(job.request, details=replace(job.request.details, switches=switches)))


def test_nothing_is_moved_for_a_job_that_has_room_below_as_many_switches_as_it_may_have():
    """A move would make room below a alone; a and b have room as it is."""
    places = [{"gpus": 4, "leaf": leaf} for leaf in "aabc"]
    snapshot = world(places, runs("1", ("n0", 1)), stays("2", ("n3", 1)))
    assert planned(snapshot, within(waits(8, 2, 4), 2)) is None
    assert planned(snapshot, within(waits(8, 2, 4), 1)) == ({"1": "n3"}, "n1:4,n0:4")


def test_room_is_made_below_two_switches_for_a_job_that_may_have_two():
    """The jobs with least to lose are below b and c: with a that were three."""
    places = [*({"gpus": 4, "leaf": leaf} for leaf in "aabc"), {"gpus": 8, "leaf": "d"}]
    jobs = [runs(f"{node}", (f"n{node}", 1), ran_s=900 - 60 * node) for node in range(4)]
    snapshot = world(places, *jobs, stays("4", ("n4", 5)))
    assert planned(snapshot, within(waits(12, 3, 4), 3))[1] == "n3:4,n2:4,n1:4"
    assert planned(snapshot, within(waits(12, 3, 4), 2))[1] == "n3:4,n1:4,n0:4"
    assert planned(snapshot, within(waits(12, 3, 4), 1)) is None


def test_two_switches_that_cost_less_come_before_a_spine_that_costs_more():
    """Below the spine X three GPUs would move; below the leaves a and b, of two spines, two."""
    places = [{"gpus": 4, "leaf": leaf, "spine": spine} for leaf, spine in ("aX", "bY", "cX")]
    jobs = runs("1", ("n0", 1)), runs("2", ("n1", 1)), runs("3", ("n2", 2)), stays("4", ("n3", 5))
    snapshot = world([*places, {"gpus": 8, "leaf": "d", "spine": "Z"}], *jobs)
    assert planned(snapshot, within(waits(8, 2, 4), 2))[1] == "n0:4,n1:4"


def test_the_larger_of_two_jobs_that_leave_a_node_is_moved_first():
    leaving, staying = (runs("1", ("n0", 1)), runs("2", ("n0", 2))), (stays("3", ("n1", 6)), stays("4", ("n2", 7)))
    snapshot = world([8, 8, 8], *leaving, *staying)
    plan = MigrationPlanner(snapshot, NOW).make_room(need_now(waits(8, 1, 8), NOW), 3)
    assert [(movable.job.job_id, home) for movable, home in plan.moves] == [("2", "n1"), ("1", "n2")]


def test_a_job_of_which_nobody_tells_when_it_began_has_nothing_to_lose():
    unknown = replace(runs("1", ("n0", 2)), start_s=None)
    snapshot = world([8, 8], unknown, stays("2", ("n1", 4)))
    plan = MigrationPlanner(snapshot, NOW).make_room(need_now(waits(8, 1, 8), NOW), 3)
    assert [movable.ran_s for movable, _ in plan.moves] == [0.0]


def test_a_job_that_must_stay_within_a_switch_is_given_nothing_else():
    rack, other = {"gpus": 4, "leaf": "a"}, {"gpus": 4, "leaf": "b"}
    jobs = runs("1", ("n0", 1)), runs("2", ("n2", 1))
    free_elsewhere = world([rack, rack, other, other, {"gpus": 4, "leaf": "c"}], *jobs)
    assert planned(free_elsewhere, waits(8, 2, 4)) is None
    assert planned(free_elsewhere, within(waits(8, 2, 4))) == ({"1": "n2"}, "n1:4,n0:4")
    apart = world([rack, other, {"gpus": 4, "leaf": "c"}, 8], *jobs)
    assert planned(apart, within(waits(8, 2, 4))) is None
    one_each = world([rack, other, {"gpus": 8, "leaf": "c"}],
                     runs("1", ("n0", 1)), runs("2", ("n1", 1)), stays("3", ("n2", 6)))
    assert planned(one_each, waits(8, 2, 4)) == ({"1": "n2", "2": "n2"}, "n0:4,n1:4")
    assert planned(one_each, within(waits(8, 2, 4))) is None


def test_a_job_that_lets_the_scheduler_choose_gets_one_node_where_one_can_hold_it():
    jobs = runs("a", ("n0", 2)), runs("b", ("n1", 4))

    assert planned(world([8, 8], *jobs), waits(8)) == ({"a": "n1"}, "n0:8")


def test_nothing_is_moved_for_a_job_that_has_room():
    assert planned(world([8, 8], runs("a", ("n0", 2))), waits(4, 1, 4)) is None


def test_on_such_nodes_the_job_that_may_go_anywhere_is_moved():
    assert planned(world([8, 8], runs("a", ("n0", 2)), stays("b", ("n1", 4))), waits(8, 1, 8)) == ({"a": "n1"}, "n0:8")


@pytest.mark.parametrize(("first", "other"), [
    ({"gpu_model": "a100"}, {"gpu_model": "v100"}), ({"partitions": ("p", "q")}, {"partitions": ("p",)}),
    ({"features": ("ib",)}, {"features": ()}), ({}, {"state": NodeState.DRAINED}), ({}, {"reservation": "course"}),
    ({}, {"cpus": 40}), ({}, {"memory_bytes": 1})])
def test_nobody_is_moved_to_a_node_that_it_may_not_use_or_that_is_another(first, other):
    request = {"partition": "q" if "partitions" in first else "p", "features": "ib" if "features" in first else "",
               "memory_bytes": 2}
    snapshot = world([first, other], runs("a", ("n0", 2), **request), stays("b", ("n1", 4)))

    assert planned(snapshot, waits(8, 1, 8, gpu_model="a100" if "gpu_model" in first else "")) is None


@pytest.mark.parametrize(("home", "plan"), [
    ({"cpus": 48}, ({"a": "n1"}, "n0:8")), ({"cpus": 47}, None),
    ({"memory_bytes": 100}, ({"a": "n1"}, "n0:8")), ({"memory_bytes": 99}, None)])
def test_a_job_of_which_nobody_tells_what_it_holds_beside_gpus_needs_what_it_asked_for(home, plan):
    without_indexes = replace(runs("a", ("n0", 2), memory_bytes=100), allocations=(Allocation("n0", 2),))

    assert planned(world([8, home], without_indexes, stays("b", ("n1", 4))), waits(8, 1, 8)) == plan


def test_a_job_of_which_nobody_tells_that_it_holds_gpus_stays_though_its_cpus_would_do():
    without_indexes = replace(runs("a", ("n0", 1)), allocations=(Allocation("n0", 0, None, 30),))
    given = replace(without_indexes, allocations=(Allocation("n0", 1, None, 30),))

    def plan(job):
        jobs = job, runs("b", ("n0", 1)), stays("c", ("n1", 5))
        return planned(world([8, {"cpus": 100}], *jobs), waits(4, 1, 4, cpus=40))

    assert plan(given) == ({"a": "n1"}, "n0:4")
    assert plan(without_indexes) is None


@pytest.mark.parametrize("job", [
    runs("a", ("n0", 2), state=JobState.SUSPENDED), runs("a", ("n0", 2), state=JobState.COMPLETING),
    runs("a", ("n0", 2), exclusive=True), runs("a", ("n0", 2), required_nodes=("n0",)),
    runs("a", ("n0", 1), ("n1", 1))])
def test_what_cannot_be_moved_stays(job):
    assert planned(world([8, 8], job, stays("b", ("n1", 3))), waits(8, 1, 8)) is None


@pytest.mark.parametrize(("allowed", "moved"), [(3, True), (2, False)])
def test_no_more_pods_are_taken_away_than_their_budget_allows(allowed, moved):
    def under(job, pods):
        return replace(job, steering=Steering("ns", movable=True, budgets=(Budget("b", allowed, pods),)))

    jobs = under(runs("a", ("n0", 1)), 1), under(runs("b", ("n0", 1)), 2), stays("c", ("n1", 4))

    assert (planned(world([8, 8], *jobs), waits(8, 1, 8)) == ({"a": "n1", "b": "n1"}, "n0:8")) == moved
    assert (planned(world([8, 8], *jobs), waits(8, 1, 8)) is None) != moved
    assert planned(world([8, 8], *jobs), waits(7, 1, 7)) == ({"a": "n1"}, "n0:7"), "one of them may go"


def alone(job):
    """Return a job as with ``--exclusive=user``, or in a partition with ``ExclusiveUser=YES``."""
    return replace(job, request=replace(job.request, details=replace(job.request.details, exclusive_user=True)))


def of(user, job):
    return replace(job, user=user)


def test_a_job_that_is_to_be_alone_with_its_users_is_not_moved_to_jobs_of_others():
    moved = alone(of("ann", runs("1", ("n0", 2))))
    beside = [planned(world([8, 8], moved, of(user, stays("2", ("n1", 4)))), waits(8, 1, 8))
              for user in ("ann", "bob", "")]
    assert beside == [({"1": "n1"}, "n0:8"), None, None]
    without_gpus = replace(of("bob", stays("2", ("n1", 0))), request=Request(0, cpus=8))
    assert planned(world([8, {"gpus": 8, "gpus_allocated": 4}], moved, without_gpus), waits(8, 1, 8)) is None
    assert planned(world([8, {"gpus": 8, "gpus_allocated": 4}], moved), waits(8, 1, 8)) == ({"1": "n1"}, "n0:8")


def test_nobody_is_moved_to_a_job_that_is_alone_with_its_users():
    lone = alone(of("ann", stays("2", ("n1", 4))))
    beside = [planned(world([8, 8], of(user, runs("1", ("n0", 2))), lone), waits(8, 1, 8))
              for user in ("ann", "bob", "")]
    assert beside == [({"1": "n1"}, "n0:8"), None, None]
    gone = replace(lone, state=JobState.COMPLETED)
    assert planned(world([8, 8], of("bob", runs("1", ("n0", 2))), gone), waits(8, 1, 8)) == ({"1": "n1"}, "n0:8")


def test_two_jobs_of_which_one_is_to_be_alone_are_not_moved_to_the_same_node():
    """Of the three any two would do, and have room on n1; a and b have least to lose."""
    a, b, c = (of(user, runs(name, ("n0", 1), ran_s=ran_s))
               for user, name, ran_s in (("ann", "a", 60), ("bob", "b", 60), ("ann", "c", 900)))
    places = [4, {"gpus": 8, "gpus_allocated": 6}]
    assert planned(world(places, a, b, c), waits(3, 1, 3)) == ({"a": "n1", "b": "n1"}, "n0:3")
    assert planned(world(places, alone(a), b, c), waits(3, 1, 3)) == ({"a": "n1", "c": "n1"}, "n0:3")


def test_room_for_a_job_that_is_to_be_alone_is_made_only_where_all_others_go():
    job = alone(of("ann", waits(4, 1, 4)))
    one, two = of("bob", runs("1", ("n0", 2))), of("eve", runs("2", ("n0", 1)))
    full, own = of("bob", stays("3", ("n1", 4))), of("ann", stays("4", ("n0", 2)))
    assert planned(world([8, 8], one, two, full), job) == ({"1": "n1", "2": "n1"}, "n0:4")
    assert planned(world([8, 8], one, two, full), job, most=1) is None
    assert planned(world([8, 8], one, replace(two, state=JobState.SUSPENDED), full), job) is None
    assert planned(world([8, 8], one, full, own, job), job) == ({"1": "n1"}, "n0:4")


def test_no_room_is_made_beside_a_job_that_stays_alone_with_its_users():
    lone, other = alone(of("ann", stays("1", ("n0", 2)))), stays("3", ("n1", 8))

    def plan(mover, waiting):
        return planned(world([8, 8, 4], lone, mover, other), waiting)

    mine = of("ann", runs("2", ("n0", 4)))
    assert plan(mine, of("ann", waits(6, 1, 6))) == ({"2": "n2"}, "n0:6")
    assert plan(mine, of("bob", waits(6, 1, 6))) is None


def test_who_came_to_a_node_counts_for_who_is_moved_next():
    """n2 takes the job that leaves n0; that of n1 may join it or not."""
    def homes(first, second):
        ground = MigrationPlanner(world([4, 4, {"gpus": 8, "gpus_allocated": 6}], first, second), NOW)
        plans = [ground.make_room(need(waits(4, 1, 4)), 3) for _ in range(2)]
        return [plan and plan.moves[0][1] for plan in plans]

    first, second = runs("1", ("n0", 1), ran_s=60), runs("2", ("n1", 1))
    assert homes(of("ann", first), of("bob", second)) == ["n2", "n2"]
    assert homes(alone(of("ann", first)), of("bob", second)) == ["n2", None]
    assert homes(of("ann", first), alone(of("bob", second))) == ["n2", None]
    assert homes(of("ann", first), alone(of("ann", second))) == ["n2", "n2"]


def test_who_is_to_start_on_a_node_counts_for_who_is_moved_there():
    jobs = of("ann", runs("1", ("n0", 2))), of("ann", alone(stays("2", ("n0", 1))))

    def home(waiting):
        ground = MigrationPlanner(world([8, {"gpus": 8, "gpus_allocated": 2}], *jobs), NOW)
        ground.take(Placement(("n1",), (2,)), need(waiting, ground.owners))
        plan = ground.make_room(need(of("ann", waits(7, 1, 7)), ground.owners), 3)
        return plan and plan.moves[0][1]

    assert home(of("bob", waits(2, 1, 2))) == home(of("ann", alone(waits(2, 1, 2)))) == "n1"
    assert home(of("bob", alone(waits(2, 1, 2)))) is None


def test_a_partition_that_is_down_gets_no_job_and_no_move():
    jobs = runs("1", ("n0", 2)), runs("2", ("n1", 4))
    down = Partition("p", ("n0", "n1"), up=False)

    assert planned(world([8, 8], *jobs, partitions=(down,)), waits(8, 1, 8)) is None


@pytest.mark.parametrize(("named", "plan"), [
    (("n0",), None), (("n9",), None), (("n3",), ({"1": "n2"}, "n3:8,n1:8")), (("n1",), ({"1": "n2"}, "n1:8,n3:8")),
    (("n3", "n1"), ({"1": "n2"}, "n3:8,n1:8")), (("n3", "n0"), None), (("n5",), None), (("n3", "n5"), None),
    (("n1", "n2"), ({"1": "n4", "2": "n4"}, "n1:8,n2:8")), (("n2",), ({"2": "n1"}, "n2:8,n3:8")),
    (("n0", "n3", "n5"), None)])
def test_room_is_made_on_the_nodes_that_a_job_names_and_cannot_do_without(named, plan):
    jobs = stays("3", ("n0", 8)), runs("1", ("n1", 2)), runs("2", ("n2", 5)), stays("4", ("n4", 1))
    away = {"partitions": ("other",)}
    assert planned(world([8, 8, 8, 8, 8, away], *jobs), waits(16, 2, 8, required_nodes=named)) == plan


def test_nobody_is_moved_for_a_job_whose_named_node_and_another_are_free():
    jobs = runs("1", ("n0", 2)), stays("2", ("n1", 5))
    assert planned(world([8, 8, 8, 8], *jobs), waits(16, 2, 8, required_nodes=("n2",))) is None
    assert planned(world([8, 8, 8, 8], *jobs), waits(16, 2, 8, required_nodes=("n0",))) == ({"1": "n1"}, "n0:8,n2:8")


IN_B, IN_D = ({"1": "n4"}, "n1:8,n3:8"), ({"4": "n7"}, "n6:8,n5:8")


@pytest.mark.parametrize(("named", "plan"), [
    ("a", None), ("b", IN_B), ("a,b", IN_B), ("b,a,b", IN_B), ("none,b", IN_B), ("b,down", IN_B), ("d", IN_D),
    ("d,b", IN_B), ("d,down", IN_D), ("roomy", None), ("d,roomy", None), ("roomy,d", None)])
def test_room_for_a_job_of_several_partitions_is_made_in_one_of_them(named, plan):
    names = ("a", "b", "a", "b", "b", "d", "d", "d", "down", "down", "roomy", "roomy")
    jobs = (stays("2", ("n2", 4)), runs("1", ("n3", 2), partition="b"), stays("3", ("n4", 5)),
            runs("4", ("n5", 3), partition="d"), stays("5", ("n7", 4)))
    down = Partition("down", ("n8", "n9"), up=False)
    snapshot = world([{"partitions": (name,)} for name in names], *jobs, partitions=(down,))
    assert planned(snapshot, waits(16, 2, 8, partition=named)) == plan


def test_room_that_was_made_is_taken_for_the_next():
    jobs = runs("a", ("n0", 2)), runs("b", ("n1", 2)), runs("c", ("n2", 4))
    ground = MigrationPlanner(world([8, 8, 8], *jobs), NOW)

    plans = [ground.make_room(need(waits(8, 1, 8)), 3) for _ in range(3)]

    assert [plan and {movable.job.job_id: home for movable, home in plan.moves} for plan in plans] == [
        {"a": "n2"}, {"b": "n2"}, None]


@pytest.mark.parametrize(("limit_s", "home"), [(None, None), (3601.0, None), (3600.0, "n1")])
def test_what_is_kept_for_somebody_is_used_only_by_who_is_gone_before(limit_s, home):
    snapshot = world([8, 8], replace(runs("a", ("n0", 2)), limit_s=limit_s), stays("b", ("n1", 4)))
    ground = MigrationPlanner(snapshot, NOW)
    ground.keep(("n1", "elsewhere"), NOW + 7200)
    ground.keep(("n1",), NOW + 3600)

    plan = ground.make_room(need(waits(8, 1, 8)), 3)

    assert (plan and plan.moves[0][1]) == home


@pytest.mark.parametrize(("limit_s", "found"), [(None, False), (3601.0, False), (3600.0, True)])
def test_room_is_not_made_where_the_job_would_stay_longer_than_the_node_is_free_for(limit_s, found):
    ground = MigrationPlanner(world([8, 8], runs("a", ("n0", 2)), stays("b", ("n1", 4))), NOW)
    ground.keep(("n0",), NOW + 3600)

    assert (ground.make_room(need(waits(8, 1, 8)), 3, limit_s) is not None) == found


def test_a_job_is_not_taken_apart_because_the_node_that_could_hold_it_is_kept():
    ground = MigrationPlanner(world([8, 4, 4, 8], runs("a", ("n1", 2)), stays("b", ("n3", 4))), NOW)
    ground.keep(("n0",), NOW + 3600)

    assert ground.make_room(need(waits(8)), 3) is None


@pytest.mark.parametrize("job", [waits(10**9, 10**9, 1), waits(10**9), waits(8, 1, 8, memory_bytes=2**70),
                                 waits(8, 1, 8, partition="nowhere"), waits(8, 1, 8, exclusive=True)])
def test_what_can_never_be_is_not_looked_for(job):
    assert planned(world([8, 8], runs("a", ("n0", 2))), job) is None


@pytest.mark.parametrize("other", [{"exclusive": True}, {"nodes": 8}])
def test_what_a_job_may_use_does_not_depend_on_who_asked_before_it(other):
    snapshot = world([{"features": ("ib", "roce")}, {"features": ("roce",)}], runs("a", ("n0", 2)))
    one, another = (need(waits(8, features="[ib*1&roce*1]", **request)) for request in ({}, other))
    ground = MigrationPlanner(snapshot, NOW)

    masks = [ground.allowed(wanted).tolist() for wanted in (one, another, one)]

    assert masks == [MigrationPlanner(snapshot, NOW).allowed(wanted).tolist() for wanted in (one, another, one)]
    assert masks[0] != masks[1]


def test_a_job_of_more_nodes_than_there_are_is_not_taken_apart():
    giant = {"gpus": 10**6, "cpus": 0}

    assert planned(world([giant, giant]), waits(10**6, 10**6, 1)) is None


def test_amounts_beyond_reason_do_no_harm():
    unknown = {"cpus": 0, "memory_bytes": 0}
    job = runs("a", ("n0", 2), memory_bytes=2**64)

    assert planned(world([unknown, unknown], job, stays("b", ("n1", 4))), waits(8, 1, 8)) == ({"a": "n1"}, "n0:8")


def test_a_node_that_says_more_is_taken_than_it_has_is_no_place_to_go():
    snapshot = world([8, {"gpus": 8, "gpus_allocated": 99}], runs("a", ("n0", 2)))

    assert planned(snapshot, waits(8, 1, 8)) is None


SITES = st.lists(st.tuples(st.sampled_from(["", "a100"]), st.sampled_from([(), ("ib",)]),
                           st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=4)), min_size=2, max_size=4)
"""Model, features and jobs of each node, each with its GPUs and whether it wants the feature."""


def site(described):
    jobs, sizes = [], []
    for number, (model, features, held) in enumerate(described):
        sizes.append({"gpu_model": model, "features": features})
        used = 0
        for gpus, picky in held:
            if used + gpus <= 8:
                jobs.append(runs(f"{len(jobs)}", (f"n{number}", gpus), ran_s=60.0 * (1 + len(jobs) % 3),
                                 features="ib" if picky and features else ""))
                used += gpus
    return world(sizes, *jobs)


@settings(max_examples=80, deadline=None)
@given(SITES, st.integers(1, 8), st.integers(1, 3))
def test_what_is_planned_can_be_done_and_no_job_leaves_what_it_asked_for(described, gpus, nodes):
    snapshot, job = site(described), waits(gpus * nodes, nodes, gpus)
    plan = MigrationPlanner(snapshot, NOW).make_room(need_now(job, NOW), 3)
    if plan is None:
        return
    state = ClusterState.from_snapshot(SchedulerSnapshot(NOW, snapshot.nodes, (), (*snapshot.jobs, job)), NOW)
    rows = {record.job_id: row for row, record in enumerate(state.records)}
    state.apply([Preempt(rows[movable.job.job_id]) for movable, _ in plan.moves])
    state.apply([Start(rows[movable.job.job_id], (state.cluster.index(home),), (movable.holds[0],))
                 for movable, home in plan.moves])
    state.apply([Start(rows["new"], tuple(map(state.cluster.index, plan.placement.nodes)), plan.placement.gpus)])
    for movable, home in plan.moves:
        there, here = (next(node for node in snapshot.nodes if node.name == name)
                       for name in (home, movable.job.allocations[0].node))
        constraint = Constraint.of(movable.job.request)
        assert constraint is None or constraint.admits(home, there.features)
        assert there.gpu_model == here.gpu_model


@settings(max_examples=60, deadline=None)
@given(SITES, st.integers(1, 8))
def test_for_one_node_no_fewer_gpus_could_be_moved(described, gpus):
    snapshot, job = site(described), waits(gpus, 1, gpus)
    plan = MigrationPlanner(snapshot, NOW).make_room(need_now(job, NOW), 3)
    least = by_brute_force(snapshot, gpus)
    assert (0 if plan is None else sum(movable.holds[0] for movable, _ in plan.moves)) == (least or 0)


def by_brute_force(snapshot, gpus):
    """Return the fewest GPUs that three moves must move for so many on one node; None when they cannot."""
    nodes = {node.name: node for node in snapshot.nodes}
    free = {name: node.gpus - node.gpus_allocated for name, node in nodes.items()}
    costs = []
    for target, size in product(nodes, range(4)):
        for some in combinations([job for job in snapshot.jobs if job.allocations[0].node == target], size):
            freed = sum(job.request.gpus for job in some)
            if free[target] + freed >= gpus and any(
                    settled(some, homes, nodes, dict(free)) for homes in product(set(nodes) - {target}, repeat=size)):
                costs.append(freed)
    return min(costs, default=None)


def settled(jobs, homes, nodes, free):
    for job, home in zip(jobs, homes, strict=True):
        free[home] -= job.request.gpus
        constraint = Constraint.of(job.request)
        if nodes[home].gpu_model != nodes[job.allocations[0].node].gpu_model or (
                constraint and not constraint.admits(home, nodes[home].features)):
            return False
    return all(room >= 0 for room in free.values())
