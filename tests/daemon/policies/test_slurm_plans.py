import numpy as np

from idlewatt.daemon.policies import named
from idlewatt.daemon.policies.slurm_plans import insert_plan
from idlewatt.daemon.policies.slurm_tables import INTERVALS, tables_of
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload

NODES, MINUTES = 5, 40


def merged(planned):
    """Return the (begin, end, node) of every row of minutes that are kept."""
    rows = []
    for node, minutes in enumerate(planned):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], minutes, [0]])))
        rows += [(begin * 60.0, end * 60.0, node) for begin, end in edges.reshape(-1, 2).tolist()]
    return sorted(rows)


def test_plans_that_begin_as_others_end_make_one_interval_in_whatever_order_they_are_made():
    random = np.random.default_rng(3)
    state = ClusterState.of(Cluster.from_spec(f"{NODES}x1"), Workload.of([0.0], [1.0], [1]))
    engine.prepare(state, named("fifo+slurm-placement+slurm-backfill").rules)
    tables, planned = tables_of.py_func(state.arrays), np.zeros((NODES, MINUTES), int)
    for _ in range(200):
        node, begin, length = random.integers(NODES), random.integers(MINUTES - 3), random.integers(1, 4)
        if planned[node, begin:begin + length].any():
            continue
        planned[node, begin:begin + length] = 1
        insert_plan(tables, node, begin * 60.0, (begin + length) * 60.0)

        count, wanted = tables.head[INTERVALS], merged(planned)
        by_begin = list(zip(tables.next_time[:count], tables.next_ends[:count], tables.next_node[:count], strict=True))
        by_end = list(zip(tables.interval_time[:count], tables.interval_ends[:count], tables.interval_node[:count],
                          strict=True))
        assert sorted(by_begin) == sorted(by_end) == wanted
        assert [begin for begin, _, _ in by_begin] == sorted(begin for begin, _, _ in wanted)
        assert [end for _, end, _ in by_end] == sorted(end for _, end, _ in wanted)
    assert count < tables.plans_on[:NODES].sum()
    assert (planned.sum(axis=1) > MINUTES // 2).all()
