"""The text of Slurm's commands, where no JSON holds the fact in all versions: sacct, and scontrol's one-liners.

Slurm prints local time without a zone. The commands are run with ``TZ=UTC``, so every time here is UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from ...storage.records import Allocation, Job, Partition, Request
from ...storage.rules import Reservation
from ..hostlist import expand
from .fields import BadRecord
from .gres import parse_tres
from .parse_json import Parsed, accounted_state, begun, share

SACCT_FIELDS = ("JobID", "JobIDRaw", "JobName", "User", "Account", "Partition", "QOS", "State", "ExitCode", "Submit",
                "Eligible", "Start", "End", "TimelimitRaw", "NNodes", "ReqTRES", "AllocTRES", "NodeList", "Priority",
                "Constraints")
_KEY_VALUE = re.compile(r"(\w+)=(\S*)")
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_UNKNOWN = ("", "Unknown", "None", "N/A", "(null)")


def parse_sacct(text: str) -> Parsed[Job]:
    """Return the jobs of ``sacct --parsable2 --allocations`` with ``SACCT_FIELDS``, and a line for each bad row.

    Raises:
        BadRecord: the heading is not that of ``SACCT_FIELDS``.
    """
    heading, *lines = text.splitlines() or [""]
    if heading != "|".join(SACCT_FIELDS):
        raise BadRecord(f"sacct's heading is {heading[:80]!r}")
    jobs, skipped = [], []
    for number, line in enumerate(lines, start=2):
        try:
            jobs.append(_parse_row(_named(line.split("|"))))
        except ValueError as error:
            skipped.append(f"line {number}: {error}"[:200])
    return Parsed(tuple(jobs), tuple(skipped))


def _named(row: list[str]) -> dict[str, str]:
    """Return a row by field; a job name may hold the delimiter, which Slurm does not escape."""
    extra = len(row) - len(SACCT_FIELDS)
    if extra < 0:
        raise BadRecord(f"{len(row)} fields, not {len(SACCT_FIELDS)}")
    name = SACCT_FIELDS.index("JobName")
    row[name:name + extra + 1] = ["|".join(row[name:name + extra + 1])]
    return dict(zip(SACCT_FIELDS, row, strict=True))


def _parse_row(row: dict[str, str]) -> Job:
    submit = parse_time(row["Submit"])
    if submit is None or not row["JobID"]:
        raise BadRecord("no job id or no submit time")
    end, allocations = parse_time(row["End"]), _allocations(row["NodeList"], row["AllocTRES"])
    asked, given = parse_tres(row["ReqTRES"]), parse_tres(row["AllocTRES"])
    gpus = asked.gpus or given.gpus
    code, _, signal = row["ExitCode"].partition(":")
    limit = row["TimelimitRaw"]
    return Job(
        job_id=row["JobID"], raw_id=int(row["JobIDRaw"]) if row["JobIDRaw"].isdecimal() else None, submit_s=submit,
        state=accounted_state((row["State"],)), partition=row["Partition"],
        request=Request(
            gpus=gpus.count if gpus else 0, nodes=max(1, asked.nodes or int(row["NNodes"] or 1)),
            cpus=asked.cpus or 0, memory_bytes=asked.memory_bytes or 0, gpu_model=gpus.model if gpus else "",
            features=row["Constraints"]),
        user=row["User"], account=row["Account"], name=row["JobName"], qos=row["QOS"],
        eligible_s=parse_time(row["Eligible"]), start_s=begun(parse_time(row["Start"]), end, allocations), end_s=end,
        limit_s=float(limit) * 60 if limit.isdecimal() else None,
        priority=float(row["Priority"]) if row["Priority"].isdecimal() else None,
        exit_code=int(code) or -int(signal or 0) if code.isdecimal() else None,
        allocations=allocations)


def _allocations(hostlist: str, tres: str) -> tuple[Allocation, ...]:
    """Return equal shares: the accounts keep only totals."""
    nodes, given = expand(hostlist), parse_tres(tres)
    shares = zip(nodes, share(given.gpus.count if given.gpus else 0, len(nodes)), share(given.cpus or 0, len(nodes)),
                 share(given.memory_bytes or 0, len(nodes)), strict=True)
    return tuple(Allocation(node, gpus, None, cpus, memory) for node, gpus, cpus, memory in shares)


def parse_time(text: str) -> float | None:
    """Return seconds since the epoch of ``2026-11-20T23:58:39`` in UTC; None for ``Unknown``."""
    if text in _UNKNOWN:
        return None
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def print_time(time_s: float) -> str:
    """Return a time as sacct takes it, in UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_duration(text: str) -> float | None:
    """Return seconds of ``2-00:00:00``, ``30:00`` or ``30`` (minutes); None for ``UNLIMITED``.

    Raises:
        ValueError: not a duration of Slurm.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "NONE"):
        return None
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"not a duration: {text[:40]!r}")
    days, *parts = match.groups()
    clock = [int(part) for part in parts if part is not None]
    # With days the first number is hours; without, one or two numbers start at minutes.
    unit = 3600 if days or len(clock) == 3 else 60
    seconds = sum(value * unit / float(60**place) for place, value in enumerate(clock))
    return int(days or 0) * 86400.0 + seconds


def parse_partitions(text: str) -> Parsed[Partition]:
    """Return the partitions of ``scontrol show partition -o``."""
    partitions, skipped = [], []
    for fields in _one_liners(text, "PartitionName"):
        try:
            partitions.append(Partition(
                name=fields["PartitionName"], nodes=expand(fields.get("Nodes", "")),
                max_time_s=parse_duration(fields.get("MaxTime", "UNLIMITED")), default=fields.get("Default") == "YES",
                up=fields.get("State") == "UP", priority_tier=int(fields.get("PriorityTier", 1)),
                **_partition_rules(fields)))
        except ValueError as error:
            skipped.append(f"{fields['PartitionName'][:40]!r}: {error}"[:200])
    return Parsed(tuple(partitions), tuple(skipped))


def parse_reservations(text: str) -> Parsed[Reservation]:
    """Return the reservations of ``scontrol show reservation -o``."""
    reservations, skipped = [], []
    for fields in _one_liners(text, "ReservationName"):
        try:
            reservations.append(Reservation(
                fields["ReservationName"], expand(fields.get("Nodes", "")),
                parse_time(fields.get("StartTime", "")) or 0.0, parse_time(fields.get("EndTime", "")) or float("inf"),
                "MAINT" in fields.get("Flags", "").split(","), _names(fields.get("Users")),
                _names(fields.get("Accounts")), _names(fields.get("Groups")), _names(fields.get("Flags")),
                whole="gres/" not in fields.get("TRES", "")))
        except ValueError as error:
            skipped.append(f"{fields['ReservationName'][:40]!r}: {error}"[:200])
    return Parsed(tuple(reservations), tuple(skipped))


def _partition_rules(fields: dict[str, str]) -> dict[str, Any]:
    """Return what a partition asks of jobs beyond a time limit."""
    mode = fields.get("PreemptMode", "").upper()
    return {
        "least_nodes": int(fields.get("MinNodes", 0)), "most_nodes": _ceiling(fields.get("MaxNodes")),
        "most_cpus_per_node": _ceiling(fields.get("MaxCPUsPerNode")),
        "accounts": _names(fields.get("AllowAccounts")), "accounts_denied": _names(fields.get("DenyAccounts")),
        "qos_allowed": _names(fields.get("AllowQos")), "qos_denied": _names(fields.get("DenyQos")),
        "qos": "".join(_names(fields.get("QoS"))), "preempt_mode": _names(mode),
        "reservation_required": fields.get("ReqResv") == "YES",
        "memory_per_gpu_bytes": _default(fields, "DefMemPerGPU") * 2**20,
        "cpus_per_gpu": _default(fields, "DefCpuPerGPU")}


def _default(fields: dict[str, str], name: str) -> int:
    """Return what a partition gives with each GPU: ``JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=40000``."""
    found = re.search(rf"{name}=(\d{{1,12}})", fields.get("JobDefaults", ""))
    return int(found[1]) if found else 0


def _names(text: str | None) -> tuple[str, ...]:
    """Return names with commas; () for everybody and for nobody."""
    return () if text in (None, "ALL", *_UNKNOWN) else tuple((text or "").split(","))


def _ceiling(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _one_liners(text: str, key: str) -> list[dict[str, str]]:
    # The first of equal keys counts: a comment at the end of the line may hold anything.
    lines = [dict(reversed(_KEY_VALUE.findall(line))) for line in text.splitlines()]
    return [fields for fields in lines if fields.get(key)]
