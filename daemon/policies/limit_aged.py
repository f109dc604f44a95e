"""Requested limit with ageing: the active order until an agent earns it."""

from ..replay.arrays import State
from ..replay.workload import UNLIMITED_S
from .registry import order

AGEING = 1.0
"""Seconds of limit that a second of waiting makes up for: at 1, a 24 h job outranks a newcomer of 1 h after 23 h."""


@order("limit-aged")
def limit_aged(state: State, job: int) -> float:
    """Order by requested limit less the time waited; nobody starves.

    ``limit - AGEING (now - submit)`` differs from the key below by a term that all waiting jobs share.
    """
    return min(state.jobs[job].limit, UNLIMITED_S) + AGEING * state.jobs[job].submit
