"""Slurm's priority/multifactor, as the site has configured it: age, fair-share, size, partition, QOS, resources."""

from ..replay.arrays import State
from ..replay.priority.clerk import Clerk
from .registry import order


@order("multifactor", clerk=Clerk)
def multifactor(state: State, job: int) -> float:
    """Order by the priorities that a :class:`Clerk` reckons; between two reckonings a job's rank is its key."""
    return float(state.jobs[job].rank)
