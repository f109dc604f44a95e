"""Which running jobs waste power now: how much, since when, and the one thing to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Protocol

from ...storage.power_classes import PowerClass
from ...storage.records import Job
from ..waste import HeldRun, run_of
from .rows import HolderRow

LEAST_WATTS = 0.5


class WastePart(Protocol):
    """A row of where the watts go, as far as it counts here."""

    @property
    def node(self) -> str:
        """Return the node."""

    @property
    def gpu(self) -> int | None:
        """Return the GPU; None for the rest of the node."""

    @property
    def run(self) -> HeldRun | None:
        """Return the run that holds it."""

    @property
    def power_class(self) -> PowerClass:
        """Return the class."""

    @property
    def power_watts(self) -> float | None:
        """Return the watts."""

    @property
    def since_s(self) -> float | None:
        """Return since when it is idle or hung."""


@dataclass(slots=True)
class _Held:
    """What a job holds and wastes."""

    gpus: set[tuple[str, int]] = field(default_factory=set)
    wasting: dict[PowerClass, set[tuple[str, int]]] = field(default_factory=dict)
    watts: float = 0.0
    wasted: dict[PowerClass, float] = field(default_factory=dict)
    since_s: float | None = None

    def add(self, part: WastePart) -> None:
        """Add one GPU's part."""
        place = part.node, part.gpu if part.gpu is not None else -1
        self.gpus.add(place)
        self.watts += part.power_watts or 0.0
        if not part.power_class.wasted or not part.power_watts:
            return
        self.wasted[part.power_class] = self.wasted.get(part.power_class, 0.0) + part.power_watts
        self.wasting.setdefault(part.power_class, set()).add(place)
        if part.since_s is not None:
            self.since_s = part.since_s if self.since_s is None else min(self.since_s, part.since_s)


def wasters(parts: Iterable[WastePart], jobs: Sequence[Job]) -> list[HolderRow]:
    """Return the running jobs that waste power now, the most wasteful first."""
    known = {run_of(job): job for job in jobs if job.state.active}
    held: dict[tuple[str, float], tuple[Job, _Held]] = {}
    for part in parts:
        job = known.get(part.run) if part.run is not None and part.gpu is not None else None
        if job is not None:
            held.setdefault(job.key, (job, _Held()))[1].add(part)
    rows = [_row(job, gpus) for job, gpus in held.values() if sum(gpus.wasted.values()) >= LEAST_WATTS]
    return sorted(rows, key=lambda row: (-row.wasted_watts, row.job_id))


def _row(job: Job, held: _Held) -> HolderRow:
    worst = max(held.wasted, key=lambda row: (held.wasted[row], row.value))
    wasting = len(held.wasting[worst])
    action, command = remedy(job, worst, wasting, len(held.gpus))
    since_s = held.since_s if worst is not PowerClass.ALLOCATED_UNDERUSED else job.start_s
    return HolderRow(job.job_id, job.user, job.account, job.partition, job.name, worst, wasting, len(held.gpus),
                     held.watts, sum(held.wasted.values()), since_s=since_s, action=action, command=command,
                     run=run_of(job))

SCALED = frozenset(("Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet", "ReplicationController"))
"""Kinds whose pods are made again when they are deleted."""
LOGGED = frozenset(("Pod", "Job", "Deployment", "StatefulSet", "ReplicaSet"))
"""Kinds of which kubectl finds the pods' logs by itself."""


def remedy(job: Job, power_class: PowerClass, gpus: int, held: int) -> tuple[str, str]:
    """Return what to do about a job that wastes power, and the command for it; idlewatt itself ends nothing."""
    look = f"idlewatt job {quote(job.job_id)}"
    if power_class is PowerClass.ALLOCATED_IDLE and gpus >= held:
        return "Ask its owner; end it if nobody needs it.", _ending(job)
    if power_class is PowerClass.ALLOCATED_IDLE:
        return f"Run it again with {held - gpus} GPU{'s' * (held - gpus != 1)}: {gpus} of {held} do nothing.", look
    if power_class is PowerClass.ALLOCATED_HUNG:
        return "Look at its log; end it if it makes no progress.", _looking(job)
    return power_class.remedy, look


def _ending(job: Job) -> str:
    if "/" not in job.job_id:
        return f"scancel {quote(job.job_id)}"
    kind, where, what = job.owner.partition("/")[0], *_object(job)
    if kind in SCALED:  # its pods would be made again
        return f"kubectl {where} scale {what} --replicas=0"
    return f"kubectl {where} delete {what}"


def _looking(job: Job) -> str:
    if "/" not in job.job_id:
        return f"scontrol show job {quote(job.job_id)}"
    where, what = _object(job)
    return f"kubectl {where} {'logs' if job.owner.partition('/')[0] in LOGGED else 'describe'} {what}"


def _object(job: Job) -> tuple[str, str]:
    """Return the namespace and the object of a job of Kubernetes, as commands take them."""
    namespace, _, name = job.job_id.rpartition("/")
    what = job.steering.owner if job.steering is not None and job.steering.owner else ""
    return quote(f"--namespace={namespace}"), quote(what or f"{job.owner.partition('/')[0].lower() or 'pod'}/{name}")
