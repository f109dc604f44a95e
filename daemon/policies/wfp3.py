"""WFP3 (Tang et al., Cluster 2009): the wait in units of the requested limit, cubed, times the size."""

from ..replay.arrays import NOW, State
from ..replay.workload import UNLIMITED_S
from .registry import order


@order("wfp3", moving=True)
def wfp3(state: State, job: int) -> float:
    """Order by ``-(wait / limit)^3 x GPUs``."""
    row = state.jobs[job]
    ratio = (state.clock[NOW] - row.submit) / max(1.0, min(row.limit, UNLIMITED_S))
    return -(ratio * ratio * ratio) * max(1, row.gpus)
