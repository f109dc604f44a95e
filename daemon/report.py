"""The report of a sweep: one HTML page without outside parts, with plots drawn from bounded samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from ..storage.power_classes import PowerClass
from . import charts
from .amounts import amount
from .charts import Chart, Mark
from .replay.outcome import SpeedCoverage
from .replay.power import Watts
from .replay.timeline import CLASSES
from .stylesheet import class_colors
from .sweep import PolicyOutcome, SweepPlan

QUANTILES = np.linspace(0.0, 1.0, 201)
LINES, GANTTS = 12, 4
"""Policies that one plot shows as lines; policies whose nodes are drawn."""
HUES = 8
_EPOCH_S = 9e8  # times before 1998 count from an origin of the trace's own
_JOULES_PER_WH = 3600.0
_STACKED = ("useful", "wasted", "apart")
"""Kinds of power from the bottom of a plot upwards."""
_MEANING = {row.value: row.label for kind in _STACKED for row in PowerClass if row.kind == kind and row in CLASSES}


def write_report(path: Path, outcomes: Sequence[PolicyOutcome], rows: Sequence[Mapping[str, Any]], plan: SweepPlan,
                 left_out: Mapping[str, int], sentences: Sequence[str] = (), priced: str = "") -> None:
    """Write the page of a sweep; ``sentences`` say what it comes to, and stand first, ``priced`` at what energy is."""
    pages = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                        undefined=StrictUndefined)
    pages.filters |= {"seconds": _seconds, "short": charts.short,
                      "kwh": lambda joules: charts.short(joules / _JOULES_PER_WH, "Wh"), "watts": _watts_of,
                      "money": lambda row, part: amount({"currency": row["currency"], "energy": row[part]})}
    first = float(np.nanmin(plan.workload.submit, initial=np.inf))
    shown = outcomes[:LINES]
    page = pages.get_template("report.html").render(
        rows=rows, plan=plan, words=sentences, priced=priced, speeds=_sentence(rows[0]), left_out=left_out,
        rejected=outcomes[0].rejected, version=version("idlewatt"),
        jobs=len(plan.workload), nodes=len(plan.cluster), gpus=int(plan.cluster.gpus.sum()), began=_day(first),
        lines=[(_hue(index), outcome.policy) for index, outcome in enumerate(shown)],
        omitted=len(outcomes) - len(shown),
        classes={name: label for name, label in _MEANING.items() if any(_part(out, name).any() for out in shown)},
        class_colors=class_colors(), charts=[_jct(shown, plan), _over_time(shown, "waiting", "Jobs waiting", first),
                _over_time(shown, "used", "GPUs in use", first)],
        watts=[_watts(outcome, first, *_extent(shown)) for outcome in shown],
        gantts=[_gantt(outcome, plan, first) for outcome in shown[:GANTTS]])
    path.write_text(page, encoding="utf-8", errors="replace")


def _sentence(row: Mapping[str, Any]) -> str:
    """Return which speeds jobs ran at, and what those rest on."""
    sentence = str(SpeedCoverage.of_row(row))
    return sentence[0].upper() + sentence[1:]


def _hue(index: int) -> str:
    """Return the CSS classes of a line: a colour, and dashes once colours recur."""
    return f"h{index % HUES}" + (" dashed" if index >= HUES else "")


def _day(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC") if _EPOCH_S < seconds < 1e11 else None


def _watts_of(value: Watts) -> str:
    """Return watts that nodes may differ in: ``51 – 55 W``."""
    low, high = float(np.min(value)), float(np.max(value))
    return charts.short(high, "W") if low == high else f"{charts.short(low)} – {charts.short(high, 'W')}"


def _seconds(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    for length, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= 2 * length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.0f} s"


def _jct(outcomes: Sequence[PolicyOutcome], plan: SweepPlan) -> Chart:
    """Return the share of jobs that were complete after so long."""
    times = [np.quantile(taken, QUANTILES) if len(taken) else np.zeros(0)
             for outcome in outcomes if (taken := _taken(outcome, plan)) is not None]
    known = np.concatenate(times) if times else np.zeros(0)
    height = 320
    x = charts.across(max(1.0, float(known.min(initial=np.inf))) if len(known) else 1.0,
                      float(known.max(initial=10.0)), logarithmic=True)
    y = charts.upwards(1.0, height)
    shapes = tuple(Mark(_hue(index), outcomes[index].policy, charts.line(x(taken), y(QUANTILES)))
                   for index, taken in enumerate(times) if len(taken))
    return Chart("Share of jobs complete within", height, "time from submission to end", charts.duration_ticks(x),
                 charts.value_ticks(y), shapes)


def _taken(outcome: PolicyOutcome, plan: SweepPlan) -> NDArray[np.float64]:
    taken: NDArray[np.float64] = outcome.arrays["end"] - plan.workload.submit
    return taken[~np.isnan(taken)]


def _over_time(outcomes: Sequence[PolicyOutcome], name: str, title: str, first: float) -> Chart:
    height = 240
    last = max((float(outcome.arrays["time"].max(initial=first)) for outcome in outcomes), default=first)
    x = charts.across(first, last)
    y = charts.upwards(1.0 if name == "used" else charts.highest([out.arrays[name] for out in outcomes]) * 1.05, height)
    shapes = tuple(Mark(_hue(index), outcome.policy, charts.steps(x(outcome.arrays["time"]), y(outcome.arrays[name])))
                   for index, outcome in enumerate(outcomes))
    ticks, unit = charts.time_ticks(x, first)
    return Chart(title, height, f"{unit} since the first submission", ticks, charts.value_ticks(y), shapes)


def _part(outcome: PolicyOutcome, name: str) -> NDArray[np.float64]:
    watts: NDArray[np.float64] = outcome.arrays["watts"]
    return watts[:, CLASSES.index(name)]


def _extent(outcomes: Sequence[PolicyOutcome]) -> tuple[float, float]:
    """Return the end of the longest run and the most watts of any, so that plots of different policies compare."""
    return (max((float(outcome.arrays["time"].max(initial=0.0)) for outcome in outcomes), default=0.0),
            charts.highest([outcome.arrays["watts"].sum(axis=1) for outcome in outcomes]) * 1.05)


def _watts(outcome: PolicyOutcome, first: float, last: float, most: float) -> Chart:
    """Return mean watts by class over time, stacked; useful ones at the bottom."""
    height, time = 240, outcome.arrays["time"]
    parts = np.stack([_part(outcome, name) for name in _MEANING], axis=1)
    x, y = charts.across(first, last), charts.upwards(most, height)
    shapes = tuple(Mark(name, label, charts.area(x(time), y(lower), y(upper)))
                   for (name, label), (lower, upper) in zip(_MEANING.items(), charts.stacked(parts), strict=True))
    ticks, unit = charts.time_ticks(x, first)
    return Chart(outcome.policy, height, f"{unit} since the first submission", ticks, charts.value_ticks(y, "W"),
                 shapes, filled=True)


def _gantt(outcome: PolicyOutcome, plan: SweepPlan, first: float) -> Chart:
    """Return what ran on which GPUs of which node; a row per node."""
    bars, names = outcome.arrays["bars"], plan.cluster.names
    nodes = sorted(set(bars["node"].tolist()))
    row = max(8, min(28, 640 // max(1, len(nodes))))
    height = charts.TOP + charts.BOTTOM + row * len(nodes)
    x = charts.across(float(bars["start"].min(initial=np.inf)) if len(bars) else first,
                      float(bars["end"].max(initial=-np.inf)) if len(bars) else first + 1)
    place = {node: charts.TOP + row * index for index, node in enumerate(nodes)}
    shapes = tuple(_bar(bar, x, place[int(bar["node"])], row, plan) for bar in bars)
    every = max(1, len(nodes) * 12 // 640 + 1) if row < 12 else 1
    marks = tuple(charts.Tick(place[node] + row / 2, names[node][-9:]) for node in nodes[::every])
    ticks, unit = charts.time_ticks(x, first)
    return Chart(outcome.policy, height, f"{unit} since the first submission", ticks, marks, shapes, filled=True)


def _bar(bar: Any, x: charts.Scale, top: float, row: float, plan: SweepPlan) -> Mark:
    lane = (row - 1.0) / max(1, int(plan.cluster.gpus[bar["node"]]))
    left, right = x(np.array([bar["start"], bar["end"]])).tolist()
    job = int(bar["job"])
    name = f"job {plan.workload.ids[job]}, {int(plan.workload.gpus[job])} GPUs"
    upper, gap = top + lane * bar["slot"], 0.4 if lane > 2 else 0.0
    return Mark(f"h{job % HUES}", name, charts.box(left, right, upper, upper + lane * bar["gpus"] - gap))
