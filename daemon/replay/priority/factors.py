"""Each factor of priority/multifactor, and their weighted sum, as columns over jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...settings.priority import PrioritySettings

Floats = NDArray[np.float64]
MIB = 1 << 20
"""What Slurm counts memory in."""


@dataclass(frozen=True)
class Machine:
    """How large the cluster is."""

    nodes: int
    cpus: float


@dataclass(frozen=True)
class Claims:
    """What jobs bring to the formula; every array is [job]."""

    since: Floats
    """The time from which a job gains age, in seconds."""
    fair_share: Floats
    """0 to 1, of its association."""
    nodes: Floats
    cpus: Floats
    limit_s: Floats
    partition: Floats
    """PriorityJobFactor, as a rule over the largest of any partition."""
    qos: Floats
    """Priority of its QOS, as a rule over the largest of any."""
    association: Floats
    resources: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    """By resource what a job asks for, and what its partition has."""
    nice: Floats | float = 0.0
    site: Floats | float = 0.0


def age(settings: PrioritySettings, since: Floats, now: float) -> Floats:
    """Return how long jobs have waited as a share of PriorityMaxAge, 1 at most."""
    if settings.max_age_s <= 0:
        return np.ones_like(since)
    return np.minimum(np.maximum((now - since) / settings.max_age_s, 0.0), 1.0)


def job_size(settings: PrioritySettings, claims: Claims, machine: Machine) -> Floats:
    """Return the share of the cluster that jobs ask for, or what they leave with PriorityFavorSmall."""
    if settings.flags & {"SMALL_RELATIVE_TO_TIME", "SMALL_RELATIVE"}:
        size = np.maximum(claims.nodes * machine.cpus / machine.nodes, claims.cpus)
        size = size / np.maximum(claims.limit_s // 60.0, 1.0) / machine.cpus
        return np.clip(1.0 - size if settings.favor_small else size, 0.0, 1.0)
    nodes, cpus = claims.nodes / machine.nodes, claims.cpus / machine.cpus
    if settings.favor_small:
        nodes, cpus = 1.0 - nodes, 1.0 - cpus
    return np.clip(np.where(claims.cpus > 0, (nodes + cpus) / 2.0, nodes), 0.0, 1.0)


def resource_sum(settings: PrioritySettings, claims: Claims) -> Floats:
    """Return the weighted shares of the partition's resources that jobs ask for, or weighted amounts as configured."""
    total = np.zeros_like(claims.since)
    for name, weight in settings.resources.items():
        if name in claims.resources:
            requested, available = claims.resources[name]
            if settings.normal("TRES"):
                total += weight * np.divide(requested, available, out=np.zeros_like(total), where=available > 0)
            else:
                total += weight * requested / (MIB if name == "mem" else 1)
    return total


def weighted(settings: PrioritySettings, claims: Claims, machine: Machine, now: float) -> dict[str, Floats]:
    """Return every weighted factor by the name that ``sprio`` has for it."""
    return {
        "AGE": settings.age * age(settings, claims.since, now),
        "ASSOC": settings.association * claims.association,
        "FAIRSHARE": settings.fair_share * claims.fair_share,
        "JOBSIZE": settings.job_size * job_size(settings, claims, machine),
        "PARTITION": settings.partition * claims.partition,
        "QOS": settings.qos * claims.qos,
        "TRES": resource_sum(settings, claims),
        "SITE": np.zeros_like(claims.since) + claims.site,
        "NICE": np.zeros_like(claims.since) + claims.nice,
    }


def fixed_sum(settings: PrioritySettings, claims: Claims, machine: Machine) -> Floats:
    """Return the sum of all that does not change while a job waits: without age and fair-share."""
    parts = weighted(settings, claims, machine, 0.0)
    return sum((part for name, part in parts.items() if name not in ("AGE", "FAIRSHARE", "NICE")), -parts["NICE"])


def priority(parts: Mapping[str, Floats]) -> Floats:
    """Return the priorities that weighted factors make."""
    return whole(sum((part for name, part in parts.items() if name != "NICE"), -parts["NICE"]))


def whole(total: Floats) -> Floats:
    """Return sums as priorities: whole numbers from 1 on, 0 being that of held jobs."""
    return np.minimum(np.maximum(np.trunc(total), 1.0), float(0xFFFFFFFF))
