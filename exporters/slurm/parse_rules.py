"""What Slurm enforces beside free resources, from JSON: partitions, reservations, licences, QOS and associations."""

from __future__ import annotations

import re

from ...storage.records import Partition
from ...storage.rules import Amounts, Association, Ceilings, License, Qos, Reservation
from ..hostlist import expand
from .billing import parse_weights
from .fields import UNSET, BadRecord, Fields

MIB = 2**20
MOST = 2**31
"""Counts from here on are Slurm's "unlimited"."""
DRAIN = "DRAIN"
"""The state of a partition that takes no new jobs and starts those that wait in it."""
RESERVED_ONLY = frozenset(("reservation_required", "req_resv"))
"""Names of the flag of a partition whose jobs need a reservation: that of Slurm's REST API, and that of its C API."""
_CPUS = re.compile(r"(?:^|,)cpu=(\d{1,9})(?:,|$)")
PARENTS = 0x7FFFFFFF
"""Shares of an association that has its parent's."""


def parse_partition(raw: Fields) -> Partition:
    """Return a partition of ``partitions``: flat up to v0.0.39, nested after."""
    return _nested_partition(raw) if raw.is_object("nodes") else _flat_partition(raw)


def _flat_partition(raw: Fields) -> Partition:
    limit, tier = raw.number("max_time_limit"), raw.integer("priority_tier")
    flags = {flag.lower() for flag in raw.texts("flags")}
    return Partition(
        name=named(raw), nodes=expand(raw.text("nodes")), max_time_s=None if limit is None else limit * 60,
        default="default" in flags, up=not {"UP", DRAIN}.isdisjoint(raw.texts("state")),
        draining=DRAIN in raw.texts("state"), priority_tier=1 if tier is None else tier,
        priority_factor=_factor(raw.integer("priority_job_factor")),
        least_nodes=_count(raw, "min nodes per job") or 0, most_nodes=_count(raw, "maximum_nodes_per_job"),
        most_cpus_per_node=_count(raw, "maximum_cpus_per_node"),
        accounts=raw.texts("allowed_accounts"), accounts_denied=raw.texts("denied_accounts"),
        qos_allowed=raw.texts("allowed_qos"), qos_denied=raw.texts("denied_qos"), qos=raw.text("qos"),
        preempt_mode=_modes(raw.texts("preemption_mode")), reservation_required=not RESERVED_ONLY.isdisjoint(flags),
        billing_weights=_weights(raw))


def _nested_partition(raw: Fields) -> Partition:
    most, least, tier = raw.part("maximums"), raw.part("minimums"), raw.part("priority").integer("tier")
    limit = most.number("time")
    accounts, qos = raw.part("accounts"), raw.part("qos")
    flags = {flag.lower() for flag in (*raw.texts("flags"), *raw.part("partition").texts("flags"))}
    states = raw.part("partition").texts("state")
    return Partition(
        name=named(raw), nodes=expand(raw.part("nodes").text("configured")),
        max_time_s=None if limit is None else limit * 60, default="default" in flags,
        up=not {"UP", DRAIN}.isdisjoint(states), draining=DRAIN in states, priority_tier=1 if tier is None else tier,
        priority_factor=_factor(raw.part("priority").integer("job_factor")),
        least_nodes=_count(least, "nodes") or 0, most_nodes=_count(most, "nodes"),
        most_cpus_per_node=_count(most, "cpus_per_node"),
        accounts=accounts.texts("allowed"), accounts_denied=accounts.texts("deny"),
        qos_allowed=qos.texts("allowed"), qos_denied=qos.texts("deny"), qos=qos.text("assigned"),
        preempt_mode=_modes(raw.texts("preempt_mode")), reservation_required=not RESERVED_ONLY.isdisjoint(flags),
        exclusive=most.integer("shares") == 0, billing_weights=_weights(raw.part("tres")))


def _weights(raw: Fields) -> Amounts | None:
    """Return what a partition charges for; None where this version does not tell."""
    return parse_weights(raw.text("billing_weights")) if raw.has("billing_weights") else None


def _factor(value: int | None) -> int:
    return 1 if value is None else max(0, value)


def named(raw: Fields) -> str:
    """Return the name of a record.

    Raises:
        BadRecord: it has none.
    """
    if not raw.text("name"):
        raise BadRecord("it has no name")
    return raw.text("name")


def _count(raw: Fields, name: str) -> int | None:
    """Return a ceiling; None where there is none, which Slurm also writes as -1 or as its largest number."""
    value = raw.number(name)
    return None if value is None or not 0 <= value < MOST else int(value)


def _modes(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return how jobs are preempted; 22.05 writes "disabled" for a partition that says nothing."""
    return tuple(word.upper() for word in words if word.lower() not in ("disabled", "cluster"))


def parse_reservation(raw: Fields) -> Reservation:
    """Return a reservation of ``reservations``."""
    flags = tuple(flag.upper() for flag in raw.texts("flags"))
    return Reservation(
        named(raw), expand(raw.text("node_list")), raw.time("start_time") or 0.0, raw.time("end_time") or float("inf"),
        "MAINT" in flags, raw.texts("users"), raw.texts("accounts"), raw.texts("groups"), flags,
        whole="gres/" not in raw.text("tres"), cpus=kept_cpus(raw.text("tres")))


def kept_cpus(tres: str) -> int:
    """Return the CPUs that a reservation keeps by its ``cpu=8,gres/gpu=2``; 0 where it does not tell."""
    match = _CPUS.search(tres)
    return int(match[1]) if match else 0


def parse_license(raw: Fields) -> License:
    """Return a licence of ``licenses``."""
    name = raw.text("LicenseName")
    if not name:
        raise BadRecord("it has no LicenseName")
    return License(name, raw.integer("Total") or 0, raw.integer("Used") or 0, raw.integer("Reserved") or 0)


def parse_qos(raw: Fields) -> Qos:
    """Return a QOS of slurmdbd's ``qos``."""
    limits = raw.part("limits")
    most, least = limits.part("max"), limits.part("min")
    per, jobs = most.part("tres").part("per"), most.part("jobs")
    running = jobs.part("active_jobs").part("per") if "active_jobs" in jobs else jobs.part("per")
    minutes = most.part("tres").part("minutes")
    over_time = minutes.part("per")
    return Qos(
        named(raw),
        Ceilings(group=(*_tres(most.part("tres"), "total"), *_jobs(most.part("active_jobs"), "count"),
                        *_seconds_of(over_time, "qos"), *_seconds_of(minutes, "total", " used"),
                        *_seconds_used(most.part("wall_clock").part("per"), "qos")),
                 user=(*_tres(per, "user"), *_jobs(running, "user"), *_seconds_of(over_time, "user")),
                 account=(*_tres(per, "account"), *_jobs(running, "account"), *_seconds_of(over_time, "account")),
                 job=(*_tres(per, "job"), *_seconds_of(over_time, "job")), node=_tres(per, "node"),
                 least=_tres(least.part("tres").part("per"), "job"),
                 wall_s=_wall(most.part("wall_clock").part("per")),
                 unreported=() if "total" in minutes else ("GrpTRESMins",)),  # v0.0.38 to v0.0.40 do not
        raw.number("priority") or 0.0, raw.part("preempt").texts("list"),
        _modes(raw.part("preempt").texts("mode")), tuple(flag.upper() for flag in raw.texts("flags")),
        raw.part("preempt").number("exempt_time") or 0.0, _usage_factor(raw))


def parse_association(raw: Fields) -> Association:
    """Return an association of slurmdbd's ``associations``."""
    most = raw.part("max")
    tres, jobs, group = most.part("tres"), most.part("jobs"), most.part("tres").part("group")
    return Association(
        raw.text("account"), raw.text("user"), raw.text("partition"), raw.text("parent_account"),
        Ceilings(group=(*_tres(tres, "total"), *_jobs(jobs.part("per"), "count"), *_seconds_of(group, "active"),
                        *_seconds_of(group, "minutes", " used"),
                        *_seconds_used(most.part("per").part("account"), "wall_clock")),
                 user=_jobs(jobs, "active"),
                 job=(*_tres(tres.part("per"), "job"), *_seconds_of(tres.part("minutes").part("per"), "job")),
                 node=_tres(tres.part("per"), "node"),
                 wall_s=_wall(jobs.part("per"), "wall_clock")),
        _shares(raw), raw.number("priority") or 0.0 if "priority" in raw else None)  # v0.0.38 does not tell it


def _shares(raw: Fields) -> int | None:
    """Return the shares of an association; None where it has its parent's, which Slurm writes as its largest number."""
    shares = raw.number("shares_raw")
    return 1 if shares is None else int(shares) if 0 <= shares < PARENTS else None


def _usage_factor(raw: Fields) -> float:
    factor = raw.number("usage_factor")
    return 1.0 if factor is None else max(0.0, factor)


def _tres(raw: Fields, name: str) -> Amounts:
    """Return amounts by name from ``[{"type": "gres", "name": "gpu:a100", "count": 4}]``."""
    records = []
    for part in raw.parts(name):
        count = part.number("count")
        if count is not None and count >= 0 and count not in UNSET:
            kind, name = part.text("type"), part.text("name")
            kind = name if kind == "gres" else f"{kind}/{name}" if name else kind
            records.append((kind, float(count) * (MIB if kind == "mem" else 1)))
    return tuple(records)


def _seconds_of(raw: Fields, name: str, used: str = "") -> Amounts:
    """Return amounts in minutes as amounts in seconds."""
    return tuple((f"{kind} seconds{used}", 60.0 * amount) for kind, amount in _tres(raw, name))


def _seconds_used(raw: Fields, name: str) -> Amounts:
    wall_s = _wall(raw, name)
    return () if wall_s is None else (("seconds used", wall_s),)


def _jobs(raw: Fields, name: str) -> Amounts:
    count = None if raw.is_object(name) and "set" not in raw.part(name) else raw.number(name)
    return () if count is None or not 0 <= count < MOST else (("jobs", float(count)),)


def _wall(raw: Fields, name: str = "job") -> float | None:
    """Return the longest time limit in seconds; slurmdbd counts minutes."""
    minutes = raw.number(name)
    return None if minutes is None or minutes < 0 else minutes * 60.0
