"""Which partitions of a cluster have the paper's form, and the flavours that a history's jobs come in.

The paper's agent has an action for each flavour and server, so it is made for few equal servers and few sizes of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....storage.records import Flavor
from ...replay.cluster import Cluster
from ...replay.state import ClusterState
from ...replay.workload import Workload
from ..kinds import Stretch
from .environment import Arrival, Partition

Rows = NDArray[np.intp]

MOST_SERVERS = 16
FEWEST_JOBS = 50
TERMINAL_LIMIT = 1.5
"""Of the longest flavour's limit, as in Table 2."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Single-server jobs of one partition, by submission."""

    gpus: NDArray[np.int64]
    cpus: NDArray[np.int64]
    memory: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]


def partition_of(cluster: Cluster, workload: Workload, queue: int) -> str | None:
    """Return the partition whose nodes the jobs of a queue run on; None when they are those of several."""
    name = workload.partition_names[queue]
    if name in cluster.partitions:
        return name
    return next(iter(cluster.partitions), None) if workload.partition_names == ("default",) else None


def queues_of(cluster: Cluster, workload: Workload, partition: str) -> list[int]:
    """Return the queues whose jobs run on a partition."""
    return [queue for queue in range(len(workload.partition_names))
            if partition_of(cluster, workload, queue) == partition]


def single_server(state: ClusterState, partition: str) -> Jobs:
    """Return the jobs that one server can hold."""
    jobs = state.arrays.jobs
    rows = np.flatnonzero(np.isin(jobs.queue, queues_of(state.cluster, state.workload, partition))
                          & (jobs.chunk > 0) & (jobs.chunks == 1) & (jobs.rest == 0))
    return Jobs(jobs.chunk[rows].astype(np.int64), jobs.cpus[rows].astype(np.int64), jobs.memory[rows],
                jobs.submit[rows], jobs.run[rows])


def misfit(cluster: Cluster, name: str) -> str | None:
    """Return why the servers of a partition are not as the paper's; None when they are."""
    mine = cluster.partitions[name]
    sizes = np.unique(cluster.gpus[mine])
    shared = [other for other, theirs in cluster.partitions.items() if other != name and (mine & theirs).any()]
    if not 2 <= mine.sum() <= MOST_SERVERS:
        return f"it has {mine.sum()} servers, and the agent is made for 2 to {MOST_SERVERS}: it has an action for each"
    if len(sizes) > 1 or sizes[0] == 0:
        return f"its servers are not equal: they have {', '.join(map(str, sizes))} GPUs"
    if shared:
        return f"it shares nodes with {', '.join(shared)}, and an agent counts on having them to itself"
    return None


def forms(stretch: Stretch) -> tuple[dict[str, Partition], dict[str, str]]:
    """Return the partitions that fit, with their flavours, and for each of the others why it does not."""
    state = ClusterState.of(stretch.cluster, stretch.workload)
    fitting: dict[str, Partition] = {}
    reasons: dict[str, str] = {}
    for name in stretch.cluster.partitions:
        why = misfit(stretch.cluster, name)
        jobs = single_server(state, name)
        if why is None and len(jobs.gpus) < FEWEST_JOBS:
            why = f"{len(jobs.gpus)} single-server jobs are too few to learn from; {FEWEST_JOBS} are the least"
        if why is None and len(np.unique(jobs.gpus)) < 2:
            why = "all its single-server jobs want as many GPUs: wherever there is room is as good"
        if why is None:
            fitting[name] = form(stretch.cluster, name, jobs)
        else:
            reasons[name] = why
    return fitting, reasons


def form(cluster: Cluster, name: str, jobs: Jobs) -> Partition:
    """Return a partition as the paper describes one: flavours of 1, 2, 4 … GPUs, those that occur."""
    servers = np.flatnonzero(cluster.partitions[name])
    size = int(cluster.gpus[servers[0]])
    cpus, memory = int(cluster.cpus[servers].min()), int(cluster.memory[servers].min())
    steps = [*(2 ** power for power in range(size.bit_length()) if 2 ** power < size), size]
    numbers = np.searchsorted(steps, jobs.gpus)
    total = size * len(servers)
    flavors = tuple(
        Flavor(f"{gpus}-gpu", gpus, min(cpus, int(np.median(jobs.cpus[numbers == number]))),
               # How long such jobs ran says more about their end than what their users asked for.
               min(memory, int(np.median(jobs.memory[numbers == number]))),
               max(1.0, float(np.mean(jobs.run_s[numbers == number]))), gpus / total)
        for number, gpus in enumerate(steps) if (numbers == number).any())
    limit_s = TERMINAL_LIMIT * max(flavor.limit_s for flavor in flavors)
    terminal = Flavor("all", total, cpus * len(servers), memory * len(servers), limit_s, 1.0)
    return Partition(name, flavors, terminal, len(servers), 0.0)


def flavor_of(partition: Partition, gpus: int) -> int | None:
    """Return the smallest flavour that holds so many GPUs; None when a job is larger than all of them."""
    return next((number for number, flavor in enumerate(partition.flavors) if flavor.gpus >= gpus), None)


class Episodes:
    """Draws pieces of stretches as episodes: jobs that followed each other, in their sizes and real run times."""

    STRETCHES = 16
    DEMAND = 1.5
    """What an episode's jobs ask for, as a multiple of the partition; the paper's ask for 1.17 on average."""
    FEWEST, MOST = 4, 48

    def __init__(self, partition: Partition, jobs: Mapping[int, Jobs]) -> None:
        self._partition = partition
        self._jobs = [found for _, found in sorted(jobs.items()) if len(found.gpus) >= self.FEWEST]
        rates = np.concatenate([found.gpus for found in self._jobs]) / partition.terminal.gpus
        self._length = int(np.clip(round(self.DEMAND / rates.mean()), self.FEWEST, self.MOST))

    def __call__(self, random: np.random.Generator) -> list[Arrival]:
        """Return the jobs of an episode."""
        jobs = self._jobs[random.integers(len(self._jobs))]
        first = int(random.integers(max(1, len(jobs.gpus) - self._length + 1)))
        piece = slice(first, first + self._length)
        submit, run = jobs.submit_s[piece] - jobs.submit_s[first], jobs.run_s[piece]
        # Jobs that never meet teach nothing: as in the paper they all come while the first ones run.
        squeeze = min(1.0, float(run.mean()) / max(1.0, float(submit[-1])))
        flavors = [flavor_of(self._partition, gpus) for gpus in jobs.gpus[piece].tolist()]
        return [Arrival(flavor, when * squeeze, max(1.0, length)) for flavor, when, length
                in zip(flavors, submit.tolist(), run.tolist(), strict=True) if flavor is not None]
