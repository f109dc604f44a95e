"""TopDRL as a policy: what it is shown, where it places, whom it promises what, and when it abstains."""

import time
from dataclasses import replace

import numpy as np
import pytest
from distant import NAMES, SPEEDS, cluster, workload

from idlewatt.daemon.agents import checkpoint
from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.free_resources import FreeResources
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.agents.topdrl import agent as topdrl
from idlewatt.daemon.agents.topdrl.agent import TopDRL
from idlewatt.daemon.agents.topdrl.network import INPUTS, NET, SLOWER
from idlewatt.daemon.agents.topdrl.train import first, shortest
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import ModelCard, Node

CARD = ModelCard("topdrl", "1", 1e9, 0, "0.1.0", "", "", kind="topdrl")
HOUR_S = 3600.0


def by(rule, **more):
    """Return the agent as it learns: a rule chooses among its candidates."""
    return TopDRL(np.zeros(NET.size), CARD, choose=lambda now, rows: rule(rows), **more)


def random_agent(seed):
    random = np.random.default_rng(seed)
    return TopDRL(random.normal(size=NET.size), CARD)


def waiting(gpus, *, nodes=None, known=SPEEDS, now=HOUR_S, **columns):
    columns = {"application": 1, "application_names": NAMES, **columns}
    work = Workload.of(np.arange(len(gpus)) * 60.0, np.full(len(gpus), HOUR_S), gpus, **columns)
    state = ClusterState.of(nodes or cluster(), work, known=known)
    for job in range(len(gpus)):
        join(state.arrays, job)
    state.arrays.clock[0] = now
    return state


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_weights_every_job_runs_where_it_may(seed):
    done = run(cluster(), workload(100, seed), random_agent(seed), speed=SPEEDS)  # ValueError if a job did not fit
    assert not np.isnan(done.end).any()


def test_jobs_of_several_nodes_are_placed_below_one_leaf():
    (start,) = by(first).decide(waiting([8]))
    leaf = cluster().leaf
    assert len(start.nodes) == 2
    assert len({int(leaf[node]) for node in start.nodes}) == 1


def test_it_is_shown_by_how_much_a_job_would_be_slower_now():
    state = waiting([3, 3, 3, 8])
    state.apply([Start(job, (node,), (3,)) for job, node in enumerate((0, 3, 6))])  # two whole nodes on each leaf
    rows = topdrl.SchedulingRound(observe(state), 1e9).rows()
    assert rows[0, SLOWER] == 0.0
    fuller = waiting([3] * 6 + [8])
    fuller.apply([Start(job, (node,), (3,)) for job, node in enumerate((0, 1, 3, 4, 6, 7))])
    assert topdrl.SchedulingRound(observe(fuller), 1e9).rows()[0, SLOWER] == pytest.approx(-np.log(0.45 / 0.9))


def test_who_was_picked_without_fitting_is_not_delayed():
    nodes = Cluster.from_spec("2x4")
    state = waiting([4, 8, 4, 4], nodes=nodes, limit=[HOUR_S, HOUR_S, 9 * HOUR_S, HOUR_S / 2], now=200.0)
    state.apply([Start(0, (0,), (4,))])
    assert [action.job for action in by(first).decide(state)] == [3]  # gone by then; the other would not be


def test_who_has_waited_for_too_long_goes_first_and_is_waited_for():
    state = waiting([4, 8, 1], nodes=Cluster.from_spec("2x4"))
    state.apply([Start(0, (0,), (4,))])
    assert list(by(shortest, longest_wait_s=60.0).decide(state)) == []


def test_an_agent_may_wait_but_not_on_an_idle_cluster():
    state = waiting([4, 4])
    idle = by(lambda rows: len(rows) - 1)
    assert len(idle.decide(state)) == 1
    state.apply([Start(0, (0,), (4,))])
    assert list(idle.decide(state)) == []


def test_an_observation_holds_neither_true_run_times_nor_true_speeds():
    """Two sites that differ only in what nobody knows look alike at every moment until it shows."""
    work = workload(60, load=3.0)
    other = replace(work, run=work.run * 1.37)
    slow = replace(SPEEDS, spread=SPEEDS.spread ** 2)
    observations = []
    for jobs, speed in ((work, SPEEDS), (other, slow)):
        state = ClusterState.of(cluster(), jobs, speed=speed, known=SPEEDS)
        for job in range(20):
            join(state.arrays, job)
        state.arrays.clock[0] = float(work.submit[20])
        state.apply(by(first).decide(state))
        state.arrays.clock[0] += 600.0
        observations.append(observe(state))
    _alike(*observations)
    assert len(observations[0].running.rows) > 3


def _alike(one, other):
    for name in one.__slots__ if hasattr(one, "__slots__") else vars(one):
        value, other_value = getattr(one, name), getattr(other, name)
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, other_value), name
        elif hasattr(value, "__dict__"):
            _alike(value, other_value)
        else:
            assert value == other_value, name


def test_it_abstains_for_groups_whose_speed_when_scattered_is_not_known():
    known = replace(SPEEDS, spread=np.array([np.ones(5), SPEEDS.spread[1], np.ones(5)]))
    assert random_agent(0).doubt(waiting([8, 8, 4], known=known, application=[1, 1, 1])) is None
    reason = random_agent(0).doubt(waiting([8, 8, 4], known=known, application=[1, 2, 2]))
    assert reason == "the speed of */imagenet when scattered is not known"
    assert random_agent(0).doubt(waiting([1, 1], known=known, application=[2, 2])) is None  # cannot be scattered


def test_a_cluster_of_another_size_and_jobs_unlike_any_are_doubted():
    agent = TopDRL(np.ones(NET.size), replace(CARD, seen={"nodes": (30.0, 40.0)}))
    assert "9 nodes are open" in agent.doubt(waiting([4]))
    agent = TopDRL(np.ones(NET.size), replace(CARD, seen={"run": (5.0, 6.0)}))
    assert "most by their run" in agent.doubt(waiting([4]))
    assert agent.drift(waiting([4])) == 1.0
    assert agent.drift(waiting([])) == 0.0


def test_reasons_are_the_inputs_that_set_a_job_apart():
    weights = np.zeros(NET.size)
    weights[INPUTS.index("GPUs")] = -1.0
    agent = TopDRL(weights, CARD)
    assert agent.reasons(waiting([1, 1, 8]), 2) == ("GPUs: later than others",)


def test_it_decides_the_same_after_saving_and_refuses_what_was_trained_for_other_inputs(tmp_path, monkeypatch):
    agent = random_agent(3)
    topdrl.save(tmp_path, agent.weights, CARD, 1e6)
    loaded, jobs = topdrl.load(tmp_path), workload(60, 5)
    assert loaded.longest_wait_s == 1e6
    rounded = TopDRL(agent.weights.astype(np.float32).astype(float), CARD, 1e6)
    assert run(cluster(), jobs, loaded, speed=SPEEDS).digest == run(cluster(), jobs, rounded, speed=SPEEDS).digest
    monkeypatch.setattr(topdrl, "schema", lambda: {"agent": "topdrl", "inputs": ["an older one"]})
    with pytest.raises(CheckpointError, match="trained for other inputs"):
        topdrl.load(tmp_path)
    assert checkpoint.verify(tmp_path).kind == "topdrl"


def test_a_decision_on_a_thousand_nodes_takes_less_than_five_milliseconds():
    random = np.random.default_rng(0)
    nodes = Cluster.from_mapping({"nodes": [{"name": f"l{leaf}-", "count": 25, "gpus": 8, "leaf": f"l{leaf}"}
                                            for leaf in range(40)]})
    gpus = np.concatenate([np.full(997, 8), random.choice([1, 2, 4, 8, 16, 32], 128)])
    state = waiting(gpus, nodes=nodes)
    state.apply([Start(job, (job,), (8,)) for job in range(997)])
    agent, took = random_agent(1), []
    for _ in range(15):
        began = time.process_time()
        agent.decide(state)
        took.append(time.process_time() - began)
    assert len(state.waiting) == 128
    assert min(took) < 0.005


def test_in_a_tree_of_any_depth_a_job_gets_the_lowest_place_that_has_room_and_of_several_the_fullest():
    nodes = Cluster.from_records([
        Node(f"n{number}", ("p",), 4, leaf=f"l{number}", spine=f"s{number}", above=(f"pod-{pod}", f"hall-{pod // 2}"))
        for number, pod in enumerate((0, 0, 0, 1, 1, 2))])
    observation = observe(waiting([8, 12, 16, 20], nodes=nodes, limit=[HOUR_S] * 4, now=0.0))
    resources = FreeResources(observation, observation.waiting.demands)
    assert [sorted(resources.placement(kind).nodes.tolist()) for kind in range(4)] == [[3, 4], [0, 1, 2], [0, 1, 2, 3],
                                                                            [0, 1, 2, 3, 4]]


def test_room_tells_when_a_job_fits_at_the_latest():
    state = waiting([4, 8], nodes=Cluster.from_spec("2x4"), limit=[HOUR_S, HOUR_S], now=0.0)
    state.apply([Start(0, (0,), (4,))])
    observation = observe(state)
    resources = FreeResources(observation, observation.waiting.demands)
    assert resources.placement(0) is None
    assert resources.reserve(0) == HOUR_S
