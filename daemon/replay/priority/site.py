"""What a site's configuration says about order and backfill; a cluster carries it to every replay of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ....storage.records import Partition
from ....storage.rules import Association, SchedulerRules
from ...settings.priority import BackfillSettings, PrioritySettings
from .fair_share import ShareNode
from .preemption import SchedulerPreemption

_BOOKED = {"limits", "safe", "all"}
"""What of accounting must be enforced for a job's end to be booked."""


@dataclass(frozen=True)
class Scheduling:
    """Order and backfill as configured; without configuration Slurm's defaults: first come, first served.

    ``priority.unset`` names the lines that are unknown.
    """

    priority: PrioritySettings = PrioritySettings()
    backfill: BackfillSettings = BackfillSettings()
    members: tuple[ShareNode, ...] = ()
    """Accounts and users; empty where unknown: then every user has an equal share."""
    qos: Mapping[str, float] = field(default_factory=dict)
    """Priority of each quality of service, over the largest unless the settings say otherwise."""
    associations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Priority of each account, and user in one, over the largest unless the settings say otherwise."""
    usage_factor: Mapping[str, float] = field(default_factory=dict)
    """By quality of service, how much of a job's use is booked; 1 where it is missing."""
    partitions: Mapping[str, float] = field(default_factory=dict)
    """PriorityJobFactor of each partition, over the largest unless the settings say otherwise."""
    billing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a job is charged for each resource, by partition; where that is none, or unknown, its CPUs count."""
    usage: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Decayed seconds of what was charged so far, CPUs as a rule, by account and user."""
    used_until_s: float | None = None
    """When that was so; None for the first moment of a replay."""
    reckoned_s: float | None = None
    """A moment at which priorities were calculated; others are whole periods away. None for the first event's."""
    current: bool = False
    """The priorities that waiting jobs bring are the scheduler's own present ones."""
    tiers: Mapping[str, int] = field(default_factory=dict)
    """PriorityTier of each partition, which comes before all priorities; 1 where it is missing."""
    preemption: SchedulerPreemption = SchedulerPreemption()
    books_ends: bool = True
    """What a job used after the last calculation is booked at its end; Slurm only does where it enforces limits."""

    def weights_of(self, partition: str) -> Mapping[str, float]:
        """Return the weights of a partition; of several names with commas those of the first that tells."""
        return next((self.billing[name] for name in partition.split(",") if name in self.billing), {})

    def partition_factor(self, partition: str) -> float:
        """Return the factor of a partition, of several names with commas the largest known; 1 where none is known."""
        return max((self.partitions[name] for name in partition.split(",") if name in self.partitions), default=1.0)

    @classmethod
    def of_config_lines(cls, settings: Mapping[str, object]) -> Scheduling:
        """Return what lines of ``scontrol show config`` say, without accounts; ValueError names one that is wrong."""
        lines = {str(name): str(value) for name, value in settings.items()}
        enforced = {part.strip() for part in lines.get("AccountingStorageEnforce", "limits").lower().split(",")}
        return cls(PrioritySettings.of(lines),
                   BackfillSettings.of(tuple(lines.get("SchedulerParameters", "").split(","))),
                   preemption=SchedulerPreemption.of_config_lines(lines),
                   books_ends=bool(_BOOKED & enforced))

    @classmethod
    def of(cls, rules: SchedulerRules, partitions: tuple[Partition, ...] = ()) -> Scheduling:
        """Return what a scheduler's rules and partitions say; ValueError names a setting that is no number."""
        settings, enforced = PrioritySettings.of(dict(rules.site.priority)), rules.site.enforced
        associations = _association_priorities(settings, rules)
        if associations:
            settings = replace(settings, unfollowed=tuple(
                line for line in settings.unfollowed if line != "PriorityWeightAssoc"))
        most = max((qos.priority for qos in rules.qos or ()), default=0.0) if settings.normal("QOS") else 1.0
        factor = max((partition.priority_factor for partition in partitions), default=1) \
            if settings.normal("PART") else 1
        return cls(
            settings, BackfillSettings.of(rules.site.parameters),
            tuple(map(_member, rules.associations or ())),
            {qos.name: qos.priority / most if most > 0 else 0.0 for qos in rules.qos or ()},
            associations,
            {qos.name: qos.usage_factor for qos in rules.qos or ()},
            {partition.name: partition.priority_factor / max(1, factor) for partition in partitions},
            {partition.name: dict(partition.billing_weights)
             for partition in partitions if partition.billing_weights is not None},
            tiers={partition.name: partition.priority_tier for partition in partitions},
            preemption=SchedulerPreemption.of(rules, partitions),
            books_ends=enforced is None or bool(_BOOKED & set(enforced)))


def _association_priorities(settings: PrioritySettings, rules: SchedulerRules) -> dict[tuple[str, str], float]:
    """Return what PriorityWeightAssoc weighs, by account and user; nothing where that is not known of all."""
    priorities = {(association.account, association.user): association.priority
                  for association in rules.associations or () if association.priority is not None}
    if len(priorities) < len({(association.account, association.user) for association in rules.associations or ()}):
        return {}
    most = max(priorities.values(), default=0.0) if settings.normal("ASSOC") else 1.0
    return {key: priority / most if most > 0 else 0.0 for key, priority in priorities.items()}


def _member(association: Association) -> ShareNode:
    return ShareNode(association.account, association.user, association.parent, association.shares)
