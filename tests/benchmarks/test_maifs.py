"""How long the joint decision of 32 nodes takes, and those on a cluster of a thousand."""

import time

import numpy as np
import pytest

from idlewatt.daemon.agents.maifs.graph import LEVELS
from idlewatt.daemon.reproduce.maifs import network
from idlewatt.daemon.reproduce.maifs.agent import ArenaMaifs
from idlewatt.daemon.reproduce.maifs.arena import ArenaTrace, begin, site_of
from idlewatt.daemon.reproduce.maifs.models import drawn
from idlewatt.daemon.reproduce.maifs.observation import NODE_WIDTH, PAIR_INPUTS, TASKS

BOUND_S = 2e-3


def median_s(call, times=200):
    call()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def test_32_candidates_decide_together_in_two_milliseconds():
    draw = np.random.default_rng(0)
    weights = network.unpacked(draw.standard_normal(network.SIZE))
    inputs, pair = draw.standard_normal((32, NODE_WIDTH)), draw.standard_normal((32, TASKS, PAIR_INPUTS))
    taken = median_s(lambda: network.joint(weights, inputs, pair, np.ones((32, TASKS, LEVELS))))
    print(f"32 candidates, {TASKS} tasks, all can take all: {taken * 1e3:.2f} ms, bound {BOUND_S * 1e3:.0f} ms")
    assert taken < BOUND_S


@pytest.mark.parametrize("nodes", [32, 1000])
def test_a_decision_from_the_state_of_the_nodes_stays_in_milliseconds(nodes):
    draw = np.random.default_rng(0)
    jobs = 6 * nodes
    round = begin(site_of(nodes),
                  ArenaTrace(np.zeros(jobs), np.full(jobs, 1e4), np.ones(jobs, np.int64), drawn(jobs, draw)))
    round.live = np.arange(jobs - TASKS)
    ArenaMaifs().decide(round)
    tasks = np.arange(jobs - TASKS, jobs)
    taken = median_s(lambda: ArenaMaifs().choose(round, tasks))
    print(f"{nodes} nodes, {jobs} jobs: {taken * 1e3:.2f} ms")
    assert taken < 2 * BOUND_S


def test_a_task_of_several_nodes_is_decided_in_milliseconds_among_a_thousand():
    draw = np.random.default_rng(0)
    site = site_of(1000, leaf=16)
    round = begin(site, ArenaTrace(np.zeros(6001), np.full(6001, 1e4), np.array([1] * 6000 + [128]), drawn(6001, draw)))
    round.live = np.arange(3000)
    ArenaMaifs().decide(round)
    taken = median_s(lambda: ArenaMaifs().gather(round, 6000))
    print(f"16 of 1000 nodes: {taken * 1e3:.2f} ms")
    assert taken < 2 * BOUND_S
