"""Nodes whose GPUs are of several types, MIG profiles among them: Slurm hands out each type by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...storage.records import Job, JobState, Node, Partition


def with_types_in_doubt(jobs: tuple[Job, ...], nodes: Iterable[Node], partitions: Iterable[Partition],
                        ) -> tuple[Job, ...]:
    """Return the jobs, those with an unknown fact that wait for one type of GPUs where nodes have several.

    Of such a node only the sum is counted: what of each type is free is not.
    """
    mixed = {node.name: node for node in nodes if node.gpu_models}
    if not mixed:
        return jobs
    members: dict[str, set[str]] = {partition.name: mixed.keys() & set(partition.nodes) for partition in partitions}
    for node in mixed.values():
        for name in node.partitions:
            members.setdefault(name, set()).add(node.name)
    return tuple(_judged(job, mixed, members) if job.state is JobState.PENDING and job.request.gpu_model else job
                 for job in jobs)


def _judged(job: Job, mixed: Mapping[str, Node], members: Mapping[str, set[str]]) -> Job:
    """Return a job with the nodes that may have its type free, or not, as a fact that is not known."""
    request = job.request
    names = set[str]().union(*(members.get(name, ()) for name in job.partition.split(",")))
    names -= set(request.excluded_nodes)
    if len(request.required_nodes) >= request.nodes:
        names &= set(request.required_nodes)
    names = {name for name in names if request.gpu_model.lower() in map(str.lower, mixed[name].gpu_models)}
    if not names:
        return job
    where = f"{names.pop()}, which has" if len(names) == 1 else f"{len(names)} nodes that have"
    return job.with_unknown([f"how many {request.gpu_model} are free on {where} GPUs of several types"])
