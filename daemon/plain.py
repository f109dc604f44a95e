"""A live snapshot in the terms of the engine: distinct ids, one partition a job, constraints as lists of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot
from .waste.stranded import has_features

NOWHERE = ("",)
"""The list of nodes of a job whose constraints no node meets."""

Constraint = tuple[str, tuple[str, ...], str]


def plain(snapshot: SchedulerSnapshot) -> tuple[SchedulerSnapshot, dict[str, Job]]:
    """Return the snapshot as the engine understands it, and the real job behind each of its ids.

    Features, excluded nodes and reservations become the list of nodes that meet them, a job for whole nodes asks for
    all their CPUs, and a job submitted to several partitions goes to one that holds them all.
    """
    nodes = tuple({node.name: node for node in snapshot.nodes}.values())
    real = _distinct(job for job in snapshot.jobs if job.state.active or job.state is JobState.PENDING)
    meeting: dict[Constraint, tuple[str, ...]] = {}
    jobs = []
    for name, job in real.items():
        request = job.request if job.state.active else _request(job.request, nodes, meeting)
        jobs.append(replace(job, job_id=name, request=request))
    return replace(snapshot, nodes=nodes, partitions=_partitions(snapshot, jobs), jobs=tuple(jobs)), real


def _distinct(jobs: Iterable[Job]) -> dict[str, Job]:
    """Return jobs by distinct ids: two clusters number their jobs alike."""
    known: dict[str, Job] = {}
    for job in jobs:
        name = job.job_id
        while name in known:
            name += "'"
        known[name] = job
    return known


def _request(request: Request, nodes: Sequence[Node], meeting: dict[Constraint, tuple[str, ...]]) -> Request:
    """Return what a pending job asks for, its constraints spelled out."""
    constraint = (request.features, request.excluded_nodes, request.reservation)
    required = request.required_nodes
    if len(required) < request.nodes:
        required = ()  # with fewer nodes named than needed the job may use others too
    if any(constraint):
        if constraint not in meeting:
            meeting[constraint] = tuple(node.name for node in nodes if _meets(node, request))
        allowed = meeting[constraint]
        required = tuple(name for name in required or allowed if name in allowed) or NOWHERE
    cpus = _all_cpus(request, nodes) if request.exclusive else request.cpus
    return replace(request, required_nodes=required, cpus=max(cpus, request.cpus))


def _meets(node: Node, request: Request) -> bool:
    # A reservation that the job does not name may end; the engine closes such nodes for now.
    return (node.name not in request.excluded_nodes and has_features(node.features, request.features)
            and (not request.reservation or node.reservation == request.reservation))


def _all_cpus(request: Request, nodes: Sequence[Node]) -> int:
    """Return so many CPUs that nobody else finds room on the job's nodes; of unlike nodes only the largest will do."""
    gpus = request.gpus_per_node or max((node.gpus for node in nodes), default=0)
    count = max(request.nodes, -(-request.gpus // gpus) if gpus else 1)
    return count * max((node.cpus for node in nodes), default=0)


def _partitions(snapshot: SchedulerSnapshot, jobs: Iterable[Job]) -> tuple[Partition, ...]:
    """Return the partitions, and one for each list of partitions that a job was submitted to."""
    lists = {job.partition for job in jobs if "," in job.partition}
    return (*snapshot.partitions, *(Partition(name, _members(snapshot, name.split(","))) for name in sorted(lists)))


def _members(snapshot: SchedulerSnapshot, names: Sequence[str]) -> tuple[str, ...]:
    listed = {node for partition in snapshot.partitions if partition.name in names for node in partition.nodes}
    return tuple(node.name for node in snapshot.nodes
                 if node.name in listed or set(names) & set(node.partitions))
