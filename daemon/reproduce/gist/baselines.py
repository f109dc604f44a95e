"""Baselines: the policies that the paper compares with, and those that every trained policy should be compared with.

[1] The paper's "Naive" is a random server in §6.1 and the first server with room in §3.2 and Fig. 3: both are here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...agents.gist_mdrl.environment import PlacementDecision
from .exact import QUEUE, Choice, Policy


def naive(decision: PlacementDecision) -> Mapping[Choice, float]:
    """Return the paper's *Naive* of §6.1: a random server; wait if the job does not fit there.

    [2] "A randomly selected GPU server if the server has enough resources": of the readings only this one, which waits
    though another server has room, gives the paper's 0.62.
    """
    return dict.fromkeys(range(len(decision.room)), 1 / len(decision.room))


def random_feasible(decision: PlacementDecision) -> Mapping[Choice, float]:
    """Return the random baseline: a random server with room; wait if there is none."""
    fitting = [server for server, room in enumerate(decision.room) if room]
    return dict.fromkeys(fitting, 1 / len(fitting)) if fitting else {QUEUE: 1.0}


def first_fit(decision: PlacementDecision) -> Mapping[Choice, float]:
    """Return first fit: the first server with room; wait if there is none."""
    return {decision.room.index(True) if any(decision.room) else QUEUE: 1.0}


NAIVE = "Naive: random server, else wait"
BASELINES: Mapping[str, Policy] = {NAIVE: naive, "random feasible": random_feasible, "first fit": first_fit}
"""Baselines by their names in reports."""
