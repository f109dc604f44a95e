"""What speaks against an agent's word: another size of cluster, of node or of queue than it learned from."""

import numpy as np
import pytest

from idlewatt.daemon.agents.doubts import longest_queue, queues_seen, sizes_seen, wrong_queue, wrong_size
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import decisions, run
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import ModelCard

FIFO = named("fifo+best-fit+easy")


def card(**seen):
    return ModelCard("scorer", "1", 0.0, 0, "", "", "", seen=seen)


def queue_of(jobs):
    return Workload.of(np.zeros(jobs), np.full(jobs, 100.0), np.full(jobs, 8))


def at_first(nodes, jobs):
    return next(iter(decisions(Cluster.from_spec(nodes), queue_of(jobs), FIFO))).state


@pytest.mark.parametrize(("nodes", "expected"), [
    ("1x8", "1 nodes are open; trained on 4 to 4, it is known to hold from 2 to 8"), ("2x8", None), ("4x8", None),
    ("8x8", None), ("9x8", "9 nodes are open"), ("20x8", "20 nodes are open"),
    ("4x4", "nodes of 4 GPUs are open; it was trained on nodes of 8 to 8"), ("4x16", "nodes of 16 GPUs are open")])
def test_an_agent_holds_for_half_to_twice_as_many_nodes_of_the_sizes_that_it_learned_on(nodes, expected):
    known = card(**sizes_seen([Cluster.from_spec("4x8")]))
    reason = wrong_size(known, ClusterState.of(Cluster.from_spec(nodes), queue_of(1)))
    assert reason is None if expected is None else reason.startswith(expected)


def test_a_card_of_before_is_asked_for_nodes_only():
    assert wrong_size(card(nodes=(4.0, 4.0)), ClusterState.of(Cluster.from_spec("4x4"), queue_of(1))) is None
    assert wrong_queue(card(nodes=(4.0, 4.0)), at_first("1x8", 500)) is None


def test_the_longest_queue_is_known_by_jobs_and_by_gpus():
    work = Workload.of([0.0, 0.0, 1.0, 2.0, 50.0], [10.0, 10.0, 10.0, 10.0, 10.0], [8, 8, 4, 2, 8])
    # At 2 s one job runs on either of the nodes, and the two that came last wait for 6 GPUs of 16.
    assert longest_queue(run(Cluster.from_spec("2x8"), work, FIFO)).tolist() == [1.0, 6 / 16]


def test_an_agent_doubts_a_queue_of_more_than_twice_the_length_that_it_learned_from():
    known = card(**queues_seen([np.array([5.0, 2.0]), np.array([3.0, 20.0])]))
    assert wrong_queue(known, at_first("1x8", 10)) is None
    reason = wrong_queue(known, at_first("1x8", 30))
    assert "waiting jobs of a node; in training there were 5.0 at most" in reason
