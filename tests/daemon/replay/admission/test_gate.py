"""What the scheduler itself would let start, option by option; what Slurm does is known from a real one."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.gate import Gate, Hold
from idlewatt.daemon.replay.admission.hold_reason import why_no_nodes
from idlewatt.storage.details import Details
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
from idlewatt.storage.rules import (
    Association,
    Ceilings,
    CountedUsage,
    License,
    Qos,
    Reservation,
    SchedulerRules,
    SchedulerSettings,
)
from idlewatt.storage.waiting import WaitReason

NOW = 1_000_000.0
GIB = 1 << 30
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=True)


def node(name, **facts):
    usual = {"partitions": ("p",), "gpus": 8, "cpus": 64, "memory_bytes": 512 * GIB, "threads_per_core": 2,
             "sockets": 2, "gpu_indexes_allocated": ()}
    return Node(name, **usual | facts)


def asks(gpus=0, nodes=1, each=None, job_id="1", partition="p", **facts):
    """Return a waiting job; whatever its request or its details know goes there."""
    details = Details(**{name: facts.pop(name) for name in list(facts) if name in Details.__dataclass_fields__})
    request = {name: facts.pop(name) for name in list(facts) if name in Request.__dataclass_fields__}
    return Job(job_id, NOW - 60, JobState.PENDING, partition, Request(gpus, nodes, each, **{"cpus": 1} | request,
               details=details), **{"limit_s": 3600.0, "user": "alice", "account": "proj", "qos": "normal"} | facts)


def runs(job_id, name, gpus, cpus=2, **facts):
    usual = {"user": "bob", "account": "proj", "qos": "normal", "partition": "p"}
    return Job(job_id, NOW - 900, JobState.RUNNING, request=Request(gpus), start_s=NOW - 600, limit_s=7200.0,
               allocations=(Allocation(name, gpus, None, cpus, GIB),), **usual | facts)


def gate(nodes, *jobs, partitions=(), site=SITE, **rules):
    return Gate(SchedulerSnapshot(NOW, tuple(nodes), tuple(partitions), jobs, SchedulerRules(site=site, **rules)), NOW)


def where(found):
    return found.cause if isinstance(found, Hold) else str(found)


@pytest.mark.parametrize(("free", "job", "placed"), [
    ((4, 3), asks(7), "a:4,b:3"),
    ((4, 3), asks(7, most_nodes=2), "a:4,b:3"),
    ((4, 3), asks(7, most_nodes=1), "room"),
    ((4, 3), asks(8), "room"),
    ((8, 3), asks(3), "b:3"),
    ((8, 3), asks(7, 2, most_nodes=2), "a:6,b:1"),
    ((4, 4), asks(6, 2, 3), "a:3,b:3"),
    ((4, 2), asks(6, 2, 3), "room"),
    ((2, 2), asks(4, gpus_per_task=1, tasks=4), "a:2,b:2"),
    ((2, 1), asks(4, gpus_per_task=2, tasks=2), "room"),
])
def test_gpus_split_over_nodes_as_the_scheduler_splits_them(free, job, placed):
    nodes = [node(name, gpus_allocated=8 - left, gpu_indexes_allocated=None, cpus_allocated=2 * (left < 8))
             for name, left in zip("ab", free, strict=True)]
    assert where(gate(nodes).find(job)) == placed


@pytest.mark.parametrize(("facts", "job", "placed"), [
    ({"cpus_allocated": 40}, asks(4, 1, 4, cpus_per_gpu=8), "room"),
    ({"cpus_allocated": 32}, asks(4, 1, 4, cpus_per_gpu=8), "a:4"),
    ({"memory_allocated_bytes": 480 * GIB}, asks(4, 1, 4, memory_per_gpu_bytes=10 * GIB), "room"),
    ({"memory_allocated_bytes": 472 * GIB}, asks(4, 1, 4, memory_per_gpu_bytes=10 * GIB), "a:4"),
    ({"cpus_allocated": 62}, asks(cpus=2), "a:0"),
    ({"cpus_allocated": 62}, asks(cpus=3, tasks=3), "room"),
    ({"cpus_allocated": 62}, asks(cpus=2, one_thread_per_core=True), "room"),
    ({"cpus_allocated": 2}, asks(1, 1, 1, exclusive=True), "room"),
    ({}, asks(1, 1, 1, exclusive=True), "a:8"),
    ({"memory_allocated_bytes": GIB, "cpus_allocated": 2}, asks(1, 1, 1, whole_memory=True), "room"),
    ({"memory_allocated_bytes": 511 * GIB}, asks(1, 1, 1, memory_per_cpu_bytes=GIB), "room"),
    ({"memory_allocated_bytes": 510 * GIB}, asks(1, 1, 1, memory_per_cpu_bytes=GIB), "a:1"),
    ({"gpu_indexes_allocated": (0, 1, 2, 4, 5, 6), "gpus_allocated": 6}, asks(2, gpus_per_socket=2), "room"),
    ({"gpu_indexes_allocated": (0, 1, 2, 4), "gpus_allocated": 4}, asks(2, gpus_per_socket=2), "a:2"),
    ({"gpu_indexes_allocated": (0, 1, 2, 4, 5), "gpus_allocated": 5, "gpus_bound": False},
     asks(4, gpus_per_socket=2, tasks=4, cpus=4), "a:3"),  # as a real Slurm 22.05 gave it
    ({}, asks(4, gpus_per_socket=2, tasks=4, cpus=4), "a:4"),
    ({}, asks(4, gpus_per_socket=2, tasks=2, cpus=2), "a:2"),
    ({"gpu_indexes_allocated": (0, 1, 2, 4, 5), "gpus_allocated": 5, "cpus_allocated": 2},
     asks(4, gpus_per_socket=2, tasks=4, cpus=4), "a:2"),
])
def test_cpus_come_in_cores_and_with_gpus_and_memory_with_both(facts, job, placed):
    assert where(gate([node("a", **facts)]).find(job)) == placed


RACKS = [node("a", features=("ib", "r1"), leaf="l1"), node("b", features=("ib", "r2"), leaf="l1"),
         node("c", features=("r2",), leaf="l2"), node("d", features=("r1",), leaf="l2")]


@pytest.mark.parametrize(("busy", "job", "placed"), [
    ("", asks(2, 2, 1, features="[r1|r2]"), "a:1,d:1"),
    ("a", asks(2, 2, 1, features="[r1|r2]"), "b:1,c:1"),
    ("ab", asks(2, 2, 1, features="[r1|r2]"), "room"),
    ("ab", asks(2, 2, 1, features="r1|r2"), "c:1,d:1"),
    ("a", asks(2, 2, 1, features="[ib*1&r1*1]"), "b:1,d:1"),
    ("ab", asks(2, 2, 1, features="[ib*1&r1*1]"), "room"),
    ("b", asks(2, 2, 1, contiguous=True), "c:1,d:1"),
    ("bd", asks(2, 2, 1, contiguous=True), "room"),
    ("bd", asks(2, 2, 1, contiguous=True, most_nodes=2), "room"),
    ("bd", asks(2, 2, 1, contiguous=True, most_nodes=3), "a:1,c:1"),  # as a real Slurm 22.05 gave it
    ("b", asks(2, 2, 1, switches=1), "c:1,d:1"),
    ("bd", asks(2, 2, 1, switches=1), "room"),
    ("bd", asks(2, 2, 1, switches=1, switches_until_s=NOW - 1), "a:1,c:1"),
    ("bd", asks(2, 2, 1, switches=2), "a:1,c:1"),
    ("bd", asks(2, 2, 1, switches=None), "unknown"),
    ("", asks(2, 2, 1, required_nodes=("d",)), "a:1,d:1"),
    ("d", asks(2, 2, 1, required_nodes=("d",)), "room"),
    ("", asks(1, 1, 1, excluded_nodes=("a", "b", "c")), "d:1"),
    ("", asks(20, 2, gpus_per_task=1, tasks=20, required_nodes=("a", "b")), "a:8,b:8,c:4"),
])
def test_sets_of_nodes_are_those_that_the_options_admit(busy, job, placed):
    nodes = [replace(each, gpus_allocated=8, cpus_allocated=8) if each.name in busy else each for each in RACKS]
    assert where(gate(nodes).find(job)) == placed


LATER = Reservation("later", ("a",), NOW + 1800, NOW + 7200, users=("carol",))


@pytest.mark.parametrize(("reservation", "job", "placed"), [
    (LATER, asks(1, 1, 1), "nodes"),
    (LATER, asks(1, 1, 1, limit_s=1700.0), "a:1"),
    (LATER, asks(1, 1, 1, limit_s=None), "nodes"),
    (LATER, asks(1, 1, 1, user="carol", reservation="later"), "reservation"),
    (replace(LATER, start_s=NOW - 10), asks(1, 1, 1, user="carol", reservation="later"), "a:1"),
    (replace(LATER, start_s=NOW - 10), asks(1, 1, 1, reservation="later"), "reservation"),
    (replace(LATER, start_s=NOW - 10, users=(), accounts=("proj",)), asks(1, 1, 1, reservation="later"), "a:1"),
    (replace(LATER, start_s=NOW - 10, users=("-alice",)), asks(1, 1, 1, reservation="later"), "reservation"),
    (replace(LATER, flags=("FLEX",)), asks(1, 1, 1, user="carol", reservation="later"), "a:1"),
])
def test_reservations_keep_nodes_for_as_long_as_a_job_may_run(reservation, job, placed):
    judge = gate([node("a")], reservations=(reservation,))
    found = judge.bars(job) or judge.find(job)
    if isinstance(found, Hold) and found.cause == "room":
        found = why_no_nodes(judge, job)
    assert where(found) == placed


@pytest.mark.parametrize(("facts", "placed"), [
    ({"state": NodeState.MAINTENANCE}, "a:1"),
    ({"state": NodeState.DRAINING}, "a:1"),
    ({"state": NodeState.DRAINING, "reason": "NVLink"}, "nodes"),
    ({"state": NodeState.MAINTENANCE, "reason": "NVLink"}, "nodes"),
    ({"state": NodeState.DRAINED, "reason": "NVLink"}, "nodes"),
])
def test_jobs_of_a_maintenance_reservation_run_on_its_nodes_beside_others_but_on_none_that_is_drained(facts, placed):
    """Slurm tells a node under maintenance on which others still run as one that is drained, but without a reason."""
    kept = replace(LATER, start_s=NOW - 10, maintenance=True, flags=("MAINT",))
    judge = gate([node("a", gpus_allocated=4, reservation="later", **facts)], runs("9", "a", 4), reservations=(kept,))
    found = judge.find(asks(1, 1, 1, user="carol", reservation="later"))
    assert where(why_no_nodes(judge, asks(1)) if isinstance(found, Hold) else found) == placed


SMALL = Partition("p", ("a",), 3600.0)


@pytest.mark.parametrize(("partition", "job", "code"), [
    (SMALL, asks(1, limit_s=3601.0), "PartitionTimeLimit"), (replace(SMALL, up=False), asks(1), "PartitionDown"),
    (replace(SMALL, most_nodes=1), asks(2, 2, 1), "PartitionNodeLimit"),
    (replace(SMALL, accounts=("other",)), asks(1), "AccountNotAllowed"),
    (replace(SMALL, accounts_denied=("proj",)), asks(1), "AccountNotAllowed"),
    (replace(SMALL, qos_allowed=("high",)), asks(1), "QOSNotAllowed"),
    (SMALL, asks(1, deadline_s=NOW + 3599), "DeadLine"),
    (SMALL, asks(1, reason=WaitReason.DEPENDENCY), "depend"),
    (SMALL, asks(1, reason=WaitReason.NODES_UNAVAILABLE, reason_text="ReqNodeNotAvail"), "ReqNodeNotAvail"),
    (SMALL, asks(1, eligible_s=NOW + 9), "begin time"),
])
def test_what_the_scheduler_would_not_even_look_at_is_said_in_its_word(partition, job, code):
    hold = gate([node("a")], partitions=[partition]).bars(job)
    assert code in (hold.reason if hold else "")


def test_of_several_partitions_those_that_admit_the_job_are_used_the_higher_tier_first():
    nodes = [node("a", partitions=("short",)), node("b", partitions=("long",)), node("c", partitions=("best",))]
    partitions = [Partition("short", ("a",), 60.0, priority_tier=9), Partition("long", ("b",)),
                  Partition("best", ("c",), priority_tier=5)]
    assert where(gate(nodes, partitions=partitions).find(asks(1, partition="long,short,best"))) == "c:1"


QOS = (Qos("normal", Ceilings(user=(("gpu", 4.0), ("jobs", 2.0)), group=(("gpu:a100", 6.0),), job=(("node", 1.0),),
                              wall_s=7200.0)), Qos("free"))


@pytest.mark.parametrize(("running", "job", "reason"), [
    ([("alice", 3)], asks(2), "the limit of QOS normal is 4 GPUs a user: 3 in use, it needs 2"),
    ([("bob", 3)], asks(2), None),
    ([("alice", 1), ("alice", 1)], asks(1), "the limit of QOS normal is 2 running jobs a user: 2 in use, it needs 1"),
    ([("bob", 5)], asks(2), "the limit of QOS normal is 6 gpu:a100 in all: 5 in use, it needs 2"),
    ([], asks(2, 2, 1), "the limit of QOS normal is 1 nodes a job, it asks for 2"),
    ([], asks(1, limit_s=7201.0), "the limit of QOS normal on the time of a job"),
    ([("alice", 3)], asks(2, qos="free"), None),
])
def test_limits_count_what_runs_and_what_is_started(running, job, reason):
    jobs = [runs(str(number), "b", gpus, user=user) for number, (user, gpus) in enumerate(running)]
    judge = gate([node("a", gpu_model="a100"), node("c", gpu_model="a100"),
                  node("b", gpu_model="a100", gpus_allocated=8)], *jobs, qos=QOS)
    found = judge.admit(job, None)
    assert (None if reason is None else found.reason[:len(reason)]) == reason
    assert reason is not None or not isinstance(found, Hold)


@pytest.mark.parametrize("name", ["gpu:a100", "gpu:A100"])
@pytest.mark.parametrize(("kind", "running", "job", "reason"), [
    ("group", 5, asks(2), "in all: 5 in use, it needs 2"), ("group", 4, asks(2), None),
    ("group", 0, asks(8, 2, 4), "in all: 0 in use, it needs 8"), ("job", 0, asks(8, 2, 4), "a job, it asks for 8"),
    ("least", 0, asks(4, gpu_model="A100"), "at least 6"), ("least", 0, asks(6, gpu_model="A100"), None)])
def test_a_limit_on_gpus_of_a_model_counts_them_however_limit_and_nodes_write_it(name, kind, running, job, reason):
    """Slurm compares names of resources regardless of case."""
    jobs = [runs("9", "b", running)] if running else []
    judge = gate([node("a", gpu_model="A100"), node("b", gpu_model="a100", gpus_allocated=running,
                                                    gpu_indexes_allocated=None)],
                 *jobs, qos=(Qos("normal", Ceilings(**{kind: ((name, 6.0),)})),))
    found = judge.admit(job, None)
    assert isinstance(found, Hold) == (reason is not None)
    assert reason is None or (reason in found.reason and f"6 {name}" in found.reason)


@pytest.mark.parametrize(("most", "why"), [(6000.0, "all of it is used"), (12_000.0, "0 are left beside")])
def test_what_is_used_of_a_limit_on_gpus_of_a_model_is_counted_however_it_is_written(most, why):
    usage = CountedUsage(NOW - 30, qos="normal", used=(("gpu:a100 seconds used", 6000.0),),
                         promised=(("gpu:a100 seconds", 6000.0),))
    judge = gate([node("a", gpu_model="A100")], site=replace(SITE, enforced=("safe",)), usage=(usage,),
                 qos=(Qos("normal", Ceilings(group=(("gpu:A100 seconds used", most),))),))
    found = judge.admit(asks(1), None)
    assert isinstance(found, Hold)
    assert found.reason.startswith(f"the limit of QOS normal is {most / 60:g} gpu:A100 seconds used so far: {why}")


@pytest.mark.parametrize(("least", "model", "bars"), [(8.0, "h100", False), (16.0, "h100", True), (1.0, "a100", True)])
def test_a_least_number_of_gpus_of_a_type_is_of_those_that_a_job_asks_for(least, model, bars):
    """Slurm compares it with what is requested, before the job has a place."""
    judge = gate([node("a", gpu_model="h100"), node("b", gpu_model="a100")],
                 qos=(Qos("normal", Ceilings(least=(("gpu:h100", least),))),))
    found = judge.admit(asks(8, gpu_model=model), None)
    assert (isinstance(found, Hold), isinstance(judge.bars(asks(8, gpu_model=model)), Hold)) == (bars, bars)


def test_the_third_job_of_an_account_of_two_waits_for_one_of_our_own_starts():
    accounts = (Association("root"), Association("proj", parent="root", ceilings=Ceilings(group=(("jobs", 2.0),))),
                Association("proj", "alice"))
    judge = gate([node("a")], runs("9", "a", 1), associations=accounts)
    assert where(judge.admit(asks(1, job_id="1"), None)) == "a:1"
    assert judge.admit(asks(1, job_id="2"), None).reason == \
        "the limit of account proj is 2 running jobs in all: 2 in use, it needs 1"


@pytest.mark.parametrize(("ceilings", "job", "reason"), [
    # The job of bob has 3 GPUs and 6,600 of its 7,200 s left: 330 GPU-minutes.
    (Ceilings(group=(("gpu seconds", 23_400.0),)), asks(1, limit_s=3600.0), None),
    (Ceilings(group=(("gpu seconds", 23_399.0),)), asks(1, limit_s=3600.0),
     "the limit of QOS normal is 389.983 GPU-minutes in all: 330 in use, it needs 60"),
    (Ceilings(group=(("gpu seconds", 1.0),)), asks(0), None),
    (Ceilings(user=(("gpu seconds", 7200.0),)), asks(2, limit_s=3600.0), None),
    (Ceilings(job=(("gpu seconds", 7199.0),)), asks(2, limit_s=3600.0),
     "the limit of QOS normal is 119.983 GPU-minutes a job, it asks for 120"),
    (Ceilings(job=(("gpu seconds", 7199.0),)), asks(2, limit_s=None),
     "unknown: QOS normal has a limit on gpu seconds, and how much of that is used is not known"),
    (Ceilings(group=(("gpu seconds used", 1e9),)), asks(1),
     "unknown: QOS normal has a limit on gpu seconds used, and how much of that is used is not known"),
    (Ceilings(group=(("seconds used", 1e9),)), asks(1), "unknown: QOS normal has a limit on seconds used"),
    (Ceilings(group=(("billing", 9.0),)), asks(1), "unknown: QOS normal has a limit on billing"),
    (Ceilings(group=(("billing", 9.0), ("gpu", 3.0))), asks(1), "the limit of QOS normal is 3 GPUs in all"),
    (Ceilings(group=(("energy", 1.0), ("fs/disk", 1.0))), asks(1), None),
    (Ceilings(user=(("license/matlab", 1.0),)), asks(1, licenses="matlab:2"),
     "the limit of QOS normal is 1 license/matlab a user: 0 in use, it needs 2"),
])
def test_limits_over_time_are_counted_and_what_nobody_counts_is_unknown(ceilings, job, reason):
    judge = gate([node("a"), node("b")], runs("9", "b", 3), qos=(Qos("normal", ceilings),),
                 licenses=(License("matlab", 4),))
    found = judge.admit(job, None)
    assert (None if reason is None else found.reason[:len(reason)]) == reason
    if reason is None:
        assert isinstance(found, Placement)
    else:
        assert found.cause == ("unknown" if reason.startswith("unknown") else "limit")


USED = CountedUsage(
    NOW - 30, qos="normal", promised=(("gpu seconds", 18_000.0),),
    used=(("gpu seconds used", 6000.0), ("seconds used", 600.0), ("billing seconds used", 0.0)))
"""100 GPU-minutes of QOS normal are used, running jobs may use 300 more."""


@pytest.mark.parametrize(("ceilings", "job", "safe", "reason"), [
    (("gpu seconds used", 6001.0), asks(1), False, None),
    (("gpu seconds used", 6000.0), asks(1), False,
     "the limit of QOS normal is 100 GPU-minutes used so far: all of it is used"),
    (("gpu seconds used", 6000.0), asks(0), False, None),
    (("gpu seconds used", 27_600.0), asks(1, limit_s=3600.0), True, None),
    (("gpu seconds used", 27_540.0), asks(1, limit_s=3600.0), True,
     "the limit of QOS normal is 459 GPU-minutes used so far: 59 are left beside what running jobs may use, it needs "
     "60"),
    (("gpu seconds used", 27_540.0), asks(0, limit_s=3600.0), True, None),
    (("gpu seconds used", 27_600.0), asks(1, limit_s=None), True,
     "unknown: QOS normal has a limit on gpu seconds used"),
    (("gpu seconds used", 27_600.0), asks(1, qos="weighed"), True, None),
    (("seconds used", 660.0), asks(1, limit_s=60.0), True, None),
    (("seconds used", 660.0), asks(1, limit_s=120.0), False, None),
    (("seconds used", 660.0), asks(1, limit_s=120.0), True,
     "the limit of QOS normal is 11 minutes of jobs used so far"),
    (("seconds used", 600.0), asks(1), True,
     "the limit of QOS normal is 10 minutes of jobs used so far: all of it is used"),
    (("billing seconds used", 600.0), asks(1), False, "unknown: QOS normal has a limit on billing seconds used"),
])
def test_limits_on_the_past_go_by_what_the_scheduler_says_is_used(ceilings, job, safe, reason):
    site = replace(SITE, enforced=("limits", "safe") if safe else ("limits",))
    judge = gate([node("a"), node("b")], runs("9", "b", 3), site=site, usage=(USED,),
                 qos=(Qos("normal", Ceilings(group=(ceilings,))), Qos("weighed", usage_factor=2.0)))
    found = judge.admit(job, None)
    assert (None if reason is None else found.reason[:len(reason)]) == reason
    if reason is None:
        assert isinstance(found, Placement)


def test_a_job_that_started_since_usage_was_told_and_our_own_starts_count_beside_it():
    site, ceilings = replace(SITE, enforced=("safe",)), Ceilings(group=(("gpu seconds used", 24_000.0 + 3 * 3600.0),))
    newer = replace(runs("8", "b", 1), start_s=NOW - 10, limit_s=3610.0)
    judge = gate([node("a"), node("b")], runs("9", "b", 3), newer, site=site, usage=(USED,),
                 qos=(Qos("normal", ceilings),))
    assert where(judge.admit(asks(1, job_id="1", limit_s=3600.0), None)) == "a:1"
    assert where(judge.admit(asks(1, job_id="2", limit_s=3600.0), None)) == "a:1"
    assert judge.admit(asks(1, job_id="3", limit_s=60.0), None).cause == "limit"


UNTOLD = "unknown: whether QOS normal has a GrpTRESMins is not known"


@pytest.mark.parametrize(("enforced", "ceilings", "reason"), [
    (("limits",), (), UNTOLD), (("associations",), (("gpu seconds", 1e9),), None), (None, (), UNTOLD),
    (None, (("gpu", 8.0),), UNTOLD), (None, (("gpu seconds", 1e9),), UNTOLD)])
def test_advice_is_unknown_where_a_limit_may_be_set_that_the_source_cannot_report(enforced, ceilings, reason):
    judge = gate([node("a")], site=replace(SITE, enforced=enforced),
                 qos=(Qos("normal", Ceilings(group=ceilings, unreported=("GrpTRESMins",))), Qos("other")))
    found = judge.admit(asks(1), None)
    assert (None if reason is None else found.reason[:len(reason)]) == reason
    assert where(judge.admit(asks(1, qos="other"), None)) == "a:1"


@pytest.mark.parametrize("flag", ["USAGEFACTORSAFE", "USAGE_FACTOR_SAFE"])
def test_what_a_qos_weighs_is_unknown_where_jobs_must_end_before_all_is_used(flag):
    with_factor = Qos("normal", Ceilings(group=(("gpu seconds used", 1e9),)), usage_factor=2.0, flags=(flag,))
    judge = gate([node("a")], site=replace(SITE, enforced=("safe",)), usage=(USED,), qos=(with_factor,))
    assert judge.admit(asks(1), None).cause == "unknown"


@pytest.mark.parametrize("flag", ["OVERPARTQOS", "OVERRIDE_PARTITION_QOS"])
def test_a_qos_with_the_flag_goes_before_that_of_the_partition(flag):
    def cause(*flags):
        narrow, wide = (Ceilings(group=(("gpu", most),)) for most in (1.0, 8.0))
        qos = Qos("narrow", narrow), Qos("wide", wide, flags=flags)
        judge = gate([node("a")], qos=qos, partitions=[Partition("p", ("a",), qos="narrow")])
        return getattr(judge.admit(asks(2, qos="wide"), None), "cause", None)

    assert (cause(), cause(flag)) == ("limit", None)


@pytest.mark.parametrize(("weights", "most", "reason"), [
    # The job of bob has 2 CPUs and 3 GPUs, the new one asks for 1 and 1.
    ((), 3.0, None), ((), 2.0, "the limit of QOS normal is 2 billing in all: 2 in use, it needs 1"),
    ((("gpu", 10.0), ("cpu", 0.5)), 41.0, None),
    ((("gpu", 10.0), ("cpu", 0.5)), 40.0, "the limit of QOS normal is 40 billing in all: 31 in use, it needs 10"),
    (None, 40.0, "unknown: QOS normal has a limit on billing"),
])
def test_a_limit_on_billing_goes_by_what_the_partition_charges_for(weights, most, reason):
    partition = Partition("p", ("a", "b"), billing_weights=weights)
    judge = gate([node("a"), node("b")], runs("9", "b", 3), partitions=[partition],
                 qos=(Qos("normal", Ceilings(group=(("billing", most),))),))
    found = judge.admit(asks(1), None)
    assert (None if reason is None else found.reason[:len(reason)]) == reason
    assert reason is not None or str(found) == "a:1"


def test_starts_of_our_own_count_for_limits_over_time():
    judge = gate([node("a")], qos=(Qos("normal", Ceilings(group=(("gpu seconds", 7200.0),))),))
    assert where(judge.admit(asks(1, job_id="1"), None)) == "a:1"
    assert where(judge.admit(asks(1, job_id="2"), None)) == "a:1"
    assert judge.admit(asks(1, job_id="3"), None).cause == "limit"


def test_limits_of_which_nobody_knows_whether_they_are_enforced_are_no_advice():
    judge = gate([node("a")], runs("9", "a", 4, user="alice"), qos=QOS, site=replace(SITE, enforced=None))
    assert judge.admit(asks(1), None).cause == "unknown"
    judge = gate([node("a")], runs("9", "a", 4, user="alice"), qos=QOS, site=replace(SITE, enforced=()))
    assert where(judge.admit(asks(1), None)) == "a:1"


@pytest.mark.parametrize(("wanted", "cause"), [
    ("matlab:2", "a:1"), ("matlab:3", "licenses"), ("matlab:1,ansys:1", "licenses"), ("ansys|matlab", "a:1")])
def test_licences_are_counted_and_taken(wanted, cause):
    licenses = (License("matlab", 4, 1, 1), License("ansys", 1, 1))
    judge = gate([node("a")], licenses=licenses)
    assert where(judge.admit(asks(1, licenses=wanted), None)) == cause
    assert where(judge.admit(asks(1, licenses="matlab:2"), None)) == ("licenses" if cause == "a:1" else "a:1")
    assert where(gate([node("a")]).admit(asks(1, licenses=wanted), None)) == "unknown"


def test_memory_that_comes_with_gpus_takes_the_place_of_what_comes_with_cpus():
    """As a real Slurm 22.05 filled a node to the last byte: 4 and 1 GPUs, 200 GB with each, ``DefMemPerCPU=1000``."""
    judge = gate([node("a", memory_bytes=1000 * GIB)])
    memory = {"memory_per_gpu_bytes": 200 * GIB, "memory_per_cpu_bytes": GIB}
    assert where(judge.admit(asks(4, job_id="1", **memory), None)) == "a:4"
    assert where(judge.admit(asks(1, job_id="2", **memory), None)) == "a:1"
    assert where(judge.admit(asks(1, job_id="3", **memory), None)) == "room"


def test_who_says_how_much_memory_it_wants_on_a_node_gets_none_beside_it_with_its_gpus():
    """As a real Slurm 22.05 charged ``--mem=600000 --gres=gpu:3`` in a partition with ``DefMemPerGPU=20000``."""
    judge = gate([node("a", memory_bytes=1000 * GIB)])
    memory = {"memory_per_node_bytes": 500 * GIB, "memory_per_gpu_bytes": 20 * GIB, "memory_said": True}
    assert where(judge.admit(asks(3, job_id="1", **memory), None)) == "a:3"
    assert where(judge.admit(asks(3, job_id="2", **memory), None)) == "a:3"
    assert where(judge.admit(asks(1, job_id="3", **memory), None)) == "room"


def test_a_partition_that_gives_whole_nodes_gives_nothing_beside_others():
    """Slurm says of a job with two partitions what holds in the one in which it was tried last."""
    nodes = [node("a", gpus_allocated=8), node("b", partitions=("q",), gpus_allocated=1), node("c", partitions=("q",))]
    known = Partition("p", ("a",)), Partition("q", ("b", "c"), exclusive=True)
    jobs = runs("8", "a", 8), runs("9", "b", 1)
    assert where(gate(nodes, *jobs, partitions=known).find(asks(1, partition="p,q"))) == "c:8"
    known = known[0], replace(known[1], exclusive=False)
    assert where(gate(nodes, *jobs, partitions=known).find(asks(1, partition="p,q"))) == "b:1"


def test_an_array_starts_as_many_tasks_as_may_run_at_once():
    task = asks(1, array="7", array_limit=2)
    judge = gate([node("a")], runs("7_1", "a", 1, array="7"))
    assert where(judge.admit(task, None)) == "a:1"
    assert "JobArrayTaskLimit" in judge.admit(task, None).reason


@pytest.mark.parametrize(("nodes", "job", "words"), [
    ([node("a", features=("ib",), gpus_allocated=8), node("b", features=("ib",), gpus_allocated=8), node("c")],
     asks(1, 1, 1, features="ib"), "no node with feature ib is free (2 of 2 busy)"),
    ([node("a", features=("ib",), state=NodeState.DRAINING), node("c")], asks(1, 1, 1, features="ib"),
     "the only node that fits, a, is draining"),
    ([node("a", state=NodeState.DRAINED, reason="NVLink"), node("b", state=NodeState.DOWN)], asks(1, 1, 1),
     "2 of the 2 nodes that fit cannot be used: a is drained (NVLink); b is down"),
    ([node("a")], asks(9, 1, 9), "can never run: no node of p of the requested size (9 GPUs) can hold it, it needs 1"),
    ([node("a"), node("b")], asks(1, 1, 1, features="ib"), "can never run: no node of p with feature ib can hold it"),
    ([node("a", gpus_allocated=8), node("b")], asks(1, 1, 1, required_nodes=("a",)),
     "the only node among a, a, is busy"),
])
def test_reasons_name_the_constraint_that_binds(nodes, job, words):
    assert why_no_nodes(gate(nodes), job).reason.startswith(words)


def test_free_nodes_that_are_kept_for_others_are_named_where_those_that_may_be_used_are_busy():
    """Slurm says Resources then, not ReqNodeNotAvail."""
    kept = Reservation("now", ("b",), NOW - 10, NOW + 7200, users=("carol",))
    hold = why_no_nodes(gate([node("a", gpus_allocated=8), node("b")], reservations=(kept,)), asks(8, 1, 8))
    assert (hold.cause, hold.reason) == (
        "room", "nodes that are free are kept for others: b is reserved (now, now)")


def test_a_limit_is_said_before_nodes_that_are_not_available():
    """The reason from the last look is repeated only where no limit stands before it, as in Slurm."""
    accounts = (Association("proj", ceilings=Ceilings(group=(("gpu", 5.0),))), Association("proj", "alice"))
    judge, reason = gate([node("a", state=NodeState.DRAINED)], associations=accounts), WaitReason.NODES_UNAVAILABLE
    assert judge.bars(asks(6, 1, 6, job_id="1", reason=reason)).cause == "limit"
    assert judge.bars(asks(4, 1, 4, job_id="2", reason=reason)).cause == "held"
    assert judge.bars(asks(6, 1, 6, job_id="3", reason=reason, required_nodes=("a",))).cause == "held"


def test_who_is_held_is_said_to_be_held_though_its_time_has_not_come_either():
    waits = asks(1, 1, 1, reason=WaitReason.HELD, reason_text="JobHeldUser", eligible_s=NOW + 600)
    hold = gate([node("a")]).bars(waits)
    assert hold.reason == "not eligible yet: the scheduler says JobHeldUser"


@pytest.mark.parametrize(("most", "cause"), [(1, "partition"), (None, None)])
def test_a_range_of_nodes_beyond_the_most_of_a_partition_is_refused_but_not_one_beyond_what_there_is(most, cause):
    small = Partition("p", nodes=("a",), most_nodes=most)
    barred = gate([node("a")], partitions=(small,)).bars(asks(4, most_nodes=2))
    assert (barred and barred.cause) == cause


def test_gpus_by_task_are_where_the_tasks_have_cpus():
    """The partition lets its jobs use 16 CPUs of a node, two tasks' worth: Slurm puts two on each node, not 3 and 1."""
    nodes = [node("a", gpus_allocated=4, gpu_indexes_allocated=None), node("b")]
    narrow = Partition("p", nodes=("a", "b"), most_cpus_per_node=16)
    job = asks(4, 2, gpus_per_task=1, tasks=4, cpus=32)
    assert [where(gate(nodes, partitions=known).find(job)) for known in ((narrow,), ())] == ["a:2,b:2", "a:3,b:1"]


def test_tasks_without_gpus_take_cpus_where_their_partition_lets_them():
    """Of 16 CPUs on each node, 32 tasks take all; Slurm puts the rest of them on b, where ours would have been on a."""
    narrow = Partition("p", nodes=("a", "b"), most_cpus_per_node=16)
    tested = gate([node("a"), node("b")], partitions=(narrow,))
    job = asks(0, 2, tasks=32, cpus=32)
    assert where(tested.admit(job, None)) == "a:0,b:0"
    assert isinstance(tested.find(replace(asks(0, cpus=1), job_id="2")), Hold)


def test_a_limit_on_billing_counts_gpus_however_their_nodes_write_the_model():
    partition = Partition("p", ("a",), billing_weights=(("gpu:a100", 3.0),))
    found = gate([node("a", gpu_model="A100")], partitions=(partition,),
                 qos=(Qos("normal", Ceilings(group=(("billing", 10.0),))),)).admit(asks(4), None)
    assert isinstance(found, Hold)
    assert found.reason == "the limit of QOS normal is 10 billing in all: 0 in use, it needs 12"


def test_a_limit_on_billing_counts_all_gpus_of_a_job_on_nodes_that_write_the_model_differently():
    partition = Partition("p", ("a", "b"), billing_weights=(("gpu:a100", 1.0),))
    found = gate([node("a", gpu_model="A100"), node("b", gpu_model="a100")], partitions=(partition,),
                 qos=(Qos("normal", Ceilings(group=(("billing", 10.0),))),)).admit(asks(12, 2, 6), None)
    assert isinstance(found, Hold)
    assert found.reason == "the limit of QOS normal is 10 billing in all: 0 in use, it needs 12"
