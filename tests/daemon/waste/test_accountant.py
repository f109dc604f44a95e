from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.view import _gpu_rows, _host_row
from idlewatt.daemon.waste import NO_PARTITION
from idlewatt.daemon.web.page import bars
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.records import NodeState, StrandedCause

activities = st.one_of(st.just(0.0), st.floats(0, 1), st.just(1.0), st.none())


@st.composite
def clusters(draw, site):
    """1 to 6 nodes of 8 GPUs; GPUs without power, activity of every kind, walls below and above the GPUs."""
    nodes, jobs, gpus, walls, expected = [], [], [], [], 0.0
    for number in range(draw(st.integers(1, 6))):
        name = f"dgx-{number}"
        state = draw(st.sampled_from([NodeState.UP] * 5 + [NodeState.PLANNED, NodeState.DOWN, NodeState.DRAINING,
                                                           NodeState.POWERED_DOWN]))
        held = draw(st.lists(st.integers(0, 7), unique=True))
        nodes.append(site.node(name, state=state, gpus_allocated=len(held), partitions=draw(st.sampled_from(
            [("gpu",), ("gpu", "debug"), ()]))))
        if held:
            partition = draw(st.sampled_from(["gpu", "debug"]))
            jobs.append(site.running(str(number), name, held, partition=partition))
        total = 0.0
        for index in range(8):
            watts = draw(st.one_of(st.none(), *[st.floats(0, 500)] * 3))
            total += watts or 0.0
            gpus.append(site.gpu(index, name, watts=watts, u=draw(activities)))
        metered = total + draw(st.floats(-300, 2500))
        walls.append(site.wall(metered, name))
        expected += max(metered, total)
    jobs += [site.pending(str(100 + number), draw(st.sampled_from([1, 4, 8]))) for number in range(draw(
        st.integers(0, 2)))]
    return {"nodes": nodes, "jobs": jobs, "gpus": gpus, "walls": walls}, expected


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_t42_the_classes_add_up_to_the_wall(site, data):
    cluster, expected = data.draw(clusters(site))
    found = site.judge(**cluster)
    total = sum(sum(watts.values()) for watts in found.totals.values())
    assert total == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert found.unaccounted_watts == pytest.approx(0.0, abs=1e-6)
    assert all(watts >= 0.0 for classes in found.totals.values() for watts in classes.values())
    assert found.wasted_watts <= expected + 1e-6


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_gpu_has_one_state_and_its_shares_are_its_watts(site, data):
    cluster, _ = data.draw(clusters(site))
    found = site.judge(**cluster)
    assert len(found.gpu_verdicts) == len(cluster["gpus"])
    assert sum(sum(states.values()) for states in found.gpus.values()) == len(found.gpu_verdicts)
    assert sum(sum(states.values()) for states in found.node_gpus.values()) == len(found.gpu_verdicts)
    for verdict in found.gpu_verdicts:
        shares = dict(verdict.shares())
        assert sum(shares.values()) == pytest.approx(verdict.watts or 0.0)
        assert sum(watts for reason, watts in shares.items() if reason in WASTED) == pytest.approx(
            verdict.wasted_watts)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_t45_what_is_unmeasured_is_never_wasted(site, data):
    cluster, _ = data.draw(clusters(site))
    for verdict in site.judge(**cluster).gpu_verdicts:
        if verdict.watts is None or (verdict.allocated and verdict.activity is None):
            assert verdict.wasted_watts == 0.0
            assert verdict.state in (PowerClass.UNMEASURED, PowerClass.UNAVAILABLE)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_copies_of_a_series_change_nothing(site, data):
    cluster, _ = data.draw(clusters(site))
    doubled = cluster | {"gpus": [copy for gpu in cluster["gpus"] for copy in (gpu, replace(gpu))]}
    assert site.judge(**doubled) == site.judge(**cluster)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_t43_raising_the_activity_of_a_gpu_never_raises_the_waste_of_the_cluster(site, data):
    cluster, _ = data.draw(clusters(site))
    position = data.draw(st.integers(0, len(cluster["gpus"]) - 1))
    before = cluster["gpus"][position]
    if before.activity is None:
        return
    higher = data.draw(st.floats(before.activity, 1))
    gpus = list(cluster["gpus"])
    gpus[position] = replace(before, activity=higher, resident=higher)
    found = site.judge(**cluster | {"gpus": gpus})
    hung = any(verdict.uuid == before.uuid and verdict.state is PowerClass.ALLOCATED_HUNG
               for verdict in found.gpu_verdicts)
    assert hung or found.wasted_watts <= site.judge(**cluster).wasted_watts + 1e-6


def test_t45_a_free_gpu_needs_no_activity(site):
    found = site.judge([site.node()], gpus=[site.gpu(u=None)])
    assert found.gpu_verdicts[0].state is PowerClass.IDLE_UNALLOCATED


@pytest.mark.parametrize("state", [NodeState.POWERED_DOWN, NodeState.DOWN, NodeState.DRAINED, NodeState.MAINTENANCE,
                                   NodeState.DRAINING])
def test_t46_a_node_out_of_scheduling_wastes_nothing(site, state):
    found = site.judge([site.node(state=state)], gpus=[site.gpu()], walls=[site.wall(30.0)])
    assert found.wasted_watts == 0.0
    assert found.totals["gpu"][PowerClass.UNAVAILABLE] == 51.0
    assert found.node_gpus["dgx-0"]["unavailable"] == 8


def test_a_draining_node_is_judged_while_jobs_run_on_it(site):
    found = site.judge([site.node(state=NodeState.DRAINING, gpus=2, gpus_allocated=1)], [site.running()],
                       [site.gpu(0), site.gpu(1)])
    assert [verdict.state for verdict in found.gpu_verdicts] == [PowerClass.ALLOCATED_IDLE, PowerClass.UNAVAILABLE]


def test_the_host_of_an_empty_node_is_waste_and_one_allocated_gpu_makes_it_active(site):
    empty = site.judge([site.node(gpus=1)], gpus=[site.gpu()], walls=[site.wall(551.0)])
    assert empty.totals["gpu"][PowerClass.NODE_OVERHEAD_EMPTY] == 500.0
    taken = site.judge([site.node(gpus=1)], [site.running()], [site.gpu()], [site.wall(551.0)])
    assert taken.totals["gpu"][PowerClass.NODE_OVERHEAD_EMPTY] == 0.0
    assert taken.totals["gpu"][PowerClass.HOST_ACTIVE] == 500.0


def test_spreading_jobs_over_nodes_changes_nothing_of_what_hosts_draw_for_free_gpus(site):
    nodes = [site.node(f"dgx-{number}", gpus=4) for number in range(2)]
    gpus = [site.gpu(index, node.name) for node in nodes for index in range(4)]
    walls = [site.wall(4 * 51.0 + 800.0, node.name) for node in nodes]
    packed = site.judge(nodes, [site.running(indexes=(0, 1))], gpus, walls)
    spread = site.judge(nodes, [site.running("1"), site.running("2", "dgx-1")], gpus, walls)
    assert packed.unused_overhead_watts == {"gpu": 400.0}
    assert spread.unused_overhead_watts == {"gpu": 1200.0}
    for found in (packed, spread):
        watts = found.totals["gpu"]
        assert watts[PowerClass.NODE_OVERHEAD_EMPTY] + found.unused_overhead_watts["gpu"] == 1200.0
        assert found.unused_overhead_watts["gpu"] <= watts[PowerClass.HOST_ACTIVE]
        assert sum(watts.values()) == pytest.approx(found.wall_watts)


def told(found):
    """Return what the headline calls wasted or unused."""
    rows = [row for gpu in found.gpu_verdicts for row in _gpu_rows(gpu, "")] + [_host_row(node) for node in found.nodes]
    return bars(rows)[0].balance


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_spreading_the_same_jobs_over_more_nodes_never_lowers_what_is_told_as_wasted_or_unused(site, data):
    """Nodes are alike; a host that is in use draws no less than an empty one, and more the more GPUs are in use."""
    count, size = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 8))
    empty, busy, each = (data.draw(st.floats(0, most)) for most in (2000, 500, 100))
    jobs = data.draw(st.lists(st.tuples(st.floats(51, 400), st.just(0.0) | st.floats(0, 1)), max_size=count * size))
    slots = [(node, index) for node in range(count) for index in range(size)]
    packed, spread = slots[:len(jobs)], sorted(slots, key=lambda slot: slot[::-1])[:len(jobs)]
    anyhow = data.draw(st.permutations(slots))[:len(jobs)]

    def assessed(places):
        gpus = {(f"dgx-{node}", index): site.gpu(index, f"dgx-{node}") for node, index in slots}
        running = []
        for number, ((node, index), (watts, u)) in enumerate(zip(places, jobs, strict=True)):
            gpus[f"dgx-{node}", index] = site.gpu(index, f"dgx-{node}", watts=watts, u=u)
            running.append(site.running(str(number), f"dgx-{node}", (index,)))
        nodes, walls = [], []
        for node in range(count):
            held = sum(one == node for one, _ in places)
            own = sum(gpu.power_watts for (name, _), gpu in gpus.items() if name == f"dgx-{node}")
            nodes.append(site.node(f"dgx-{node}", gpus=size, gpus_allocated=held))
            walls.append(site.wall(own + empty + (busy + each * held if held else 0.0), f"dgx-{node}"))
        return site.judge(nodes, running, gpus.values(), walls)

    first, *others = (assessed(places) for places in (packed, spread, anyhow))
    for found in others:
        assert told(found).reported >= told(first).reported - 1e-6
        assert sum(sum(watts.values()) for watts in found.totals.values()) == pytest.approx(found.wall_watts)
        assert told(found).unused <= told(found).watts[PowerClass.HOST_ACTIVE] + 1e-6


def test_the_unused_part_of_a_busy_node_without_a_meter_is_unknown_and_not_zero(site):
    nodes = [site.node(f"dgx-{number}", gpus=2) for number in range(2)]
    gpus = [gpu for node in nodes for gpu in (site.gpu(0, node.name, u=0.9, watts=300.0), site.gpu(1, node.name))]
    jobs = [site.running("1"), site.running("2", "dgx-1")]
    dark = site.judge(nodes, jobs, gpus)
    assert (dark.unused_overhead_watts, dark.unmeasured_busy_hosts) == ({"gpu": None}, {"gpu": 2})
    assert told(dark).unused_text == "not measured"
    half = site.judge(nodes, jobs, gpus, [site.wall(751.0)])
    assert (half.unused_overhead_watts, half.unmeasured_busy_hosts) == ({"gpu": 200.0}, {"gpu": 1})
    assert told(half).unused_text == "at least 200 W"
    full = site.judge(nodes[:1], [site.running(indexes=(0, 1))], gpus[:2])
    assert (full.unused_overhead_watts, full.unmeasured_busy_hosts) == ({"gpu": 0.0}, {"gpu": 0})


def test_gpus_that_work_past_the_scheduler_or_are_drained_are_no_unused_part(site):
    draining = site.judge([site.node(state=NodeState.DRAINING, gpus=2, gpus_allocated=1)], [site.running()],
                          [site.gpu(0), site.gpu(1)], [site.wall(502.0)])
    assert draining.unused_overhead_watts == {"gpu": 0.0}
    outside = site.judge([site.node(gpus=2)], gpus=[site.gpu(0, u=0.9, watts=300.0), site.gpu(1)],
                         walls=[site.wall(751.0)])
    assert outside.unused_overhead_watts == {"gpu": 200.0}


def test_a_server_without_gpus_is_empty_only_when_its_cpus_are(site):
    nodes = [site.node("cpu-0", gpus=0, cpus_allocated=1), site.node("cpu-1", gpus=0)]
    found = site.judge(nodes, walls=[site.wall(300.0, "cpu-0"), site.wall(200.0, "cpu-1")])
    assert found.totals["gpu"][PowerClass.HOST_ACTIVE] == 300.0
    assert found.totals["gpu"][PowerClass.NODE_OVERHEAD_EMPTY] == 200.0


def test_an_allocation_counts_without_any_process_on_the_gpu(site):
    found = site.judge([site.node(gpus_allocated=1)], [site.running()], [site.gpu(memory_used_bytes=0.0)])
    verdict = found.gpu_verdicts[0]
    assert (verdict.state, verdict.user, verdict.account, verdict.job_id) == (
        PowerClass.ALLOCATED_IDLE, "ada", "lab", "1")


def test_gpus_known_to_the_scheduler_only_are_unmeasured_one_by_one(site):
    found = site.judge([site.node()], gpus=[site.gpu(3)])
    assert found.unmeasured_gpus == {"gpu": 7}
    assert [verdict.index for verdict in found.gpu_verdicts] == list(range(8))


def test_a_node_the_scheduler_does_not_know_is_nobodys_waste(site):
    found = site.judge([], gpus=[site.gpu()], walls=[site.wall(600.0)])
    assert found.totals[NO_PARTITION][PowerClass.UNMEASURED] == 600.0
    assert found.wasted_watts == 0.0


def test_an_answer_of_the_scheduler_that_is_too_old_accuses_nobody(site):
    accountant = site.accountant()
    old = site.snapshot([site.node()], time_s=0.0)
    found = accountant.assess(old, site.telemetry((site.gpu(),), ()), 1000.0)
    assert found.wasted_watts == 0.0
    assert sum(found.unmeasured_gpus.values()) == 1


def test_all_states_of_every_partition_are_there_even_when_empty(site):
    found = site.judge([site.node(gpus=0)])
    assert set(found.gpus["gpu"].values()) == {0}
    assert set(found.gpus["gpu"]) == set(PowerClass) - {PowerClass.HOST_ACTIVE, PowerClass.NODE_OVERHEAD_EMPTY}
    assert set(found.stranded["gpu"]) == set(StrandedCause)


def test_gpus_of_a_shared_node_are_booked_to_the_partition_that_holds_them(site):
    shared = site.node(partitions=("gpu", "short"), gpus=2, gpus_allocated=1)
    found = site.judge([shared], [site.running(partition="short")], [site.gpu(0), site.gpu(1)],
                       [site.wall(500.0)])
    assert found.totals["short"][PowerClass.ALLOCATED_IDLE] == 51.0
    assert found.totals["gpu"][PowerClass.IDLE_UNALLOCATED] == 51.0
    assert found.totals["short"][PowerClass.HOST_ACTIVE] == 398.0


def test_t53_pue_multiplies_nothing(site):
    cluster = ([site.node()], [], [site.gpu()], [site.wall(600.0)])
    assert site.judge(*cluster, pue=1.58) == site.judge(*cluster)


def test_a_job_in_its_grace_period_is_not_idle_yet(site):
    accountant = site.accountant(grace_batch=900, grace_interactive=3600, interactive_partitions=("debug",), window=0)
    node, states = site.node(gpus=2, gpus_allocated=2), []
    jobs = [site.running("1", indexes=[0]), site.running("2", indexes=[1], partition="debug")]
    for now in (890.0, 910.0, 3590.0, 3610.0):
        gpus = tuple(site.gpu(index, time_s=now) for index in (0, 1))
        found = accountant.assess(site.snapshot([node], jobs, time_s=now), site.telemetry(gpus, ()), now)
        states.append([verdict.state is PowerClass.ALLOCATED_IDLE for verdict in found.gpu_verdicts])
    assert states == [[False, False], [True, False], [True, False], [True, True]]


def test_idle_needs_the_whole_window_and_a_new_job_gets_its_own(site):
    accountant = site.accountant(window=60)
    node, idle = site.node(gpus=1, gpus_allocated=1), []
    for now in range(1000, 1300, 15):
        job = site.running("1" if now < 1150 else "2")
        snapshot = site.snapshot([node], [job], time_s=now)
        found = accountant.assess(snapshot, site.telemetry((site.gpu(time_s=float(now)),), ()), float(now))
        idle.append(found.gpu_verdicts[0].state is PowerClass.ALLOCATED_IDLE)
    assert idle == [False] * 4 + [True] * 6 + [False] * 4 + [True] * 6


anything = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -1.0, 1e300, 9.223372036854776e+18]))
numbers = st.one_of(st.integers(-2, 9), st.sampled_from([2**31, 2**64, -2**63]))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_read_the_answer_is_finite_and_adds_up(site, data):
    def node(name):
        taken = data.draw(st.tuples(numbers, numbers, numbers, numbers, numbers, numbers))
        return site.node(name, state=data.draw(st.sampled_from(list(NodeState))), gpus=taken[0],
                         gpus_allocated=taken[1], cpus=taken[2], cpus_allocated=taken[3], memory_bytes=taken[4],
                         memory_allocated_bytes=taken[5], partitions=data.draw(st.sampled_from([(), ("gpu",)])))

    def gpu(index, name):
        watts, u, resident, memory, limit, joules = data.draw(st.tuples(*[anything] * 6))
        return site.gpu(index, name, watts=watts, u=u, resident=resident, memory_used_bytes=memory,
                          power_limit_watts=limit, energy_joules=joules)

    names = data.draw(st.lists(st.sampled_from(["dgx-0", "dgx-1", "\u0000", ""]), min_size=1, max_size=3))
    jobs = [site.running(str(number), name, data.draw(st.one_of(st.none(), st.lists(numbers, max_size=3))),
                         start_s=data.draw(anything)) for number, name in enumerate(names)]
    jobs.append(site.pending("9", data.draw(numbers), gpus_per_node=data.draw(numbers), cpus=data.draw(numbers),
                             memory_bytes=data.draw(numbers), nodes=data.draw(st.integers(-1, 4))))
    nodes, gpus = [node(name) for name in names], [gpu(index, name) for index, name in enumerate(names)]
    accountant = site.accountant()
    for time_s in (1000.0, 1015.0):
        walls = [site.wall(data.draw(anything), name, time_s) for name in names]
        pages = site.telemetry(tuple(replace(gpu, time_s=time_s) for gpu in gpus), tuple(walls))
        found = accountant.assess(site.snapshot(nodes, jobs, time_s=time_s), pages, time_s)
        assert found.unaccounted_watts == pytest.approx(0.0, abs=1e-6)
        assert all(0.0 <= watts < 1e6 for classes in found.totals.values() for watts in classes.values())
    assert all(0.0 <= joules < 1e9 for joules in accountant.counters.energy_joules.values())
