"""How long TopDRL takes to decide who of 128 waiting jobs starts now."""

import time

import numpy as np
import pytest

from idlewatt.daemon.reproduce.topdrl import kernel as events
from idlewatt.daemon.reproduce.topdrl.arena import MIXES, made_up
from idlewatt.daemon.reproduce.topdrl.literal.agent import ActionEpisode, Literal
from idlewatt.daemon.reproduce.topdrl.sizefree import kernel, network

JOBS, BOUND_S = 128, 0.002


def crowd(gpus):
    """Return a cluster with few free GPUs, all jobs of an episode waiting but those that run."""
    drawn = made_up(1, 0, gpus, MIXES[1])
    drawn.jobs.submit[:] = 0.0
    jobs, cluster = drawn.begin()
    assert events.advance(drawn.site, jobs, cluster)
    while cluster.counts[events.FREE] > gpus // 8:
        events.start(drawn.site, jobs, cluster, kernel.pick(drawn.site, jobs, cluster, network.initial(1)))
    assert cluster.counts[events.QUEUED] >= events.WINDOW == JOBS
    return drawn, jobs, cluster


@pytest.mark.parametrize("gpus", [64, 512])
def test_a_decision_for_128_jobs_takes_less_than_two_milliseconds(gpus):
    drawn, jobs, cluster = crowd(gpus)
    weights, times = network.initial(1), []
    for _ in range(200):
        began = time.perf_counter()
        kernel.pick(drawn.site, jobs, cluster, weights)
        times.append(time.perf_counter() - began)
    median = float(np.median(times))
    print(f"{gpus} GPUs: {median * 1e3:.3f} ms, {median / BOUND_S:.2f} of the bound")
    assert median < BOUND_S


def test_a_decision_of_the_literal_network_takes_less_than_two_milliseconds():
    table, agent, times = ActionEpisode(made_up(1, 0, 64, MIXES[0])), Literal(), []
    for _ in range(200):
        began = time.perf_counter()
        action = agent.act(table.view())
        times.append(time.perf_counter() - began)
        table.act(action)
    median = float(np.median(times[5:]))
    print(f"literal: {median * 1e3:.3f} ms, {median / BOUND_S:.2f} of the bound")
    assert median < BOUND_S
