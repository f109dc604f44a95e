"""One view of several schedulers, for a site that has Slurm and Kubernetes, or two clusters.

Nodes and jobs are each scheduler's own, and so are its rules. Where two schedulers use one name, nothing tells which of
them is meant: waiting jobs that it decides about are marked, and advice on them is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from ..storage.records import Job, JobState, SchedulerSnapshot
from ..storage.rules import Ceilings, SchedulerRules, SchedulerSettings

Named = Mapping[str, frozenset[str]]
"""Names by kind of thing."""


def merged(snapshots: Sequence[SchedulerSnapshot | None], now_s: float, max_age_s: float) -> SchedulerSnapshot | None:
    """Return one snapshot of several schedulers, None for each that never answered, as old as the oldest in it.

    One that has not answered for longer than ``max_age_s`` is left out as long as another has: it costs only its own.
    """
    answered = [snapshot for snapshot in snapshots if snapshot is not None]
    believed = [snapshot for snapshot in answered if now_s - snapshot.time_s <= max_age_s] or answered
    whole = len(believed) == len(snapshots)
    if len(believed) <= 1:
        return replace(believed[0], whole=whole) if believed else None
    shared = _shared(believed)
    return SchedulerSnapshot(
        min(snapshot.time_s for snapshot in believed),
        tuple(node for snapshot in believed for node in snapshot.nodes),
        tuple(partition for snapshot in believed for partition in snapshot.partitions),
        tuple(_marked(job, snapshot, shared) for snapshot in believed for job in snapshot.jobs),
        _joined([snapshot.rules for snapshot in believed]), whole)


def _joined(rules: Sequence[SchedulerRules]) -> SchedulerRules:
    """Return the rules of several schedulers, and of their settings those on which they agree."""
    return SchedulerRules(
        reservations=_all(rules, lambda known: known.reservations),
        licenses=_records_of(rules, lambda known: known.licenses),
        qos=_records_of(rules, lambda known: known.qos),
        associations=_records_of(rules, lambda known: known.associations),
        usage=_records_of(rules, lambda known: known.usage), site=_agreed([known.site for known in rules]),
        queues=_all(rules, lambda known: known.queues), flavors=_all(rules, lambda known: known.flavors))


def _all(rules: Iterable[SchedulerRules], part: Callable[[SchedulerRules], Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(map(part, rules)))


def _records_of(rules: Sequence[SchedulerRules], part: Callable[[SchedulerRules], tuple[Any, ...] | None],
          ) -> tuple[Any, ...] | None:
    """Return the records of those that report any; None where none does."""
    known = [records for scheduler in rules if (records := part(scheduler)) is not None]
    return tuple(chain.from_iterable(known)) if known else None


def _agreed(sites: Sequence[SchedulerSettings]) -> SchedulerSettings:
    first, unknown = sites[0], SchedulerSettings()
    return SchedulerSettings(**{
        field.name: getattr(first if all(getattr(site, field.name) == getattr(first, field.name) for site in sites)
                            else unknown, field.name) for field in fields(SchedulerSettings)})


def _shared(snapshots: Sequence[SchedulerSnapshot]) -> Named:
    """Return the names that several schedulers use, of accounts and QOS only those with limits or other differences."""
    return {
        "partition": _in_several([{partition.name for partition in snapshot.partitions} for snapshot in snapshots]),
        "reservation": _in_several([{reservation.name for reservation in snapshot.rules.reservations}
                                    for snapshot in snapshots]),
        "licence": _in_several([{licence.name for licence in snapshot.rules.licenses or ()} for snapshot in snapshots]),
        "QOS": _differing((qos.name, qos) for snapshot in snapshots for qos in snapshot.rules.qos or ()),
        "account": _differing(((association.account, association.user, association.partition), association)
                              for snapshot in snapshots for association in snapshot.rules.associations or ())}


def _in_several(names: Iterable[set[str]]) -> frozenset[str]:
    return frozenset(name for name, times in Counter(chain.from_iterable(names)).items() if times > 1)


def _differing(records: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return the names that are there twice and have limits, which use counts under, or say different things."""
    first: dict[Any, Any] = {}
    differing = set()
    for key, record in records:
        if key in first and (first[key] != record or record.ceilings != Ceilings()):
            differing.add(key if isinstance(key, str) else key[0])
        first.setdefault(key, record)
    return frozenset(differing)


def _marked(job: Job, snapshot: SchedulerSnapshot, shared: Named) -> Job:
    """Return a job with what is not known of it: which scheduler has what it names, and how many licences are free."""
    if job.state is not JobState.PENDING:
        return job
    partitions = job.partition.split(",")
    qos = {job.qos, *(partition.qos for partition in snapshot.partitions if partition.name in partitions)}
    meant = {"partition": partitions, "reservation": shared["reservation"], "QOS": qos, "account": {job.account},
             "licence": shared["licence"] if job.request.details.licenses else ()}
    unknown = [f"two schedulers have {kind} {name}" for kind, names in meant.items()
               for name in sorted(shared[kind].intersection(names))]
    if job.request.details.licenses and snapshot.rules.licenses is None:
        unknown.append("how many licences are free")
    return job.with_unknown(unknown) if unknown else job
