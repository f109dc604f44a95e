from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.stranded import (
    DAY_S,
    MOST_SHAPES_A_DAY,
    DemandMix,
    FreeNodes,
    PendingQueue,
    fragmentation,
    need,
)
from idlewatt.exporters.slurm.reasons import wait_reason
from idlewatt.storage.eligibility import eligible, has_features
from idlewatt.storage.records import NodeState, StrandedCause
from idlewatt.storage.waiting import WaitReason


@pytest.mark.parametrize("reason", ["Dependency", "JobHeldUser", "JobHeldAdmin", "Licenses", "AssocGrpGRES",
                                    "QOSMaxGRESPerUser", "BeginTime", "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit",
                                    "ReqNodeNotAvail"])
def test_a_job_that_freedom_would_not_start_strands_nobody(site, reason):
    assert not eligible(site.pending(reason=wait_reason(reason)), 1000.0)


@pytest.mark.parametrize("reason", ["Resources", "Priority", "None", ""])
def test_a_job_that_waits_for_resources_is_eligible(site, reason):
    assert eligible(site.pending(reason=wait_reason(reason)), 1000.0)


def test_a_job_whose_time_has_not_come_is_not_eligible(site):
    assert not eligible(site.pending(eligible_s=2000.0), 1000.0)
    assert not eligible(site.running(), 1000.0)


@pytest.mark.parametrize(("request_", "gpus", "cpus", "sets", "splits"), [
    ({"gpus": 16, "nodes": 2, "cpus": 256}, 8, 128, 2, False),
    ({"gpus": 8, "gpus_per_node": None, "cpus": 64}, 1, 8, 8, True),
    ({"gpus": 12, "nodes": 2, "gpus_per_node": None}, 6, 0, 2, False),
    ({"gpus": 16, "nodes": 1, "gpus_per_node": 8}, 8, 0, 2, False),
])
def test_the_need_per_node_follows_from_the_request(site, request_, gpus, cpus, sets, splits):
    wanted = need(site.pending(**request_))
    assert (wanted.gpus, wanted.cpus, wanted.sets, wanted.splits) == (gpus, cpus, sets, splits)


def test_a_job_without_gpus_needs_none(site):
    assert need(site.pending(gpus=0, gpus_per_node=None)) is None


def test_a_job_counts_once_however_often_it_is_seen(site):
    mix = DemandMix()
    for _ in range(50):
        mix.observe([site.pending("1", 1), site.pending("2", 8), site.pending("3", 8)], 1000.0)
    assert [(shape.gpus, share) for shape, share in mix.mix("gpu")] == [(8, pytest.approx(2 / 3)),
                                                                       (1, pytest.approx(1 / 3))]
    assert mix.mix("other") == []


def test_demand_is_forgotten_after_seven_days(site):
    mix = DemandMix()
    mix.observe([site.pending("1", 1)], 0.0)
    mix.observe([site.pending("2", 8, submit_s=6 * DAY_S)], 6 * DAY_S)
    assert len(mix.mix("gpu")) == 2
    mix.observe([], 7 * DAY_S)
    assert [shape.gpus for shape, _ in mix.mix("gpu")] == [8]


def test_a_flood_of_odd_requests_is_bounded(site):
    mix = DemandMix()
    mix.observe([site.pending(str(number), 1, cpus=number) for number in range(3 * MOST_SHAPES_A_DAY)], 1000.0)
    assert sum(len(day) for day in mix._days.values()) == MOST_SHAPES_A_DAY
    assert sum(share for _, share in mix.mix("gpu")) == pytest.approx(1.0)


NOW = 1000.0


def cause(nodes, jobs, name="dgx-0"):
    return PendingQueue(nodes, jobs, NOW).cause(name)


def test_with_nobody_waiting_nothing_is_stranded(site):
    assert cause([site.node()], []) is None
    assert cause([site.node()], [site.pending(reason=WaitReason.DEPENDENCY)]) is None
    assert cause([site.node()], [site.pending(partition="other")]) is None


def test_a_gpu_that_a_waiting_job_fits_is_not_stranded(site):
    assert cause([site.node(gpus_allocated=7)], [site.pending(gpus=8), site.pending("2", 1)]) is None


@pytest.mark.parametrize(("taken", "request_", "expected"), [
    ({"cpus_allocated": 250, "gpus_allocated": 4}, {"gpus": 1, "cpus": 16}, StrandedCause.CPU),
    ({"memory_allocated_bytes": 1020 * 2**30, "gpus_allocated": 4}, {"gpus": 1, "memory_bytes": 64 * 2**30},
     StrandedCause.MEMORY),
    ({"gpus_allocated": 4}, {"gpus": 8}, StrandedCause.INSUFFICIENT),
    ({}, {"gpus": 1, "gpu_model": "h100"}, StrandedCause.CONSTRAINT),
    ({}, {"gpus": 1, "features": "nvswitch"}, StrandedCause.CONSTRAINT),
    ({}, {"gpus": 1, "reservation": "class"}, StrandedCause.CONSTRAINT),
    ({}, {"gpus": 1, "excluded_nodes": ("dgx-0",)}, StrandedCause.CONSTRAINT),
    ({"gpus_allocated": 1}, {"gpus": 1, "exclusive": True}, StrandedCause.CONSTRAINT),
    ({"reservation": "class"}, {"gpus": 1}, StrandedCause.CONSTRAINT),
])
def test_the_cause_is_the_first_constraint_that_binds(site, taken, request_, expected):
    assert cause([site.node(**taken)], [site.pending(**request_)]) is expected


def test_a_node_that_serves_one_user_is_stranded_by_the_constraints_of_others(site):
    nodes, waiting = [site.node(owner="zoe")], site.pending()
    assert cause(nodes, [replace(waiting, user="ann")]) is StrandedCause.CONSTRAINT
    assert cause(nodes, [replace(waiting, user="ann"), replace(waiting, user="zoe", job_id="8")]) is None


def test_users_need_the_same_but_for_those_who_have_nodes(site):
    jobs = [replace(site.pending(), user=user) for user in ("ann", "bob", "zoe")]
    assert len({need(job) for job in jobs}) == 1
    assert [need(job, {"zoe"}).user for job in jobs] == ["", "", "zoe"]


def test_scattered_gpus_that_would_do_together_are_fragments(site):
    nodes = [site.node(f"dgx-{number}", gpus_allocated=4) for number in range(2)]
    assert cause(nodes, [site.pending(gpus=8)]) is StrandedCause.GPU_FRAGMENT
    assert cause(nodes, [site.pending(gpus=8, gpus_per_node=None)]) is None


def test_a_gang_strands_the_nodes_that_are_too_few_for_it(site):
    nodes = [site.node("dgx-0"), site.node("dgx-1", gpus_allocated=1)]
    gang = site.pending(gpus=16, nodes=2)
    assert cause(nodes, [gang]) is StrandedCause.INSUFFICIENT
    assert cause([site.node("dgx-0"), site.node("dgx-1")], [gang]) is None


@pytest.mark.parametrize("request_", [{"gpus": 4}, {"gpus": 4, "gpus_per_node": None}, {"gpus": 16, "nodes": 2},
                                      {"gpus": 16, "gpus_per_node": None}])
@pytest.mark.parametrize("taken", [{"gpus_allocated": 8}, {"state": NodeState.DOWN}, {"state": NodeState.DRAINING}])
def test_nobody_uses_other_nodes_while_one_that_is_named_for_the_job_is_not_free(site, request_, taken):
    named, *others = (site.node(f"dgx-{number}", **(taken if number == 0 else {})) for number in range(4))
    job = site.pending(required_nodes=("dgx-0",), **request_)
    assert [cause([named, *others], [job], node.name) for node in others] == [StrandedCause.CONSTRAINT] * 3


@pytest.mark.parametrize(("request_", "expected"), [
    ({"gpus": 4, "gpus_per_node": None}, (None, StrandedCause.CONSTRAINT)),
    ({"gpus": 8, "gpus_per_node": None}, (StrandedCause.GPU_FRAGMENT, StrandedCause.CONSTRAINT)),
    ({"gpus": 10, "gpus_per_node": None}, (None, None)),
    ({"gpus": 8, "nodes": 2}, (None, None)),
    ({"gpus": 16, "nodes": 2}, (StrandedCause.GPU_FRAGMENT, StrandedCause.GPU_FRAGMENT)),
])
def test_a_job_uses_others_beside_the_node_that_is_named_for_it_only_where_it_takes_more_nodes(site, request_,
                                                                                               expected):
    nodes = [site.node("dgx-0", gpus_allocated=4), *(site.node(f"dgx-{number}") for number in range(1, 4))]
    job = site.pending(required_nodes=("dgx-0",), **request_)
    assert (cause(nodes, [job]), cause(nodes, [job], "dgx-1")) == expected


def test_of_more_nodes_than_a_job_takes_any_that_is_named_will_do(site):
    nodes = [site.node("dgx-0", gpus_allocated=8), site.node("dgx-1"), site.node("dgx-2")]
    job = site.pending(gpus=4, gpus_per_node=None, required_nodes=("dgx-0", "dgx-1"))
    assert (cause(nodes, [job], "dgx-1"), cause(nodes, [job], "dgx-2")) == (None, StrandedCause.CONSTRAINT)


def test_what_one_job_may_use_is_not_taken_for_that_of_another_that_takes_more_nodes(site):
    nodes = [site.node(f"dgx-{number}") for number in range(2)]
    alone, gang = site.pending("1", 8, required_nodes=("dgx-0",)), site.pending("2", 16, nodes=2,
                                                                                required_nodes=("dgx-0",))
    assert cause(nodes, [alone, gang], "dgx-1") is cause(nodes, [gang, alone], "dgx-1") is None


@pytest.mark.parametrize(("partitions", "size", "expected"), [
    (("p1", "p2"), 2, StrandedCause.INSUFFICIENT), (("p1", "p2"), 1, None), (("p1", "p1"), 2, None)])
def test_a_job_for_several_partitions_has_to_fit_into_one_of_them(site, partitions, size, expected):
    nodes = [site.node(f"dgx-{number}", partitions=(name,)) for number, name in enumerate(partitions)]
    queue = PendingQueue(nodes, [site.pending(gpus=8 * size, nodes=size, partition="p1,p2")], NOW)
    assert [queue.cause(node.name) for node in nodes] == [expected, expected]


def test_places_that_are_close_enough_only_across_partitions_strand_by_the_topology(site):
    nodes = [site.node(f"dgx-{number}", partitions=("p1" if number < 2 else "p2",), leaf=f"clique-{number % 2}")
             for number in range(4)]
    job = site.pending(gpus=16, nodes=2, partition="p1,p2")
    within = replace(job, request=replace(job.request, details=replace(job.request.details, switches=1)))
    assert cause(nodes, [job]) is None
    assert cause(nodes, [within]) is StrandedCause.TOPOLOGY
    assert cause([replace(node, partitions=("p1", "p2")) for node in nodes], [within]) is None


def test_gpus_in_domains_that_are_too_small_for_who_must_stay_within_one_are_stranded_by_the_topology(site):
    nodes = [site.node(f"dgx-{number}", leaf=f"clique-{number // 2}") for number in range(5)]

    def gang(switches, until_s=None, size=3):
        job = site.pending(gpus=8 * size, nodes=size)
        details = replace(job.request.details, switches=switches, switches_until_s=until_s)
        return replace(job, request=replace(job.request, details=details))

    assert cause(nodes, [gang(0)]) is None
    assert cause(nodes, [gang(1)]) is StrandedCause.TOPOLOGY
    assert cause(nodes, [gang(2)]) is None
    assert cause(nodes, [gang(2)], "dgx-4") is None  # beside two others it makes three
    assert cause(nodes, [gang(2, size=4)], "dgx-4") is StrandedCause.TOPOLOGY
    assert cause(nodes, [gang(1, NOW + 60)]) is StrandedCause.TOPOLOGY
    assert cause(nodes, [gang(1, NOW)]) is None
    assert cause(nodes, [gang(1, size=2)], "dgx-4") is StrandedCause.TOPOLOGY
    assert cause(nodes, [gang(1, size=6)]) is StrandedCause.INSUFFICIENT


def test_nodes_that_take_no_new_jobs_strand_nothing(site):
    for state in NodeState:
        if not state.schedulable:
            assert cause([site.node(state=state)], [site.pending(gpus=9)]) is None or state is NodeState.RESERVED


def test_unknown_sizes_are_no_constraint(site):
    assert cause([site.node(cpus=0, memory_bytes=0)], [site.pending(cpus=999, memory_bytes=2**50)]) is None


@pytest.mark.parametrize(("expression", "met"), [
    ("", True), ("a100", True), ("a100&nvswitch", True), ("a100&h100", False), ("h100|a100", True),
    ("[rack1|rack2]", False), ("a100*2", True), ("!h100", True), ("!a100", False), ("(a100|h100)", True),
    ("(a100|h100)&ib", False), ("(a100|h100)&nvswitch", True), ("ib|(a100&!h100)", True), ("((", True), ("a100)", True),
    ("(" * 9999 + "a100", False)])
def test_feature_expressions_are_read_as_slurm_writes_them(expression, met):
    assert has_features(("a100", "nvswitch"), expression) is met


nodes_taken = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 256)), min_size=1, max_size=5)
requests = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3), st.integers(0, 128)), max_size=5)


@given(nodes_taken, requests)
def test_a_free_gpu_is_stranded_exactly_when_no_placeable_job_fits_its_node(site, taken, wanted):
    nodes = [site.node(f"dgx-{number}", gpus_allocated=gpus, cpus_allocated=cpus)
             for number, (gpus, cpus) in enumerate(taken)]
    jobs = [site.pending(str(number), gpus * count, nodes=count, cpus=cpus * count)
            for number, (gpus, count, cpus) in enumerate(wanted)]
    # Slurm gives every job at least one CPU.
    feasible = [{node.name for node in nodes
                 if 8 - node.gpus_allocated >= gpus and 256 - node.cpus_allocated >= max(1, cpus)}
                for gpus, _, cpus in wanted]
    usable = set().union(*(names for names, (_, count, _) in zip(feasible, wanted, strict=True)
                           if len(names) >= count))
    queue = PendingQueue(nodes, jobs, NOW)
    for node in nodes:
        if node.gpus_allocated < 8:
            assert (queue.cause(node.name) is not None) == (bool(jobs) and node.name not in usable)


def test_the_fragmentation_index_is_the_share_that_usual_demand_cannot_use(site):
    free = FreeNodes([site.node("dgx-0", gpus_allocated=4), site.node("dgx-1")])
    mix = [(need(site.pending(gpus=8)), 0.5), (need(site.pending(gpus=1)), 0.5)]
    assert fragmentation(free, "gpu", mix) == pytest.approx(0.5 * 4 / 12)
    assert fragmentation(free, "gpu", []) is None
    assert fragmentation(free, "other", mix) is None


def test_stranded_gpus_are_counted_by_cause_and_their_watts_are_waste(site):
    nodes = [site.node("dgx-0", gpus_allocated=7, gpus=8)]
    jobs = [site.running(indexes=range(7)), site.pending(gpus=8)]
    found = site.judge(nodes, jobs, [site.gpu(index) for index in range(8)])
    assert found.stranded["gpu"][StrandedCause.INSUFFICIENT] == 1
    assert found.totals["gpu"]["stranded"] == 51.0
    assert found.node_gpus["dgx-0"] == {"allocated": 7, "idle": 0, "stranded": 1, "planned": 0, "unmeasured": 0,
                                        "unavailable": 0, "outside_scheduler": 0}
