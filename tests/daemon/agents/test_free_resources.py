"""Where jobs fit while others are placed: what is remembered is what looking anew would find."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from idlewatt.daemon.agents.demands import CHUNK, CHUNKS, MANY, RESTS, kinds_of, suffices
from idlewatt.daemon.agents.free_resources import FreeResources
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.agents.placing import ISLAND, LEAF, SPINE
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload

NODES = {"one leaf": Cluster.from_spec("12x8"),
         "leaves": Cluster.from_mapping({"nodes": [{"name": f"l{leaf}-", "count": 4, "gpus": 8, "leaf": f"l{leaf}"}
                                                   for leaf in range(3)]})}


def moment(nodes, seed):
    """Return a moment at which forty jobs of all sizes wait, and some GPUs are taken."""
    random = np.random.default_rng(seed)
    gpus = random.choice([1, 1, 2, 3, 4, 8, 12, 16, 24], 40)
    jobs = Workload.of(np.arange(40.0), run=np.full(40, 60.0), gpus=gpus, limit=np.full(40, 3600.0))
    state = ClusterState.of(nodes, jobs)
    for job in range(len(gpus)):
        join(state.arrays, job)
    state.arrays.clock[0] = 100.0
    observation = observe(state)
    observation.nodes.free[:, 0] = random.integers(0, 9, len(nodes))
    return observation


def placement_summary(placement):
    if placement is None:
        return None
    return placement.nodes.tolist(), placement.level, placement.leftover, placement.opens


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_of_places_is_what_looking_anew_finds(nodes, seed):
    observation = moment(NODES[nodes], seed)
    demands, random = observation.waiting.demands, np.random.default_rng(seed)
    resources = FreeResources(observation, demands)
    keys, everybody = resources.keys(np.zeros(len(demands), bool)), np.ones(len(demands), bool)
    placed = 0
    for _ in range(20):
        could = resources.could_start(keys, everybody)
        nodes = replace(observation.nodes, free=resources.free.copy(), busy=resources.busy.copy())
        fresh = FreeResources(replace(observation, nodes=nodes), demands)
        placements = [fresh.placement(kind) for kind in resources.kind.tolist()]
        assert could.tolist() == [placement is not None for placement in placements]
        remembered = [placement_summary(resources.placement(kind)) for kind in resources.kind.tolist()]
        assert remembered == list(map(placement_summary, placements))
        assert resources.summaries[keys][could].tolist() == [
            [1, *placement_summary(placement)[1:]] for placement in placements if placement is not None]
        job = int(random.integers(len(demands)))
        if placements[job] is not None:
            resources.take(int(resources.kind[job]), placements[job], 0)
            placed += 1
    assert placed > 3


def apart(held, leaf):
    """Return how far apart nodes are."""
    return ISLAND if len(held) == 1 else LEAF if len(set(leaf[list(held)])) == 1 else SPINE


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_place_is_the_closest_there_is_and_of_one_node_the_fullest(nodes, seed):
    observation = moment(NODES[nodes], seed)
    resources = FreeResources(observation, observation.waiting.demands)
    free, leaf = observation.nodes.free[:, 0], observation.nodes.leaf
    for kind, demand in enumerate(resources.kinds.tolist()):
        if demand[RESTS]:
            continue
        able, needed = np.flatnonzero(free >= demand[CHUNK]).tolist(), demand[CHUNKS]
        placement = resources.placement(kind)
        choices = list(combinations(able, needed))
        assert (placement is None) == (not choices)
        if choices:
            assert placement.level == min(apart(held, leaf) for held in choices)
            assert placement.leftover == min(free[placement.nodes]) - demand[CHUNK]
        if choices and needed == 1:
            assert free[placement.nodes[0]] == min(free[able])


def test_who_keeps_off_what_is_reserved_starts_elsewhere():
    observation = moment(NODES["one leaf"], 1)
    observation.nodes.free[:, 0] = 8
    resources = FreeResources(observation, observation.waiting.demands)
    assert np.isfinite(resources.reserve(int(resources.kinds[:, CHUNKS].argmax())))
    reserved = np.flatnonzero(resources.reserved).tolist()
    assert reserved
    for kind in range(len(resources.kinds)):
        assert resources.placement(kind).nodes[0] == 0  # whoever may, starts there, too: all nodes are alike
        assert not set(reserved) & set(resources.placement(kind, beside=True).nodes.tolist())


def test_who_gives_back_what_it_held_makes_room_where_nobody_fitted():
    observation = moment(NODES["one leaf"], 1)
    observation.nodes.free[:], observation.nodes.busy[:] = 0, 1
    resources, held = FreeResources(observation, observation.waiting.demands), np.array([[3, 8, 1 << 20, 1 << 50]])
    one = int(np.flatnonzero(resources.kinds[:, CHUNK] == 1)[0])
    assert resources.placement(one) is None
    resources.give_back(held)
    assert resources.placement(one).nodes.tolist() == [3]
    resources.hold(held)
    assert resources.placement(one) is None


@pytest.mark.parametrize("nodes", [1, MANY - 1, MANY, 500])
@pytest.mark.parametrize("most", [3, 1000, 1 << 45])
def test_ranks_tell_the_same_as_amounts(nodes, most):
    random = np.random.default_rng(nodes)
    free, wanted = random.integers(-1, most, nodes), random.integers(0, most, 700)
    assert_array_equal(suffices(free, wanted), free >= wanted[:, None])


def test_kinds_are_numbered_as_they_come():
    demands = np.array([[2, 0], [1, 1], [2, 0], [0, 5]])
    kinds, kind = kinds_of(demands)
    assert kinds.tolist() == [[2, 0], [1, 1], [0, 5]]
    assert kind.tolist() == [0, 1, 0, 2]
    assert kinds_of(np.zeros((0, 8), np.int64))[0].shape == (0, 8)
