"""How many tasks a second the elastic agent decides on, in whole replays."""

import time

from idlewatt.daemon.agents.dl2.arena import cluster, replay, traces
from idlewatt.daemon.agents.dl2.sizefree.agent import SizeFree

BOUND = 50_000.0


def test_the_agent_decides_fifty_thousand_times_a_second():
    site, trace = cluster(8), next(traces())
    replay(site, trace, SizeFree())
    agent, started = SizeFree(), time.perf_counter()
    for _ in range(5):
        replay(site, trace, agent)
    rate = agent.decisions / (time.perf_counter() - started)
    print(f"{rate:,.0f} decisions/s, {rate / BOUND:.1f} x the bound")
    assert rate > BOUND
