"""The text of Slurm's commands, where no JSON holds the fact in all versions: sacct, and scontrol's one-liners.

Slurm prints local time without a zone. The commands are run with ``TZ=UTC``, so every time here is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict

from ...storage.records import Allocation, Job, Partition, Request
from ...storage.rules import Amounts, Reservation
from ..hostlist import expand
from ..software import software
from ..text import clean, quoted
from .billing import parse_weights
from .fields import BadRecord
from .gres import parse_tres, share
from .parse_json import Parsed, accounted_state, array_of, begun
from .parse_rules import DRAIN, kept_cpus
from .plausible_times import with_plausible_times

SACCT_FIELDS = ("JobID", "JobIDRaw", "JobName", "User", "Account", "Partition", "QOS", "State", "ExitCode", "Submit",
                "Eligible", "Start", "End", "TimelimitRaw", "NNodes", "ReqTRES", "AllocTRES", "NodeList", "Priority",
                "Constraints")
SOFTWARE_FIELDS = ("Container", "Comment")
"""Further fields, from Slurm 21.08 on; a table may have them at its end."""
_JOB_ID = re.compile(r"[0-9A-Za-z_+.\[\]%,-]{1,64}")
_KEY_VALUE = re.compile(r"(\w+)=(\S*)")
_FREE_TEXT = " Comment="
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_UNKNOWN = ("", "Unknown", "None", "N/A", "(null)")


def parse_sacct(text: str, mark: str = "|") -> Parsed[Job]:
    """Return the jobs of sacct's ``--parsable`` or ``--parsable2`` with ``SACCT_FIELDS``, and a line for each bad row.

    ``SOFTWARE_FIELDS`` may follow. ``mark`` is what stands between fields. Names may hold anything, line ends too:
    only a mark that nobody could know when a job was named keeps its name from looking like further rows.

    Raises:
        BadRecord: the heading is not that of ``SACCT_FIELDS``.
    """
    heading, _, body = text.partition("\n")
    names = tuple(heading.removesuffix(mark).split(mark))
    if names not in (SACCT_FIELDS, SACCT_FIELDS + SOFTWARE_FIELDS):
        raise BadRecord(f"sacct's heading is {quoted(heading)}")
    # --parsable ends the last field with a mark as well, --parsable2 does not.
    marks = len(names) - (not heading.endswith(mark))
    jobs, skipped = [], []
    for number, row in _rows(body, mark, marks):
        try:
            cells = (row if marks < len(names) else row.removesuffix(mark)).split(mark)
            jobs.append(_parse_row(_named(names, cells)))
        except ValueError as error:
            skipped.append(f"line {number}: {error}"[:200])
    return Parsed(tuple(jobs), tuple(skipped))


def _rows(text: str, mark: str, marks: int) -> Iterator[tuple[int, str]]:
    """Yield each row with the number of its first line; a row ends with the line that brings its last mark."""
    row: list[str] = []
    marked, first = 0, 2
    for number, line in enumerate(text.split("\n"), start=2):
        if not row and not line:
            continue
        first = first if row else number
        row.append(line)
        marked += line.count(mark)  # of the lines: a name may have thousands
        if marked >= marks:
            yield first, "\n".join(row)
            row, marked = [], 0
    if row:
        yield first, "\n".join(row)


def _named(names: Sequence[str], row: list[str]) -> dict[str, str]:
    """Return a row by field, cleaned; where the mark is one that a job's name may hold, the name takes the surplus."""
    extra = len(row) - len(names)
    if extra < 0:
        raise BadRecord(f"{len(row)} fields, not {len(names)}")
    name = names.index("JobName")
    row[name:name + extra + 1] = ["|".join(row[name:name + extra + 1])]
    return dict(zip(names, map(clean, row), strict=True))


def _parse_row(row: dict[str, str]) -> Job:
    submit = parse_time(row["Submit"])
    if submit is None or not all(_JOB_ID.fullmatch(row[name]) for name in ("JobID", "JobIDRaw")):
        raise BadRecord(f"no submit time, or no job id: {quoted(row['JobID'])}")
    end, allocations = parse_time(row["End"]), _allocations(row["NodeList"], row["AllocTRES"])
    requested, given = parse_tres(row["ReqTRES"]), parse_tres(row["AllocTRES"])
    gpus = requested.gpus or given.gpus
    code, _, signal = row["ExitCode"].partition(":")
    limit = row["TimelimitRaw"]
    return with_plausible_times(Job(
        job_id=row["JobID"], array=array_of(row["JobID"]), submit_s=submit,
        raw_id=int(row["JobIDRaw"]) if row["JobIDRaw"].isdecimal() else None, state=accounted_state((row["State"],)),
        partition=row["Partition"],
        request=Request(
            gpus=gpus.count if gpus else 0, nodes=max(1, requested.nodes or int(row["NNodes"] or 1)),
            cpus=requested.cpus or 0, memory_bytes=requested.memory_bytes or 0, gpu_model=gpus.model if gpus else "",
            features=row["Constraints"]),
        user=row["User"], account=row["Account"], name=row["JobName"], qos=row["QOS"],
        eligible_s=parse_time(row["Eligible"]), start_s=begun(parse_time(row["Start"]), end, allocations), end_s=end,
        limit_s=float(limit) * 60 if limit.isdecimal() else None,
        priority=float(row["Priority"]) if row["Priority"].isdecimal() else None,
        exit_code=int(code) or -int(signal or 0) if code.isdecimal() else None,
        allocations=allocations, **software(row.get("Container", ""), row.get("Comment", ""), row["Constraints"],
                                            row["ReqTRES"])._asdict()))


def _allocations(hostlist: str, tres: str) -> tuple[Allocation, ...]:
    """Return equal shares: the accounts keep only totals."""
    nodes, given = expand(hostlist), parse_tres(tres)
    shares = zip(nodes, share(given.gpus.count if given.gpus else 0, len(nodes)), share(given.cpus or 0, len(nodes)),
                 share(given.memory_bytes or 0, len(nodes)), strict=True)
    return tuple(Allocation(node, gpus, None, cpus, memory) for node, gpus, cpus, memory in shares)


def parse_columns(row: Mapping[str, str]) -> Job:
    """Return the job of a row of accounting that somebody else requested: what it does not report is not known.

    Raises:
        ValueError: it tells no job, or something that cannot be read.
    """
    fields = {name: clean(row.get(name, "")) for name in SACCT_FIELDS + SOFTWARE_FIELDS}
    return _parse_row(fields | {"JobIDRaw": fields["JobIDRaw"] or fields["JobID"]})


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
        raise ValueError(f"not a duration: {quoted(text)}")
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
                up=fields.get("State") in ("UP", DRAIN), draining=fields.get("State") == DRAIN,
                priority_tier=int(fields.get("PriorityTier", 1)),
                priority_factor=int(fields.get("PriorityJobFactor", 1)),
                **_partition_rules(fields)))
        except ValueError as error:
            skipped.append(f"{quoted(fields['PartitionName'])}: {error}"[:200])
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
                whole="gres/" not in fields.get("TRES", ""), cpus=kept_cpus(fields.get("TRES", ""))))
        except ValueError as error:
            skipped.append(f"{quoted(fields['ReservationName'])}: {error}"[:200])
    return Parsed(tuple(reservations), tuple(skipped))


def reservation_names(text: str) -> tuple[str, ...]:
    """Return what calls itself a reservation in ``scontrol show reservation -o``; a comment may call itself so too."""
    return tuple(dict.fromkeys(fields["ReservationName"] for fields in _one_liners(text, "ReservationName")))


def has_free_text(text: str) -> bool:
    """Tell whether scontrol's one-liners hold a comment, whose line ends look like the next record."""
    return _FREE_TEXT in text


class _PartitionRules(TypedDict):
    """What a partition asks of jobs beyond a time limit, by the names of the fields of ``Partition``."""

    least_nodes: int
    most_nodes: int | None
    most_cpus_per_node: int | None
    accounts: tuple[str, ...]
    accounts_denied: tuple[str, ...]
    qos_allowed: tuple[str, ...]
    qos_denied: tuple[str, ...]
    qos: str
    preempt_mode: tuple[str, ...]
    reservation_required: bool
    exclusive: bool
    memory_per_gpu_bytes: int
    cpus_per_gpu: int
    billing_weights: Amounts | None


def _partition_rules(fields: dict[str, str]) -> _PartitionRules:
    """Return what a partition asks of jobs beyond a time limit."""
    mode = fields.get("PreemptMode", "").upper()
    return {
        "least_nodes": int(fields.get("MinNodes", 0)), "most_nodes": _ceiling(fields.get("MaxNodes")),
        "most_cpus_per_node": _ceiling(fields.get("MaxCPUsPerNode")),
        "accounts": _names(fields.get("AllowAccounts")), "accounts_denied": _names(fields.get("DenyAccounts")),
        "qos_allowed": _names(fields.get("AllowQos")), "qos_denied": _names(fields.get("DenyQos")),
        "qos": "".join(_names(fields.get("QoS"))), "preempt_mode": _names(mode),
        "reservation_required": fields.get("ReqResv") == "YES", "exclusive": fields.get("OverSubscribe") == "EXCLUSIVE",
        "memory_per_gpu_bytes": _default(fields, "DefMemPerGPU") * 2**20,
        "cpus_per_gpu": _default(fields, "DefCpuPerGPU"),
        "billing_weights": parse_weights(fields.get("TRESBillingWeights", ""))}


def _default(fields: dict[str, str], name: str) -> int:
    """Return what a partition gives with each GPU: ``JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=40000``."""
    match = re.search(rf"{name}=(\d{{1,12}})", fields.get("JobDefaults", ""))
    return int(match[1]) if match else 0


def _names(text: str | None) -> tuple[str, ...]:
    """Return names with commas; () for everybody and for nobody."""
    return () if text in (None, "ALL", *_UNKNOWN) else tuple((text or "").split(","))


def _ceiling(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _one_liners(text: str, key: str) -> list[dict[str, str]]:
    # A comment ends the line, and may hold what looks like keys.
    lines = [dict(reversed(_KEY_VALUE.findall(line.partition(_FREE_TEXT)[0]))) for line in text.split("\n")]
    return [{name: clean(value) for name, value in fields.items()} for fields in lines if fields.get(key)]
