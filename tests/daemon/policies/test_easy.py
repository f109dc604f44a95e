import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, events
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

NAMES = ("a", "b", "all")
SERVES = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "all"), ("b", "all")])


def promise(state, job):
    """Return when a job can start at the latest: when enough running jobs have used up their limits."""
    arrays, row = state.arrays, state.arrays.jobs[job]
    free, may = arrays.nodes.free_gpus.copy(), arrays.eligible[row.pool] == 1
    for other in sorted(state.running.tolist(), key=lambda j: arrays.jobs.estimate[j]):
        held = state.held(other)
        free[held.node] += held.gpus
        whole, parts = (may & (free >= row.chunk)).sum(), (may & (free >= (row.rest if row.rests else row.chunk))).sum()
        if whole >= row.chunks and parts >= row.chunks + row.rests:
            return arrays.jobs.estimate[other]
    raise AssertionError("a job that fits on the empty cluster waits for nobody")


def groups(state):
    """Return sets of jobs whose nodes are tied together, be it by way of others."""
    found = []
    for job, row in enumerate(state.arrays.jobs):
        nodes, jobs = set(np.flatnonzero(state.arrays.eligible[row.pool])), {job}
        for other in [group for group in found if group[0] & nodes]:
            found.remove(other)
            nodes, jobs = nodes | other[0], jobs | other[1]
        found.append((nodes, jobs))
    return [jobs for _, jobs in found]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 8), SERVES), min_size=1, max_size=5), st.integers(1, 30), st.randoms())
def test_the_first_that_waits_never_starts_later_than_promised_though_partitions_share_nodes(nodes, number, draw):
    cluster = Cluster.from_records([Node(f"n{i}", serves, gpus) for i, (gpus, serves) in enumerate(nodes)])
    run = [float(draw.randint(0, 40)) for _ in range(number)]
    workload = Workload.of(
        [float(draw.randint(0, 30)) for _ in run], run, [draw.randint(1, 9) for _ in run],
        nodes=[draw.choice([0, 0, 1, 2]) for _ in run], partition_names=NAMES,
        limit=[max(1.0, length + draw.randint(0, 20)) for length in run], partition=[draw.randrange(3) for _ in run])
    state, promised = ClusterState.of(cluster, workload), {}
    tied = groups(state)
    for _ in engine.stepwise(state, events.event_list_of(cluster), named("fifo+easy")):
        waiting = set(state.waiting.tolist())
        for job in [min(jobs & waiting) for jobs in tied if jobs & waiting]:
            promised.setdefault(job, promise(state, job))
    for job, latest in promised.items():
        assert state.arrays.jobs.start[job] <= latest


def test_a_later_job_of_another_partition_does_not_delay_the_first():
    # Both nodes are busy until 10 and 50. The job of `all` wants both; the one of `b` may not take the first until 150.
    cluster = Cluster.from_records([Node("n0", ("a", "all"), 8), Node("n1", ("b", "all"), 8)])
    workload = Workload.of([0, 0, 1, 2, 3], [10, 50, 10, 100, 30], [8, 8, 16, 8, 8], limit=[10, 50, 10, 100, 30],
                           partition=["a", "b", "all", "a", "a"])
    run = engine.run(cluster, workload, named("fifo+easy"))
    assert run.start.tolist() == [0, 0, 50, 60, 10]
