"""Queues that lend to one another: what a job may still use, and whom the scheduler preempts to give it back."""

import pytest

from idlewatt.daemon.advice.feasible_starts import feasible_starts, why_held
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.storage.details import Details
from idlewatt.storage.quotas import Flavored, Queue, Quota
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import SchedulerRules
from idlewatt.storage.waiting import WaitReason

NOW = 1_800_000_000.0


def job(name, queue, gpus=4, on="", **more):
    request = Request(gpus, gpus_per_node=gpus, cpus=gpus, details=Details(queue=queue, **more.pop("details", {})))
    held = {"state": JobState.PENDING, "reason": WaitReason.QUOTA} if not on else {
        "state": JobState.RUNNING, "start_s": NOW - 60.0, "allocations": (Allocation(on, gpus, None, gpus),)}
    return Job(**{"job_id": name, "submit_s": NOW - 90.0, "partition": queue, "request": request, "user": name,
                  "owner": "Job/x", **held} | more)


def queue(name, nominal=4.0, used=0.0, cohort="all", reclaims="Any", nested=False, **limits):
    return Queue(name, cohort, (Quota("gpu", "a100", nominal, used, **limits),), reclaims, nested)


def played(queues, *jobs, nodes=2, slices=()):
    taken = {f"n{number}": sum(part.gpus for one in jobs for part in one.allocations if part.node == f"n{number}")
             for number in range(nodes)}
    names = tuple(one.name for one in queues)
    servers = tuple(Node(name, names, 4, cpus=64, gpus_allocated=held, cpus_allocated=held, slices=slices)
                    for name, held in taken.items())
    flavors = (Flavored("a100", frozenset(taken)),)
    snapshot = SchedulerSnapshot(NOW, servers, tuple(Partition(name, tuple(taken)) for name in names), jobs,
                                 SchedulerRules(queues=tuple(queues), flavors=flavors))
    state = ClusterState.from_snapshot(snapshot, NOW)
    found = feasible_starts(state, named("fifo"))
    starts = {state.records[row].job_id: found.reasons.get(row, "") for row in found.starts}
    holds = {one.job_id: why_held(found, row, one) for row, one in enumerate(state.records)
             if one.state is JobState.PENDING and row not in found.starts}
    return starts, holds


def test_a_queue_borrows_what_its_cohort_does_not_use():
    starts, _ = played([queue("a"), queue("b")], job("1", "a", on="n0"), job("2", "a"))
    assert starts == {"2": ""}


@pytest.mark.parametrize(("queues", "reason"), [
    ([queue("a", used=4.0, borrowing=0.0), queue("b")], "the quota of queue a is 4 GPUs (a100): 4 in use, it needs 4"),
    ([queue("a", used=4.0), queue("b", lending=0.0)], "cohort all lends 0 more"),
    ([queue("a", used=4.0, cohort=""), queue("b", cohort="")], "the quota of queue a is 4 GPUs"),
], ids=["it may not borrow", "nobody lends", "no cohort"])
def test_a_quota_that_is_used_up_holds_a_job_beside_free_gpus(queues, reason):
    starts, holds = played(queues, job("1", "a", on="n0"), job("2", "a"))
    assert not starts
    assert (holds["2"].cause, reason in holds["2"].reason) == ("limit", True)


def test_a_quota_of_no_less_than_its_nodes_have_is_no_limit_but_they_are():
    starts, holds = played([queue("a", nominal=8.0, used=8.0, cohort="")], job("1", "a", on="n0"),
                           job("2", "a", on="n1"), job("3", "a", reason=WaitReason.RESOURCES))
    assert not starts
    assert holds["3"].cause == "room"


def test_what_starts_uses_up_the_quota_of_the_next():
    starts, holds = played([queue("a", cohort="")], job("1", "a"), job("2", "a"))
    assert set(starts) == {"1"}
    assert holds["2"].cause in ("limit", "ahead")


def test_what_was_borrowed_is_taken_back_by_preempting_whoever_borrowed_it():
    starts, _ = played([queue("a"), queue("b", used=8.0)], job("old", "b", on="n0", start_s=NOW - 900.0),
                       job("young", "b", on="n1"), job("mine", "a"))
    assert starts["mine"].startswith("starts by preempting young of young (4 GPUs) on n1")
    assert "borrowed of queue a" in starts["mine"]


@pytest.mark.parametrize("queues", [
    [queue("a", reclaims="Never"), queue("b", used=8.0)], [queue("a", nominal=2.0), queue("b", 6.0, used=8.0)],
    [queue("a", reclaims="LowerPriority"), queue("b", used=8.0)]], ids=["never", "beyond its own", "same priority"])
def test_nobody_is_preempted_whom_the_queue_may_not_preempt(queues):
    starts, holds = played(queues, job("1", "b", on="n0", priority=5.0), job("2", "b", on="n1", priority=5.0),
                           job("mine", "a", priority=5.0))
    assert not starts
    assert holds["mine"].cause == "limit"


def test_what_a_cohort_with_more_above_it_lends_is_unknown():
    starts, holds = played([queue("a", used=4.0, nested=True), queue("b")], job("1", "a", on="n0"), job("2", "a"))
    assert not starts
    assert holds["2"].cause == "unknown"


def test_rules_that_nobody_can_judge_make_advice_unknown():
    _, holds = played([], job("1", "a", details={"unknown": ("spread",)}, reason=WaitReason.NONE))
    assert (holds["1"].cause, "spread" in holds["1"].reason) == ("unknown", True)


@pytest.mark.parametrize(("free", "starting"), [(2, {"1"}), (1, set())])
def test_parts_of_gpus_are_given_by_nodes_that_have_them(free, starting):
    wants = job("1", "a", 0, details={"slices": (("nvidia.com/mig-1g.5gb", 2),)}, reason=WaitReason.NONE)
    wants = Job(**{name: getattr(wants, name) for name in wants.__slots__} | {"request": Request(
        0, cpus=1, details=wants.request.details)})
    starts, holds = played([queue("a", cohort="")], wants, slices=(("nvidia.com/mig-1g.5gb", 7, 7 - free),))
    assert set(starts) == starting
    assert starting or holds["1"].cause in ("room", "never", "nodes")
