"""Dominant resource fairness (Ghodsi et al., NSDI'11) over GPUs, CPUs and memory."""

from ..replay.arrays import State
from .registry import order


@order("drf", moving=True, one_at_a_time=True)
def drf(state: State, job: int) -> float:
    """Order by the dominant share of the job's user; each start changes it, so the order is computed again after each.

    With ``+preempt`` it takes from users that have more, and keep more than this one has: each such step raises the
    lower share, so it comes to rest.
    """
    gpus, cpus, memory = 0.0, 0.0, 0.0
    for node in range(state.nodes.size):
        gpus += state.nodes[node].gpus
        cpus += state.nodes[node].cpus
        memory += state.nodes[node].memory
    user = state.jobs[job].user
    return max(state.usage[user, 0] / max(1.0, gpus), state.usage[user, 1] / max(1.0, cpus),
               state.usage[user, 2] / max(1.0, memory))
