"""``idlewatt models``: lists the trained models and heuristics with their results and roles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._client import DaemonUnreachable
from ._costs import KWH_J, stated
from ._output import plain, show
from ._store import decisions, store, uses_models

if TYPE_CHECKING:
    from ...storage.promotions import Promotion
    from ..learning.candidates import Candidate
    from ..learning.models import StoredModel

_COLUMNS = {"model": "model", "state": "state", "objective": "is after", "utilization": "U",
            "makespan_days": "makespan d", "jct_mean_s": "JCT s", "wait_mean_s": "wait s", "energy_kwh": "kWh",
            "cost": "cost",
            "over_incumbent": "relative JCT"}


@click.command("models", short_help="List trained models and how they were judged.")
@uses_models
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format.")
def command(config_file: Path, folder: Path | None, style: str) -> None:
    """List all candidates, trained models and heuristics, with held-out results, intervals, states and reasons.

    \b
    Examples:
      idlewatt models
      idlewatt models --format json
    """
    from ..learning.candidates import candidates

    models = store(config_file, folder)
    taken: Sequence[Promotion] = ()
    known: Mapping[str, Candidate] | None = None
    try:
        taken = decisions(config_file)
        known = {row.name: row for row in candidates(taken, max([time.time(), *(row.time_s for row in taken)]))}
    except DaemonUnreachable as error:
        click.echo(f"who is active is not known: {error.message}", err=True)
    rows = [_row(model, (known or {}).get(model.name)) for model in models.models()]
    has_models = bool(rows)
    figures = {decision.model: decision for decision in taken}
    rows += [_heuristic(candidate, figures.get(candidate.name))
             for candidate in (known or {}).values() if not candidate.learned]
    price = stated(config_file)
    rows = [{**row, "cost": price.said(_joules(row)) or None} for row in rows] if price.words else rows
    shown = {key: heading for key, heading in _COLUMNS.items() if key != "cost" or price.words}
    columns = shown if style == "table" else {key: key for row in rows for key in row if key != "card"}
    none = f"no models in {models.folder}; `idlewatt train` makes one"
    show(rows, columns, style, empty=none)
    if style == "table":
        if rows and not has_models:
            click.echo(f"\n{none}")
        _tell(rows)
        if price.words and rows:
            click.echo(f"\n{price.words[0].upper()}{price.words[1:]}.")


def _tell(rows: Sequence[Mapping[str, object]]) -> None:
    """Print as sentences the facts that would make the table too wide."""
    for row in rows:
        click.echo(f"\n{plain(row['model'])}: {row['state']}{', ' + plain(row['why']) if row['why'] else ''}")
        if row["card"]:
            best = f"; JCT of the best heuristic's {row['over_best']}" if row["over_best"] else ""
            held_out = row["held_out"] or "not judged yet"
            click.echo(f"  learned from {plain(row['learned_from'])}; held out: {held_out}{best}")


def _row(model: StoredModel, known: Candidate | None) -> dict[str, object]:
    """Return a model as a flat row for tables, with its whole card for programs."""
    from dataclasses import asdict

    card = model.card
    state = "damaged" if model.fault else known.state if known else "undecided"
    why = model.fault or (known.reason if known else "")
    if card is None:
        return {"model": model.name, "state": state, "why": why, "folder": str(model.folder), "card": None}
    figures = card.metrics
    return {"model": model.name, "trained": _minute(card.trained_s), "state": state,
            "objective": card.objective or None, **_five(figures),
            "over_incumbent": _interval(figures, "jct_over_incumbent"),
            "over_best": _interval(figures, "jct_over_best_heuristic"), "held_out": _held_out(figures),
            "learned_from": f"{card.source}, {_span(card.history_from_s, card.history_until_s)}", "why": why,
            "decided": _minute(known.decided_s) if known and known.decided_s else None,
            "by": known.by if known else None, "folder": str(model.folder), "card": asdict(card)}


def _heuristic(known: Candidate, decision: Promotion | None) -> dict[str, object]:
    """Return a combination of heuristics as a row like that of a model, without training data."""
    figures: Mapping[str, Any] = decision.figures if decision else {}
    model_row: Mapping[str, Any] = next((row for row in figures.get("rows", ()) if row.get("policy") == known.name), {})
    ratio = {f"jct_over_incumbent{part}": value for part, value in (
        ("", known.estimate), ("_low", known.low), ("_high", known.high)) if value is not None}
    return {"model": known.name, "trained": None, "state": known.state, "objective": None, **_five(model_row),
            "over_incumbent": _interval(ratio, "jct_over_incumbent"), "over_best": None,
            "held_out": _held_out(figures) if "days" in figures else None, "learned_from": None,
            "why": known.reason, "decided": _minute(known.decided_s) if known.decided_s else None,
            "by": known.by or None, "folder": None, "card": None}


def _five(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the five figures of each policy; None if it was not judged, or long ago."""
    makespan_s, joules = figures.get("makespan_s"), figures.get("energy_joules")
    return {"utilization": figures.get("utilization"), "makespan_days": makespan_s and makespan_s / 86400,
            "jct_mean_s": figures.get("jct_mean_s"), "wait_mean_s": figures.get("wait_mean_s"),
            "energy_kwh": joules and joules / KWH_J}


def _joules(row: Mapping[str, object]) -> float | None:
    kwh = row.get("energy_kwh")
    return kwh * KWH_J if isinstance(kwh, int | float) else None


def _interval(figures: Mapping[str, float], name: str) -> str | None:
    if name not in figures:
        return None
    low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
    if low is None or high is None:
        return f"{figures[name]:.3f} (not enough yet)"
    return f"{figures[name]:.3f} ({low:.3f}-{high:.3f})"


def _held_out(figures: Mapping[str, Any]) -> str | None:
    return f"{figures['days']:.0f} d, {figures['jobs']:.0f} jobs" if {"days", "jobs"} <= figures.keys() else None


def _minute(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M")


def _span(since_s: float | None, until_s: float | None) -> str:
    if since_s is None or until_s is None:
        return "span unknown"
    return f"{(until_s - since_s) / 86400:.0f} d to {_minute(until_s)}"
