"""``idlewatt waste``: where the watts go."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from ._client import ask, asks_daemon
from ._output import show

_BY = {"class": "power_class", "partition": "partition", "node": "node", "user": "user", "job": "job_id"}


@click.command("waste")
@asks_daemon
@click.option("--by", type=click.Choice(list(_BY)), default="class", show_default=True, help="What to add up.")
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only this node.")
@click.option("--user", help="Only what this user's jobs hold.")
def command(url: str, ca_file: str | None, style: str, by: str, **filters: Any) -> None:
    """Add up watts by class, partition, node, user or job.

    \b
    Examples:
      idlewatt waste                       every class; they add up to the wall meter
      idlewatt waste --by user             who holds wasted watts
      idlewatt waste --by node --format json
    """
    key = _BY[by]
    watts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in ask(url, "waste", ca_file, **filters):
        watts[row[key]][0] += row["power_watts"]
        watts[row[key]][1] += row["power_watts"] if row["wasted"] else 0.0
    total = sum(power for power, _ in watts.values())
    rows = [{by: name or "-", "power_watts": power, "wasted_power_watts": wasted,
             "share_percent": 100 * power / total if total else None}
            for name, (power, wasted) in sorted(watts.items(), key=lambda item: (-item[1][1], -item[1][0]))]
    columns = {by: by, "power_watts": "W", "wasted_power_watts": "wasted W", "share_percent": "% of all"}
    show(rows, columns, style, empty="no power has been measured yet")
