import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.compiled import compiled
from idlewatt.daemon.replay.moves import ask_of, join, site_of
from idlewatt.daemon.replay.pace import span
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node


def placed(free, gpus, policy, nodes=0, leaves=None, seed=0):
    """Return the nodes that a policy gives one job on a cluster with these free GPUs per node of 8."""
    leaves = leaves or [0] * len(free)
    cluster = Cluster.from_records([Node(f"n{i}", ("p",), 8, leaf=f"l{leaf}", spine=f"s{leaf // 2}")
                                    for i, leaf in enumerate(leaves)])
    state = ClusterState.of(cluster, Workload.of([0.0], [1.0], [gpus], nodes=[nodes]), seed=seed)
    state.arrays.nodes.free_gpus[:] = free
    state.arrays.clock[0] = 0.0
    join(state.arrays, 0)
    actions = named(policy).decide(state)
    return list(actions[0].nodes) if actions else []


@pytest.mark.parametrize(("free", "gpus", "best", "first"), [
    ([5, 2, 3], 2, [1], [0]), ([5, 2, 3], 4, [0], [0]), ([8, 8, 8, 4], 16, [0, 1], [0, 1]), ([8, 7, 7], 16, [], []),
    ([8, 4, 8, 8], 20, [0, 2, 1], [0, 2, 1]), ([0, 0], 1, [], [])])
def test_best_fit_takes_the_fullest_node_and_first_fit_the_first(free, gpus, best, first):
    assert placed(free, gpus, "fifo+best-fit") == best
    assert placed(free, gpus, "fifo+first-fit") == first


def test_naive_random_waits_when_the_node_it_drew_is_full_and_random_fit_does_not():
    outcomes = {seed: placed([0, 8], 4, "fifo+naive-random", seed=seed) for seed in range(40)}
    assert {tuple(nodes) for nodes in outcomes.values()} == {(), (1,)}
    assert all(placed([0, 8], 4, "fifo+random-fit", seed=seed) == [1] for seed in range(10))


def test_fragmentation_avoids_leaving_what_the_typical_job_cannot_use():
    # The only job wants 4: a node left with 4 free is useful, one left with 2 is not.
    assert placed([6, 8], 4, "fifo+best-fit") == [0]
    assert placed([6, 8], 4, "fifo+fragmentation") == [1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=2, max_size=7), st.integers(1, 4),
       st.integers(1, 8))
def test_nearest_is_as_close_as_brute_force_can_get(nodes, parts, gpus):
    free, leaves = [amount for amount, _ in nodes], [leaf for _, leaf in nodes]
    chosen = placed(free, gpus * parts, "fifo+nearest", nodes=parts, leaves=leaves)
    able = [node for node, amount in enumerate(free) if amount >= gpus]
    assert bool(chosen) == (len(able) >= parts)
    if not chosen:
        return
    records = np.zeros(len(nodes), [("leaf", "i8"), ("spine", "i8")]).view(np.recarray)
    records.leaf, records.spine = leaves, [leaf // 2 for leaf in leaves]

    def apart(group):
        return span.py_func(records, group, parts)

    assert apart(chosen) == min(apart(group) for group in itertools.combinations(able, parts))


def test_a_job_for_several_leaves_takes_those_with_most_room_so_that_few_are_needed():
    assert placed([8] * 5, 32, "fifo+nearest", nodes=4, leaves=[0, 0, 1, 1, 1]) == [2, 3, 4, 0]
    assert placed([8] * 6, 40, "fifo+nearest", nodes=5, leaves=[0, 2, 2, 3, 3, 3]) == [3, 4, 5, 1, 2]


@compiled
def call(place, site, ask, chosen):
    """Call a compiled rule from Python."""
    return place(site, ask, chosen)


def test_256_gpus_are_placed_on_a_thousand_nodes_within_a_millisecond():
    cluster = Cluster.from_records([Node(f"n{i}", ("p",), 8, leaf=f"l{i // 16}", spine=f"s{i // 128}")
                                    for i in range(1000)])
    state = ClusterState.of(cluster, Workload.of([0.0], [1.0], [256]))
    rules = named("fifo+nearest").rules
    site, ask = site_of.py_func(state.arrays), ask_of.py_func(state.arrays, 0)
    count = call(rules.place, site, ask, state.arrays.chosen)
    began = time.process_time()
    for _ in range(20):
        call(rules.place, site, ask, state.arrays.chosen)
    assert count == 32
    assert (time.process_time() - began) / 20 < 1e-3
