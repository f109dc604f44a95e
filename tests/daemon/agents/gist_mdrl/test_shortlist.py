"""Partitions of more than 16 servers and of unequal ones: what an agent looks at, learns on and refuses."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents.gist_mdrl import live
from idlewatt.daemon.agents.gist_mdrl import site_training as training
from idlewatt.daemon.agents.gist_mdrl.agent import GistAgent, Hyperparameters
from idlewatt.daemon.agents.gist_mdrl.environment import Environment, play
from idlewatt.daemon.agents.gist_mdrl.live import SERVING, GistPolicy
from idlewatt.daemon.agents.gist_mdrl.scheduling_round import SchedulingRound, jobs_in_order
from idlewatt.daemon.agents.gist_mdrl.site import gist_partitions, queues_of
from idlewatt.daemon.agents.kinds import TraceWindow, TrainingConfig
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import ModelCard

HOUR_S = 3600.0
CARD = ModelCard("gist_mdrl", "1", 1e9, 0, "0.1.0", "", "", kind="gist_mdrl")


def cluster(large, small=0, without=0):
    """Servers of eight and of four GPUs, and some without, in one partition."""
    sizes = {"l": (large, 8), "s": (small, 4), "c": (without, 0)}
    return Cluster.from_mapping({"nodes": [
        {"name": name, "count": count, "gpus": gpus, "cpus": 16 * gpus or 64, "partitions": ["a"]}
        for name, (count, gpus) in sizes.items() if count]})


def workload(jobs=150, hours=60.0, seed=0, **columns):
    random = np.random.default_rng(seed)
    columns = {"limit": 12 * HOUR_S, **columns}
    return Workload.of(np.sort(random.uniform(0, hours * HOUR_S, jobs)), random.uniform(HOUR_S, 8 * HOUR_S, jobs),
                       random.choice([1, 2, 4, 8, 16], jobs, p=[0.3, 0.3, 0.2, 0.15, 0.05]),
                       partition=["a"] * jobs, **columns)


def window(nodes, number=0, jobs=150, hours=60.0):
    return TraceWindow(nodes, workload(jobs, hours, number), 0.1 * hours * HOUR_S)


def waiting(nodes, work):
    """Return the state in which all jobs wait."""
    state = ClusterState.of(nodes, work)
    for job in range(len(work)):
        join(state.arrays, job)
    state.arrays.clock[0] = 0.0
    return state


def agent_for(nodes):
    agent = GistAgent(gist_partitions(window(nodes))[0]["a"], SERVING)
    random = np.random.default_rng(1)
    for name in ("q.weight", "value.weight"):
        agent.weights[name] = random.normal(size=agent.weights[name].shape).astype(np.float32)
    return agent


def seats_of(nodes, gpus, running=()):
    """Return the names of the servers that an agent considers for a job of so many GPUs beside ``running`` jobs."""
    work = Workload.of(np.zeros(1 + len(running)), np.full(1 + len(running), HOUR_S),
                       [*(more for _, more in running), gpus], partition=["a"] * (1 + len(running)))
    state = waiting(nodes, work)
    state.apply([Start(job, (node,), (more,)) for job, (node, more) in enumerate(running)])
    observation = observe(state)
    jobs = jobs_in_order(state, observation, queues_of(nodes, work, "a"), 1e9)
    scheduling_round = SchedulingRound(state, observation, agent_for(nodes), jobs)
    return [nodes.names[node] for node in scheduling_round._seats(0)]


def test_of_many_servers_a_job_is_shown_the_fullest_on_which_it_fits_some_empty_ones_and_some_between():
    taken = [(10, 7), (15, 6), (17, 4), (19, 2)]
    seats = seats_of(cluster(40), 2, taken)
    assert len(seats) == len(set(seats)) == 16
    assert seats[:4] == ["l10", "l15", "l17", "l19"], "the fullest of all, which has no room, and those that have"
    assert {"l36", "l37", "l38", "l39"} < set(seats), "the emptiest"


def test_up_to_sixteen_servers_are_all_looked_at_however_unequal():
    partition = gist_partitions(window(cluster(10, 6)))[0]["a"]
    assert (partition.servers, partition.among) == (16, 0)
    assert {size[0] for size in partition.sizes} == {4, 8}
    assert len(seats_of(cluster(10, 6), 2)) == 16


def test_a_smaller_server_is_a_larger_one_that_is_partly_taken():
    partition = gist_partitions(window(cluster(1, 1)))[0]["a"]
    assert partition.server == (8, 128, partition.server[2])
    decision = Environment(partition).reset([0])
    assert sorted(free[0] for free in decision.free) == [4, 8]
    encoder = GistAgent(partition, SERVING).encoder
    values = dict(zip(encoder.names, encoder.encode(decision), strict=True))
    assert values["free gpus of server, by fill, number 0"] == 0.5
    assert [flavor.gpus for flavor in partition.flavors] == [1, 2, 4, 8]
    assert partition.flavors[-1].rate == 8 / 12
    assert play(Environment(partition), [3, 3, 0], GistAgent(partition, SERVING).act).utilization > 0


def test_servers_without_gpus_are_not_looked_at_but_run_the_jobs_that_need_none():
    nodes = cluster(2, 1, without=2)
    partition = gist_partitions(window(nodes))[0]["a"]
    assert partition.servers == 3
    work = Workload.of([0.0, 0.0], [HOUR_S, HOUR_S], [0, 2], partition=["a", "a"])
    outcome = run(nodes, work, GistPolicy({"a": agent_for(nodes)}, CARD))
    assert nodes.names[int(outcome.state.held(0).node[0])].startswith("c")
    assert not np.isnan(outcome.end).any()


@pytest.mark.parametrize("nodes", [cluster(22), cluster(3, 2), cluster(30, 20)])
def test_whatever_the_weights_every_job_is_run_where_it_may(nodes):
    jobs = workload(200, hours=20.0, seed=3)
    outcome = run(nodes, jobs, GistPolicy({"a": agent_for(nodes)}, CARD))  # ValueError if a job did not fit
    assert not np.isnan(outcome.end).any()


@pytest.mark.parametrize(("nodes", "jobs"), [(cluster(22), 150), (cluster(600, 400), 150)])
def test_it_learns_on_22_and_on_1000_unequal_servers_and_advises_there(nodes, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "VALUES", Hyperparameters(batch=8, warm_up=8, discount=0.9))
    monkeypatch.setattr(training, "ROUND", 2)
    config = TrainingConfig(lambda number: window(nodes, number, jobs), [window(nodes, 99, 60, 2.0)],
                            "fifo+first-fit", 0, 1e9, tmp_path / "course", steps=2)
    assert list(training.train(config))[-1].done == 1.0
    policy = GistPolicy(live.load(config.folder / "best").agents, CARD)  # listened to, however little it has learned
    partition = policy.agents["a"].partition
    assert (partition.servers, partition.among) == (16, len(nodes))
    assert len({size[0] for size in partition.sizes}) == (2 if len(nodes) == 1000 else 0)
    state = waiting(nodes, workload(40, hours=0.0, seed=5))
    assert policy.doubt(state) is None
    assert policy.decide(state)
    assert any("is worth" in reason for reason in policy.reasons(state, 0))


@pytest.mark.parametrize(("other", "why"), [
    (cluster(9), "9 servers of up to 8 GPUs; trained on 40 of up to 8, the agent is known to hold from 20 to 80"),
    (cluster(0, 40), "40 servers of up to 4 GPUs"), (cluster(60, 3), None), (cluster(39), None)])
def test_an_agent_of_many_servers_holds_for_as_many_again_and_doubts_others(other, why):
    policy = GistPolicy({"a": agent_for(cluster(40))}, CARD)
    doubt = policy.doubt(ClusterState.of(other, workload(1)))
    assert doubt is None if why is None else why in doubt


def test_fine_tuning_goes_on_where_a_node_was_added(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(training, "ROUND", 2)
    monkeypatch.setattr(training, "VALUES", replace(training.VALUES, batch=8, warm_up=8))
    first = TrainingConfig(lambda number: window(cluster(22), number), [window(cluster(22), 9, 60)],
                           "fifo+first-fit", 0, 1e9, tmp_path / "first", steps=2)
    list(training.train(first))
    grown = replace(first, fit=lambda number: window(cluster(23), number), folder=tmp_path / "second",
                    start=first.folder / "best")
    list(itertools.islice(training.train(grown), 1))
    assert "anew" not in caplog.text
