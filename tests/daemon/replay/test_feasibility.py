import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload

CLUSTER = Cluster.from_mapping({"nodes": [{"name": "n", "count": 4, "gpus": 8, "cpus": 64, "memory_bytes": 900}]})


@pytest.mark.parametrize(("gpus", "nodes", "shares"), [
    (9, 4, [3, 2, 2, 2]), (11, 4, [3, 3, 3, 2]), (8, 4, [2, 2, 2, 2]), (10, 0, [8, 2]), (8, 0, [8]), (20, 3, [7, 7, 6]),
    (2, 4, [1, 1]), (0, 3, [0, 0, 0]), (3, 1, [3])])
def test_gpus_are_spread_evenly_over_the_nodes_asked_for(gpus, nodes, shares):
    run = engine.run(CLUSTER, Workload.of([0.0], [5.0], [gpus], nodes=[nodes]), named("fifo+first-fit"))
    assert run.end.tolist() == [5.0]
    assert run.state.held(0).gpus.tolist() == shares


def test_cpus_and_memory_go_with_the_gpus_and_evenly_where_there_are_none():
    workload = Workload.of([0.0, 0.0], [5.0, 5.0], [9, 0], nodes=[4, 3], cpus=[18, 30], memory=[900, 300])
    state = ClusterState.of(CLUSTER, workload)
    assert state.arrays.jobs.cpus.tolist() == [6, 10]
    assert state.arrays.jobs.memory.tolist() == [300, 100]


def test_a_job_of_uneven_parts_that_never_fits_is_rejected():
    small = Cluster.from_mapping({"nodes": [{"name": "big", "gpus": 8}, {"name": "s", "count": 2, "gpus": 2}]})
    state = ClusterState.of(small, Workload.of([0.0] * 3, [1.0] * 3, [7, 8, 7], nodes=[3, 3, 4]))
    assert [rejection.job for rejection in state.rejected] == [1, 2]  # 3 + 3 + 2; four nodes
