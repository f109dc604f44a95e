"""What an agent sees and may do; what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.gist_mdrl.agent import IMPROVED, LITERAL, AgentChanges, GistAgent
from idlewatt.daemon.agents.gist_mdrl.environment import A100, V100, Environment
from idlewatt.storage.records import ModelCard

CARD = ModelCard("gist", "1", 1e9, 0, "0.1.0", "", "")
S, M, L = range(3)


def after(actions, flavors=(L, L, M, S)):
    environment = Environment(A100)
    decision = environment.reset(flavors)
    for action in actions:
        _, decision = environment.step(action)
    return decision


def test_the_papers_state_is_what_is_free_on_each_server():
    assert GistAgent(A100).encoder.encode(after([4])).tolist() == [0, 0, 0, 1, 1, 1]


def test_the_papers_actions_are_the_jobs_own_nine_in_all():
    agent = GistAgent(A100)
    assert agent.shape.actions == 9
    assert np.flatnonzero(agent.encoder.allowed(after([]))).tolist() == [4, 5, 8]
    assert np.flatnonzero(agent.encoder.allowed(after([4]))).tolist() == [4, 5, 8]


def test_masks_leave_servers_with_room_and_the_queue():
    encoder = GistAgent(A100, AgentChanges(masked=True)).encoder
    assert np.flatnonzero(encoder.allowed(after([4]))).tolist() == [5, 8]
    assert np.flatnonzero(encoder.allowed(after([4, 5]))).tolist() == [7]


def test_time_and_queue_are_seen_when_asked_for():
    encoder = GistAgent(A100, IMPROVED).encoder
    state = dict(zip(encoder.names, encoder.encode(after([4, 8])).tolist(), strict=True))
    assert state["remaining time of server, by fill, number 0"] == pytest.approx(334 / 504)
    assert state["queued l-A100"] == 1.0
    assert state["from the queue"] == 0.0


def test_equal_servers_are_seen_fullest_first_whichever_they_are():
    agent = GistAgent(A100, AgentChanges(alike=True, masked=True, remaining=True))
    one, other = after([4], (L, M, M, S)), after([5], (L, M, M, S))
    assert agent.encoder.encode(one).tolist() == agent.encoder.encode(other).tolist()
    assert agent.encoder.allowed(one).tolist() == agent.encoder.allowed(other).tolist()
    assert [agent.act(decision) for decision in (one, other)] == [3, 2]  # a medium job to the server with room


def test_an_agent_takes_the_best_of_the_jobs_own_actions():
    agent = GistAgent(A100)
    agent.weights["q.bias"][:] = range(9)
    assert agent.act(after([])) == 8
    agent.weights["q.bias"][5] = 99
    assert agent.act(after([])) == 5
    agent.weights["q.bias"][0] = 1000
    assert agent.act(after([])) == 5


def test_exploration_stays_within_the_jobs_actions():
    agent = GistAgent(A100, AgentChanges(masked=True))
    assert {agent.act(after([4]), exploration=1.0) for _ in range(50)} == {5, 8}


def test_who_was_loaded_to_serve_does_not_learn():
    with pytest.raises(RuntimeError, match="serves"):
        GistAgent(A100).learn(None)


def test_a_saved_agent_acts_the_same(tmp_path):
    one, other = GistAgent(A100, IMPROVED, seed=1), GistAgent(A100, IMPROVED, seed=2)
    one.weights["q.weight"][:] = np.random.default_rng(3).normal(size=(64, 9))
    one.save(tmp_path, CARD)
    other.load(tmp_path)
    assert [one.act(after(done)) for done in ([], [4], [4, 8])] == [
        other.act(after(done)) for done in ([], [4], [4, 8])]


@pytest.mark.parametrize("other", [GistAgent(V100, IMPROVED), GistAgent(A100, LITERAL),
                                   GistAgent(A100.with_limits(1, 2, 3, 4), IMPROVED)])
def test_weights_of_another_partition_or_agent_are_refused(tmp_path, other):
    GistAgent(A100, IMPROVED).save(tmp_path, CARD)
    with pytest.raises(CheckpointError, match="train it anew"):
        other.load(tmp_path)


def test_an_agent_serves_without_torch():
    code = ("import sys; from idlewatt.daemon.agents.gist_mdrl import agent, environment as e; "
            "a = agent.GistAgent(e.A100); a.act(e.Environment(e.A100).reset((0, 1, 2, 0))); "
            "import idlewatt.daemon.agents.checkpoint, idlewatt.daemon.agents.tracking; "
            "sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_daemon_never_imports_torch():
    code = ("import sys; import idlewatt.daemon.main, idlewatt.daemon.service, idlewatt.daemon.cli.serve, "
            "idlewatt.daemon.cli.reproduce; sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
