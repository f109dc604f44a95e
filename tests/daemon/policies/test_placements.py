import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.arrays import Ask
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.communication import PREDECESSOR, cost
from idlewatt.daemon.replay.compiled import compiled
from idlewatt.daemon.replay.moves import join, site_of
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


def test_tetris_takes_the_node_whose_free_resources_the_job_points_at():
    def chosen(gpus, cpus, memory=0):
        cluster = Cluster.from_records([Node(name, ("p",), 8, cpus=64, memory_bytes=1 << 40)
                                        for name in ("gpus", "cpus", "memory")])
        state = ClusterState.of(cluster, Workload.of([0.0], [1.0], [gpus], cpus=[cpus], memory=[memory]))
        state.arrays.nodes.free_gpus[:] = [8, 4, 2]
        state.arrays.nodes.free_cpus[:] = [16, 64, 16]
        state.arrays.nodes.free_memory[:] = [1 << 38, 1 << 38, 1 << 40]
        state.arrays.clock[0] = 0.0
        join(state.arrays, 0)
        return list(named("tetris").decide(state)[0].nodes)

    assert chosen(gpus=4, cpus=4) == [0]
    assert chosen(gpus=1, cpus=16) == [1]
    assert chosen(gpus=1, cpus=1, memory=1 << 39) == [2]


TREES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 7)), min_size=2, max_size=9)
"""Free GPUs and leaf of each node."""


@settings(max_examples=150, deadline=None)
@given(TREES, st.integers(1, 4), st.integers(2, 6), st.integers(1, 8), st.integers(0, 7))
def test_nearest_costs_what_brute_force_would(nodes, fan, parts, gpus, less):
    free, leaves = [amount for amount, _ in nodes], [leaf for _, leaf in nodes]
    rest = gpus - less if 0 < less < gpus else 0
    ask = Ask(0, gpus, 0, 0, parts - (rest > 0), rest, int(rest > 0), 0, 0)
    costs, chosen = by_brute_force(free, leaves, fan, ask)
    assert costs.get(chosen) == min(costs.values(), default=None)


@settings(max_examples=60, deadline=None)
@given(TREES, st.integers(1, 4), st.integers(3, 6), st.integers(2, 8), st.data())
def test_with_several_smaller_parts_nearest_is_hardly_ever_dearer_and_never_by_more_than_a_switch(
        nodes, fan, parts, gpus, data):
    free, leaves = [amount for amount, _ in nodes], [leaf for _, leaf in nodes]
    rests, rest = data.draw(st.integers(2, parts - 1)), data.draw(st.integers(1, gpus - 1))
    costs, chosen = by_brute_force(free, leaves, fan, Ask(0, gpus, 0, 0, parts - rests, rest, rests, 0, 0))
    assert not costs or costs[chosen] <= min(costs.values()) + PREDECESSOR.leaf + PREDECESSOR.spine


def by_brute_force(free, leaves, fan, ask):
    """Return what every group of nodes that has room costs, ``fan`` leaves to a spine, and the one nearest chooses."""
    cluster = Cluster.from_records([Node(f"n{i}", ("p",), 8, leaf=f"l{leaf}", spine=f"s{leaf // fan}")
                                    for i, leaf in enumerate(leaves)])
    site, ask = asked(cluster, free, ask)
    chosen, parts = np.zeros(len(free) + 1, np.int64), ask.chunks + ask.rests
    count = call(named("fifo+nearest").rules.place, site, ask, chosen)
    spines = dict(zip(cluster.leaf, cluster.spine, strict=True))
    costs = {group: cost(dict.fromkeys(group, 1), cluster.leaf, spines)
             for group in itertools.combinations(range(len(free)), parts) if holds(free, group, ask)}
    return costs, tuple(sorted(chosen[:count].tolist())) if count else None


def test_of_more_spines_than_are_tried_in_sets_one_that_suffices_is_found_and_else_all_are_taken():
    leaves = [leaf for leaf in range(0, 16, 2) for _ in range(2)]  # eight spines of a leaf with two nodes
    assert placed([4, 8] * 8, 16, "fifo+nearest", nodes=2, leaves=leaves) == [1, 3]
    leaves[0], leaves[2] = 8, 8
    assert {leaves[node] for node in placed([8] * 16, 32, "fifo+nearest", nodes=4, leaves=leaves)} == {8}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 31)), min_size=2, max_size=9), st.integers(2, 6),
       st.integers(1, 8))
def test_in_a_tree_of_five_levels_nearest_stays_below_the_lowest_place_that_has_room(nodes, parts, gpus):
    paths = [[leaf // 2**level for level in range(5)] for _, leaf in nodes]
    cluster = Cluster.from_records([
        Node(f"n{number}", ("p",), 8, leaf=f"0/{path[0]}", spine=f"1/{path[1]}",
             above=tuple(f"{level}/{path[level]}" for level in range(2, 5))) for number, path in enumerate(paths)])
    free, ask = [amount for amount, _ in nodes], Ask(0, gpus, 0, 0, parts, 0, 0, 0, 0)
    site, ask = asked(cluster, free, ask)
    chosen = np.zeros(len(free) + 1, np.int64)
    count = call(named("fifo+nearest").rules.place, site, ask, chosen)

    def height(group):
        return next((level for level in range(5) if len({paths[node][level] for node in group}) == 1), 5)

    heights = [height(group) for group in itertools.combinations(range(len(free)), parts) if holds(free, group, ask)]
    assert (height(chosen[:count].tolist()) if count else None) == min(heights, default=None)


def test_of_places_of_one_level_the_one_with_the_least_room_is_taken_whatever_it_is_called():
    cluster = Cluster.from_records([
        Node(f"n{number}", ("p",), 8, leaf=f"l{number}", spine=f"s{number}", above=(pod,))
        for number, pod in enumerate("abababaacc")])
    assert cluster.joined.tolist() == [0, 1, 1, 1, 1, 2, 1, 1, 2, 1]
    site, ask = asked(cluster, [8] * 10, Ask(0, 8, 0, 0, 3, 0, 0, 0, 0))
    chosen = np.zeros(11, np.int64)
    assert call(named("fifo+nearest").rules.place, site, ask, chosen) == 3
    assert sorted(chosen[:3].tolist()) == [1, 3, 5]


def asked(cluster, free, ask):
    """Return a site with these free GPUs, and what is asked of it."""
    state = ClusterState.of(cluster, Workload.of([0.0], [1.0], [1]))
    state.arrays.nodes.free_gpus[:] = free
    return site_of.py_func(state.arrays), ask


def holds(free, group, ask):
    """Tell whether nodes have room for the parts of a job, the largest on the emptiest."""
    parts = [ask.gpus] * ask.chunks + [ask.rest] * ask.rests
    return all(room >= part for room, part in zip(sorted((free[node] for node in group), reverse=True), parts,
                                                  strict=True))


@pytest.mark.parametrize(("free", "nodes"), [
    ([4, 8, 8, 8, 8, 8], [4, 5]),  # one domain has two empty trays, the other three: the tightest that suffices
    ([8, 4, 4, 4, 8, 8], [4, 5]),  # an empty tray of the other domain comes first, and is left alone
    ([8, 4, 4, 4, 4, 8], [0, 5])])  # no domain has room: only then is the job split
def test_a_gang_is_placed_inside_one_nvlink_domain_where_one_has_room(free, nodes):
    domains = ["clique-a"] * 4 + ["clique-b"] * 2
    cluster = Cluster.from_records([Node(f"tray{number}", ("p",), 8, domain=domain, leaf=domain, spine="leaf-1")
                                    for number, domain in enumerate(domains)])
    site, ask = asked(cluster, free, Ask(0, 8, 0, 0, 2, 0, 0, 0, 0))
    chosen = np.zeros(len(free) + 1, np.int64)
    assert call(named("fifo+nearest").rules.place, site, ask, chosen) == 2
    assert sorted(chosen[:2].tolist()) == nodes


def test_leaves_with_the_same_room_are_filled_one_after_the_other():
    leaves = [0, 0, 2, 2, 4, 4]
    chosen = placed([5, 8, 6, 7, 8, 5], 20, "fifo+nearest", nodes=4, leaves=leaves)
    assert len({leaves[node] for node in chosen}) == 2


@compiled
def call(place, site, ask, chosen):
    """Call a compiled rule from Python."""
    return place(site, ask, chosen)
