"""``idlewatt jobs``: lists the present jobs, or recorded jobs with their energy."""

from __future__ import annotations

from typing import Any

import click

from ..amounts import amount
from ._client import Since, ask, asks_daemon
from ._output import Row, show
from ._units import day, energy, hours, ran, share, wasted_share

_COLUMNS = {"job_id": "job", "user": "user", "name": "name", "partition": "partition", "state": "state",
            "reason": "reason", "gpus": "GPUs", "nodes": "nodes"}
_RECORDED = {"job_id": "job", "user": "user", "state": "state", "gpus": "GPUs", "ran": "ran", "activity": "active",
             "energy": "energy", "wasted": "wasted", "share": "%", "cost": "cost"}
_WIDE = {"job_id": "job", "user": "user", "account": "account", "partition": "partition", "name": "name",
         "state": "state", "gpus": "GPUs", "start": "started (UTC)", "ran": "ran", "gpu_hours": "GPU-h",
         "activity": "active", "mean": "mean W", "peak": "peak W", "energy": "energy", "wasted": "wasted", "share": "%",
         "cost": "cost", "wasted_cost": "wasted cost"}
_PLAIN = {name: name for name in (
    "job_id", "user", "account", "partition", "name", "state", "gpus", "gpu_model", "submit_s", "start_s", "end_s",
    "gpu_seconds", "activity", "power_mean_watts", "power_max_watts", "memory_max_bytes", "energy_joules",
    "wasted_joules", "cost_energy", "cost_wasted", "currency")}


@click.command("jobs", short_help="List pending, running and finished jobs.")
@asks_daemon
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only jobs on this node.")
@click.option("--user", help="Only this user's jobs.")
@click.option("--account", help="Only this account's jobs; with --since.")
@click.option("--state", help="Only this state, e.g. pending.")
@click.option("--since", type=Since(), help="From this time on, recorded jobs with their energy: 7d, 12h, 2026-10-01.")
@click.option("--until", type=Since(), help="Until this time; with --since.")
@click.option("--sort", type=click.Choice(["ended", "wasted", "energy", "gpu_hours"]),
              help="Sort recorded jobs by this, largest first; of the last 7 days without --since.")
@click.option("--search", help="Only jobs with this in their id, user or name; with --since.")
@click.option("--software", help="Only jobs with this in their container image, framework or CUDA version; with "
                                 "--since.")
@click.option("--min-kwh", type=click.FloatRange(0), help="Only jobs that used at least this much; with --since.")
@click.option("--limit", type=click.IntRange(1), help="At most this many.")
@click.option("--wide", is_flag=True, help="More than fits 80 columns.")
def command(url: str, ca_file: str | None, style: str, wide: bool, **filters: Any) -> None:
    """List pending, running and recently finished jobs or, with --since, what recorded jobs used.

    \b
    Examples:
      idlewatt jobs --state pending
      idlewatt jobs --since 7d --user alice --sort wasted
      idlewatt jobs --since 2026-10-01 --until 2026-11-01 --format csv
    """
    if filters["state"]:
        filters["state"] = filters["state"].lower()
    if filters["since"] or filters["sort"]:
        if filters.pop("node"):
            raise click.UsageError("--node goes with the jobs of now, not with --since or --sort")
        _recorded(url, ca_file, style, wide, filters)
        return
    for name in ("account", "until", "search", "software", "min_kwh"):
        if filters.pop(name) is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --since")
    rows = [_row(job) for job in ask(url, "jobs", ca_file, **filters)]
    show(rows, _COLUMNS, style, empty="no jobs")


def _recorded(url: str, ca_file: str | None, style: str, wide: bool, filters: dict[str, Any]) -> None:
    rows = ask(url, "jobs", ca_file, **{"since": "7d"} | {name: value for name, value in filters.items() if value})
    if style == "csv":
        rows = [{**row, **costs(row)} for row in rows]
    priced = any(row["cost"] for row in rows)
    columns = {key: heading for key, heading in (_WIDE if wide else _RECORDED).items() if priced or "cost" not in key}
    show(rows if style != "table" else list(map(_figures, rows)), _PLAIN if style == "csv" else columns, style,
         empty="no jobs were recorded then")


def costs(row: Row) -> Row:
    """Return the costs of a row as columns of a spreadsheet; None if no price is set."""
    cost = row["cost"] or {}
    return {"cost_energy": cost.get("energy"), "cost_wasted": cost.get("wasted"), "currency": cost.get("currency")}


def _figures(row: Row) -> Row:
    return {**row, "gpus": f"{row['gpus']:g}", "ran": ran(row), "activity": share(row["activity"]),
            "energy": energy(row["energy_joules"]), "wasted": energy(row["wasted_joules"]),
            "share": share(wasted_share(row)), "cost": amount(row["cost"]), "start": day(row["start_s"]),
            "gpu_hours": hours(row["gpu_seconds"]), "mean": row["power_mean_watts"], "peak": row["power_max_watts"],
            "wasted_cost": amount(row["cost"], "wasted")}


def _row(job: Row) -> Row:
    return {**job, "gpus": job["request"]["gpus"] * job["tasks"], "nodes": " ".join(map(_held, job["allocations"]))}


def _held(allocation: Row) -> str:
    indexes = allocation["gpu_indexes"]
    held = ",".join(map(str, indexes)) if indexes else allocation["gpus"] or ("parts" if allocation["parts"] else 0)
    return f"{allocation['node']}:{held}"
