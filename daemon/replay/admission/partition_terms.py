"""What keeps a job out of a partition for good, as it is: time, size, account, quality of service."""

from __future__ import annotations

from dataclasses import replace

from ....storage.records import Job, Partition, SchedulerSnapshot
from .resource_demand import ResourceDemand

MOST_NODES = 1 << 30
PLAIN = {"PartitionDown": "{} is closed", "PartitionTimeLimit": "it may not run for so long in {}",
         "PartitionNodeLimit": "it needs more nodes than {} has"}
"""The same where no scheduler has such words; by the partition's name."""
_LIFTED = {"PARTITIONTIMELIMIT": "time", "PARTITION_TIME_LIMIT": "time",
           "PARTITIONMAXNODES": "most", "PARTITION_MAXIMUM_NODE": "most",
           "PARTITIONMINNODES": "least", "PARTITION_MINIMUM_NODE": "least"}
"""What of a partition the flags of a QOS lift, as sacctmgr and as JSON spells them."""


class PartitionTerms:
    """What each partition asks of a job, less what the job's quality of service lets it exceed."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        self._partitions = {partition.name: partition for partition in snapshot.partitions}
        self._lifted = {qos.name: frozenset(_LIFTED[flag] for flag in qos.flags if flag in _LIFTED)
                        for qos in snapshot.rules.qos or ()}
        self._bound: dict[tuple[object, ...], Partition] = {}

    def lifted(self, job: Job) -> frozenset[str]:
        """Return what the job's QOS lifts: ``time``, ``most`` and ``least`` nodes."""
        return self._lifted.get(job.qos, frozenset())

    def of(self, job: Job, name: str) -> Partition | None:
        """Return a partition as it binds a job; None where it is not known.

        What the job says nothing of it gets by the partition, whatever its QOS lifts.
        """
        known, lifted = self._partitions.get(name), self.lifted(job)
        if known is None or not lifted:
            return known
        time = "time" in lifted and job.limit_s is not None
        most = "most" in lifted and job.request.details.most_nodes > 0
        key = name, time, most, lifted
        if key not in self._bound:
            self._bound[key] = replace(known, max_time_s=None if time else known.max_time_s,
                                       most_nodes=None if most else known.most_nodes,
                                       least_nodes=0 if "least" in lifted else known.least_nodes)
        return self._bound[key]


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
