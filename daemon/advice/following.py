"""The command that makes a scheduler start a job where it is advised.

Each form for Slurm was tried on Slurm 22.05; those for Kubernetes stand in ``kubectl``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...storage.recommendations import Placement
from ...storage.records import Job
from ..replay.admission.queue_entry import excludes
from .kubectl import start_commands


def command_for(job: Job, placement: Placement, nodes: Iterable[str]) -> str:
    """Return the command that names a job's nodes among all nodes.

    It is '' for an array of which only a task is meant, and where no command can do it.

    Slurm takes no ``24+1``, so components go by their own number. The first takes no ReqNodeList ("Job resizing not
    supported for job arrays"), and a job that counts features in brackets never starts with one (BadConstraints): of
    these, all other nodes are excluded. What is excluded for the first component Slurm excludes for all of them, so
    that the others' commands, which come after it, take that back.
    """
    if job.owner:  # an object of Kubernetes, whose scheduler no command of Slurm reaches
        return start_commands(job.steering, placement) if job.steering is not None else ""
    if job.tasks > 1:
        return ""
    update = f"scontrol update jobid={job.job_id if job.raw_id is None or not job.group else job.raw_id}"
    if not excludes(job):
        return f"{update} ReqNodeList={','.join(placement.nodes)}{' ExcNodeList=' if job.group else ''}"
    return f"{update} ExcNodeList={','.join(node for node in nodes if node not in placement.nodes)}"
