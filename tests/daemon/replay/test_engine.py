
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin import Twin, TwinJob

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, events
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

ORDERS = ["fifo", "sjf-limit", "sjf-oracle", "sjf-prediction", "ljf", "qssf", "limit-aged", "wfp3"]
PLACEMENTS = ["best-fit", "first-fit", "random-fit", "naive-random", "nearest", "fragmentation"]
BACKFILLS = ["none", "easy", "greedy"]
POLICIES = st.one_of(
    st.tuples(st.sampled_from(ORDERS), st.sampled_from(PLACEMENTS), st.sampled_from(BACKFILLS)),
    st.tuples(st.sampled_from(ORDERS), st.sampled_from(["best-fit", "first-fit"]), st.just("conservative")),
    st.tuples(st.just("drf"), st.sampled_from(PLACEMENTS[:2]),
              st.sampled_from(["none", "greedy", "easy", "preempt"])),
    st.tuples(st.sampled_from(["srtf", "srsf", "las"]), st.sampled_from(["best-fit", "first-fit"]), st.just("preempt")))


@st.composite
def clusters(draw):
    kinds = st.tuples(st.integers(1, 8), st.sampled_from([0, 8, 16]), st.sampled_from([("a",), ("b",), ("a", "b")]))
    nodes = draw(st.lists(kinds, min_size=1, max_size=5))
    leaves = draw(st.lists(st.integers(0, 3), min_size=len(nodes), max_size=len(nodes)))
    cluster = Cluster.from_records([Node(f"n{i}", partitions, gpus, cpus=cpus, leaf=str(leaves[i]),
                                         spine=str(leaves[i] // 2))
                                    for i, (gpus, cpus, partitions) in enumerate(nodes)])
    happening = st.tuples(st.integers(0, 60), st.integers(0, len(nodes) - 1), st.sampled_from(["down", "drain", "up"]))
    events = draw(st.lists(happening, max_size=4))
    # At the end every node comes back, so that nothing waits for ever.
    events = sorted(events, key=lambda event: event[0]) + [(1000, node, "up") for node in range(len(nodes))]
    return cluster.with_events([NodeEvent(float(time), f"n{node}", kind) for time, node, kind in events])


@st.composite
def workloads(draw):
    number = draw(st.integers(1, 14))
    scale = draw(st.sampled_from([1, 1, 100]))
    column = lambda values: [draw(values) for _ in range(number)]  # noqa: E731
    return Workload.of(
        column(st.integers(0, 40)), [scale * run for run in column(st.integers(0, 30))], column(st.integers(0, 12)),
        limit=column(st.one_of(st.integers(1, 60).map(float), st.just(np.inf))),
        nodes=column(st.sampled_from([0, 0, 0, 1, 2, 3])),
        cpus=column(st.integers(0, 12)), partition=column(st.integers(0, 1)), partition_names=("a", "b"),
        prediction=column(st.one_of(st.just(np.nan), st.integers(0, 30).map(float))), user=column(st.integers(0, 2)),
        dependency=[draw(st.integers(-1, row - 1)) if draw(st.booleans()) else -1 for row in range(number)],
        preemptible=column(st.sampled_from([1, 1, 0])))


def rows_of(state):
    """Return nodes and jobs as the twin knows them."""
    rejected = {rejection.job for rejection in state.rejected}
    rows = [TwinJob(row, float(job.submit), float(job.run), float(job.limit), float(job.prediction), int(job.chunk),
                    int(job.chunks), int(job.rest), int(job.rests), int(job.cpus), int(job.memory),
                    [bool(x) for x in state.arrays.eligible[job.pool]], int(job.queue), int(job.user),
                    int(job.dependency), bool(job.preemptible), row in rejected, int(job.minimum), int(job.maximum),
                    int(job.widest), int(job.model))
            for row, job in enumerate(state.arrays.jobs)]
    return [(int(n.gpus), int(n.free_cpus), int(n.free_memory)) for n in state.arrays.nodes], rows


def twin_of(cluster, workload, order, placement, backfill, overhead, seed):
    nodes, rows = rows_of(ClusterState.of(cluster, workload))
    events = [(event.time, cluster.index(event.node), event.kind) for event in cluster.events]
    switches = list(zip(cluster.leaf.tolist(), cluster.spine.tolist(), strict=True))
    return Twin(nodes, rows, order, placement, backfill, overhead, events, seed, switches).run()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads(), POLICIES, st.sampled_from([0.0, 3.0]), st.integers(0, 9))
def test_the_engine_and_its_plain_twin_agree_to_the_last_digit(cluster, workload, policy, overhead, seed):
    run = engine.run(cluster, workload, named("+".join(policy)), preemption_s=overhead, seed=seed)
    twin = twin_of(cluster, workload, *policy, overhead, seed)
    np.testing.assert_array_equal(run.start, [np.nan if job.start is None else job.start for job in twin.jobs])
    np.testing.assert_array_equal(run.end, [job.end if job.state == "ended" else np.nan for job in twin.jobs])
    for row, job in enumerate(twin.jobs):
        assert [(int(part.node), int(part.gpus)) for part in run.state.held(row)] == job.last


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads(), POLICIES)
def test_looking_on_changes_nothing_and_every_amount_comes_back(cluster, workload, policy):
    rule = named("+".join(policy))
    run = engine.run(cluster, workload, rule)
    state = ClusterState.of(cluster, workload)
    for decision in engine.stepwise(state, events.event_list_of(cluster), rule):
        nodes = decision.state.arrays.nodes
        assert (nodes.free_gpus >= 0).all()
        assert (nodes.free_cpus >= 0).all()
        assert ((decision.state.occupant >= 0).sum(axis=1) == nodes.gpus - nodes.free_gpus).all()
    assert engine.Run("", 0, cluster, workload, state).digest == run.digest
    nodes = run.state.arrays.nodes
    assert (nodes.free_gpus == nodes.gpus).all()
    assert (nodes.free_cpus == nodes.cpus).all()
    assert np.allclose(run.state.arrays.usage, 0)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), workloads(), POLICIES)
def test_deciding_apart_and_applying_gives_the_same_run(cluster, workload, policy):
    class DecidingSeparately:
        """The same policy without its compiled rules: the engine has to ask it."""

        name = "apart"

        def __init__(self, inner):
            self.decide = inner.decide

    if "random" in policy[1]:
        return  # the generator lives in the state, and a policy that is only asked leaves the state alone
    rule = named("+".join(policy))
    if rule.rules.waking:
        return  # it is woken between events, and a policy that is only asked is asked at events
    run = engine.run(cluster, workload, rule)
    separate = engine.run(cluster, workload, DecidingSeparately(rule))
    np.testing.assert_array_equal(run.start, separate.start)
    np.testing.assert_array_equal(run.end, separate.end)
    assert run.digest == separate.digest
