"""What a live job asks of nodes, in the scheduler's own arithmetic: GPUs, CPUs in whole cores, memory beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ....storage.records import Job, Partition, Request

_GROUP = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_COUNTED = re.compile(r"(\([^()]*\)|[^&,|*()\[\]]+)\*(\d{1,5})")
MOST_CHOICES = 64


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """What one component asks for; equal demands find the same nodes."""

    gpus: int
    """All together; 0 for a job without."""
    per_node: int = 0
    """GPUs on each node; 0 where the scheduler may split them."""
    per_task: int = 0
    per_socket: int = 0
    sockets: int = 1
    """Over which its cores are dealt out, one after the other, where each has its GPUs free; one will do."""
    least: int = 1
    """Fewest nodes."""
    most: int = 0
    """Most nodes that it asks for; 0 where any number will do."""
    ceiling: int = 0
    """Most nodes that its partition gives to a job that says no number; 0 where any number will do."""
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    cpus_per_node: int = 1
    """On each node at least."""
    cpus_per_gpu: int = 0
    memory: int = 0
    """Bytes on each node."""
    memory_per_cpu: int = 0
    memory_per_gpu: int = 0
    whole_memory: bool = False
    memory_total: int = 0
    """Where the request states no memory otherwise: over all nodes."""
    one_thread: bool = False
    exclusive: bool = False
    alone: str = ""
    """The user that shares its nodes with nobody else."""
    contiguous: bool = False

    @property
    def flexible(self) -> bool:
        """Tell whether the scheduler chooses the number of nodes or how GPUs split over them."""
        return (self.per_node == 0 and self.gpus > 1) or self.widest != self.least

    @property
    def widest(self) -> int:
        """Return the most nodes that it may get; 0 where any number will do."""
        return self.most or self.ceiling

    @property
    def adjacent(self) -> bool:
        """Tell whether its nodes have to stand side by side.

        For a job that may have more nodes than it must, Slurm joins sets of at least ``2 * least - most`` nodes
        (``_enough_nodes``): where one node is such a set, any nodes do.
        """
        return self.contiguous and self.least > 1 and (self.most == 0 or 2 * self.least - self.most > 1)

    @property
    def plain(self) -> bool:
        """Tell whether it wants equal parts of a known number of nodes."""
        return not (self.per_task or self.per_socket) and (self.per_node > 0 or self.gpus == 0)


def demand_of(job: Job, partition: Partition | None = None, sockets: int = 1, threads: int = 1) -> ResourceDemand:
    """Return what a job asks of nodes, with what its partition gives to jobs that do not say.

    Nodes have so many sockets, and cores so many threads. Of nodes a job takes as many as its partition gives at least,
    each with a task, and no more than it gives at most.
    """
    request, details = job.request, job.request.details
    own, per_node = _nodes_asked(request), request.gpus_per_node or 0
    per_task = max(1, -(-request.cpus // max(details.tasks, own))) if request.cpus else 1
    nodes = max(own, partition.least_nodes if partition else 0)
    ceiling = (partition.most_nodes or 0) if partition else 0
    most = max(details.most_nodes, own) if details.most_nodes else 0
    tasks = max(details.tasks, nodes)
    memory, per_cpu, per_gpu = _memory(job, partition)
    cpus_per_gpu = details.cpus_per_gpu or (partition.cpus_per_gpu if partition else 0)
    if details.gpus_per_socket and not per_node:
        per_node = details.gpus_per_socket  # one socket will do, whatever sockets a node must have
    return ResourceDemand(
        gpus=max(0 if details.gpus_per_socket else request.gpus, nodes * per_node), per_node=per_node,
        per_task=details.gpus_per_task,
        per_socket=details.gpus_per_socket, least=nodes,
        sockets=max(1, min(sockets, -(-(-(-tasks // nodes) * per_task) // threads))),
        most=min(most, ceiling or most), ceiling=ceiling,
        tasks=tasks, cpus_per_task=per_task, tasks_per_node=details.tasks_per_node,
        cpus_per_node=max(1, details.cpus_per_node), cpus_per_gpu=cpus_per_gpu,
        memory=memory, memory_per_cpu=per_cpu, memory_per_gpu=per_gpu,
        whole_memory=details.whole_memory and not per_gpu,
        memory_total=0 if memory or per_cpu or per_gpu or details.whole_memory else request.memory_bytes,
        one_thread=details.one_thread_per_core,
        exclusive=request.exclusive or (partition is not None and partition.exclusive),
        alone=job.user if details.exclusive_user else "", contiguous=details.contiguous)


def _nodes_asked(request: Request) -> int:
    """Return the fewest nodes that a job asks for."""
    nodes, per_node = max(1, request.nodes, len(request.required_nodes)), request.gpus_per_node or 0
    return max(nodes, -(-request.gpus // per_node)) if per_node and not request.details.gpus_per_socket else nodes


def _memory(job: Job, partition: Partition | None) -> tuple[int, int, int]:
    """Return the bytes for each node, CPU and GPU; what comes with GPUs takes the place of a default by CPU or node.

    A job that says how much it wants for a node or a CPU gets that and no more, whatever its partition gives with GPUs.
    """
    details, gpus = job.request.details, job.request.gpus
    default = partition.memory_per_gpu_bytes if partition else 0
    per_gpu = (details.memory_per_gpu_bytes or default) if gpus and not details.memory_said else 0
    return (0, 0, per_gpu) if per_gpu else (details.memory_per_node_bytes, details.memory_per_cpu_bytes, 0)


@lru_cache(maxsize=4096)
def choices(expression: str) -> tuple[str, ...]:
    """Return the expressions of which all nodes have to meet one and the same: ``[a|b]&c`` is ``(a)&c`` or ``(b)&c``.

    A group with counts says how many nodes meet what, not that all are alike, and stays as it is.
    """
    match = next((found for found in _GROUP.finditer(expression) if "*" not in found[1]), None)
    counted = next((found for found in _GROUP.finditer(expression) if "*" in found[1]), None)
    found = match or counted
    if found is None:
        return (expression,)
    parts = [f"{expression[:found.start()]}({part}){expression[found.end():]}" for part in found[1].split("|")]
    return tuple(each for part in parts[:MOST_CHOICES] for each in choices(part))[:MOST_CHOICES]


@lru_cache(maxsize=4096)
def counts(expression: str) -> tuple[tuple[str, int], ...]:
    """Return which features are wanted on how many nodes: ``a*2&b*1`` is a on two and b on one."""
    return tuple((name.strip("()"), int(number)) for name, number in _COUNTED.findall(expression))


def special(job: Job, demand: ResourceDemand) -> bool:
    """Tell whether the engine's own terms cannot say on which nodes a job may start together."""
    features = job.request.features
    switched = job.request.details.switches != 0 and demand.widest != 1
    more = demand.least > _nodes_asked(job.request)
    return bool(more or demand.contiguous or demand.per_socket or switched or demand.whole_memory or demand.alone
                or demand.exclusive or len(choices(features)) > 1 or counts(features)
                or 0 < len(job.request.required_nodes) < demand.least or len(job.request.required_nodes) > 1)
