"""What keeps a job out of a partition for good, as it is: time, size, account, quality of service."""

from __future__ import annotations

from ....storage.records import Job, Partition
from .resource_demand import ResourceDemand

MOST_NODES = 1 << 30
PLAIN = {"PartitionDown": "{} is closed", "PartitionTimeLimit": "it may not run for so long in {}",
         "PartitionNodeLimit": "it needs more nodes than {} has"}
"""The same where no scheduler has such words; by the partition's name."""


def unfit(job: Job, demand: ResourceDemand, partition: Partition) -> str:
    """Return the scheduler's word for a partition that a job may never use as it is; '' when it may."""
    if not partition.up:
        return "PartitionDown"
    if job.limit_s is not None and partition.max_time_s is not None and job.limit_s > partition.max_time_s:
        return "PartitionTimeLimit"
    most = (len(partition.nodes) or MOST_NODES) if partition.most_nodes is None else partition.most_nodes
    # A range that reaches beyond MaxNodes is refused as a whole by Slurm 22.05, one beyond what there is is not.
    beyond = partition.most_nodes is not None and job.request.details.most_nodes > partition.most_nodes
    if demand.least > most or beyond or (
            demand.most and demand.most < partition.least_nodes):
        return "PartitionNodeLimit"
    if partition.reservation_required and not job.request.reservation:
        return "Reservation"
    return _denied(job, partition)


def refusal_text(job: Job, code: str, partition: str) -> str:
    """Return why a job is not let in, in words: Slurm's own where Slurm would say so."""
    if job.steering is not None and code in PLAIN:
        return PLAIN[code].format(partition)
    return f"not eligible yet: the scheduler says {code}"


def _denied(job: Job, partition: Partition) -> str:
    if (partition.accounts and job.account not in partition.accounts) or (
            not partition.accounts and job.account in partition.accounts_denied):
        return "AccountNotAllowed"
    if (partition.qos_allowed and job.qos not in partition.qos_allowed) or (
            not partition.qos_allowed and job.qos in partition.qos_denied):
        return "QOSNotAllowed"
    return ""
