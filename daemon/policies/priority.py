"""The scheduler's own priority, as recorded at submission."""

from ..replay.arrays import State
from .registry import order


@order("priority")
def priority(state: State, job: int) -> float:
    """Order by recorded priority, highest first."""
    return -state.jobs[job].priority
