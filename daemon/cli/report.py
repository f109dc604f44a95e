"""``idlewatt report``: the energy of a month, by account, user, partition, node or day."""

from __future__ import annotations

import re
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import click

from ..amounts import amount, carbon, total
from ._against import COLUMNS as COMPARED
from ._against import compared
from ._client import ask, asks_in
from ._output import Row, as_json, show
from ._units import WIDTH, energy, hours, share, wasted_share
from .jobs import costs

_MONTH = re.compile(r"(?!0000)(\d{4})-(0[1-9]|1[0-2])")
_COLUMNS = {"name": "name", "energy": "energy", "wasted": "wasted", "share": "%", "gpu_hours": "GPU-h",
            "activity": "active", "cost": "cost", "wasted_cost": "wasted cost"}
_PLAIN = ("month", "name", "energy_joules", "wasted_joules", "gpu_seconds", "activity", "measured_share", "cost_energy",
          "cost_wasted", "cost_gpu_hours", "carbon_grams", "currency")


@click.command("report", short_help="Report a month's energy, waste and cost.")
@asks_in("table", "html", "csv", "json")
@click.option("--month", required=True, help="Month (UTC), e.g. 2026-10.")
@click.option("--against", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Compare the month's runs with Slurm's ConsumedEnergy in this file of sacct --json.")
@click.option("--by", type=click.Choice(["account", "user", "partition", "node", "day", "class"]), default="account",
              show_default=True, help="What to group by.")
def command(url: str, ca_file: str | None, style: str, month: str, by: str, against: Path | None) -> None:
    """Report the energy that a month used and wasted, and its cost; the rows add up to the cluster's total.

    \b
    Examples:
      idlewatt report --month 2026-10 --by account
      idlewatt report --month 2026-10 --by user --format html > october.html
      sacct --json --allusers --duplicates -S 2026-10-01 -E 2026-11-01 > sacct.json
      idlewatt report --month 2026-10 --against sacct.json
    """
    since, until = _bounds(month)
    if against is not None:
        compared_runs, summary = compared(against, ask(url, "jobs", ca_file, since=since, until=until, limit=10_000))
        click.echo(summary, err=style in ("csv", "json"))
        show(compared_runs, COMPARED, "table" if style == "html" else style, empty="")
        return
    rows = ask(url, "waste", ca_file, by=by, since=since, until=until, limit=10_000)
    if style == "json":
        click.echo(as_json(rows))
    elif style == "csv":
        show([{**row, **costs(row), **_more(row), "month": month, "name": _name(row, by)} for row in rows],
             {name: name for name in _PLAIN}, style)
    elif style == "html":
        click.echo(page(month, by, rows))
    else:
        figures = [_figures(row, by) for row in rows]
        shown = {key: heading for key, heading in _COLUMNS.items() if any(row[key] for row in figures)}
        if rows:
            click.echo(f"{textwrap.fill(conclusion(month, by, rows), WIDTH)}\n")
        show(figures, shown, style, empty="nothing was recorded in that month")


def _bounds(month: str) -> tuple[str, str]:
    match = _MONTH.fullmatch(month)
    if match is None:
        raise click.UsageError(f"{month!r} is no month such as 2026-10")
    year, number = int(match[1]), int(match[2])
    first = datetime(year, number, 1, tzinfo=UTC)
    if first > datetime.now(UTC):
        raise click.UsageError(f"{month} has not begun")
    return f"{year:04}-{number:02}-01", f"{year + number // 12:04}-{number % 12 + 1:02}-01"


def _name(row: Row, by: str) -> str:
    if by == "day":
        return datetime.fromtimestamp(float(row["name"]), UTC).strftime("%Y-%m-%d")
    return str(row["name"]) or "(nobody)"


def _more(row: Row) -> Row:
    cost = row["cost"] or {}
    return {"cost_gpu_hours": cost.get("gpu_hours"), "carbon_grams": cost.get("carbon_grams")}


def _figures(row: Row, by: str) -> Row:
    return {"name": _name(row, by), "energy": energy(row["energy_joules"]), "wasted": energy(row["wasted_joules"]),
            "share": share(wasted_share(row)), "gpu_hours": hours(row["gpu_seconds"]) if row["gpu_seconds"] else "",
            "activity": share(row["activity"]) if row["activity"] is not None else "", "cost": amount(row["cost"]),
            "wasted_cost": amount(row["cost"], "wasted"), "held": amount(row["cost"], "gpu_hours"),
            "carbon": carbon(row["cost"])}


def conclusion(month: str, by: str, rows: list[Row]) -> str:
    """Return in words the used and wasted energy of a month, and the largest wasters."""
    took, wasted = (sum(row[key] for row in rows) for key in ("energy_joules", "wasted_joules"))
    if not took:
        return f"Nothing was recorded in {month}."
    cost, lost = amount(total(rows)), amount(total(rows), "wasted")
    summary = (f"{month}: {energy(took)}{f' = {cost}' if cost else ''}, of which {energy(wasted)} wasted "
               f"({share(wasted / took)}{f', {lost}' if lost else ''})")
    most = max(rows, key=lambda row: float(row["wasted_joules"]))
    if len(rows) < 2 or not wasted:  # noqa: PLR2004 - one row is the whole
        return f"{summary}."
    part = share(most["wasted_joules"] / wasted)
    return f"{summary}; the most by {by} {_name(most, by)}: {energy(most['wasted_joules'])}, {part} of the waste."


def page(month: str, by: str, rows: list[Row]) -> str:
    """Return the report as a self-contained HTML page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=True, undefined=StrictUndefined,
                        trim_blocks=True, lstrip_blocks=True)
    columns = _COLUMNS | {"held": "GPU-hours cost", "carbon": "CO2e"}
    figures = [_figures(row, by) for row in rows]
    shown = {key: heading for key, heading in columns.items() if any(row[key] != "" for row in figures)}
    return pages.get_template("month.html").render(
        month=month, by=by, rows=figures, columns=shown | {"name": by}, words=conclusion(month, by, rows))
