"""Compile what tests of many folders run, while they are collected: later each worker would compile it for itself.

``python compiled_ahead.py FRESH POLICY …`` compiles advice by these policies, then replays by those most tests replay;
FRESH is 1 where no machine code was there before any worker began, else 0: workers compile what they import, and may
be earlier. Unlike the daemon's own warm-up it does not give way to whoever is busy: all are busy, and wait for this.
"""

import fcntl
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from compiled_once import compile_once

from idlewatt.daemon.advice.warm_up import warm_up
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, timeline
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.compiled import cache_folder
from idlewatt.daemon.replay.power import PowerModel
from idlewatt.daemon.replay.workload import Workload

REPLAYED = ("fifo", "sjf-oracle+best-fit+easy", "random-feasible", "srtf")


def replay(policies: Sequence[str]) -> None:
    """Replay three jobs by each policy, of which one waits, alone and looked at over time."""
    cluster, jobs = Cluster.from_spec("2x4"), Workload.of([0.0, 1.0, 2.0], [9.0, 9.0, 9.0], [4, 8, 1], limit=20.0)
    for policy in policies:
        engine.run(cluster, jobs, named(policy), preemption_s=1.0)
        timeline.follow(cluster, jobs, named(policy), model=PowerModel())


def _note() -> Path:
    return cache_folder() / "advice-compiled-by"


def advise(fresh: bool, policies: Sequence[str]) -> None:
    """Compile advice by these policies, and note them where there was no machine code before."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _note().open("a") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        warm_up(policies)
        if fresh:
            note.write(" ".join(policies))


def advice_is_compiled() -> bool:
    """Wait until advice is compiled; tell whether this run compiled all of it, since none was there before."""
    if not _note().exists():
        return False
    with _note().open() as note:
        fcntl.flock(note, fcntl.LOCK_SH)
        return bool(note.read())


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 20)  # a compiler makes millions of objects, and the collector took a tenth of the time
    compile_once()
    advise(sys.argv[1] == "1", sys.argv[2:])
    replay(REPLAYED)
