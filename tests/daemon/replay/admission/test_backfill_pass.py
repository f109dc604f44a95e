"""What starts where nodes are named for who was advised to start."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.backfill_pass import TURN_S, BackfillPass
from idlewatt.daemon.replay.admission.gate import Gate, Hold
from idlewatt.daemon.replay.admission.main_pass import stops_partition, tried_by_main
from idlewatt.daemon.replay.admission.node_resources import LOOKED_AT
from idlewatt.daemon.replay.admission.queue_entry import QueueEntry
from idlewatt.storage.records import Allocation, Details, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Ceilings, Reservation, SchedulerRules, SchedulerSettings
from idlewatt.storage.waiting import WaitReason

NOW, DAY_S = 1_000_000.0, 86400.0
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=False)


def outcome_on(*free, names, **request):
    """Return where a job of three GPUs starts for which nodes are named."""
    nodes = tuple(Node(name, partitions=("p",), features=("x",), gpus=8, gpus_allocated=8 - number, cpus=64,
                       memory_bytes=1 << 40) for name, number in zip("abc", free, strict=True))
    job = Job("1", NOW - 60, JobState.PENDING, "p", Request(3, 1, **request), limit_s=3600.0, user="alice")
    snapshot = SchedulerSnapshot(NOW, nodes, (), (job,), SchedulerRules(site=SITE))
    found = BackfillPass(Gate(snapshot, NOW), True, {0: names}).walk([QueueEntry(0, job)])[0]
    return found.cause if isinstance(found, Hold) else str(found)


def test_who_has_nodes_named_starts_on_all_of_them_or_not_at_all():
    assert outcome_on(2, 8, 8, names=("a", "b")) == "a:2,b:1"
    assert outcome_on(0, 8, 8, names=("a", "b")) == "room"


def test_for_who_counts_features_all_other_nodes_are_excluded():
    """Such a job never starts with nodes named: b will do by itself, where c, which has more room, is not named."""
    assert outcome_on(0, 3, 8, names=("a", "b"), features="x*1") == "b:3"
    assert outcome_on(0, 2, 8, names=("a", "b"), features="x*1") == "room"


def test_a_start_by_the_backfill_leaves_all_nodes_alike_that_are_kept_for_nobody():
    """Job 1 makes a and b preferred, for their GPUs; 2, which starts on b without any, makes both as good as any."""
    nodes = tuple(Node(name, partitions=("p",), gpus=8, cpus=64, memory_bytes=1 << 40) for name in "ab")
    jobs = [Job(str(number), NOW - 60, JobState.PENDING, "p", Request(gpus, 1), limit_s=3600.0, user="alice")
            for number, gpus in ((1, 2), (2, 0))]
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), tuple(jobs), SchedulerRules(site=SITE)), NOW)
    backfill = BackfillPass(gate, False, {0: ("a",), 1: ("b",)})
    backfill.walk([QueueEntry(row, job) for row, job in enumerate(jobs)])
    assert backfill.gate.resources.weights[0].tolist() == [LOOKED_AT, LOOKED_AT]


def test_who_finds_nodes_and_breaks_a_limit_there_leaves_them_as_alike_as_a_start_does():
    """Job 1 makes a and b preferred, for their GPUs; of 2 Slurm finds the limit once it starts it on all of a node."""
    few = (Association("few", ceilings=Ceilings(group=(("gpu", 1.0),))), Association("root"))
    nodes = tuple(Node(name, partitions=("p",), gpus=8, gpus_allocated=taken, cpus=64, memory_bytes=1 << 40)
                  for name, taken in (("a", 1), ("b", 0)))
    jobs = [Job("1", NOW - 60, JobState.PENDING, "p", Request(16, 2, 8), limit_s=3600.0, user="alice", account="root"),
            Job("2", NOW - 60, JobState.PENDING, "p", Request(0, 1, exclusive=True), limit_s=600.0, user="alice",
                account="few")]
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), tuple(jobs), SchedulerRules(site=SITE, associations=few)), NOW)
    backfill = BackfillPass(gate, True)
    outcomes = backfill.walk([QueueEntry(row, job) for row, job in enumerate(jobs)])
    assert [found.cause for found in outcomes.values()] == ["room", "limit"]
    assert backfill.gate.resources.weights[0].tolist() == [LOOKED_AT, LOOKED_AT]


def test_a_start_leaves_weights_by_what_was_free_before():
    """Weights count because of job 2, which asks for no GPUs and is in a partition without nodes."""
    nodes = tuple(Node(name, partitions=("p",), gpus=8, gpus_allocated=taken, cpus=64, memory_bytes=1 << 40)
                  for name, taken in (("a", 4), ("b", 5)))
    jobs = [Job("1", NOW - 60, JobState.PENDING, "p", Request(4, 1, 4), limit_s=3600.0, user="alice"),
            Job("2", NOW - 60, JobState.PENDING, "q", Request(0, 1), limit_s=3600.0, user="alice")]
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), tuple(jobs), SchedulerRules(site=SITE)), NOW)
    backfill = BackfillPass(gate, True)
    backfill.walk([QueueEntry(row, job) for row, job in enumerate(jobs)])
    assert backfill.gate.resources.weights[0].tolist() == [LOOKED_AT - 4, LOOKED_AT]


def after_the_main_scheduler(*requests, unavailable=()):
    """Return the weights of two nodes of 8 GPUs and 1 TB and of one of 4 and half, one GPU of it in use."""
    nodes = tuple(Node(name, partitions=("p",), gpus=gpus, gpus_allocated=taken, cpus=64, memory_bytes=memory << 30)
                  for name, gpus, taken, memory in (("a", 8, 0, 1024), ("b", 8, 0, 1024), ("c", 4, 1, 512)))
    jobs = tuple(Job(str(number), NOW - 60, JobState.PENDING, "p", request, limit_s=3600.0, user="alice",
                     reason=WaitReason.NODES_UNAVAILABLE if number in unavailable else None)
                 for number, request in enumerate(requests))
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), jobs, SchedulerRules(site=SITE)), NOW)
    tried_by_main(gate, jobs, planning=False)
    return gate.resources.weights[0].tolist()


def test_nodes_with_too_little_memory_stay_preferred_as_they_were():
    """Slurm lists only nodes of which the configuration is large enough, and makes only these alike first."""
    large = Request(4, 2, 2, details=Details(memory_per_node_bytes=600 << 30))
    assert after_the_main_scheduler(Request(12, 3, 4)) == [LOOKED_AT - 4, LOOKED_AT - 4, LOOKED_AT - 4]
    assert after_the_main_scheduler(Request(12, 3, 4), large, unavailable=(1,)) == [
        LOOKED_AT - 2, LOOKED_AT - 2, LOOKED_AT - 4]


def test_who_finds_fewer_nodes_than_it_needs_makes_these_preferred_where_enough_are_listed():
    """Slurm 22.05 weighs two nodes for a job of three, as it logs, and looks at none of three for a job of four."""
    assert after_the_main_scheduler(Request(24, 3, 8)) == [LOOKED_AT - 8, LOOKED_AT - 8, LOOKED_AT]
    assert after_the_main_scheduler(Request(32, 4, 8)) == [LOOKED_AT] * 3


def test_what_the_backfill_starts_ends_after_what_the_main_scheduler_started_before():
    """Slurm tries the ends of jobs in turn to plan a waiting one; it starts job 2 some seconds after job 0."""
    nodes = (Node("a", partitions=("p",), gpus=8, cpus=64, memory_bytes=1 << 40),)
    jobs = tuple(Job(str(number), NOW - 60, JobState.PENDING, "p", Request(gpus, 1, gpus), limit_s=limit_s,
                     user="alice") for number, (gpus, limit_s) in enumerate(((4, 3600.0), (8, 600.0), (2, 600.0))))
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), jobs, SchedulerRules(site=SITE)), NOW)
    backfill = BackfillPass(gate, True)
    found = backfill.walk([QueueEntry(row, job) for row, job in enumerate(jobs)])
    assert [one.cause if isinstance(one, Hold) else str(one) for one in found.values()] == ["a:4", "room", "a:2"]
    assert (backfill._releases._ends - NOW).tolist() == [600 + TURN_S, 3600]
    assert backfill.gate.now_s == NOW


def started_behind(*requests, reservations=()):
    """Return who starts where of jobs behind one that waits for all of node a, where a job of three GPUs runs.

    Node b is full. Only the main scheduler starts a long job on a, around which nodes are planned; it starts nobody
    behind a job that finds no room.
    """
    nodes = tuple(Node(name, partitions=("p",), features=features, gpus=8, gpus_allocated=taken, cpus=64,
                       memory_bytes=1 << 40) for name, features, taken in (("a", ("x", "y"), 3), ("b", ("x",), 8)))
    running = Job("r", NOW - 60, JobState.RUNNING, "p", Request(3, 1), start_s=NOW - 60, limit_s=3600.0,
                  allocations=(Allocation("a", 3),))
    jobs = [Job(str(number), NOW - 60, JobState.PENDING, "p", request, limit_s=36_000.0, user="alice")
            for number, request in enumerate((Request(8, 1, 8, required_nodes=("a",)), *requests))]
    rules = SchedulerRules(site=SITE, reservations=reservations)
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), (running, *jobs), rules), NOW)
    found = BackfillPass(gate, True).walk([QueueEntry(row, job, later=row == 0) for row, job in enumerate(jobs)])
    return {row: str(start) for row, start in found.items() if not isinstance(start, Hold)}


def test_the_main_scheduler_looks_past_a_job_that_its_partition_can_never_run():
    """Of several partitions of a job Slurm tries each, and stops one only where the job might run in it later."""
    assert started_behind(Request(12, 2, 6), Request(1, 1)) == {}
    assert started_behind(Request(20, 2, 10), Request(1, 1)) == {2: "a:1"}


def test_the_main_scheduler_looks_past_a_job_that_takes_for_one_feature_the_node_that_another_needs():
    """The first feature takes a, the only node with room that has it, and the second has no other.

    Seen on Slurm 22.05, where nodes of the partition are reserved while the job would run.
    """
    soon = (Reservation("soon", ("b",), NOW + 600, NOW + 1200, users=("bob",)),)
    assert started_behind(Request(4, 2, 2, features="[y*1&x*1]"), Request(1, 1), reservations=soon) == {}
    assert started_behind(Request(4, 2, 2, features="[x*1&y*1]"), Request(1, 1), reservations=soon) == {2: "a:1"}
    assert started_behind(Request(4, 2, 2, features="[x*1&y*1]"), Request(1, 1)) == {}


def test_components_start_together_on_nodes_that_are_chosen_anew():
    """Job 0 has a kept from the end of a job there; 1 is planned on b for that, and Slurm starts it on a all the same.

    Slurm starts heterogeneous jobs at the end of a round, wherever there is room (``_het_job_start_now``).
    """
    nodes = tuple(Node(name, partitions=("p",), gpus=8, gpus_allocated=taken, cpus=64, memory_bytes=1 << 40)
                  for name, taken in (("a", 3), ("b", 0)))
    running = Job("r", NOW - 60, JobState.RUNNING, "p", Request(3, 1), start_s=NOW - 60, limit_s=3600.0,
                  allocations=(Allocation("a", 3),))
    first = Job("0", NOW - 60, JobState.PENDING, "p", Request(8, 1, 8, required_nodes=("a",)), limit_s=36_000.0)
    part = Job("1+0", NOW - 60, JobState.PENDING, "p", Request(1, 1), limit_s=36_000.0, group="1")
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), (running, first, part), SchedulerRules(site=SITE)), NOW)
    line = [QueueEntry(0, first, later=True), QueueEntry(1, part)]
    assert str(BackfillPass(gate, True).walk(line)[1]) == "b:1"
    assert str(BackfillPass(gate.copy(), True, {}).walk(line)[1]) == "a:1"


def behind_a_job_of_another_partition(model):
    """Return a gate, a job of p that asks for a model of GPUs, and the nodes that a job of q before it stops."""
    nodes = tuple(Node(name, partitions=partitions, gpus=8, gpu_model=gpu_model, gpus_allocated=8, cpus=64,
                       memory_bytes=1 << 40)
                  for name, partitions, gpu_model in (("a", ("p", "q"), "v100"), ("b", ("p",), "a100")))
    jobs = [Job(partition, NOW - 60, JobState.PENDING, partition, request, limit_s=3600.0, user="alice")
            for partition, request in (("q", Request(8, 1, 8)), ("p", Request(4, 1, 4, gpu_model=model)))]
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), tuple(jobs), SchedulerRules(site=SITE)), NOW)
    return gate, jobs, gate.resources.named(("a",))


def test_who_could_run_on_no_nodes_but_stopped_ones_stops_nobody():
    """Slurm 22.05 calls it ReqNodeNotAvail, and its main scheduler goes on in the partition."""
    for model, stops in (("v100", False), ("a100", True), ("", True)):
        gate, (_, job), stopped = behind_a_job_of_another_partition(model)
        assert stops_partition(gate, job, stopped, planning=True) is stops
        assert stops_partition(gate, job, stopped & False, planning=True)
        assert not stops_partition(gate, job, stopped, planning=False)


def test_who_could_run_on_no_nodes_but_stopped_ones_makes_these_preferred():
    """Slurm's main scheduler looks whether it could run on any nodes of its partition, and weighs these."""
    weights = {}
    for model in ("v100", "a100", ""):
        gate, jobs, _ = behind_a_job_of_another_partition(model)
        tried_by_main(gate, jobs, planning=True)
        weights[model] = gate.resources.weights[0].tolist()
    assert weights == {"v100": [LOOKED_AT - 4, LOOKED_AT], "a100": [LOOKED_AT, LOOKED_AT - 4],
                       "": [LOOKED_AT, LOOKED_AT - 4]}


def held_behind_a_plan(left_s, *parameters):
    """Return whether a week's job waits, as a job before it needs its node and another that runs for so long."""
    nodes = tuple(Node(name, partitions=("p",), gpus=8, gpus_allocated=taken, cpus=64, memory_bytes=1 << 40)
                  for name, taken in (("a", 8), ("b", 0)))
    running = Job("r", NOW - 60, JobState.RUNNING, "p", Request(8, 1), start_s=NOW - 60, limit_s=left_s + 60,
                  allocations=(Allocation("a", 8),))
    wide, long = (Job(str(row), NOW - 60, JobState.PENDING, "p", Request(8 * number, number, 8), limit_s=days * DAY_S)
                  for row, (number, days) in enumerate(((2, 3), (1, 7))))
    rules = SchedulerRules(site=replace(SITE, parameters=parameters))
    gate = Gate(SchedulerSnapshot(NOW, nodes, (), (running, wide, long), rules), NOW)
    found = BackfillPass(gate, True).walk([QueueEntry(0, wide), QueueEntry(1, long)])
    return isinstance(found[1], Hold)


@pytest.mark.parametrize(("left_s", "parameters", "held"), [
    (DAY_S / 2, (), True), (2 * DAY_S, (), False), (2 * DAY_S, ("bf_window=10080",), True),
    (DAY_S / 2, ("bf_window=60",), False), (2 * DAY_S, ("bf_window=soon",), False)])
def test_nodes_are_kept_for_who_can_begin_within_the_window_of_the_site(left_s, parameters, held):
    assert held_behind_a_plan(left_s, *parameters) is held


@pytest.mark.parametrize(("parameters", "planned"), [((), 3), (("bf_max_job_array_resv=2",), 2)])
def test_nodes_are_kept_for_as_many_tasks_of_an_array_as_the_site_says(parameters, planned):
    node = Node("a", partitions=("p",), gpus=8, gpus_allocated=8, cpus=64, memory_bytes=1 << 40)
    running = Job("r", NOW - 60, JobState.RUNNING, "p", Request(8, 1), start_s=NOW - 60, limit_s=3600.0,
                  allocations=(Allocation("a", 8),))
    tasks = [Job(f"1_{row}", NOW - 60, JobState.PENDING, "p", Request(8, 1, 8), limit_s=3600.0, array="1")
             for row in range(3)]
    rules = SchedulerRules(site=replace(SITE, parameters=parameters))
    backfill = BackfillPass(Gate(SchedulerSnapshot(NOW, (node,), (), (running, *tasks), rules), NOW), True)
    backfill.walk([QueueEntry(row, task) for row, task in enumerate(tasks)])
    assert backfill._plans == planned
