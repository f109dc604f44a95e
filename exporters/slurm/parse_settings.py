"""What Slurm enforces, from the text of ``scontrol`` and ``sacctmgr``: settings, licences, limits, switches.

All of it is the administrator's; nothing here is text that a user may choose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ...storage.rules import Amounts, Association, Ceilings, License, Qos, SchedulerSettings
from .gres import parse_memory
from .parse_json import Parsed, Record
from .parse_text import parse_duration

QOS_FIELDS = ("Name", "Priority", "Preempt", "PreemptMode", "Flags", "PreemptExemptTime", "GrpTRES", "GrpJobs",
              "MaxTRES", "MaxTRESPerNode", "MaxTRESPU", "MaxJobsPU", "MaxTRESPA", "MaxJobsPA", "MaxWall", "MinTRES",
              "UsageFactor", "GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxTRESMins", "MaxTRESRunMinsPU",
              "MaxTRESRunMinsPA")
ASSOCIATION_FIELDS = ("Account", "User", "Partition", "ParentName", "GrpTRES", "GrpJobs", "MaxJobs", "MaxTRES",
                      "MaxTRESPerNode", "MaxWall", "Fairshare", "GrpTRESMins", "GrpTRESRunMins", "GrpWall",
                      "MaxTRESMins", "Priority")
SWITCH_FIELDS = "JobID:.16,ReqSwitch:.12,Wait4Switch:.16"
SETTINGS = ("PreemptType", "PreemptMode", "PreemptExemptTime", "AccountingStorageEnforce", "SelectTypeParameters",
            "SelectType", "TopologyPlugin", "SchedulerParameters", "ClusterName", "AuthInfo", "KillWait",
            "MessageTimeout", "SuspendTime", "SuspendProgram")
"""Lines of ``scontrol show config`` that decide about starts, or when empty nodes are powered down."""
_PRIORITY = re.compile(r"Priority\w+$|FairShareDampeningFactor$")
"""Those that decide about the order."""
_SETTING = re.compile(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NOTHING = ("", "(null)", "none", "n/a", "off")
_CREDENTIAL = re.compile(r"cred_expire=(\d+)")
_CREDENTIAL_S, _LEAST_CREDENTIAL_S = 120, 5
"""How long a credential lives unless AuthInfo says otherwise; what is shorter Slurm does not take."""
_WAITS = {"KillWait": 30.0, "MessageTimeout": 10.0}
"""Seconds that Slurm gives what it kills, and a message, unless configured otherwise."""


def parse_settings(text: str) -> dict[str, str]:
    """Return the settings of ``scontrol show config`` that decide about starts."""
    known = dict(_SETTING.findall(text))
    return {name: value for name, value in known.items() if name in SETTINGS or _PRIORITY.match(name)}


def site_of(settings: Mapping[str, str]) -> SchedulerSettings:
    """Return what settings mean; what is not among them is not known."""
    enforced, select = settings.get("AccountingStorageEnforce"), settings.get("SelectTypeParameters")
    topology, preempt = settings.get("TopologyPlugin"), settings.get("PreemptType")
    mode = settings.get("PreemptMode")
    return SchedulerSettings(
        preempt_type=None if preempt is None else _after_slash(preempt),
        preempt_mode=None if mode is None else _words(mode.upper()),
        exempt_s=parse_duration(settings.get("PreemptExemptTime", "NONE").replace("(null)", "NONE")) or 0.0,
        returns_s=_credential_s(settings.get("AuthInfo", "")) + 1.0,
        room_again_s=sum(_whole_seconds(settings.get(name, ""), usual) for name, usual in _WAITS.items()),
        enforced=None if enforced is None else _words(enforced.lower()),
        memory_counts=None if select is None else "MEMORY" in select.upper(),
        cores_whole=None if select is None else "CPU" not in re.split(r"[_,]", select.upper()),
        tree=None if topology is None else _after_slash(topology) in ("tree", "block"),
        parameters=_words(settings.get("SchedulerParameters", "")),
        priority=tuple(sorted((name, value) for name, value in settings.items() if _PRIORITY.match(name))),
        power_down_s=_power_down_s(settings))


def _power_down_s(settings: Mapping[str, str]) -> float | None:
    """Return after how long Slurm powers an empty node down; None where it does not: it needs a program to do it."""
    if settings.get("SuspendProgram", "unknown").strip().lower() in _NOTHING:
        return None
    number = settings.get("SuspendTime", "").strip().partition(" ")[0]
    return float(number) if number.isascii() and number.isdecimal() else None


def _credential_s(auth: str) -> int:
    lifetime = _CREDENTIAL.search(auth)
    seconds = int(lifetime[1]) if lifetime else _CREDENTIAL_S
    return seconds if seconds >= _LEAST_CREDENTIAL_S else _CREDENTIAL_S


def _whole_seconds(text: str, usual: float) -> float:
    """Return the seconds of ``30 sec``; the usual ones where nothing is set."""
    number = text.partition(" ")[0]
    return float(number) if number.isdecimal() else usual


def _after_slash(text: str) -> str:
    name = text.rpartition("/")[2].lower()
    return "none" if name in _NOTHING else name


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip().lower() not in _NOTHING)


def parse_licenses(text: str) -> Parsed[License]:
    """Return the licences of ``scontrol show licenses -o``."""
    records, skipped = [], []
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if not fields.get("LicenseName"):
            continue
        try:
            records.append(License(fields["LicenseName"], int(fields["Total"]), int(fields.get("Used", 0)),
                                   int(fields.get("Reserved", 0))))
        except (KeyError, ValueError) as error:
            skipped.append(f"{fields['LicenseName'][:40]!r}: {error}"[:200])
    return Parsed(tuple(records), tuple(skipped))


def parse_qos_table(text: str) -> Parsed[Qos]:
    """Return the rows of ``sacctmgr --parsable2 --noheader show qos`` with ``QOS_FIELDS``."""
    return _parsed(text, QOS_FIELDS, _qos)


def parse_association_table(text: str) -> Parsed[Association]:
    """Return the rows of ``sacctmgr --parsable2 --noheader show assoc`` with ``ASSOCIATION_FIELDS``."""
    return _parsed(text, ASSOCIATION_FIELDS, _association)


def _parsed(text: str, fields: tuple[str, ...], parse: Callable[[Mapping[str, str]], Record]) -> Parsed[Record]:
    records, skipped = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        row = line.split("|")
        try:
            if len(row) != len(fields):
                raise ValueError(f"{len(row)} fields, not {len(fields)}")
            records.append(parse(dict(zip(fields, row, strict=True))))
        except ValueError as error:
            skipped.append(f"line {number}: {error}"[:200])
    return Parsed(tuple(records), tuple(skipped))


def _qos(row: Mapping[str, str]) -> Qos:
    return Qos(
        row["Name"],
        Ceilings(group=(*_amounts(row["GrpTRES"]), *_jobs(row["GrpJobs"]), *_over_time(row)),
                 user=(*_amounts(row["MaxTRESPU"]), *_jobs(row["MaxJobsPU"]), *_seconds_of(row["MaxTRESRunMinsPU"])),
                 account=(*_amounts(row["MaxTRESPA"]), *_jobs(row["MaxJobsPA"]),
                          *_seconds_of(row["MaxTRESRunMinsPA"])),
                 job=(*_amounts(row["MaxTRES"]), *_seconds_of(row["MaxTRESMins"])),
                 node=_amounts(row["MaxTRESPerNode"]), least=_amounts(row["MinTRES"]),
                 wall_s=_wall(row["MaxWall"])),
        float(row["Priority"] or 0), _words(row["Preempt"]),
        tuple(word for word in _words(row["PreemptMode"].upper()) if word != "CLUSTER"), _words(row["Flags"].upper()),
        _wall(row["PreemptExemptTime"]) or 0.0, float(row["UsageFactor"] or 1))


def _association(row: Mapping[str, str]) -> Association:
    return Association(
        row["Account"], row["User"], row["Partition"], row["ParentName"],
        Ceilings(group=(*_amounts(row["GrpTRES"]), *_jobs(row["GrpJobs"]), *_over_time(row)),
                 user=_jobs(row["MaxJobs"]), job=(*_amounts(row["MaxTRES"]), *_seconds_of(row["MaxTRESMins"])),
                 node=_amounts(row["MaxTRESPerNode"]), wall_s=_wall(row["MaxWall"])),
        _shares(row["Fairshare"]), float(row["Priority"] or 0))


def past_ceilings(text: str) -> Amounts:
    """Return the ceilings on what all jobs have used, in seconds, of ``gres/gpu=600,cpu=5000`` in minutes.

    Raises:
        ValueError: it is not written so.
    """
    return _seconds_of(text, " used")


def _shares(text: str) -> int | None:
    """Return the shares of an association; None where it has its parent's."""
    return None if text.strip().lower() == "parent" else max(0, int(text or 1))


def _amounts(text: str) -> Amounts:
    """Return ``gres/gpu=4,mem=100G,cpu=64`` by name; negative amounts mean none."""
    records = []
    for name, _, value in (part.partition("=") for part in text.split(",") if "=" in part):
        if value.startswith("-"):
            continue
        records.append((name.removeprefix("gres/"), float(parse_memory(value) if name == "mem" else int(value))))
    return tuple(records)


def _over_time(row: Mapping[str, str]) -> Amounts:
    """Return the ceilings on what running jobs may still use together, and on what all jobs have used."""
    wall_s = _wall(row["GrpWall"])
    return (*_seconds_of(row["GrpTRESRunMins"]), *past_ceilings(row["GrpTRESMins"]),
            *((("seconds used", wall_s),) if wall_s is not None else ()))


def _seconds_of(text: str, used: str = "") -> Amounts:
    """Return amounts in minutes as amounts in seconds."""
    return tuple((f"{name} seconds{used}", 60.0 * amount) for name, amount in _amounts(text))


def _jobs(text: str) -> Amounts:
    return (("jobs", float(text)),) if text.isdecimal() else ()


def _wall(text: str) -> float | None:
    return parse_duration(text) if text and text[0].isdecimal() else None


def parse_switches(text: str) -> dict[int, tuple[int, float | None]]:
    """Return by raw job id how many switches are requested, and for how many seconds it waits for so few.

    Lines of ``squeue --noheader -O`` with ``SWITCH_FIELDS``; those that are not understood are left out.
    """
    values = {}
    for line in text.splitlines():
        columns = line.split()
        if len(columns) == 3 and columns[0].isdecimal() and columns[1].isdecimal():
            values[int(columns[0])] = int(columns[1]), _seconds(columns[2])
    return values


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None
