"""Slurm's priority/multifactor, as the site has configured it: age, fair-share, size, partition, QOS, resources."""

from ..replay.arrays import State
from ..replay.priority.calculator import PriorityCalculator
from .registry import order


@order("multifactor", calculator=PriorityCalculator)
def multifactor(state: State, job: int) -> float:
    """Order by the priorities of a :class:`PriorityCalculator`; between two calculations a job's rank is its key."""
    return float(state.jobs[job].rank)
