"""A scheduler as plain as a default Slurm: strict first come, first served, on the first server that fits.

It wastes on purpose: a large job at the head keeps small ones waiting beside free GPUs (the paper's Figure 3a).
The one thing it obeys is a list of required nodes, as ``scontrol update ReqNodeList=`` gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ...storage.waiting import WaitReason
from .hardware import Server
from .jobs import SimulatedJob


class Capacity:
    """What is free on each server."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._number = {server.name: number for number, server in enumerate(servers)}
        self._partition = np.array([server.model.partition for server in servers])
        self.taken = np.zeros((len(servers), max(s.model.gpus for s in servers)), dtype=bool)
        """Which GPUs are held: servers x GPU indexes."""
        self.free_gpus = np.array([server.model.gpus for server in servers])
        self.free_cpus = np.array([server.model.cpus for server in servers])
        self.free_memory = np.array([server.model.memory_bytes for server in servers])
        self.open = np.ones(len(servers), dtype=bool)
        """Servers that take new jobs; a drained one does not."""

    def place(self, job: SimulatedJob) -> list[int] | None:
        """Return the first servers on which the job fits, None when it does not fit now."""
        numbers = np.flatnonzero(self._fits(job))[:job.nodes]
        return numbers.tolist() if len(numbers) == job.nodes else None

    def _fits(self, job: SimulatedJob) -> npt.NDArray[np.bool_]:
        fits: npt.NDArray[np.bool_] = (
            self.open & (self._partition == job.partition) & (self.free_gpus >= job.gpus_per_node)
            & (self.free_cpus >= job.cpus_per_node) & (self.free_memory >= job.memory_per_node))
        if job.required_nodes:
            required = np.zeros_like(fits)
            required[[self._number[name] for name in job.required_nodes]] = True
            fits &= required
        return fits

    def take(self, job: SimulatedJob, server: int) -> tuple[int, ...]:
        """Give a job its part of a server and return the GPU indexes it got: the lowest that are free."""
        indexes = np.flatnonzero(~self.taken[server])[:job.gpus_per_node]
        self.taken[server, indexes] = True
        self._change(job, server, -1)
        return tuple(int(index) for index in indexes)

    def give_back(self, job: SimulatedJob, server: int, indexes: tuple[int, ...]) -> None:
        """Take back the part of a server that a job held."""
        self.taken[server, list(indexes)] = False
        self._change(job, server, +1)

    def _change(self, job: SimulatedJob, server: int, sign: int) -> None:
        self.free_gpus[server] += sign * job.gpus_per_node
        self.free_cpus[server] += sign * job.cpus_per_node
        self.free_memory[server] += sign * job.memory_per_node


def startable(queue: Iterable[SimulatedJob], capacity: Capacity) -> tuple[SimulatedJob, list[int]] | None:
    """Return the next job of a partition's queue that may start, and its servers; None when none may.

    A steered job neither waits for the head nor holds it up. The head that does not fit blocks all behind it.
    """
    blocked = False
    for job in queue:
        if blocked and not job.required_nodes:
            job.reason = WaitReason.PRIORITY
            continue
        servers = capacity.place(job)
        if servers is not None:
            return job, servers
        job.reason = WaitReason.RESOURCES
        blocked = blocked or not job.required_nodes
    return None
