"""Which nodes are asked about jobs, and what they see."""

import numpy as np
from fungible import SITE, cluster, workload

from idlewatt.daemon.agents.maifs.levels import LEVELS, REQUESTED, Needs
from idlewatt.daemon.agents.maifs.network import ACTION_INPUTS, NODE_INPUTS, NOMINATED
from idlewatt.daemon.agents.maifs.node_inputs import nominate
from idlewatt.daemon.agents.maifs.scheduling_round import SchedulingRound
from idlewatt.daemon.agents.maifs.teachers import ORDERS
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.agents.placing import renew
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.state import ClusterState


def scheduling_round(jobs=24, nodes=4):
    """Return what is seen of waiting jobs and free nodes, and how nodes are asked about them."""
    state = ClusterState.of(cluster(nodes), workload(jobs), speed=SITE.fungible)
    for job in range(jobs):
        join(state.arrays, job)
    observation = observe(state)
    return observation, SchedulingRound(observation, Needs.of(SITE.fungible), ORDERS["fifo"], 1e9)


def joints():
    """Return what nodes were asked while jobs of one node were placed, with what was free then."""
    (observation, round_), found = scheduling_round(), []

    def take_first(joint):
        found.append((joint, round_._resources.free.copy(), round_._resources.busy.copy()))
        actions = np.zeros(len(joint.able), np.int64)
        agent = int(joint.able.any(axis=1).argmax())
        actions[agent] = 1 + joint.able[agent].argmax()
        return actions

    started = list(round_.starts(take_first))
    return observation, found, started


def test_nodes_see_what_is_free_of_them_and_what_would_be_left():
    observation, found, started = joints()
    assert len(started) > 4
    total = np.stack([observation.nodes.gpus, observation.nodes.cpus, observation.nodes.memory], axis=1)
    for joint, free, busy in found:
        shares = (free / total)[:, :3]
        for row, actions, able in zip(joint.node_inputs, joint.actions, joint.able, strict=True):
            values = dict(zip(NODE_INPUTS, row.tolist(), strict=True))
            own = [node for node in range(len(free)) if np.allclose(shares[node], row[:3])]
            assert own
            assert values["empty"] == (busy[own[0]] == 0)
            for action, inputs in enumerate(actions):
                if able[action]:
                    assert inputs[ACTION_INPUTS.index("GPUs left over")] >= 0
                    assert inputs[ACTION_INPUTS.index("CPUs left over")] >= 0
                assert inputs[-len(LEVELS):].tolist() == np.eye(len(LEVELS))[action % len(LEVELS)].tolist()
                if action % len(LEVELS) == REQUESTED:
                    assert inputs[ACTION_INPUTS.index("CPUs saved")] == 0


def test_the_fullest_nodes_that_hold_a_job_are_asked():
    observation, round_ = scheduling_round(nodes=12)
    random, resources = np.random.default_rng(0), round_._resources.arrays
    resources.free[:, 0], resources.free[:, 1] = random.integers(0, 9, 12), random.integers(6, 49, 12)
    renew(resources, np.arange(12))
    jobs, nodes, able = np.array([3, 1]), np.empty(2 * NOMINATED, np.int64), np.empty((2 * NOMINATED, 6), bool)
    count = nominate(resources, round_._arrays, jobs, np.zeros(2, bool), nodes, able)
    fits = round_._resources.arrays.fits[round_._arrays.kinds[jobs]] & round_._arrays.available[jobs][:, :, None]
    rank = np.lexsort((np.arange(12), resources.free[:, 1], resources.free[:, 0]))
    asked = [[node for node in rank.tolist() if fits[task, :, node].any()][:NOMINATED] for task in range(2)]
    assert nodes[:count].tolist() == sorted({*asked[0], *asked[1]})
    assert (able[:count].reshape(count, 2, 3) == fits[:, :, nodes[:count]].transpose(2, 0, 1)).all()
