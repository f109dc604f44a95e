import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, events, queue_groups
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

SERVES = [("a",), ("a", "b"), ("b",), ("c",), ("c", "d"), ("e",)]
CLUSTER = Cluster.from_records([Node(f"n{i}", serves, 8) for i, serves in enumerate(SERVES)])


def state_of(partitions, **columns):
    number = len(partitions)
    workload = Workload.of([0.0] * number, [1.0] * number, columns.pop("gpus", [1] * number), partition=partitions,
                           **columns)
    return ClusterState.of(CLUSTER, workload)


def test_partitions_that_share_nodes_stand_in_one_line_even_by_way_of_a_third():
    assert queue_groups.by_shared_nodes(state_of(list("abcde"))).tolist() == [0, 0, 1, 1, 2]
    assert queue_groups.by_shared_nodes(state_of(["a", "e", "b", "a,e"])).tolist() == [0, 0, 0, 0]
    assert queue_groups.by_shared_nodes(state_of(["a", "nowhere", "e"])).tolist() == [0, 1, 2]


def test_jobs_that_ask_for_the_same_stand_in_one_line():
    state = state_of(list("aaaaab"), gpus=[1, 2, 1, 16, 16, 1], nodes=[0, 0, 1, 2, 0, 0], cpus=[4, 4, 4, 4, 4, 4])
    assert queue_groups.by_kind(state).tolist() == [0, 1, 0, 2, 2, 3]


def test_too_many_kinds_of_jobs_are_walked_through_one_by_one_to_the_same_end(monkeypatch):
    draw = np.random.default_rng(3)
    workload = Workload.of(draw.integers(0, 99, 60).astype(float), draw.integers(1, 50, 60).astype(float),
                           draw.integers(1, 17, 60))
    quick = engine.run(Cluster.from_spec("3x8"), workload, named("sjf-oracle+greedy"))
    monkeypatch.setattr(queue_groups, "MOST_BITS", 10)
    assert engine.run(Cluster.from_spec("3x8"), workload, named("sjf-oracle+greedy")).digest == quick.digest


def test_a_live_queue_changes_lines_and_nobody_is_lost():
    state = state_of(list("abce"), gpus=[8, 8, 8, 8])
    engine.act(state, named("fifo").rules)
    for row in state.waiting:
        pytest.fail(f"job {row} waits although its partition is empty")
    waiting = ClusterState.of(Cluster.from_spec("1x1"), Workload.of([0.0] * 3, [1.0] * 3, [1] * 3))
    events.advance(waiting.arrays, events.event_list_of(waiting.cluster), 0.0)
    for policy in ("fifo+easy", "fifo+greedy", "fifo"):
        assert [action.job for action in named(policy).decide(waiting)] == [0]
