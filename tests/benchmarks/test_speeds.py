"""Speed of the replay engine where speeds depend on spread and company, beside flat ones: 64 nodes of 8 GPUs.

Bounds hold on a quiet core and are scaled on a slower one, as in ``test_replay.py``.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from synthetic import synthetic
from test_replay import QUIET, minimal_rate

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, events
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.site_speeds import FLAT_SPEEDS, OTHERS, SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.storage.records import Node

CLUSTER = Cluster.from_records([Node(f"n{i}", ("default",), 8, leaf=f"l{i // 8}", spine=f"s{i // 32}")
                                for i in range(64)])
GROUPS = 20
JOBS = 100_000


def cell(factor):
    return SpeedCell(factor, 0.9 * factor, 1.1 * factor, "measured", 9)


def speeds(*, company):
    """Return a site of so many groups that are slower further apart, and beside some others."""
    random = np.random.default_rng(4)
    labels = [f"u{number}/train" for number in range(GROUPS)]
    beside = {(one, other): cell(float(random.uniform(0.8, 0.99))) for one in labels for other in (*labels, OTHERS)
              if random.random() < 0.3}
    return SiteSpeeds("site", tuple(SpeedGroup(
        f"u{number}", "train", 9, spread={"leaf": cell(0.9), "spine": cell(0.8), "further": cell(0.7)},
        company={other: kept for (one, other), kept in beside.items() if company and one == labels[number]})
        for number in range(GROUPS)))


def rate(known, policy):
    """Return jobs per CPU second of the compiled loop, the best of some; the load is 0.7 of what flat speeds bear."""
    group = np.random.default_rng(5).integers(0, GROUPS + 1, JOBS).astype(np.int32)
    workload = replace(synthetic(JOBS, 0.7), application=group)
    rules, best = named(policy).rules, float("inf")
    engine.run(CLUSTER, workload, named(policy), until=0.0, speed=known.table)  # compile
    for _ in range(4):
        state = ClusterState.of(CLUSTER, workload, speed=known.table)
        engine.prepare(state, rules)
        began = time.process_time()
        engine.go_on(state, events.event_list_of(CLUSTER), rules, np.inf)
        best = min(best, time.process_time() - began)
    return JOBS / best


@pytest.mark.parametrize(("policy", "flat", "apart", "beside"), [("fifo", 2e6, 1.5e6, 3e5),
                                                                 ("fifo+easy", 4e5, 4e5, 3e5)])
def test_jobs_per_second_with_the_sites_speeds(policy, flat, apart, beside):
    before = minimal_rate(synthetic(JOBS, 0.95))
    found = {name: rate(known, policy) for name, known in (
        ("flat", FLAT_SPEEDS), ("spread", speeds(company=False)), ("spread and company", speeds(company=True)))}
    minimal = min(before, minimal_rate(synthetic(JOBS, 0.95)))
    print(f"\n{policy}: " + ", ".join(f"{jobs / 1e6:.2f} M jobs/s with {name} speeds" for name, jobs in found.items())
          + f"; a minimal compiled FIFO {minimal / 1e6:.1f} M")
    for name, bound in (("flat", flat), ("spread", apart), ("spread and company", beside)):
        assert found[name] >= bound * min(1.0, minimal / QUIET), name
