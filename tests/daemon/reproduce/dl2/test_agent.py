"""DL2's own agent: what it sees and may do, and that it acts as it was trained to."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.agents import checkpoint
from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.reproduce.dl2.agent import FlatAgent, schema, trail
from idlewatt.daemon.reproduce.dl2.arena import ArenaTrace, cluster, traces, watch
from idlewatt.daemon.reproduce.dl2.flat_kernel import LONG_STAY, MODELS, PER_JOB
from idlewatt.daemon.reproduce.dl2.kernel import WORKER
from idlewatt.daemon.reproduce.dl2.network import NetworkSize, initial, outputs
from idlewatt.storage.records import ModelCard

SITE, SMALL = cluster(8), NetworkSize(window=4, hidden=16)
TRACE = next(traces())


def talkative(seed, shape=SMALL, exploration=0.0):
    """Return an agent of random weights that samples, and writes down what it does."""
    random = np.random.default_rng(seed)
    agent = FlatAgent(initial(shape, shape.actions, random), shape, random.random, exploration, trail(shape, 2000))
    agent.weights["out.weight"] = random.standard_normal(agent.weights["out.weight"].shape).astype(np.float32)
    return agent


def slots(agent, trace=TRACE, count=10, site=SITE):
    return list(islice(watch(site, trace, agent, np.full(len(trace.arrival), np.nan)), count))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_compiled_network_equals_the_numpy_network(seed):
    agent = talkative(seed)
    slots(agent)
    recorded, count = agent.trail, int(agent.trail.taken[0])
    scores = np.where(recorded.allowed[:count], outputs(agent.weights, recorded.states[:count]), -np.inf)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    assert recorded.chances[:count] == pytest.approx(chances[np.arange(count), recorded.actions[:count]], abs=1e-5)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), exploration=st.sampled_from([0.0, 0.4, 1.0]))
def test_no_masked_action_is_taken(seed, exploration):
    agent = talkative(seed, exploration=exploration)
    slots(agent)
    count = int(agent.trail.taken[0])
    assert agent.trail.allowed[np.arange(count), agent.trail.actions[:count]].all()
    assert (agent.trail.chances[:count] > 0).all()


def test_the_likeliest_action_is_taken_when_nothing_is_drawn():
    agent = talkative(0)
    agent.draw = None
    slots(agent)
    recorded, count = agent.trail, int(agent.trail.taken[0])
    scores = np.where(recorded.allowed[:count], outputs(agent.weights, recorded.states[:count]), -np.inf)
    assert np.array_equal(scores.argmax(axis=1), recorded.actions[:count])


def test_a_state_has_model_time_remaining_work_and_tasks():
    agent = talkative(1)
    seen = ArenaTrace(np.zeros(1, np.int64), np.array([6]), np.array([1e6]))
    slots(agent, seen, count=2)
    second = np.flatnonzero(agent.trail.states[:int(agent.trail.taken[0]), MODELS] > 0)[0]
    state = agent.trail.states[second]
    assert state[:MODELS].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert state[MODELS] == pytest.approx(1 / LONG_STAY)
    assert 0.9 < state[MODELS + 1] < 1
    assert state[MODELS + 3:PER_JOB].tolist() == [1 / 8, 1 / 8]  # the bundle that everybody begins with
    assert (state[PER_JOB:] == 0).all()


def test_jobs_beyond_the_window_get_their_first_bundle_and_no_more_until_there_is_room():
    crowd = ArenaTrace(np.zeros(12, np.int64), np.full(12, 6), np.full(12, 1e6))
    agent = FlatAgent.fresh(SMALL, 0)
    agent.weights["out.bias"][-1] = -100.0  # never ends a slot
    tasks = slots(agent, crowd, count=1, site=cluster(8, nodes=20))[0].jobs.tasks
    assert (tasks[:, WORKER] >= 1).all()
    assert tasks[0, WORKER] > 1
    assert (tasks[-1] == 1).all()


def test_exploration_gives_a_job_the_role_that_it_lacks():
    lone = ArenaTrace(np.zeros(1, np.int64), np.array([0]), np.array([1e6]))
    site = cluster(8, nodes=3)
    site.demand[:, 2] = site.slots + 1  # no bundle fits, so a job begins with nothing
    agent = talkative(3, exploration=1.0)
    slots(agent, lone, count=5, site=site)
    states = agent.trail.states[:int(agent.trail.taken[0])]
    workers, servers = states[:, MODELS + 3], states[:, MODELS + 4]
    lacking = (workers == 0) != (servers == 0)
    assert lacking.any()
    wanted = np.where(workers == 0, 0, 1)[lacking]
    assert np.array_equal(agent.trail.actions[:len(states)][lacking], wanted)


def test_a_saved_agent_loads_only_with_its_own_window(tmp_path):
    agent = FlatAgent.fresh(SMALL, 7)
    agent.save(tmp_path, ModelCard("dl2-flat", "1", 0.0, 7, "0", "", ""))
    stored, _ = checkpoint.load(tmp_path, schema(SMALL), like=agent.weights)
    assert np.array_equal(stored["first.weight"], agent.weights["first.weight"])
    with pytest.raises(CheckpointError, match="trained for other inputs"):
        checkpoint.load(tmp_path, schema(NetworkSize(window=5, hidden=16)), like=agent.weights)
