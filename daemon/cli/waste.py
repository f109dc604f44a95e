"""``idlewatt waste``: where the watts go."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from ...storage.power_classes import PowerClass
from ..headline import Balance, Part, balance, scope
from ._client import ask, asks_daemon
from ._output import Row, show

_BY = {"class": "power_class", "partition": "partition", "node": "node", "user": "user", "job": "job_id"}


@click.command("waste", short_help="Show watts by class, partition, node, user or job.")
@asks_daemon
@click.option("--by", type=click.Choice(list(_BY)), default="class", show_default=True, help="What to add up.")
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only this node.")
@click.option("--user", help="Only what this user's jobs hold.")
def command(url: str, ca_file: str | None, style: str, by: str, **filters: Any) -> None:
    """Add up watts by class, partition, node, user or job.

    \b
    Examples:
      idlewatt waste                       every class; they add up to the power of all nodes
      idlewatt waste --by user             who holds wasted watts
      idlewatt waste --by node --format json
    """
    found, key = ask(url, "waste", ca_file, **filters), _BY[by]
    parts = [Part.of_json(row) for row in found]
    within, total = scope(parts), balance(parts)
    groups: dict[str, list[Part]] = defaultdict(list)
    for row, part in zip(found, parts, strict=True):
        groups[row[key]].append(part)
    sums = {name: balance(own, within) for name, own in groups.items()}
    rows = [_row(by, name, own, total.total)
            for name, own in sorted(sums.items(), key=lambda item: (-item[1].wasted, -item[1].total))]
    if style == "table" and by == "class":
        rows = [{**row, "class": PowerClass(row["class"]).label} for row in rows]
    columns = {by: by, "power_watts": "W", "wasted_power_watts": "wasted W", "unmeasured_power_watts": "not measured W",
               "share_percent": "% of all"}
    show(rows, columns, style, title=total.sentence if rows else "", empty="no power has been measured yet")


def _row(by: str, name: str, own: Balance, total: float) -> Row:
    """Return a row; of what is not wholly measured nobody says that it wastes nothing."""
    return {by: name or "-", "power_watts": own.total, "wasted_power_watts": own.wasted if _told(own) else None,
            "unmeasured_power_watts": own.unmeasured, "share_percent": 100 * own.total / total if total else None}


def _told(own: Balance) -> bool:
    return own.wasted > 0.0 or own.complete
