"""Which partitions of a cluster have the paper's form, and the flavours that a history's jobs come in.

The paper's agent has an action for each flavour and server, so it is made for few equal servers and few sizes of jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....storage.eligibility import same_model
from ....storage.flavor import Flavor
from ...replay.cluster import Cluster
from ...replay.state import ClusterState
from ...replay.workload import Workload
from ...settings.flavours import FlavourSettings
from ..kinds import Stretch
from .environment import Arrival, Partition

Rows = NDArray[np.intp]

MOST_SERVERS = 16
FEWEST_JOBS = 50
TERMINAL_LIMIT = 1.5
"""Of the longest flavour's limit, as in Table 2."""
NEARLY_ALL = 0.95
"""Share of a size's jobs that keep within its limit."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Single-server jobs of one partition, by submission."""

    gpus: NDArray[np.int64]
    cpus: NDArray[np.int64]
    memory: NDArray[np.int64]
    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    limit_s: NDArray[np.float64]
    """Infinite where a job has none, or nobody knows."""


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
                jobs.submit[rows], jobs.run[rows], jobs.limit[rows].astype(np.float64))


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


def forms(stretch: Stretch, configured: Sequence[FlavourSettings] = ()) -> tuple[dict[str, Partition], dict[str, str]]:
    """Return the partitions that fit, with their flavours, and for each of the others why it does not."""
    state = ClusterState.of(stretch.cluster, stretch.workload)
    fitting: dict[str, Partition] = {}
    reasons: dict[str, str] = {}
    for name in stretch.cluster.partitions:
        jobs = single_server(state, name)
        why = misfit(stretch.cluster, name) or _too_few(jobs)
        found = None if why else form(stretch.cluster, name, jobs, meant(stretch.cluster, name, configured))
        if found is not None and len(found.flavors) < 2:
            why = _one_flavour(name, configured)
        if why or found is None:
            reasons[name] = why or ""
        else:
            fitting[name] = found
    return fitting, reasons


def _too_few(jobs: Jobs) -> str | None:
    if len(jobs.gpus) < FEWEST_JOBS:
        return f"{len(jobs.gpus)} single-server jobs are too few to learn from; {FEWEST_JOBS} are the least"
    return None


def _one_flavour(name: str, configured: Sequence[FlavourSettings]) -> str:
    if not configured:
        return "all its single-server jobs want as many GPUs: wherever there is room is as good"
    return (f"fewer than two configured flavours are for single servers of {name}, and with one wherever there is room "
            "is as good: add some under flavours, or leave that empty")


def meant(cluster: Cluster, name: str, configured: Sequence[FlavourSettings]) -> list[FlavourSettings]:
    """Return the configured flavours that one server of a partition holds, smallest first."""
    servers = np.flatnonzero(cluster.partitions[name])
    model, size = cluster.model[int(servers[0])], int(cluster.gpus[servers[0]])
    return sorted((one for one in configured if one.partition in ("", name) and one.gpus <= size
                   and same_model(one.gpu_model, model)), key=lambda one: (one.gpus, one.limit or float("inf")))


def form(cluster: Cluster, name: str, jobs: Jobs, configured: Sequence[FlavourSettings] = ()) -> Partition:
    """Return a partition as the paper describes one: with the configured flavours, else those that its jobs come in.

    These are sizes of 1, 2, 4 … GPUs, each with the limit that nearly all of its jobs keep within.
    """
    servers = np.flatnonzero(cluster.partitions[name])
    size, total = int(cluster.gpus[servers[0]]), int(cluster.gpus[servers].sum())
    server = size, int(cluster.cpus[servers].min()), int(cluster.memory[servers].min())
    if configured:
        asked = [(one.name, one.gpus, one.limit) for one in configured]
    else:
        steps = [*(2 ** power for power in range(size.bit_length()) if 2 ** power < size), size]
        occur = np.bincount(np.searchsorted(steps, jobs.gpus), minlength=len(steps))
        asked = [(f"{gpus}-gpu", gpus, None) for gpus, count in zip(steps, occur.tolist(), strict=True) if count]
    below = [0, *(gpus for _, gpus, _ in asked)]
    flavors = tuple(_flavor(one, server, total, jobs, (jobs.gpus > less) & (jobs.gpus <= one[1]))
                    for one, less in zip(asked, _smaller(below), strict=True))
    limit_s = TERMINAL_LIMIT * max((flavor.limit_s for flavor in flavors), default=1.0)
    terminal = Flavor("all", total, server[1] * len(servers), server[2] * len(servers), limit_s, 1.0)
    return Partition(name, flavors, terminal, len(servers), 0.0)


def _smaller(sizes: Sequence[int]) -> list[int]:
    """Return for each size but the first the next smaller one: two flavours may differ in their limits alone."""
    return [max(less for less in sizes if less < size) for size in sizes[1:]]


def _flavor(asked: tuple[str, int, float | None], server: tuple[int, int, int], total: int, jobs: Jobs,
            own: NDArray[np.bool_]) -> Flavor:
    """Return a flavour; CPUs and memory as its jobs usually have them, else its share of a server."""
    name, gpus, limit_s = asked
    cpus, memory = ((int(np.median(column[own])) if own.any() else whole * gpus // server[0])
                    for column, whole in ((jobs.cpus, server[1]), (jobs.memory, server[2])))
    return Flavor(name, gpus, min(server[1], cpus), min(server[2], memory),
                  limit_s if limit_s is not None else _usual_limit(jobs, own), gpus / total)


def _usual_limit(jobs: Jobs, own: NDArray[np.bool_]) -> float:
    """Return the limit that nearly all jobs keep within; where they have none, the run time that nearly all do."""
    for column in (jobs.limit_s[own], jobs.run_s[own], jobs.run_s):
        told = column[np.isfinite(column)]
        if len(told):
            return max(1.0, float(np.quantile(told, NEARLY_ALL, method="higher")))
    return 1.0


def flavor_of(partition: Partition, gpus: int, limit_s: float = float("inf")) -> int | None:
    """Return the smallest flavour that holds so many GPUs for so long; None when a job is larger than all of them.

    One that asks for longer than its size may is of the longest of that size.
    """
    wide = [(number, flavor) for number, flavor in enumerate(partition.flavors) if flavor.gpus >= gpus]
    least = [number for number, flavor in wide if flavor.gpus == wide[0][1].gpus]
    return next((number for number, flavor in wide if flavor.limit_s >= limit_s), least[-1] if least else None)


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
        limits = jobs.limit_s[piece].tolist()
        flavors = [flavor_of(self._partition, gpus, limit) for gpus, limit
                   in zip(jobs.gpus[piece].tolist(), limits, strict=True)]
        return [Arrival(flavor, when * squeeze, max(1.0, length), limit if np.isfinite(limit) else None)
                for flavor, when, length, limit in zip(flavors, submit.tolist(), run.tolist(), limits, strict=True)
                if flavor is not None]
