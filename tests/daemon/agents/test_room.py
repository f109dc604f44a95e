"""Where jobs fit while others are placed: what is remembered is what looking anew would find."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from idlewatt.daemon.agents.asks import MANY, kinds_of, suffices
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.agents.room import Room
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
    seen = observe(state)
    seen.nodes.free[:, 0] = random.integers(0, 9, len(nodes))
    return seen


def told(spot):
    return None if spot is None else (spot.nodes.tolist(), spot.level, spot.leftover, spot.opens)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_of_places_is_what_looking_anew_finds(nodes, seed):
    seen = moment(NODES[nodes], seed)
    asks, random = seen.waiting.asks, np.random.default_rng(seed)
    room = Room(seen, asks)
    keys = [(kind, False) for kind in range(len(room.kinds))]
    placed = 0
    for _ in range(20):
        room.look(keys)
        fresh = Room(replace(seen, nodes=replace(seen.nodes, free=room.free.copy(), busy=room.busy.copy())), asks)
        assert [told(room.spot(kind)) for kind, _ in keys] == [told(fresh.spot(kind)) for kind, _ in keys]
        kind = int(random.integers(len(keys)))
        if (spot := room.spot(kind)) is not None:
            room.take(kind, spot, 0)
            placed += 1
    assert placed > 3


def test_places_beside_what_is_reserved_are_found_alike_at_once_and_one_by_one():
    seen = moment(NODES["one leaf"], 1)
    seen.nodes.free[:, 0] = 8
    one, all_ = Room(seen, seen.waiting.asks), Room(seen, seen.waiting.asks)
    widest = int(one.kinds[:, 4].argmax())
    for room in (one, all_):
        assert np.isfinite(room.reserve(widest))
    keys = [one.key(kind, beside=True) for kind in range(len(one.kinds))]
    all_.look(keys)
    assert len(all_.forgotten(keys)) < len(keys)
    assert [told(one.spot(kind, beside=True)) for kind, _ in keys] == [told(all_.spot(kind, beside=True))
                                                                     for kind, _ in keys]


@pytest.mark.parametrize("nodes", [1, MANY - 1, MANY, 500])
@pytest.mark.parametrize("most", [3, 1000, 1 << 45])
def test_ranks_tell_the_same_as_amounts(nodes, most):
    random = np.random.default_rng(nodes)
    free, wanted = random.integers(-1, most, nodes), random.integers(0, most, 700)
    assert_array_equal(suffices(free, wanted), free >= wanted[:, None])


def test_kinds_are_numbered_as_they_come():
    asks = np.array([[2, 0], [1, 1], [2, 0], [0, 5]])
    kinds, kind = kinds_of(asks)
    assert kinds.tolist() == [[2, 0], [1, 1], [0, 5]]
    assert kind.tolist() == [0, 1, 0, 2]
    assert kinds_of(np.zeros((0, 8), np.int64))[0].shape == (0, 8)
