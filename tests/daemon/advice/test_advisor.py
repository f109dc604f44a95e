"""Advice on small clusters made by hand: start here, hold for this reason, power that down; and never nonsense."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.advisor import Advice, Advisor
from idlewatt.daemon.config import ConfigError, parse
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.exporters.slurm.reasons import wait_reason
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

NOW, HOUR, GIB = 1_800_000_000.0, 3600.0, 2**30
EASY = "limit-aged+best-fit+easy"


def node(name: str, used: int = 0, **more) -> Node:
    """Return a DGX with ``used`` GPUs taken, and as much of the rest."""
    facts = {"gpus": 8, "cpus": 128, "memory_bytes": 1024 * GIB, "gpus_allocated": used, "cpus_allocated": used * 16,
             "memory_allocated_bytes": used * 128 * GIB}
    return Node(name, **{"partitions": ("gpu",)} | facts | more)


def running(job_id: str, place: str, gpus: int, ends_in: float = HOUR) -> Job:
    return Job(job_id, NOW - HOUR, JobState.RUNNING, "gpu", Request(gpus), start_s=NOW - HOUR, limit_s=HOUR + ends_in,
               allocations=(Allocation(place, gpus, None, gpus * 16, gpus * 128 * GIB),))


def pending(job_id: str, gpus: int = 1, limit_s: float | None = HOUR, waits: float = 60.0,
            request: Request | None = None, **more) -> Job:
    request = request or Request(gpus, cpus=gpus, memory_bytes=gpus * GIB)
    return Job(job_id, NOW - waits, JobState.PENDING, "gpu", request, limit_s=limit_s, **more)


def advise(nodes, *jobs: Job, **options) -> Advice:
    options = {"shadow": ()} | options
    snapshot = SchedulerSnapshot(NOW, tuple(nodes), (Partition("gpu", tuple(node.name for node in nodes)),), jobs)
    return Advisor(AdviceSettings(**{"policy": EASY} | options)).advise(snapshot, NOW)


def only(nodes, *jobs: Job, **options):
    """Return the one recommendation for the one pending job."""
    (recommendation,) = advise(nodes, *jobs, **options).recommendations
    return recommendation


# Start.

def test_a_job_starts_where_it_leaves_least_free():
    found = only([node("dgx1"), node("dgx2", 6), node("dgx3", 2)], pending("9", 2))
    assert (found.action, found.placement.nodes, found.placement.gpus) == ("start", ("dgx2",), (2,))
    assert found.reason == "fits exactly: no GPU of the node stays free"
    assert found.expected_start_s == NOW


def test_what_else_was_weighed_is_told_the_next_best_first():
    found = only([node("dgx1"), node("dgx2", 6), node("dgx3", 2)], pending("9", 2))
    assert [(other.placement.nodes, other.reason) for other in found.alternatives] == [
        (("dgx3",), "leaves 4 GPUs free beside running jobs"),
        (("dgx1",), "opens an empty node and leaves 6 of its GPUs free")]


def test_the_second_job_of_an_empty_node_is_not_told_that_it_opens_it():
    wishes = [pending(name, 2, waits=waits) for name, waits in (("7", 90), ("8", 80), ("9", 70))]
    first, second, third = advise([node("dgx1"), node("dgx2", 5)], *wishes).recommendations
    assert [str(one.placement) for one in (first, second, third)] == ["dgx2:2", "dgx1:2", "dgx1:2"]
    assert [one.reason for one in (first, second, third)] == [
        "leaves 1 GPU free beside running jobs", "opens an empty node and leaves 6 of its GPUs free",
        "leaves 4 GPUs free beside what is advised to start there before it"]
    # One GPU is left on dgx2: that is no other place for either.
    assert [one.alternatives for one in (second, third)] == [(), ()]


def test_a_gang_gets_its_nodes_together():
    found = only([node("dgx1"), node("dgx2"), node("dgx3", 1)], pending("9", request=Request(16, 2, 8)))
    assert (found.action, found.placement.nodes, found.placement.gpus) == ("start", ("dgx1", "dgx2"), (8, 8))
    assert found.reason == "fits now on 2 nodes"
    assert found.alternatives == ()


def test_a_gang_is_told_of_nodes_closer_together_and_what_either_costs():
    nodes = [node("dgx1", leaf="a"), node("dgx2", leaf="b"), node("dgx3", leaf="b")]
    found = only(nodes, pending("9", request=Request(16, 2, 8)))
    (other,) = found.alternatives
    assert (found.placement.nodes, other.placement.nodes) == (("dgx1", "dgx2"), ("dgx2", "dgx3"))
    assert other.reason == "the closest together"
    assert found.communication_cost - other.communication_cost == pytest.approx(0.5)


def test_a_gang_that_is_close_is_told_what_it_would_cost_further_apart():
    nodes = [node("dgx1", leaf="a"), node("dgx2", leaf="b"), node("dgx3", leaf="b")]
    found = only(nodes, pending("9", request=Request(16, 2, 8)), policy="fifo+nearest")
    (other,) = found.alternatives
    assert (found.placement.nodes, other.placement.nodes) == (("dgx2", "dgx3"), ("dgx1", "dgx2"))
    assert other.communication_cost > found.communication_cost


def test_gpus_of_one_island_are_named_and_an_alternative_that_has_none_is_dearer():
    halves = {"islands": ((0, 1, 2, 3), (4, 5, 6, 7)), "gpu_indexes_allocated": (0, 1, 4, 5)}
    nodes = [node("dgx1", 4, **halves), node("dgx2", 3, **halves | {"gpu_indexes_allocated": (0, 1, 2)})]
    first, second = advise(nodes, pending("8", 4, waits=90), pending("9", 4)).recommendations
    assert (str(first.placement), first.gpu_indexes) == ("dgx1:4", ((2, 3, 6, 7),))
    assert (str(second.placement), second.gpu_indexes) == ("dgx2:4", ((4, 5, 6, 7),))
    (other,) = first.alternatives
    assert other.communication_cost == second.communication_cost < first.communication_cost


def test_a_job_like_those_that_were_measured_is_told_what_scattered_gpus_would_cost_it():
    nodes = [node("dgx1"), node("dgx2", 6), node("dgx3", 6)]
    found = only(nodes, pending("9", 4, name="bert-large"))
    other = found.alternatives[-1]
    assert (str(found.placement), str(other.placement)) == ("dgx1:4", "dgx2:2,dgx3:2")
    assert other.reason == "scattered over what is left over; its speed by Pollux's tables (OSDI'21, nodes of " \
        "4 GPUs) for bert"
    assert other.relative_speed == pytest.approx(0.48, abs=0.01)
    assert other.communication_cost > found.communication_cost


@pytest.mark.parametrize(("name", "gpus", "used"), [("secret", 4, 6), ("bert", 1, 7), ("bert", 2, 6), ("bert", 8, 8)])
def test_of_other_jobs_and_where_nothing_is_scattered_no_speed_is_told(name, gpus, used):
    found = only([node("dgx1"), node("dgx2", used)], pending("9", gpus, name=name))
    assert [other.relative_speed for other in found.alternatives if other.relative_speed] == []


def test_a_site_says_itself_what_its_jobs_are_like():
    nodes = [node("dgx1"), node("dgx2", 6), node("dgx3", 6)]
    found = only(nodes, pending("9", 4, name="train"), applications={"train*": "imagenet"})
    assert found.alternatives[-1].relative_speed == pytest.approx(1.0, abs=0.05)
    with pytest.raises(ConfigError, match="'gpt' was not measured; bert, "):
        parse("advice: {applications: {'*': gpt}}")


def test_jobs_that_start_on_one_node_are_given_different_gpus():
    nodes = [node("dgx1", 2, gpu_indexes_allocated=(0, 5))]
    first, second = advise(nodes, pending("8", 2, waits=90), pending("9", 3)).recommendations
    assert (first.gpu_indexes, second.gpu_indexes) == (((1, 2),), ((3, 4, 6),))


def test_every_recommendation_says_who_advises_for_what_and_since_when():
    found = only([node("dgx1")], pending("9"), objective="energy")
    assert (found.policy, found.objective, found.issued_s, found.shadow) == (EASY, "energy", NOW, False)
    assert (found.job_id, found.submit_s, found.partition) == ("9", NOW - 60, "gpu")


# Hold, and what binds.

def test_too_few_free_gpus():
    found = only([node("dgx1", 4), node("dgx2", 6)], running("1", "dgx1", 4), running("2", "dgx2", 6),
                 pending("9", request=Request(16, 2, 8)))
    assert (found.action, found.reason) == ("hold", "needs 16 GPUs, 6 are free in gpu")
    assert found.expected_start_s == NOW + HOUR
    assert found.placement.nodes == ("dgx1", "dgx2")


def test_enough_free_gpus_but_scattered():
    found = only([node("dgx1", 4), node("dgx2", 4)], running("1", "dgx1", 4), running("2", "dgx2", 4),
                 pending("9", request=Request(8, 1, 8)))
    assert found.reason == "8 GPUs are free in gpu but scattered: at most 4 on one node, it needs 8 on one"


def test_no_free_gpu_at_all():
    found = only([node("dgx1", 8)], running("1", "dgx1", 8), pending("9"))
    assert found.reason == "no GPU is free in gpu"


def test_cpus_bind():
    found = only([node("dgx1", 4, cpus_allocated=120)], replace_cpus(running("1", "dgx1", 4), 120),
                 pending("9", request=Request(1, 1, 1, cpus=16)))
    assert found.reason == "GPUs are free in gpu, but not the 16 CPUs beside them that it asks for"
    assert found.expected_start_s == NOW + HOUR


def replace_cpus(job: Job, cpus: int) -> Job:
    (held,) = job.allocations
    return replace(job, allocations=(replace(held, cpus=cpus),))


def test_memory_binds():
    full = node("dgx1", 4, memory_allocated_bytes=1000 * GIB)
    found = only([full], running("1", "dgx1", 4), pending("9", request=Request(1, 1, 1, memory_bytes=100 * GIB)))
    assert found.reason == "GPUs are free in gpu, but not the 100 GiB of memory beside them that it asks for"


@pytest.mark.parametrize("request_", [
    Request(1, gpu_model="h100"), Request(1, features="nvswitch"), Request(1, excluded_nodes=("dgx1",)),
    Request(1, required_nodes=("dgx7",)), Request(1, reservation="maintenance")])
def test_a_constraint_that_no_free_node_meets(request_):
    found = only([node("dgx1", gpu_model="a100", features=("ib",))], pending("9", request=request_))
    assert found.action == "hold"
    assert found.expected_start_s is None
    assert "reservation" in found.reason or found.reason.startswith("can never run")


@pytest.mark.parametrize("request_", [
    Request(1, gpu_model="V100"), Request(1, features="nvlink&ib"), Request(1, features="ib|hbm"),
    Request(1, excluded_nodes=("dgx1",)), Request(1, required_nodes=("dgx2",))])
def test_a_constraint_leads_to_the_node_that_meets_it(request_):
    nodes = [node("dgx1", 7, gpu_model="a100"), node("dgx2", gpu_model="v100", features=("ib", "nvlink"))]
    found = only(nodes, pending("9", request=request_))
    assert (found.action, found.placement.nodes) == ("start", ("dgx2",))


def test_a_job_that_wants_nodes_for_itself_gets_an_empty_one():
    alone_on_it = pending("9", request=Request(2, exclusive=True))
    found = only([node("dgx1", 4), node("dgx2")], running("1", "dgx1", 4), alone_on_it)
    assert (found.action, found.placement.nodes) == ("start", ("dgx2",))
    alone = only([node("dgx1", 4)], running("1", "dgx1", 4), alone_on_it)
    assert (alone.action, alone.expected_start_s) == ("hold", NOW + HOUR)


@pytest.mark.parametrize("code", ["Dependency", "JobHeldUser", "BeginTime", "QOSMaxGRESPerUser", "AssocGrpGRES",
                                  "Licenses"])
def test_a_job_that_the_scheduler_would_not_start_is_held(code):
    found = only([node("dgx1")], pending("9", reason=wait_reason(code), reason_text=code))
    assert (found.action, found.expected_start_s) == ("hold", None)
    assert found.reason == f"not eligible yet: the scheduler says {code}"


def test_a_job_that_may_begin_later_is_held_till_then():
    found = only([node("dgx1")], pending("9", eligible_s=NOW + HOUR))
    assert found.action == "hold"
    assert found.reason == "not eligible yet: the scheduler says BeginTime: its begin time has not come"


@pytest.mark.parametrize("request_", [Request(16, 1, 16), Request(24, 3, 8), Request(8, cpus=10_000)])
def test_a_job_larger_than_the_cluster_never_runs(request_):
    found = only([node("dgx1"), node("dgx2")], pending("9", request=request_))
    assert (found.action, found.expected_start_s) == ("hold", None)
    assert "can hold it" in found.reason or "PartitionNodeLimit" in found.reason


def test_a_job_of_an_unknown_partition_never_runs():
    found = only([node("dgx1")], replace(pending("9"), partition="tpu"))
    assert found.action == "hold"
    assert found.reason == "can never run: the cluster has no such partition"


# Order and backfill.

def test_a_small_job_may_pass_a_large_one_that_it_does_not_delay():
    nodes = [node("dgx1", 8), node("dgx2")]
    large = pending("8", request=Request(16, 2, 8), waits=90_000, limit_s=60)
    small = pending("9", 4, limit_s=HOUR / 2)
    by_job = {row.job_id: row for row in advise(nodes, running("1", "dgx1", 8), large, small).recommendations}
    assert by_job["9"].action == "start"
    assert (by_job["8"].action, by_job["8"].expected_start_s) == ("hold", NOW + HOUR)


def test_a_small_job_that_would_delay_the_first_in_line_waits():
    nodes = [node("dgx1", 8), node("dgx2")]
    large = pending("8", request=Request(16, 2, 8), waits=90_000, limit_s=60)
    small = pending("9", 4, limit_s=10 * HOUR)
    by_job = {row.job_id: row for row in advise(nodes, running("1", "dgx1", 8), large, small).recommendations}
    assert by_job["9"].action == "hold"
    assert by_job["9"].reason == "there is room now, but jobs that come first take it or would be delayed"
    assert by_job["8"].expected_start_s == NOW + HOUR


def test_the_most_urgent_comes_first():
    rows = advise([node("dgx1", 8)], running("1", "dgx1", 8), *(pending(str(number), 8, limit_s=number * HOUR)
                                                                for number in (7, 5, 6))).recommendations
    assert [row.job_id for row in rows] == ["5", "6", "7"]
    assert [row.expected_start_s for row in rows] == [NOW + hours * HOUR for hours in (1, 6, 12)]


# Power.

def test_empty_nodes_beyond_the_spare_one_are_worth_powering_down():
    found = advise([node("dgx1"), node("dgx2"), node("dgx3"), node("dgx4", 1)])
    assert found.power_down == {"dgx2": "no known job needs it", "dgx3": "no known job needs it"}


@pytest.mark.parametrize(("spare", "count"), [(0, 3), (1, 2), (3, 0), (9, 0)])
def test_so_many_spare_nodes_stay_up_as_are_asked_for(spare, count):
    assert len(advise([node("dgx1"), node("dgx2"), node("dgx3")], spare_nodes=spare).power_down) == count


def test_each_partition_keeps_its_own_spare_node():
    nodes = [node("a1", partitions=("a",)), node("a2", partitions=("a",)), node("b1", partitions=("b",))]
    assert len(advise(nodes).power_down) == 1


@pytest.mark.parametrize("facts", [
    {"state": NodeState.DRAINED}, {"state": NodeState.RESERVED}, {"state": NodeState.MAINTENANCE},
    {"state": NodeState.POWERED_DOWN}, {"reservation": "course"}, {"state": NodeState.PLANNED}])
def test_a_node_that_is_set_aside_is_not_ours_to_power_down(facts):
    assert advise([node("dgx1", **facts)], spare_nodes=0).power_down == {}


def test_a_node_that_a_waiting_job_needs_soon_stays_up_and_one_needed_late_says_when():
    soon = advise([node("dgx1", 8), node("dgx2")], running("1", "dgx1", 8, ends_in=600),
                  pending("9", request=Request(16, 2, 8)), spare_nodes=0)
    assert soon.power_down == {}
    late = advise([node("dgx1", 8), node("dgx2")], running("1", "dgx1", 8, ends_in=3 * HOUR),
                  pending("9", request=Request(16, 2, 8)), spare_nodes=0)
    assert late.power_down == {"dgx2": "no known job needs it for 3.0 h"}


def test_a_node_with_a_job_without_gpus_is_not_empty():
    assert advise([node("dgx1", cpus_allocated=4)], spare_nodes=0).power_down == {}


# Odd snapshots.

def test_nothing_is_advised_on_an_empty_cluster():
    assert advise([], pending("9")) == Advice(NOW, snapshot_s=NOW)


def test_nothing_pending_nothing_advised():
    assert advise([node("dgx1", 8)], running("1", "dgx1", 8)).recommendations == ()


def test_a_job_submitted_to_several_partitions_goes_where_there_is_room():
    nodes = [node("a1", 8, partitions=("a",)), node("b1", partitions=("b",))]
    found = only(nodes, replace(pending("9"), partition="a,b"))
    assert (found.action, found.placement.nodes, found.partition) == ("start", ("b1",), "a,b")


def test_a_node_that_is_listed_twice_counts_once():
    found = only([node("dgx1"), node("dgx1")], pending("9", request=Request(16, 2, 8)))
    assert "can hold it" in found.reason or "PartitionNodeLimit" in found.reason


def test_array_tasks_that_share_a_record_share_its_advice():
    found = only([node("dgx1")], pending("9_[1-100]", tasks=100))
    assert (found.job_id, found.action) == ("9_[1-100]", "start")


def test_a_job_without_gpus_gets_advice_too():
    found = only([node("dgx1")], pending("9", request=Request(0, cpus=4)))
    assert found.action in ("start", "hold")


def test_two_submissions_under_one_id_get_advice_each():
    rows = advise([node("dgx1")], pending("9", waits=60), pending("9", waits=120)).recommendations
    assert sorted(row.submit_s for row in rows) == [NOW - 120, NOW - 60]


def test_shadows_follow_and_are_marked():
    rows = advise([node("dgx1")], pending("8"), pending("9"), shadow=("fifo+first-fit", EASY)).recommendations
    assert [(row.policy, row.shadow) for row in rows] == [(EASY, False)] * 2 + [("fifo+first-fit", True)] * 2


@pytest.mark.parametrize("name", ["sjf-oracle", "no-such-rule"])
def test_a_policy_that_cannot_be_had_live_is_refused(name):
    with pytest.raises(ConfigError, match="advice.policy"):
        parse(f"advice: {{policy: {name}}}")
    with pytest.raises(ConfigError, match="advice.shadow"):
        parse(f"advice: {{shadow: [{name}]}}")


# Whatever the snapshot.

@st.composite
def clusters(draw):
    states = st.sampled_from([NodeState.UP, NodeState.UP, NodeState.UP, NodeState.DRAINED, NodeState.DOWN,
                              NodeState.RESERVED, NodeState.DRAINING])
    nodes, jobs = [], []
    for number in range(draw(st.integers(1, 5))):
        name, used = f"dgx{number}", draw(st.sampled_from([0, 0, 2, 4, 8]))
        nodes.append(node(name, used, state=draw(states), gpu_model=draw(st.sampled_from(["a100", "v100"])),
                          features=draw(st.sampled_from([(), ("ib",)])),
                          reservation=draw(st.sampled_from(["", "", "course"]))))
        if used:
            jobs.append(running(f"r{number}", name, used, draw(st.sampled_from([60.0, HOUR, -60.0]))))
    requests = st.builds(
        Request, gpus=st.integers(0, 20), nodes=st.sampled_from([1, 1, 2, 3]),
        gpus_per_node=st.sampled_from([None, None, 1, 4, 8]), cpus=st.sampled_from([0, 1, 16, 200]),
        memory_bytes=st.sampled_from([0, GIB, 2000 * GIB]),
        gpu_model=st.sampled_from(["", "", "a100", "h100"]), features=st.sampled_from(["", "", "ib", "!ib"]),
        required_nodes=st.sampled_from([(), (), ("dgx0",), ("dgx9",)]),
        excluded_nodes=st.sampled_from([(), (), ("dgx1",)]), exclusive=st.booleans())
    reasons = st.sampled_from([WaitReason.NONE, WaitReason.RESOURCES, WaitReason.DEPENDENCY])
    for number in range(draw(st.integers(0, 8))):
        jobs.append(pending(f"p{number}", request=draw(requests), limit_s=draw(st.sampled_from([None, 60.0, HOUR])),
                            waits=draw(st.integers(0, 10_000)), reason=draw(reasons)))
    return nodes, jobs


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_no_advice_overcommits_a_node_or_names_one_that_may_not_be_used(cluster):
    nodes, jobs = cluster
    rows = advise(nodes, *jobs, shadow=("fifo+first-fit",)).recommendations
    waiting = {job.job_id: job for job in jobs if job.state is JobState.PENDING}
    by_policy = Counter((row.policy, row.job_id) for row in rows)
    assert set(by_policy.values()) <= {1}
    assert len(by_policy) == 2 * len(waiting)
    by_name = {node.name: node for node in nodes}
    for policy in {row.policy for row in rows}:
        left = {node.name: node.gpus - node.gpus_allocated for node in nodes}
        for row in rows:
            if row.policy != policy or row.action != "start":
                continue
            wanted = waiting[row.job_id].request
            assert not math.isnan(row.expected_start_s)
            assert sum(row.placement.gpus) >= wanted.gpus
            for name, gpus in zip(row.placement.nodes, row.placement.gpus, strict=True):
                left[name] -= gpus
                assert left[name] >= 0
                place = by_name[name]
                assert place.state is NodeState.UP
                assert not place.reservation
                assert name not in wanted.excluded_nodes
                assert not wanted.gpu_model or place.gpu_model == wanted.gpu_model
                assert {"": True, "ib": "ib" in place.features, "!ib": "ib" not in place.features}[wanted.features]
                assert not (wanted.exclusive and place.gpus_allocated)
