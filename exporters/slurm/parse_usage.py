"""What accounts and qualities of service have used so far, from ``scontrol --oneliner show assoc_mgr``.

The controller's own sums, by which it holds jobs: Slurm's database does not tell them, nor does slurmrestd v0.0.38.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...storage.rules import Amounts, CountedUsage
from .parse_json import Parsed

MINUTE_S, MEGABYTE = 60.0, 2.0**20
_FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
_AMOUNT = re.compile(r"([^=,]+)=[^=,]*\((\d+)\)(?:,|$)")
_NAME = re.compile(r"(.+)\(\d+\)$")
"""A name and its number."""
_WALL = re.compile(r".*\((\d+(?:\.\d*)?)\)$")


def parse_usage(text: str, time_s: float) -> Parsed[CountedUsage]:
    """Return what each account, user of one and quality of service has used, as reported at a time."""
    records, skipped = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = dict(reversed(_FIELD.findall(line)))  # those of the record itself come before those of users in it
        if not fields.keys() & {"QOS", "Account"}:
            continue
        try:
            records.append(_usage(fields, time_s))
        except (KeyError, ValueError) as error:
            skipped.append(f"line {number}: {error}"[:200])
    return Parsed(tuple(records), tuple(skipped))


def _usage(fields: Mapping[str, str], time_s: float) -> CountedUsage:
    wall = _WALL.match(fields["GrpWall"])
    if wall is None:
        raise ValueError(f"GrpWall={fields['GrpWall'][:40]} has no time used")
    used = (*_amounts(fields["GrpTRESMins"], " seconds used"), ("seconds used", float(wall[1]) * MINUTE_S))
    promised = _amounts(fields["GrpTRESRunMins"], " seconds")
    if "QOS" in fields:
        return CountedUsage(time_s, qos=_named(fields["QOS"]), used=used, promised=promised)
    user = _named(fields["UserName"]) if fields["UserName"] else ""
    return CountedUsage(time_s, account=fields["Account"], user=user, partition=fields["Partition"], used=used,
                 promised=promised)


def _named(text: str) -> str:
    name = _NAME.match(text)
    if name is None:
        raise ValueError(f"{text[:40]!r} is no name with a number")
    return name[1]


def _amounts(text: str, over_time: str) -> Amounts:
    """Return the amounts in use of ``cpu=N(10),mem=100(20)``, minutes as seconds."""
    return tuple((name.removeprefix("gres/") + over_time, int(used) * MINUTE_S * (MEGABYTE if name == "mem" else 1.0))
                 for name, used in _AMOUNT.findall(text))
