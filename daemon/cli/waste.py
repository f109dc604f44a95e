"""``idlewatt waste``: the present power by class, or, with ``--since``, the recorded energy."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import click

from ...storage.power_classes import WASTED, PowerClass
from ..amounts import amount
from ..headline import Balance, HeadlineRow, balance, scope
from ._client import Since, ask, asks_daemon
from ._output import Row, show
from ._units import energy, hours, share, wasted_share
from .jobs import costs

_BY = {"class": "power_class", "partition": "partition", "node": "node", "user": "user", "account": "account",
       "job": "job_id", "flavour": "flavour"}
_ENERGY = {"energy": "energy", "wasted": "wasted", "share": "%", "gpu_hours": "GPU-h", "activity": "active",
           "cost": "cost", "wasted_cost": "wasted cost"}
_WIDE = {"measured": "measured", "worst": "most wasted as", "carbon": "kg CO2e"}


@click.command("waste", short_help="Show watts by class, partition, node, user, job or flavour.")
@asks_daemon
@click.option("--by", type=click.Choice([*_BY, "day"]), default="class", show_default=True, help="What to group by.")
@click.option("--since", type=Since(),
              help="From this time on, energy instead of power now, in whole days (UTC): 7d, 2026-10-01. The unused "
                   "part of busy nodes is not recorded.")
@click.option("--until", type=Since(), help="Until this time; with --since.")
@click.option("--account", help="Only this account; with --since.")
@click.option("--class", "classes", multiple=True, type=click.Choice([row.value for row in WASTED]),
              help="Count only this class as wasted; may be repeated; with --since.")
@click.option("--limit", type=click.IntRange(1), help="At most this many; with --since.")
@click.option("--wide", is_flag=True, help="More than fits 80 columns; with --since.")
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only this node.")
@click.option("--user", help="Only what this user's jobs hold.")
def command(url: str, ca_file: str | None, style: str, by: str, **filters: Any) -> None:
    """Add up watts now, or energy since a day, by class, partition, node, user, account, job or flavour.

    \b
    Examples:
      idlewatt waste                       every class; they add up to the power of all nodes, and
                                           'unused W' is contained in Node overhead
      idlewatt waste --by user             who holds wasted watts
      idlewatt waste --by node --format json
      idlewatt waste --by flavour --since 7d                what each size of request took, in whole runs
      idlewatt waste --by account --since 7d                who wasted how many kWh
      idlewatt waste --by job --since 1d --class allocated_idle --limit 10
    """
    wide, since = filters.pop("wide"), filters["since"]
    if since:
        _recorded(url, ca_file, style, by, wide, filters)
        return
    for name in ("since", "until", "account", "classes", "limit"):
        if filters.pop(name):
            raise click.UsageError(f"--{name.replace('classes', 'class')} goes with --since")
    if by == "day":
        raise click.UsageError("--by day goes with --since")
    waste_rows, key = ask(url, "waste", ca_file, **filters), _BY[by]
    parts = [HeadlineRow.of_json(row) for row in waste_rows]
    within, total = scope(parts), balance(parts)
    groups: dict[tuple[str, str, str, float], list[HeadlineRow]] = defaultdict(list)
    submitted = _submissions(url, ca_file) if by == "job" else {}
    for row, part in zip(waste_rows, parts, strict=True):
        # Several clusters may have a job of one number.
        held = by == "job" and row[key]
        holder = (row["partition"], row["user"], submitted.get((row[key], row["node"]), 0.0)) if held else ("", "", 0.0)
        groups[row[key], *holder].append(part)
    sums = {name: balance(class_rows, within) for name, class_rows in groups.items()}
    alike = len({name for name, *_ in sums}) < len(sums)
    rows = [{**_row(by, name, group_sums, total.total), **({"partition": partition or "-"} if alike else {})}
            for (name, partition, *_), group_sums in sorted(
                sums.items(), key=lambda item: (-item[1].reported, -item[1].total))]
    if style == "table" and by == "class":
        rows = [{**row, "class": PowerClass(row["class"]).label} for row in rows]
    columns = {by: by} | ({"partition": "partition"} if alike else {}) | {
        "power_watts": "W", "wasted_power_watts": "wasted W", "unused_power_watts": "unused W",
        "unmeasured_power_watts": "not measured W", "share_percent": "% of all"}
    show(rows, columns, style, title=total.sentence if rows else "", empty="no power has been measured yet")


def _submissions(url: str, ca_file: str | None) -> dict[tuple[str, str], float]:
    """Return when each job on a node was submitted, by id and node; {} where one scheduler gives the ids."""
    if sum(source["role"] == "scheduler" for source in ask(url, "sources", ca_file)) <= 1:
        return {}
    from ...storage.records import JobState  # so late, as it brings numpy, which no help text needs

    return {(job["job_id"], part["node"]): job["submit_s"] for job in ask(url, "jobs", ca_file)
            if JobState(job["state"]).active for part in job["allocations"]}


def _row(by: str, name: str, balance: Balance, total: float) -> Row:
    """Return a row; a partly unmeasured row does not show zero waste."""
    return {by: name or "-", "power_watts": balance.total,
            "wasted_power_watts": balance.wasted if _waste_is_known(balance) else None,
            "unused_power_watts": balance.unused if balance.unused or not balance.dark_busy else None,
            "unmeasured_power_watts": balance.unmeasured,
            "share_percent": 100 * balance.total / total if total else None}


def _recorded(url: str, ca_file: str | None, style: str, by: str, wide: bool, filters: dict[str, Any]) -> None:
    """Show recorded energy by the requested key; power and energy are never in one table."""
    wanted = {"class": filters.pop("classes"), "by": by} | filters
    if wanted.pop("node"):
        raise click.UsageError("--node goes with power now: use --by node with --since")
    rows = ask(url, "waste", ca_file, **wanted)
    if style != "json":
        rows = [{**_named(by, row), **_figures(row)} for row in rows]
    names = [row["name"] for row in rows]
    # Several clusters may have a job of one number.
    named = {by: by} | ({"partition": "partition"} if by == "job" and len(set(names)) < len(names) else {})
    columns = named | {key: heading for key, heading in (_ENERGY | _WIDE if wide else _ENERGY).items()
                          if any(row.get(key) for row in rows)}
    if style == "csv":
        columns = named | {"energy_joules": "energy_joules", "wasted_joules": "wasted_joules",
                   "gpu_seconds": "gpu_seconds", "activity": "activity", "cost_energy": "cost_energy",
                   "cost_wasted": "cost_wasted", "currency": "currency"}
        rows = [{**row, **costs(row)} for row in rows]
    show(rows, columns, style, empty="nothing was recorded then")


def _named(by: str, row: Row) -> Row:
    """Return the row with its name in the form for people."""
    name = row["name"]
    if by == "day":
        name = datetime.fromtimestamp(float(name), UTC).strftime("%Y-%m-%d")
    nobody = "(no flavour)" if by == "flavour" else "(nobody)"
    return {**row, by: PowerClass(name).label if by == "class" else name or nobody}


def _figures(row: Row) -> Row:
    worst = max((name for name in row["classes"] if PowerClass(name).wasted), key=row["classes"].__getitem__,
                default="")
    carbon = (row["cost"] or {}).get("carbon_grams")
    return {"energy": energy(row["energy_joules"]), "wasted": energy(row["wasted_joules"]),
            "share": share(wasted_share(row)), "gpu_hours": hours(row["gpu_seconds"]) if row["gpu_seconds"] else "",
            "activity": row["activity"] if row["activity"] is None else share(row["activity"]),
            "cost": amount(row["cost"]), "wasted_cost": amount(row["cost"], "wasted"),
            "measured": share(row["measured_share"]), "worst": PowerClass(worst).label if worst else "",
            "carbon": None if carbon is None else carbon / 1000}


def _waste_is_known(balance: Balance) -> bool:
    return balance.wasted > 0.0 or balance.waste_complete
