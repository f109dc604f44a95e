from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.demand import need
from idlewatt.daemon.waste.stranded import FreeNodes, PendingQueue, fragmentation
from idlewatt.storage.eligibility import has_features
from idlewatt.storage.records import NodeState, StrandedCause
from idlewatt.storage.waiting import WaitReason

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


def test_scattered_gpus_that_would_do_together_are_fragments(site):
    nodes = [site.node(f"dgx-{number}", gpus_allocated=4) for number in range(2)]
    assert cause(nodes, [site.pending(gpus=8)]) is StrandedCause.GPU_FRAGMENT
    assert cause(nodes, [site.pending(gpus=8, gpus_per_node=None)]) is None


def test_a_gang_strands_the_nodes_that_are_too_few_for_it(site):
    nodes = [site.node("dgx-0"), site.node("dgx-1", gpus_allocated=1)]
    gang = site.pending(gpus=16, nodes=2)
    assert cause(nodes, [gang]) is StrandedCause.INSUFFICIENT
    assert cause([site.node("dgx-0"), site.node("dgx-1")], [gang]) is None


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
