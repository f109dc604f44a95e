"""Jobs whose size and speed change while they run."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_engine import rows_of
from twin_elastic import ElasticTwin

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster, ClusterError
from idlewatt.daemon.replay.speed import SpeedError, SpeedTable, measured, together
from idlewatt.daemon.replay.state import ClusterState, Resize, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

NODE = Cluster.from_spec("1x8")
LINEAR = SpeedTable(np.arange(17.0)[None, :], np.ones((1, 5)))
ISLANDS = [((0, 1), (2, 3)), ((0,), (1, 2, 4)), ((0, 1, 2, 3),)]
POLICIES = st.tuples(st.sampled_from(["fifo", "sjf-oracle"]), st.sampled_from(["best-fit", "first-fit"]),
                     st.sampled_from(["moldable", "equal-share", "relative-gain", "easy"]))


@st.composite
def clusters(draw):
    divided = draw(st.lists(st.sampled_from(ISLANDS), min_size=1, max_size=4))
    cluster = Cluster.from_records([Node(f"n{i}", ("p",), 4, cpus=8, leaf=str(i // 2), spine=str(i // 3))
                                    for i in range(len(divided))])
    return cluster.with_islands({f"n{i}": islands for i, islands in enumerate(divided)})


@st.composite
def workloads(draw):
    number = draw(st.integers(1, 10))
    column = lambda values: np.array([draw(values) for _ in range(number)])  # noqa: E731
    gpus, elastic = column(st.integers(1, 6)), column(st.booleans())
    return Workload.of(column(st.integers(0, 40)), column(st.integers(0, 60)), gpus,
                       limit=column(st.integers(1, 99)), cpus=column(st.integers(0, 12)),
                       minimum=np.where(elastic, np.maximum(1, gpus - column(st.integers(0, 5))), gpus),
                       maximum=np.where(elastic, gpus + column(st.integers(0, 9)), gpus),
                       application=column(st.integers(0, 1)))


@st.composite
def tables(draw):
    steps = draw(st.lists(st.integers(0, 3), min_size=16, max_size=16))
    size = np.stack([1.0 + np.cumsum([0, *steps]), np.arange(17.0)])
    spread = [[1.0, *np.cumprod(draw(st.lists(st.sampled_from([0.5, 0.75, 1.0]), min_size=4, max_size=4)))]] * 2
    left = draw(st.lists(st.sampled_from([0.5, 0.9, 1.0]), min_size=4, max_size=4))
    return SpeedTable(size, np.array(spread), np.array(left).reshape(2, 2))


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads(), tables(), POLICIES, st.sampled_from([0, 5, 7]), st.sampled_from([0.0, 2.0]))
def test_the_engine_and_its_plain_twin_agree_when_sizes_and_speeds_change(cluster, workload, table, policy, slot_s,
                                                                        resize_s):
    run = engine.run(cluster, workload, named("+".join(policy)), speed=table, slot_s=slot_s, resize_s=resize_s)
    islands = [[None] * run.state.occupant.shape[1] for _ in cluster.names]
    for node, name in enumerate(cluster.names):
        for number, island in enumerate(cluster.islands[name]):
            for slot in island:
                islands[node][slot] = number
    nodes, rows = rows_of(ClusterState.of(cluster, workload))
    switches = list(zip(cluster.leaf.tolist(), cluster.spine.tolist(), strict=True))
    twin = ElasticTwin(nodes, rows, *policy, table=table, islands=islands, resize_s=resize_s, switches=switches,
                       slot_s=slot_s).run()
    np.testing.assert_array_equal(run.start, [np.nan if job.start is None else job.start for job in twin.jobs])
    np.testing.assert_array_equal(run.end, [job.end if job.state == "ended" else np.nan for job in twin.jobs])
    for row, job in enumerate(twin.jobs):
        assert [(int(part.node), int(part.gpus)) for part in run.state.held(row)] == job.last


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads(), tables(), POLICIES)
def test_compiled_rules_and_their_actions_carried_out_one_by_one_give_the_same_run(cluster, workload, table, policy):
    class DecidingSeparately:
        name = "apart"
        decide = staticmethod(named("+".join(policy)).decide)

    run = engine.run(cluster, workload, named("+".join(policy)), speed=table, resize_s=3.0)
    separate = engine.run(cluster, workload, DecidingSeparately(), speed=table, resize_s=3.0)
    assert run.digest == separate.digest
    np.testing.assert_array_equal(run.end, separate.end)
    for state in (run.state, separate.state):
        assert (state.arrays.nodes.free_gpus == cluster.gpus).all()
        assert (state.arrays.nodes.free_cpus == cluster.cpus).all()
        assert (state.arrays.usage == 0).all()
        assert (state.occupant < 0).all()


def test_a_moldable_job_starts_as_large_as_there_is_room_for():
    workload = Workload.of([0, 0, 0], [80, 80, 80], [4, 4, 4], minimum=[4, 2, 2], maximum=[6, 8, 8])
    run = engine.run(NODE, workload, named("fifo+moldable"), speed=LINEAR)
    assert run.start.tolist() == [0, 0, pytest.approx(80 * 4 / 6)]
    assert run.state.arrays.jobs.gpus_held.tolist() == [6, 2, 6]


def test_gpus_that_come_free_go_to_those_who_run_on_and_a_resize_costs_a_pause():
    workload = Workload.of([0, 0], [40, 10], [4, 4], minimum=[1, 4], maximum=[8, 4])
    free = engine.run(NODE, workload, named("fifo+equal-share"), speed=LINEAR)
    assert free.end.tolist() == [10 + 30 / 2, 10]
    dear = engine.run(NODE, workload, named("fifo+equal-share"), speed=LINEAR, resize_s=5.0)
    assert dear.end.tolist() == [10 + 30 / 2 + 5, 10]


def test_decisions_wait_for_their_slot():
    workload = Workload.of([1, 8, 21], [5, 5, 30], [8, 8, 8])
    run = engine.run(NODE, workload, named("fifo"), slot_s=10)
    assert run.start.tolist() == [10, 20, 30]
    assert [decision.time for decision in engine.decisions(NODE, workload, named("fifo"), slot_s=10)] == [
        10, 20, 30, 40, 50, 60]


def test_neighbours_slow_each_other_down_as_long_as_they_share_a_node():
    table = SpeedTable(np.ones((2, 1)), np.ones((2, 5)), together(["bert", "resnet"], {("bert", "resnet"): 0.5}))
    workload = Workload.of([0, 10], [100, 20], [4, 4], application=[0, 1])
    assert engine.run(NODE, workload, named("fifo"), speed=table).end.tolist() == [110, 30]
    assert engine.run(Cluster.from_spec("2x4"), workload, named("fifo"), speed=table).end.tolist() == [100, 30]


class Granting:
    """Starts all with half of their CPUs, and gives them the rest at the next decision."""

    name = "granting"

    def decide(self, state):
        rows = state.arrays.jobs
        return [Resize(job, (0,), (int(rows[job].gpus_held),)) for job in state.running.tolist()
                if rows[job].cpus_held < rows[job].cpus] + [
                    Start(job, (0,), (2,), int(rows[job].cpus) // 2) for job in state.waiting.tolist()]


def test_a_job_short_of_cpus_runs_slower_until_it_gets_them_at_a_price():
    cluster = Cluster.from_records([Node("n", ("p",), 8, cpus=16)])
    table = SpeedTable(np.ones((1, 1)), np.ones((1, 5)), grants=np.arange(5.0)[None, :, None] / 4)
    workload = Workload.of([0, 20], [100, 200], [2, 2], cpus=[8, 8])
    run = engine.run(cluster, workload, Granting(), speed=table)
    assert run.end.tolist() == [20 + 90, 110 + 200 - 45]  # at half speed until the next decision
    assert (run.state.arrays.nodes.free_cpus == 16).all()
    dear = engine.run(cluster, workload, Granting(), speed=table, grant_s=7.0, resize_s=1000.0)
    assert dear.end[0] == 117


@pytest.mark.parametrize(("action", "why"), [
    (Start(0, (0,), (3,)), "takes 4 to 8"), (Start(0, (0,), (4,), 17), "room"), (Start(0, (0,), (4,), -1), "nothing"),
    (Start(0, (0,), (4,), None, 1 << 60), "room")])
def test_a_grant_or_size_beyond_bounds_is_refused(action, why):
    class Wrong:
        name = "wrong"

        def decide(self, state):
            return [action]

    cluster = Cluster.from_records([Node("n", ("p",), 8, cpus=16)])
    with pytest.raises(ValueError, match=why):
        engine.run(cluster, Workload.of([0], [1], [4], maximum=[8], cpus=[4]), Wrong())


def test_a_job_gets_gpus_of_one_island_and_is_slower_where_it_cannot():
    cluster = Cluster.from_mapping({"nodes": [{"name": "n", "gpus": 7, "islands": [[0, 1, 2], [4, 5, 6, 7]]}]})
    table = measured([{1: 1.0, 4: 4.0}], 8, [{"node": 0.5}])
    workload = Workload.of([0, 0, 0], [10, 40, 40], [2, 3, 2], limit=[10, 40, 40])
    for decision in engine.decisions(cluster, workload, named("fifo"), speed=table):
        if decision.time == 0:
            assert decision.state.occupant.tolist() == [[0, 0, 2, -2, 1, 1, 1, 2]]
    run = engine.run(cluster, workload, named("fifo"), speed=table)
    assert run.end.tolist() == [10, 40, 80]  # the last lies on both islands


@pytest.mark.parametrize("islands", [[[0, 1], [1, 2]], [[0, 1]], [[0, 1], [2, -3]], [[0, 1], [2, 9999]]])
def test_islands_that_are_none_are_refused(islands):
    with pytest.raises(ClusterError, match="island"):
        Cluster.from_mapping({"nodes": [{"name": "n", "gpus": 3, "islands": islands}]})
    with pytest.raises(ClusterError, match="m0"):
        NODE.with_islands({"m0": ((0,),)})


@pytest.mark.parametrize("wrong", [
    {"spread": np.ones((1, 4))}, {"company": np.ones((1, 2))}, {"company": np.zeros((1, 1))},
    {"grants": np.ones((1, 1))}, {"grants": -np.ones((1, 1, 1))}, {"step": 0.0}])
def test_tables_that_nobody_could_run_by_are_refused(wrong):
    with pytest.raises(SpeedError):
        SpeedTable(**{"size": np.ones((1, 1)), "spread": np.ones((1, 5))} | wrong)


def test_an_application_without_a_row_is_refused():
    table = SpeedTable(np.ones((2, 1)), np.ones((2, 5)))
    with pytest.raises(SpeedError, match="application 2"):
        engine.run(NODE, Workload.of([0], [1], [1], application=[2]), named("fifo"), speed=table)


def test_flat_speeds_serve_any_number_of_applications():
    workload = Workload.of([0, 1], [10, 10], [8, 8], application=[0, 3])
    assert engine.run(NODE, workload, named("fifo+easy")).end.tolist() == [10, 20]
