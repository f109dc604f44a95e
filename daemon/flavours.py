"""Which flavour each job is of: the smallest one configured that allows it, or, where none is, its size.

A flavour (GIST AI-X paper, Table 2) names what users may ask for: so many GPUs of a type or partition, for so long at
most. Without configured ones a job's flavour is its number of GPUs, rounded up to a power of two, and the limits that
belong to it are what the history's jobs requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..storage.eligibility import same_model
from ..storage.records import Job, Node, SchedulerSnapshot
from .settings.flavours import FlavourSettings

NONE = ""
"""The flavour of a job that none allows, and of one without GPUs."""

Models = Mapping[str, frozenset[str]]
"""Types of GPUs by partition, as far as the scheduler names them."""


@dataclass(frozen=True, slots=True)
class FlavourKey:
    """What of a job decides on its flavour."""

    partition: str
    """Several, separated by commas, while the scheduler may choose."""
    gpus: int
    limit_s: float | None
    gpu_model: str = ""

    @classmethod
    def of(cls, job: Job) -> FlavourKey:
        """Return what a job asks for."""
        return cls(job.partition, job.request.gpus, job.limit_s, job.request.gpu_model)


class FlavourBook:
    """Returns the flavour of jobs, and remembers it: the same few requests come again and again."""

    def __init__(self, configured: Sequence[FlavourSettings] = (), models: Models | None = None) -> None:
        self.configured = tuple(sorted(configured, key=lambda flavour: (flavour.gpus, _limit(flavour.limit))))
        self.models: Models = models or {}
        self._known: dict[FlavourKey, str] = {}
        self._named: dict[int, tuple[Job, Job]] = {}
        """The jobs of the last snapshot as they came and with their flavours: most come again, and stay the same."""

    def learn(self, nodes: Iterable[Node]) -> None:
        """Take note of which GPUs partitions have: a flavour may be for a type, and a job may name none."""
        models = models_of(nodes)
        if models != self.models:
            self.models, self._known, self._named = models, {}, {}

    def of(self, request: FlavourKey) -> str:
        """Return the flavour of a job; '' when none allows it, or it has no GPUs."""
        known = self._known
        if request not in known:
            if len(known) > MOST_REMEMBERED:
                known = self._known = {}
            known[request] = self._match(request)
        return known[request]

    def of_recorded(self, partition: str, gpus: int, limit_s: float | None, gpu_model: str) -> str:
        """Return the flavour of a job of which the history knows this."""
        return self.of(FlavourKey(partition, gpus, limit_s, gpu_model))

    def named(self, jobs: Iterable[Job]) -> tuple[Job, ...]:
        """Return jobs with their flavours."""
        return tuple(job if job.flavour == (name := self.of(FlavourKey.of(job))) else replace(job, flavour=name)
                     for job in jobs)

    def with_flavours(self, snapshot: SchedulerSnapshot) -> SchedulerSnapshot:
        """Return a snapshot whose jobs have their flavours."""
        self.learn(snapshot.nodes)
        before = self._named
        known = [entry if (entry := before.get(id(job))) and entry[0] is job else (job, *self.named((job,)))
                 for job in snapshot.jobs]
        self._named = {id(job): (job, named) for job, named in known}
        return replace(snapshot, jobs=tuple(named for _, named in known))

    def why_none(self, request: FlavourKey) -> str:
        """Return why a job has no flavour, and what to do; '' when it has one."""
        if self.of(request) != NONE:
            return ""
        if request.gpus < 1:
            return "it asks for no GPU"
        eligible = [flavour for flavour in self.configured if self._meant(flavour, request)]
        if not eligible:
            return f"no flavour is for partition {request.partition}: add one, or leave out the partition of another"
        wide = [flavour for flavour in eligible if flavour.gpus >= request.gpus]
        if not wide:
            return (f"it asks for {request.gpus} GPUs, and the largest flavour there, {eligible[-1].name}, has "
                    f"{eligible[-1].gpus}: add a larger one")
        longest = max(wide, key=lambda flavour: _limit(flavour.limit))
        wanted = "no time limit" if request.limit_s is None else f"{request.limit_s / HOUR_S:g} h"
        return (f"it asks for {wanted}, and the longest flavour of its size, {longest.name}, allows "
                f"{_limit(longest.limit) / HOUR_S:g} h: raise its limit, or add another")

    def _match(self, request: FlavourKey) -> str:
        if request.gpus < 1:
            return NONE
        if not self.configured:
            return size_name(request.gpus)
        return next((flavour.name for flavour in self.configured
                     if flavour.gpus >= request.gpus and self._meant(flavour, request) and (
                         flavour.limit is None
                         or (request.limit_s is not None and request.limit_s <= flavour.limit))), NONE)

    def _meant(self, flavour: FlavourSettings, request: FlavourKey) -> bool:
        """Tell whether a flavour is for the partition and the type of GPUs that a job asks for."""
        partitions = request.partition.split(",")
        if flavour.partition and flavour.partition not in partitions:
            return False
        if not flavour.gpu_model:
            return True
        if request.gpu_model:
            return same_model(request.gpu_model, flavour.gpu_model)
        # A job that names no type gets what its partition has: where that has several, nobody knows which.
        models = frozenset[str]().union(*(self.models.get(name, frozenset()) for name in partitions))
        return models == {flavour.gpu_model.lower()}


HOUR_S = 3600.0
MOST_REMEMBERED = 100_000


def _limit(limit_s: float | None) -> float:
    return float("inf") if limit_s is None else limit_s


def size_name(gpus: int) -> str:
    """Return the flavour of a size where none is configured: ``4-gpu`` holds jobs of three and four GPUs."""
    return f"{1 << (gpus - 1).bit_length()}-gpu"


def models_of(nodes: Iterable[Node]) -> Models:
    """Return the types of GPUs by partition; a node whose type nobody names counts as ''."""
    models_by_partition: dict[str, set[str]] = {}
    for node in nodes:
        if node.gpus:
            for partition in node.partitions:
                models_by_partition.setdefault(partition, set()).add(node.gpu_model.lower())
    return {name: frozenset(models) for name, models in models_by_partition.items()}


def impossible(configured: Sequence[FlavourSettings], nodes: Sequence[Node]) -> dict[str, str]:
    """Return the flavours that no partition can hold, each with the reason and what to do; none where no node is known.

    Nodes that are down count: they come back.
    """
    gpus: dict[str, dict[str, int]] = {}
    for node in nodes:
        for partition in node.partitions:
            models = gpus.setdefault(partition, {})
            models[node.gpu_model.lower()] = models.get(node.gpu_model.lower(), 0) + node.gpus
    return {flavour.name: why for flavour in configured if gpus and (why := _impossible(flavour, gpus))}


def _impossible(flavour: FlavourSettings, gpus: Mapping[str, Mapping[str, int]]) -> str:
    if flavour.partition and flavour.partition not in gpus:
        return (f"there is no partition {flavour.partition} (renamed?); there are {', '.join(sorted(gpus))}: correct "
                "its partition")
    places = {flavour.partition} if flavour.partition else set(gpus)
    most = {name: sum(count for model, count in gpus[name].items() if same_model(flavour.gpu_model, model))
            for name in places}
    largest = max(most, key=lambda name: (most[name], name))
    if most[largest] >= flavour.gpus:
        return ""
    kind = f" of type {flavour.gpu_model}" if flavour.gpu_model else ""
    return (f"no partition can hold it: it has {flavour.gpus} GPUs{kind}, and {largest} {most[largest]}: lower gpus, "
            "or correct the partition or the type")
