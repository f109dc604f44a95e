"""Made-up years of two policies by the engine: completion times and energy at the wall by block.

Energy is what the gate's own pairs come to, with empty nodes powered down after half an hour, as such a site counts.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from null_sites import NULLS, key, site

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import Exam, Pair, replayed, sums
from idlewatt.daemon.policies import named

LOAD, POWER_DOWN_S = 0.5, 1800.0
"""Nobody saves much by powering down what is always busy."""


def energy_history(null, places, size, days, seed):
    """Return the blocks of two draws of a null, each placed in a way of its own; without a null both are FIFO."""
    cluster, work = site(days, load=LOAD, seed=seed, **size)
    keys = [key(null, work, np.random.default_rng([seed, which])) if null in NULLS else work.submit for which in (0, 1)]
    exams = [Exam.of((TraceWindow(cluster, replace(work, priority=-one), 0.0),)) for one in keys]
    ours, theirs = (replayed(named(f"priority+{place}+easy"), exam, seed, power_down_s=POWER_DOWN_S)
                    for place, exam in zip(places, exams, strict=True))
    pair = Pair.of(ours, theirs, exams[1])
    jct = [sums(trial.jct, pair.block, pair.blocks) for trial in (ours, theirs)]
    drawn = [trial.replays[0].drawn(pair.edges[0], down=True) for trial in (ours, theirs)]
    return {"edges": pair.edges[0], "jct": np.array(jct), "energy": np.array(drawn)}
