"""The partitions of a cluster in the paper's form, and the flavours of a history's jobs.

The paper's agent has an action for each flavour and server, so it is made for few equal servers and few sizes of jobs.
Of many servers it therefore considers a shortlist (``scheduling_round.py``), and trains on as few: the smallest, the
largest, and evenly between. A smaller server is represented as a larger one that is partly occupied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....storage.eligibility import same_model
from ....storage.flavor import Flavor
from ...replay.arrays import Floats, Longs
from ...replay.cluster import Cluster
from ...replay.state import ClusterState
from ...replay.workload import Workload
from ...settings.flavours import FlavourSettings
from ..kinds import TraceWindow
from .environment import Arrival, GpuPartition, Resources

MOST_SERVERS = 16
"""Most servers that are considered for a job."""
MOST_FLAVOURS = 15
FEWEST_JOBS = 50
TERMINAL_LIMIT = 1.5
"""The terminal flavour's limit over that of the longest flavour, as in Table 2."""
NEARLY_ALL = 0.95
"""Share of a size's jobs that keep within its limit."""


@dataclass(frozen=True, slots=True)
class PartitionJobs:
    """Single-server jobs of one partition, by submission."""

    gpus: Longs
    cpus: Longs
    memory: Longs
    submit_s: Floats
    run_s: Floats
    limit_s: Floats
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


def single_server(state: ClusterState, partition: str) -> PartitionJobs:
    """Return the jobs that one server can hold."""
    jobs = state.arrays.jobs
    rows = np.flatnonzero(np.isin(jobs.queue, queues_of(state.cluster, state.workload, partition))
                          & (jobs.chunk > 0) & (jobs.chunks == 1) & (jobs.rest == 0))
    return PartitionJobs(jobs.chunk[rows].astype(np.int64), jobs.cpus[rows].astype(np.int64), jobs.memory[rows],
                         jobs.submit[rows], jobs.run[rows], jobs.limit[rows].astype(np.float64))


def misfit(cluster: Cluster, name: str) -> str | None:
    """Return why an agent cannot serve a partition; None when it can."""
    nodes = cluster.partitions[name]
    shared = [other for other, of_other in cluster.partitions.items() if other != name and (nodes & of_other).any()]
    if len(servers_of(cluster, name)) < 2:
        return "it has fewer than 2 servers with GPUs: there is nothing to choose between"
    if shared:
        return f"it shares nodes with {', '.join(shared)}, and an agent counts on having them to itself"
    return None


def servers_of(cluster: Cluster, name: str) -> NDArray[np.intp]:
    """Return the nodes of a partition that have GPUs, smallest first, equal ones as the cluster counts them."""
    servers = np.flatnonzero(cluster.partitions[name] & (cluster.gpus > 0))
    return servers[np.lexsort((cluster.memory[servers], cluster.cpus[servers], cluster.gpus[servers]))]


def learned_servers(servers: int) -> NDArray[np.intp]:
    """Return which of so many servers to train on: all, or the smallest, the largest, and evenly between."""
    return np.linspace(0, servers - 1, min(servers, MOST_SERVERS)).round().astype(np.intp)


def gist_partitions(window: TraceWindow,
                    configured: Sequence[FlavourSettings] = ()) -> tuple[dict[str, GpuPartition], dict[str, str]]:
    """Return the partitions that fit, with their flavours, and for each of the others why it does not."""
    state = ClusterState.of(window.cluster, window.workload)
    fitting: dict[str, GpuPartition] = {}
    reasons: dict[str, str] = {}
    for name in window.cluster.partitions:
        jobs = single_server(state, name)
        reason = misfit(window.cluster, name) or _too_few(jobs)
        flavours = configured_flavours(window.cluster, name, configured)
        partition = None if reason else gist_partition(window.cluster, name, jobs, flavours)
        if partition is not None and len(partition.flavors) < 2:
            reason = _why_one_flavour(name, configured)
        if reason or partition is None:
            reasons[name] = reason or ""
        else:
            fitting[name] = partition
    return fitting, reasons


def _too_few(jobs: PartitionJobs) -> str | None:
    if len(jobs.gpus) < FEWEST_JOBS:
        return f"{len(jobs.gpus)} single-server jobs are too few to learn from; {FEWEST_JOBS} are the least"
    return None


def _why_one_flavour(name: str, configured: Sequence[FlavourSettings]) -> str:
    if not configured:
        return "all its single-server jobs want as many GPUs: wherever there is room is as good"
    return (f"fewer than two configured flavours are for single servers of {name}, and with one wherever there is room "
            "is as good: add some under flavours, or leave that empty")


def configured_flavours(cluster: Cluster, name: str, configured: Sequence[FlavourSettings]) -> list[FlavourSettings]:
    """Return the configured flavours that one server of a partition holds, smallest first."""
    servers = servers_of(cluster, name).tolist()
    fitting = [flavour for flavour in configured if flavour.partition in ("", name) and any(
        flavour.gpus <= cluster.gpus[server] and same_model(flavour.gpu_model, cluster.model[server])
        for server in servers)]
    return sorted(fitting, key=lambda flavour: (flavour.gpus, flavour.limit or float("inf")))


def gist_partition(cluster: Cluster, name: str, jobs: PartitionJobs,
                   configured: Sequence[FlavourSettings] = ()) -> GpuPartition:
    """Return a partition as the paper describes one: with the configured flavours, else those that its jobs come in.

    These are sizes of 1, 2, 4 … GPUs, each with the limit that nearly all of its jobs keep within.
    """
    sizes, among = sizes_of(cluster, name)
    server, total = sizes[-1], sum(gpus for gpus, _, _ in sizes)
    if configured:
        flavours = [(flavour.name, flavour.gpus, flavour.limit) for flavour in configured]
    else:
        steps = _steps([gpus for gpus, _, _ in sizes])
        occur = np.bincount(np.searchsorted(steps, jobs.gpus), minlength=len(steps))[:len(steps)]
        flavours = [(f"{gpus}-gpu", gpus, None) for gpus, count in zip(steps, occur.tolist(), strict=True) if count]
    below = [0, *(gpus for _, gpus, _ in flavours)]
    flavors = tuple(_flavor(flavour, server, total, jobs, (jobs.gpus > smaller) & (jobs.gpus <= flavour[1]))
                    for flavour, smaller in zip(flavours, _smaller(below), strict=True))
    limit_s = TERMINAL_LIMIT * max((flavor.limit_s for flavor in flavors), default=1.0)
    terminal = Flavor("all", total, sum(cpus for _, cpus, _ in sizes), sum(memory for _, _, memory in sizes), limit_s,
                      1.0)
    return GpuPartition(name, flavors, terminal, len(sizes), 0.0, sizes if sizes[0] != server else (), among)


def sizes_of(cluster: Cluster, name: str) -> tuple[tuple[Resources, ...], int]:
    """Return the resources of each considered server, and the number of all servers; 0 where all are considered.

    Where all servers have equally many GPUs, CPUs and memory are the minimum over them.
    """
    servers = servers_of(cluster, name)
    resources = np.stack([cluster.gpus[servers], cluster.cpus[servers], cluster.memory[servers]],
                         axis=1).astype(np.int64)
    if resources[0, 0] == resources[-1, 0]:
        resources[:] = resources.min(axis=0)
    seats = learned_servers(len(servers))
    sizes = tuple((gpus, cpus, memory) for gpus, cpus, memory in resources[seats].tolist())
    return sizes, len(servers) if len(seats) < len(servers) else 0


def _steps(gpus: Sequence[int]) -> list[int]:
    """Return the distinct sizes of jobs: powers of two, the largest server, and others up to the most flavours."""
    most = max(gpus)
    powers = {2 ** power for power in range(most.bit_length()) if 2 ** power < most} | {most}
    others = sorted(set(gpus) - powers, reverse=True)[:max(0, MOST_FLAVOURS - len(powers))]
    return sorted(powers | set(others))


def _smaller(sizes: Sequence[int]) -> list[int]:
    """Return for each size but the first the next smaller one: two flavours may differ in their limits alone."""
    return [max(less for less in sizes if less < size) for size in sizes[1:]]


def _flavor(flavour: tuple[str, int, float | None], server: tuple[int, int, int], total: int, jobs: PartitionJobs,
            of_flavour: NDArray[np.bool_]) -> Flavor:
    """Return a flavour; CPUs and memory are the medians of its jobs, else its share of a server."""
    name, gpus, limit_s = flavour
    cpus, memory = ((int(np.median(column[of_flavour])) if of_flavour.any() else server_total * gpus // server[0])
                    for column, server_total in ((jobs.cpus, server[1]), (jobs.memory, server[2])))
    return Flavor(name, gpus, min(server[1], cpus), min(server[2], memory),
                  limit_s if limit_s is not None else _usual_limit(jobs, of_flavour), gpus / total)


def _usual_limit(jobs: PartitionJobs, of_flavour: NDArray[np.bool_]) -> float:
    """Return the limit that nearly all jobs keep within; for jobs without limits, such a run time."""
    for column in (jobs.limit_s[of_flavour], jobs.run_s[of_flavour], jobs.run_s):
        finite = column[np.isfinite(column)]
        if len(finite):
            return max(1.0, float(np.quantile(finite, NEARLY_ALL, method="higher")))
    return 1.0


def flavors_of(partition: GpuPartition, gpus: Longs, limit_s: Floats) -> NDArray[np.intp]:
    """Return for jobs the smallest flavour that holds so many GPUs for so long; -1 for those larger than all of them.

    One that asks for longer than its size may is of the longest of that size.
    """
    sizes = np.array([flavor.gpus for flavor in partition.flavors])
    limits = np.array([flavor.limit_s for flavor in partition.flavors])
    wide = sizes >= gpus[:, None]
    enough = wide & (limits >= limit_s[:, None])
    longest = np.searchsorted(sizes, sizes[wide.argmax(axis=1)], side="right") - 1
    return np.where(enough.any(axis=1), enough.argmax(axis=1), np.where(wide.any(axis=1), longest, -1))


class Episodes:
    """Draws episodes from trace windows: jobs that followed each other, in their sizes and real run times."""

    WINDOWS = 16
    DEMAND = 1.5
    """What an episode's jobs ask for, as a multiple of the partition; the paper's ask for 1.17 on average."""
    FEWEST, MOST = 4, 48

    def __init__(self, partition: GpuPartition, jobs: Mapping[int, PartitionJobs]) -> None:
        self._partition = partition
        self._jobs = [partition_jobs
                      for _, partition_jobs in sorted(jobs.items()) if len(partition_jobs.gpus) >= self.FEWEST]
        rates = np.concatenate([partition_jobs.gpus for partition_jobs in self._jobs]) / partition.terminal.gpus
        self._length = int(np.clip(round(self.DEMAND / rates.mean()), self.FEWEST, self.MOST))

    def __call__(self, random: np.random.Generator) -> list[Arrival]:
        """Return the jobs of an episode."""
        jobs = self._jobs[random.integers(len(self._jobs))]
        first = int(random.integers(max(1, len(jobs.gpus) - self._length + 1)))
        piece = slice(first, first + self._length)
        submit, run = jobs.submit_s[piece] - jobs.submit_s[first], jobs.run_s[piece]
        # Jobs that never overlap teach nothing: as in the paper all are submitted while the first ones run.
        squeeze = min(1.0, float(run.mean()) / max(1.0, float(submit[-1])))
        limits = jobs.limit_s[piece].tolist()
        flavors = flavors_of(self._partition, jobs.gpus[piece], jobs.limit_s[piece]).tolist()
        return [Arrival(flavor, when * squeeze, max(1.0, length), limit if np.isfinite(limit) else None)
                for flavor, when, length, limit in zip(flavors, submit.tolist(), run.tolist(), limits, strict=True)
                if flavor >= 0]
