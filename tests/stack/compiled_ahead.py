"""Compile what tests of many folders run, while they are collected: later each worker would compile it for itself.

``python compiled_ahead.py POLICY …`` compiles advice by these policies, then replays by those most tests replay.
Unlike the daemon's own warm-up it does not give way to whoever is busy: all are busy, and wait for this.
"""

import gc
import sys
from collections.abc import Sequence

from compiled_once import compile_once

from idlewatt.daemon.advice.warm_up import warm_up
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, timeline
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.power import PowerModel
from idlewatt.daemon.replay.workload import Workload

REPLAYED = ("fifo", "oracle", "random-feasible", "srtf")


def replay(policies: Sequence[str]) -> None:
    """Replay three jobs by each policy, of which one waits, alone and looked at over time."""
    cluster, jobs = Cluster.from_spec("2x4"), Workload.of([0.0, 1.0, 2.0], [9.0, 9.0, 9.0], [4, 8, 1], limit=20.0)
    for policy in policies:
        engine.run(cluster, jobs, named(policy), preemption_s=1.0)
        timeline.follow(cluster, jobs, named(policy), model=PowerModel())


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 20)  # a compiler makes millions of objects, and the collector took a tenth of the time
    compile_once()
    warm_up(sys.argv[1:])
    replay(REPLAYED)
