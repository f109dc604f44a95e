"""The agents as one policy for a cluster: what they are asked, what is added to the paper, what they refuse."""

import numpy as np
import pytest

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import WEIGHTS, CheckpointError, save, verified
from idlewatt.daemon.agents.gist_mdrl import live
from idlewatt.daemon.agents.gist_mdrl.agent import GistAgent
from idlewatt.daemon.agents.gist_mdrl.live import SERVING, GistPolicy
from idlewatt.daemon.agents.gist_mdrl.site import gist_partitions
from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import ModelCard

CARD = ModelCard("gist_mdrl", "1", 1e9, 0, "0.1.0", "", "", kind="gist_mdrl")
HOUR_S = 3600.0


def cluster(**groups):
    return Cluster.from_mapping({"nodes": [{"name": name, "count": count, "gpus": 8, "partitions": [name]}
                                           for name, count in groups.items()]})


def workload(jobs, seed=0, partitions=("a", "b")):
    random = np.random.default_rng(seed)
    return Workload.of(np.sort(random.uniform(0, 50 * HOUR_S, jobs)), random.uniform(HOUR_S, 8 * HOUR_S, jobs),
                       random.choice([1, 2, 4, 8, 16], jobs, p=[0.3, 0.3, 0.2, 0.15, 0.05]), limit=12 * HOUR_S,
                       partition=random.choice(partitions, jobs))


@pytest.fixture
def agents():
    """Return agents of random weights: what holds for them holds for any."""
    fitting, _ = gist_partitions(TraceWindow(cluster(a=2, b=3), workload(400), 0.0))
    made = {name: GistAgent(partition, SERVING) for name, partition in fitting.items()}
    random = np.random.default_rng(1)
    for agent in made.values():
        for name in ("q.weight", "value.weight"):
            agent.weights[name] = random.normal(size=agent.weights[name].shape).astype(np.float32)
    return made


def waiting(gpus, *, nodes=None, partition="a", submit=None, now=0.0):
    """Return the state in which these jobs wait, by default since just now."""
    state = ClusterState.of(nodes or cluster(a=2, b=3), Workload.of(
        submit or np.zeros(len(gpus)), np.full(len(gpus), HOUR_S), gpus, partition=[partition] * len(gpus)))
    for job in range(len(gpus)):
        join(state.arrays, job)
    state.arrays.clock[0] = now
    return state


def prefer(agent, *, waits):
    """Let an agent always wait, or always place."""
    for name in ("q.weight", "value.weight"):
        agent.weights[name][:] = 0
    actions = len(agent.partition.flavors) * agent.partition.servers
    agent.weights["q.bias"][:] = np.where(np.arange(agent.shape.actions) >= actions, waits, 0)


def test_it_is_a_kind_that_can_be_trained_and_made_active():
    assert kinds.kinds()["gist_mdrl"].name == "gist_mdrl"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_weights_every_job_is_run_where_it_may(agents, seed):
    jobs = workload(150, seed)
    outcome = run(cluster(a=2, b=3), jobs, GistPolicy(agents, CARD))  # ValueError if a job did not fit
    assert not np.isnan(outcome.end).any()


def test_largest_first_each_partition_by_its_own_agent(agents):
    for agent in agents.values():
        prefer(agent, waits=-1)
    starts = GistPolicy(agents, CARD).decide(waiting([1, 8, 4, 8]))
    assert [action.job for action in starts] == [1, 3]


def test_an_agent_may_hold_a_job_but_not_leave_its_partition_empty(agents):
    prefer(agents["a"], waits=1)
    policy, state = GistPolicy(agents, CARD), waiting([4, 2])
    assert [action.job for action in policy.decide(state)] == [0]
    state.apply(policy.decide(state))
    assert list(policy.decide(state)) == []


def test_who_has_waited_for_too_long_goes_first_and_is_waited_for(agents):
    prefer(agents["a"], waits=-1)
    policy = GistPolicy(agents, CARD, longest_wait_s=10 * HOUR_S)
    state = waiting([4, 16, 2, 8], submit=[0.0, 0.0, 8 * HOUR_S, 8 * HOUR_S], now=0.0)
    state.apply([Start(0, (0,), (4,))])
    state.arrays.clock[0] = 11 * HOUR_S
    assert list(policy.decide(state)) == []
    state.arrays.clock[0] = 9 * HOUR_S
    assert {action.job for action in policy.decide(state)} == {2, 3}


def test_a_heuristic_decides_where_there_is_no_agent(agents):
    del agents["b"]
    policy, state = GistPolicy(agents, CARD), waiting([4, 2], partition="b")
    assert {action.job for action in policy.decide(state)} == {0, 1}
    assert policy.drift(state) == 1.0
    assert "have no agent" in policy.doubt(state)
    assert "no agent" in policy.reasons(state, 0)[0]


def test_a_job_of_two_partitions_with_agents_gets_what_these_leave(agents):
    for agent in agents.values():
        prefer(agent, waits=-1)
    work = Workload.of(np.zeros(6), [HOUR_S] * 5 + [60.0], [8] * 6, limit=[HOUR_S] * 5 + [60.0],
                       partition=["a", "b", "b", "b", "a,b", "a,b"])
    state = ClusterState.of(cluster(a=2, b=3), work)
    for job in range(6):
        join(state.arrays, job)
    actions = GistPolicy(agents, CARD).decide(state)
    state.apply(actions)  # ValueError if two were given the same node
    assert sorted(action.job for action in actions) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize(("nodes", "why"), [
    (cluster(a=3, b=3), "partition a: it has 3 servers of 8 GPUs and the agent was trained on 2 of 8; train it anew"),
    (cluster(b=3), "no partition of this name any more")])
def test_a_cluster_that_changed_size_overnight_is_doubted(agents, nodes, why):
    policy = GistPolicy(agents, CARD)
    state = waiting([4], nodes=nodes, partition="b")
    assert why in policy.doubt(state)
    assert policy.doubt(waiting([4])) is None
    assert run(nodes, workload(30, partitions=("b",)), policy).rejected == []


def test_reasons_are_what_each_choice_is_worth(agents):
    prefer(agents["a"], waits=-1)
    policy = GistPolicy(agents, CARD)
    reasons = policy.reasons(waiting([4, 16]), 0)
    assert [reason.split()[0] for reason in reasons] == ["a0", "a1", "waiting"]
    assert "several servers" in policy.reasons(waiting([4, 16]), 1)[0]


def test_agents_decide_the_same_after_saving(agents, tmp_path):
    live.save(tmp_path, agents, CARD, 3 * HOUR_S)
    loaded, jobs = live.load(tmp_path), workload(80, 5)
    assert loaded.longest_wait_s == 3 * HOUR_S
    assert run(cluster(a=2, b=3), jobs, loaded).digest == run(
        cluster(a=2, b=3), jobs, GistPolicy(agents, CARD, 3 * HOUR_S)).digest


def test_damaged_agents_are_refused(agents, tmp_path):
    live.save(tmp_path, agents, CARD, HOUR_S)
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(CheckpointError, match="digest"):
        live.load(tmp_path)
    live.save(tmp_path, {}, CARD, HOUR_S)
    with pytest.raises(CheckpointError, match="make no sense"):
        live.load(tmp_path)


@pytest.mark.parametrize(("name", "value", "why"), [
    ("manner", np.array([np.nan]), "whether its agents are listened to"),
    ("manner", np.array([1.0]), "whether its agents are listened to"),
    ("manner", np.array([[1]]), "whether its agents are listened to"),
    ("a/servers", np.array([np.nan]), "which partitions it is for"),
    ("a/servers", np.array([np.inf]), "which partitions it is for"),
    ("a/servers", np.array([[2, 2]]), "which partitions it is for"),
    ("a/servers", None, "which partitions it is for"),
    ("a/flavors", np.array(3.0), "make no sense")])
def test_strange_words_about_partitions_and_modes_are_refused(agents, tmp_path, name, value, why):
    live.save(tmp_path, agents, CARD, HOUR_S, "abstains")
    arrays, card = verified(tmp_path)
    changed = {key: array for key, array in {**arrays, name: value}.items() if array is not None}
    save(tmp_path, card, changed, live.schema(agents))
    with pytest.raises(CheckpointError, match=why):
        live.load(tmp_path)


@pytest.mark.parametrize("mode", ["abstains", "first_fit"])
def test_whether_or_not_agents_are_listened_to_every_job_is_run(agents, mode):
    outcome = run(cluster(a=2, b=3), workload(150), GistPolicy(agents, CARD, mode=mode))
    assert not np.isnan(outcome.end).any()


@pytest.mark.parametrize(("mode", "heuristic"), [("abstains", live.FALLBACK), ("first_fit", live.FIRST_FIT)])
def test_who_is_not_listened_to_leaves_all_to_a_heuristic_and_says_so(agents, mode, heuristic):
    policy, state = GistPolicy(agents, CARD, mode=mode), waiting([1, 8, 4, 8])
    assert list(policy.decide(state)) == list(live.named(heuristic).decide(state))
    assert f"no better on later days than {heuristic}" in policy.reasons(state, 0)[0]


@pytest.mark.parametrize("mode", live.SERVING_MODES)
def test_whether_agents_are_listened_to_is_kept_with_them(agents, tmp_path, mode):
    live.save(tmp_path, agents, CARD, 3600.0, mode)
    assert live.load(tmp_path).mode == mode
