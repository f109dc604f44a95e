"""All of the gate's conditions on made-up histories, by the engine and by the gate's own pairs: energy among them."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

from gate_years import SIZES
from null_sites import looking_at_limits, site

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import Exam, Pair, replayed
from idlewatt.daemon.learning.promotion_criteria import ASSUMED
from idlewatt.daemon.policies import named


def conditions(weight, size, days, seed):
    """Return which conditions hold after so many days of an agent that looks at limits."""
    cluster, work = site(days, seed=seed, **SIZES[size])
    agent = replace(work, priority=-looking_at_limits(work, weight))
    exams = [Exam.of((TraceWindow(cluster, one, 0.0),)) for one in (agent, work)]
    ours, theirs = (replayed(named(f"{order}+best-fit+easy"), exam, 0)
                    for order, exam in zip(("priority", "fifo"), exams, strict=True))
    pair, error = Pair.of(ours, theirs, exams[1]), ASSUMED.error
    bound = 1.0 / ASSUMED.saving
    energy = {"on": pair.energy(down=False, bound=bound), "down": pair.energy(down=True, bound=bound)}
    return {"better": pair.jct().below(error),
            "groups": all(pair.jct(members, ASSUMED.group).bounded(error) for _, members in exams[1].groups()),
            "p99_wait": pair.tail(ASSUMED.tail_floor_s, ASSUMED.tail).bounded(error),
            **{f"energy_{name}": one.bounded(error) for name, one in energy.items()}}
