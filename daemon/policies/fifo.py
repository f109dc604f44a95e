"""First in, first out."""

from ..replay.arrays import State
from .registry import order


@order("fifo")
def fifo(state: State, job: int) -> float:
    """Order by submission."""
    return state.jobs[job].submit
