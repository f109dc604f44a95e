"""Time to look for moves on 1,000 nodes that are nearly full, for 200 jobs that wait."""

import time

import numpy as np
import pytest

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders.moves import MoveRecommender
from idlewatt.daemon.settings.recommenders import MovesSettings
from idlewatt.storage.moves import Relief
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import Telemetry

NOW, NODES, WAITING = 1_800_000_000.0, 1000, 200
BOUND_S, ROUNDS = 0.1, 10


def scene(fill: float) -> RecommenderContext:
    """Return a cluster whose nodes were filled with jobs of 1, 2 and 4 GPUs, each with this chance of one more."""
    chance = np.random.default_rng(1)
    nodes, jobs = [], []
    for number in range(NODES):
        name, partition, used = f"n{number}", f"p{number % 3}", 0
        while used < 8 and chance.random() < fill:
            gpus = int(min(8 - used, chance.choice([1, 1, 2, 2, 4])))
            began = NOW - float(chance.integers(60, 36000))
            jobs.append(Job(str(len(jobs)), began, JobState.RUNNING, partition, Request(gpus, 1, gpus, 8 * gpus),
                            start_s=began, allocations=(Allocation(name, gpus, None, 8 * gpus),)))
            used += gpus
        nodes.append(Node(name, (partition,), 8, ("a100", "h100")[number % 2], 128, gpus_allocated=used,
                          cpus_allocated=8 * used))
    for number in range(WAITING):
        gpus, count = int(chance.choice([4, 8, 8])), int(chance.choice([1, 1, 2, 4]))
        jobs.append(Job(f"w{number}", NOW - 600 + number, JobState.PENDING, f"p{number % 3}",
                        Request(gpus * count, count, gpus, 8 * gpus * count)))
    return RecommenderContext(NOW, SchedulerSnapshot(NOW, tuple(nodes), (), tuple(jobs)), Telemetry())


@pytest.mark.parametrize("fill", [0.985, 0.988, 0.99])
def test_moves_on_a_thousand_nodes_are_found_within_a_tenth_of_a_second(fill):
    found, recommender, times = scene(fill), MoveRecommender(MovesSettings()), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        rows = [row for row in recommender.recommend(found).rows if isinstance(row, Relief)]
        times.append(time.perf_counter() - began)
    best = min(times)  # the round that other programs disturbed least
    freed, moved = sum(sum(row.placement.gpus) for row in rows), sum(row.gpus_moved for row in rows)
    print(f"\n{WAITING} waiting jobs on {NODES} nodes: {best * 1e3:.0f} ms, {best / BOUND_S:.2f} of the bound; "
          f"{len(rows)} could start on {freed} GPUs if {moved} were moved")
    assert best < BOUND_S
