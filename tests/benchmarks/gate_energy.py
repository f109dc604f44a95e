"""Made-up years of two ways of placing by the engine: completion times and energy at the wall by block.

Energy is what the gate's own pairs come to, with empty nodes powered down after half an hour, as such a site counts.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from null_sites import site

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import POWER_DOWN_S, Exam, Pair, replayed, sums
from idlewatt.daemon.policies import named

LOAD = 0.5
"""Nobody saves much by powering down what is always busy."""


def placed_history(places, size, days, seed):
    """Return the blocks of FIFO with two ways of placing."""
    exam = Exam.of((TraceWindow(*site(days, load=LOAD, seed=seed, **size), 0.0),))
    ours, theirs = (replayed(named(f"fifo+{place}+easy"), exam, seed, power_down_s=POWER_DOWN_S) for place in places)
    pair = Pair.of(ours, theirs, exam)
    jct = [sums(trial.jct, pair.block, pair.blocks) for trial in (ours, theirs)]
    drawn = [trial.replays[0].drawn(pair.edges[0], down=True) for trial in (ours, theirs)]
    return {"edges": pair.edges[0], "jct": np.array(jct), "energy": np.array(drawn)}
