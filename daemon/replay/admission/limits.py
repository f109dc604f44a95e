"""Ceilings of accounts and qualities of service: what is in use under each, and what one more job would exceed.

A limit set by the QOS of a partition counts before one of the job's QOS, and that before one of its account, as in
Slurm ("Resource Limits", hierarchy). Ceilings on amounts that nobody tells make it unknown whether a job may start: so
do those on what has been used so far where the scheduler's own count of that is not reported.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ....storage.records import Job, JobState, SchedulerSnapshot
from ....storage.rules import Amounts, Association, Ceilings, Qos
from ...settings.priority import PrioritySettings
from ..priority.billing import billed, gpus_of, is_gpu

Used = Mapping[str, float]
_NAMES = {"gpu": "GPUs", "cpu": "CPUs", "node": "nodes", "jobs": "running jobs", "mem": "bytes of memory"}
_OVER_TIME, _USED, _SINCE = " seconds", " used", " since"
"""Ends of names: amounts times time; of past ceilings; of jobs that started since usage was reported."""
_MINUTES = {"gpu seconds": "GPU-minutes", "cpu seconds": "CPU-minutes", "node seconds": "node-minutes",
            "mem seconds": "byte-minutes of memory", "jobs seconds": "minutes of jobs"}
_UNCOUNTED = re.compile(r"bb/")
"""Amounts of which no source tells how much is used, or how much a job would use."""
_FACTOR_SAFE, _BEFORE_PARTITION = {"USAGEFACTORSAFE", "USAGE_FACTOR_SAFE"}, {"OVERPARTQOS", "OVERRIDE_PARTITION_QOS"}
"""Flags of a QOS, as sacctmgr and as JSON spells them."""
_HOLDING = (JobState.RUNNING, JobState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Breach:
    """A ceiling that a job would break, or of which it is unknown whether it would."""

    reason: str
    unknown: bool = False


class Limits:
    """What is used under every ceiling; ``add`` books another job."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        rules = snapshot.rules
        enforced = rules.site.enforced
        self.enforced = None if enforced is None else bool({"limits", "safe", "all"} & set(enforced))
        self._safe = enforced is not None and bool({"safe", "all"} & set(enforced))
        """A job must also end before what it may use is used up."""
        self._usage = {one.holder: one for one in rules.usage or ()}
        self._counted_s = max((one.time_s for one in rules.usage or ()), default=-np.inf)
        self._qos = {qos.name: qos for qos in rules.qos or ()}
        self._associations = {(one.account, one.user, one.partition): one for one in rules.associations or ()}
        self._partition_qos = {partition.name: partition.qos for partition in snapshot.partitions}
        self._models = {node.name: node.gpu_model for node in snapshot.nodes}
        self._now_s = snapshot.time_s
        ceilings = [*(one.ceilings for one in rules.qos or ()), *(one.ceilings for one in rules.associations or ())]
        self._charges = {partition.name: dict(partition.billing_weights) for partition in snapshot.partitions
                         if partition.billing_weights is not None} if any(map(_on_billing, ceilings)) else {}
        """By partition what is charged for each resource, where a ceiling is on that."""
        self._flags = PrioritySettings.of(dict(rules.site.priority)).flags
        self._used: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for job in snapshot.jobs:
            if job.state in _HOLDING and (self._qos or self._associations):
                self.add(job, job.partition, self.held(job))

    def held(self, job: Job) -> Counter[str]:
        """Return what a running job uses."""
        used: Counter[str] = Counter({"jobs": 1, "node": len(job.allocations)})
        for part in job.allocations:
            used["gpu"] += part.gpus
            used["cpu"] += part.cpus
            used["mem"] += part.memory_bytes
            if self._models.get(part.node) and part.gpus:
                used[gpus_of(self._models[part.node])] += part.gpus
        return used

    def copy(self) -> Limits:
        """Return limits of which more can be booked."""
        other = object.__new__(Limits)
        other.__dict__.update(self.__dict__)
        other._used = defaultdict(Counter, {key: Counter(used) for key, used in self._used.items()})
        return other

    def add(self, job: Job, partition: str, used: Used) -> None:
        """Book what a job uses under all that bind it."""
        booked = with_time(job, self._with_billing(partition, used), self._left_s(job))
        if self._usage and not (job.state in _HOLDING and (job.start_s or 0.0) <= self._counted_s):
            booked.update({name + _SINCE: amount for name, amount in booked.items() if name.endswith(_OVER_TIME)})
        for key in self._keys(job, partition):
            self._used[key].update(booked)

    def _with_billing(self, partition: str, used: Used) -> Used:
        """Return what a job uses, with what it is charged for a second where a ceiling is on that and it is known."""
        if partition not in self._charges:
            return used
        held = {name: np.array([amount], np.float64) for name, amount in {"cpu": 0.0, **used}.items()}
        return {**used, "billing": float(np.trunc(billed(self._charges[partition], held, self._flags))[0])}

    def _left_s(self, job: Job) -> float | None:
        """Return for how long a job that runs, or starts now, may still run; None where it has no time limit."""
        began_s = job.start_s if job.state in _HOLDING and job.start_s is not None else self._now_s
        return None if job.limit_s is None else max(0.0, began_s + job.limit_s - self._now_s)

    def breach(self, job: Job, partition: str, wants: Used, limit_s: float | None) -> Breach | None:
        """Return the first ceiling that a job would break, else one that it may break; None when there is none."""
        if self.enforced is False or not (self._qos or self._associations):
            return None
        wanted = with_time(job, self._with_billing(partition, wants), None if self._has_usage_factor(job) else limit_s)
        found = list(self._breaches(job, partition, wanted, limit_s))
        first = next((one for one in found if not one.unknown), next(iter(found), None))
        if first is None or first.unknown or self.enforced:
            return first
        return Breach(f"unknown: {first.reason}; whether that is enforced is not known (AccountingStorageEnforce)",
                      True)

    def _has_usage_factor(self, job: Job) -> bool:
        """Tell whether what a job may use counts more or less than it is, which is not counted here."""
        qos = self._qos.get(job.qos)
        return qos is not None and qos.usage_factor != 1.0 and bool(_FACTOR_SAFE & set(qos.flags))

    def _keys(self, job: Job, partition: str) -> Iterator[tuple[str, ...]]:
        for qos in self._both(job, partition):
            yield from (("qos", qos.name), ("qos user", qos.name, job.user), ("qos account", qos.name, job.account))
        for one in self._above(job, partition):
            yield "association", one.account, one.user, one.partition

    def _both(self, job: Job, partition: str) -> list[Qos]:
        """Return the QOS of the partition and of the job, the one that counts first."""
        found = [self._qos[name] for name in dict.fromkeys((self._partition_qos.get(partition, ""), job.qos))
                 if name in self._qos]
        return found[::-1] if any(_BEFORE_PARTITION & set(qos.flags) for qos in found) else found

    def _above(self, job: Job, partition: str) -> list[Association]:
        """Return the association of the job and those above it."""
        known = self._associations
        own = known.get((job.account, job.user, partition)) or known.get((job.account, job.user, ""))
        found, account = ([own] if own else []), job.account
        while (one := known.get((account, "", ""))) is not None and one not in found:
            found.append(one)
            account = one.parent
        return found

    def _breaches(self, job: Job, partition: str, wants: Used, limit_s: float | None) -> Iterator[Breach]:
        settled = set[tuple[str, str]]()
        for qos in self._both(job, partition):
            holder = f"QOS {qos.name}"
            yield from self._unknown_ceilings(holder, qos.ceilings)
            kinds: tuple[tuple[str, tuple[str, ...]], ...] = (
                ("group", ("qos", qos.name)), ("user", ("qos user", qos.name, job.user)),
                ("account", ("qos account", qos.name, job.account)), ("job", ()), ("node", ()))
            for kind, key in kinds:
                yield from self._over(holder, kind, getattr(qos.ceilings, kind), key, wants, settled)
            yield from _beyond(holder, qos.ceilings, wants, limit_s, settled)
        for number, one in enumerate(self._above(job, partition)):
            holder = f"account {one.account}" + (f" on user {one.user}" if one.user else "")
            own = ("association", one.account, one.user, one.partition)
            yield from self._over(holder, "group", one.ceilings.group, own, wants, set(settled))
            if number == 0:
                yield from self._over(holder, "user", one.ceilings.user, own, wants, settled)
            for kind in ("job", "node"):
                yield from self._over(holder, kind, getattr(one.ceilings, kind), (), wants, settled)
            yield from _beyond(holder, one.ceilings, wants, limit_s, settled)

    def _unknown_ceilings(self, holder: str, ceilings: Ceilings) -> Iterator[Breach]:
        """Yield the limits that may be set although the source cannot report them."""
        for name in ceilings.unreported:
            yield Breach(f"unknown: whether {holder} has a {name} is not known; idlewatt slurm-settings prints it for "
                         "the configuration", True)

    def _over(self, holder: str, kind: str, ceilings: Amounts, key: tuple[str, ...], wants: Used,
              settled: set[tuple[str, str]]) -> Iterator[Breach]:
        """Yield the ceilings of one kind that would be broken; one that was set before does not count."""
        used = self._used.get(key, Counter()) if key else Counter()
        for name, most in ceilings:
            counted = _counted(name)
            if (kind, counted) in settled:
                continue
            settled.add((kind, counted))
            if name.endswith(_USED):
                yield from self._past(holder, key, name, most, wants)
                continue
            if _uncounted(name, wants):
                yield _unknown(holder, name)
                continue
            asks = wants.get(counted, 0.0) / (max(1.0, wants.get("node", 1.0)) if kind == "node" else 1.0)
            if asks > 0 and used[counted] + asks > most:
                yield Breach(_over_text(holder, kind, name, most, used[counted], asks))

    def _past(self, holder: str, key: tuple[str, ...], name: str, most: float, wants: Used) -> Iterator[Breach]:
        """Yield a ceiling on what has been used so far, where it is reached or a job could not end before it is.

        A job that uses such a thing is held once all is used; under ``safe`` also where it might use more than is left
        beside those that run. Of the time of all jobs together whole minutes count, and those that run do not.
        """
        usage, written = self._usage.get(key), name.removesuffix(_USED)
        used, over_time = None if usage is None else _told(usage.used, name), _counted(written)
        if usage is None or used is None or _uncounted(name, wants):
            yield _unknown(holder, name)
            return
        promised = (_told(usage.promised, over_time) or 0.0) + self._used[key][over_time + _SINCE]
        resource = over_time.removesuffix(_OVER_TIME)
        if over_time == "seconds":
            used, promised, over_time, resource = used // 60.0 * 60.0, 0.0, "jobs seconds", "jobs"
            written = "jobs seconds"
        if wants.get(resource, 0.0) <= 0:
            return
        if used >= most:
            yield Breach(_past_text(holder, written, most, "all of it is used"))
        elif self._safe and over_time not in wants:
            yield _unknown(holder, name)  # it has no time limit
        elif self._safe and used + promised + wants[over_time] > most:
            left = max(0.0, most - used - promised)
            yield Breach(_past_text(holder, written, most, f"{left / 60:g} are left beside what running jobs may "
                                                           f"use, it needs {wants[over_time] / 60:g}"))


def with_time(job: Job, used: Used, lasts_s: float | None) -> Counter[str]:
    """Return what a job uses, with its licences, and all amounts times the time that it may still run."""
    found: Counter[str] = Counter(used)
    for name, number in next(iter(licence_choices(job.request.details.licenses)), ()):
        found[f"license/{name}"] += number
    if lasts_s is not None:
        found.update({f"{name}{_OVER_TIME}": amount * lasts_s for name, amount in tuple(found.items())})
    return found


def _counted(name: str) -> str:
    """Return the name by which a resource is counted: the scheduler takes a model for the same in any case."""
    return name.lower() if is_gpu(name) else name


def _told(amounts: Amounts, name: str) -> float | None:
    """Return an amount by name, of several spellings together; None when it is not among them."""
    found = [value for known, value in amounts if _counted(known) == _counted(name)]
    return sum(found) if found else None


def _uncounted(name: str, wants: Used) -> bool:
    """Tell whether nobody knows how much a job would add to what a ceiling is on."""
    if name.startswith("billing") and "billing" not in wants:
        return True
    if name.endswith(_OVER_TIME) and f"jobs{_OVER_TIME}" not in wants:
        return True  # it has no time limit
    return _UNCOUNTED.match(name) is not None


def _on_billing(ceilings: Ceilings) -> bool:
    amounts = (*ceilings.group, *ceilings.user, *ceilings.account, *ceilings.job, *ceilings.node, *ceilings.least)
    return any(name.startswith("billing") for name, _ in amounts)


def _unknown(holder: str, name: str) -> Breach:
    return Breach(f"unknown: {holder} has a limit on {name}, and how much of that is used is not known", True)


def _over_text(holder: str, kind: str, name: str, most: float, used: float, asks: float) -> str:
    amounts = _NAMES.get(name, name)
    if name.endswith(_OVER_TIME):
        amounts, most, used, asks = _MINUTES.get(name, name), most / 60, used / 60, asks / 60
    scope = {"group": "in all", "user": "a user", "account": "an account", "job": "a job", "node": "a node"}[kind]
    beside = f": {used:g} in use, it needs {asks:g}" if kind not in ("job", "node") else f", it asks for {asks:g}"
    return f"the limit of {holder} is {most:g} {amounts} {scope}{beside}"


def _past_text(holder: str, resource: str, most: float, why: str) -> str:
    amounts = _MINUTES.get(resource, resource)
    return f"the limit of {holder} is {most / 60:g} {amounts} used so far: {why}"


def _beyond(holder: str, ceilings: Ceilings, wants: Used, limit_s: float | None, settled: set[tuple[str, str]],
            ) -> Iterator[Breach]:
    """Yield the breaches of a longest time limit and of least amounts."""
    if ceilings.wall_s is not None and ("wall", "") not in settled:
        settled.add(("wall", ""))
        if limit_s is not None and limit_s > ceilings.wall_s:
            yield Breach(f"the limit of {holder} on the time of a job is {ceilings.wall_s / 60:g} minutes, "
                         f"it asks for {limit_s / 60:g}")
    for name, least in ceilings.least:
        if _uncounted(name, wants):
            yield _unknown(holder, name)
        elif wants.get(_counted(name), 0.0) < least:
            yield Breach(f"the limit of {holder} is at least {least:g} {_NAMES.get(name, name)} a job")


class Licences:
    """Licences that are free; ``take`` books those of a job that starts."""

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        known = snapshot.rules.licenses
        self.known = known is not None
        self._free = {one.name: one.free for one in known or ()}

    def copy(self) -> Licences:
        """Return licences of which more can be taken."""
        other = object.__new__(Licences)
        other.known, other._free = self.known, dict(self._free)
        return other

    def lacking(self, wanted: str) -> str | None:
        """Return what is lacking, in words; None when nothing is."""
        lacks = [[text for name, number in some if (text := self._lack(name, number))]
                 for some in licence_choices(wanted)]
        if not lacks or any(not text for text in lacks):
            return None
        return lacks[0][0]

    def take(self, wanted: str) -> None:
        """Take the licences of a job, of alternatives the first that are free."""
        for some in licence_choices(wanted):
            if not any(self._lack(name, number) for name, number in some):
                for name, number in some:
                    self._free[name] -= number
                return

    def _lack(self, name: str, number: int) -> str | None:
        free = self._free.get(name, 0)
        return None if free >= number else f"Licenses: needs {number} of {name}, {free} free"


def licence_choices(wanted: str) -> list[list[tuple[str, int]]]:
    """Return alternatives, each of licences that are all needed, of ``a:2,b`` or ``a|b``."""
    return [list(_named(part)) for part in wanted.split("|") if part] if wanted else []


def _named(text: str) -> Iterable[tuple[str, int]]:
    for part in filter(None, text.replace(";", ",").split(",")):
        name, _, number = part.replace("*", ":").partition(":")
        yield name, int(number) if number.isdecimal() else 1
