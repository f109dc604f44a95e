"""How long agents that choose by small networks take to decide for 128 pending jobs on 1,000 nodes, without torch.

With little room a decision is what a busy site asks for: who of 128 goes first, and where. With much room dozens of
jobs start in one round, each chosen in the light of those before: as many decisions, and each is told by itself.
"""

import sys
import time
from typing import Any

import numpy as np
import pytest
from test_advice import NOW, site

from idlewatt.daemon.agents.dl2.agent import DL2
from idlewatt.daemon.agents.dl2.network import NET as SIZES
from idlewatt.daemon.agents.gist_mdrl.agent import GistAgent
from idlewatt.daemon.agents.gist_mdrl.live import SERVING, GistPolicy
from idlewatt.daemon.agents.gist_mdrl.site import PartitionJobs, gist_partition
from idlewatt.daemon.agents.maifs.agent import Maifs
from idlewatt.daemon.agents.maifs.network import initial
from idlewatt.daemon.agents.topdrl.agent import TopDRL
from idlewatt.daemon.agents.topdrl.network import NET as ORDERS
from idlewatt.daemon.replay import arrays as a
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.storage.records import ModelCard

BOUND_S, FAR_S, TIMES = 5e-3, 0.1, 30
"""What is wanted; what is a fault; decisions that are timed."""
RANDOM = np.random.default_rng(0)


def cell(factor):
    return SpeedCell(factor, factor, factor, "measured", 9)


SPEEDS = SiteSpeeds("site", (SpeedGroup("*", "*", 9, size={1: cell(1.0), 2: cell(1.8), 4: cell(3.2), 8: cell(5.0)},
                                        spread={"leaf": cell(0.8)}, cpus={2.0: cell(0.7), 4.0: cell(1.0)}),))
AGENTS: dict[str, Any] = {"dl2": DL2(RANDOM.normal(size=SIZES.size), ModelCard("dl2", "1", 0, 0, "", "", "")),
          "topdrl": TopDRL(RANDOM.normal(size=ORDERS.size), ModelCard("topdrl", "1", 0, 0, "", "", "")),
          "maifs": Maifs(initial(RANDOM), ModelCard("maifs", "1", 0, 0, "", "", ""))}


def gist():
    """An agent for that site's one partition, whose servers it looks at by shortlists, and which places all it can."""
    sizes, none, time_s = np.repeat([1, 2, 4, 8], 50), np.zeros(200, np.int64), np.ones(200)
    jobs = PartitionJobs(sizes, none, none, 0.0 * time_s, 3600.0 * time_s, 86400.0 * time_s)
    agent = GistAgent(gist_partition(ClusterState.from_snapshot(site(1000, 1), NOW).cluster, "gpu", jobs), SERVING)
    agent.weights["q.bias"][:-len(agent.partition.flavors)] = 1.0
    return GistPolicy({"gpu": agent}, ModelCard("gist_mdrl", "1", 0, 0, "", "", ""))


AGENTS["gist_mdrl"] = gist()


@pytest.mark.parametrize("room", ["much", "little"])
@pytest.mark.parametrize("name", AGENTS)
def test_a_decision_for_128_jobs_on_1000_nodes(name, room, capsys):
    state = ClusterState.from_snapshot(site(1000, 128), NOW, speeds=SPEEDS)
    if room == "little":  # as on a busy site: a few nodes have some GPUs left
        state.arrays.nodes.free_gpus[20:] = 0
    assert (state.arrays.jobs.status == a.WAITING).sum() == 128
    agent, took = AGENTS[name], []
    started = len(agent.decide(state))
    for _ in range(TIMES):
        began = time.process_time()
        agent.decide(state)
        took.append(time.process_time() - began)
    median = float(np.median(took))
    with capsys.disabled():
        print(f"\n{name}, {room} room, {started} started: {1e3 * median:.2f} ms, {median / BOUND_S:.2f} of the bound; "
              f"{1e3 * median / max(1, started):.2f} ms for each started job; best {1e3 * min(took):.2f} ms")
    assert "torch" not in sys.modules
    assert median < FAR_S
