"""The plots of reports, drawn by matplotlib as SVG that takes its colours from the style sheet of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..replay.arrays import Floats
from ..replay.outcome import Interval

WIDTH, HEIGHT = 11.0, 3.4
"""Size of a plot, inches."""
ROW = 0.4
"""Height of a row of a forest plot or a schedule, inches."""
FINE, COARSE, WIDE = 0.01, 0.05, 0.15
"""Fine and coarse distance of a forest plot's ticks, and the span from which on the coarse distance is used."""
TEXT, LINE = "#010203", "#040506"
HUES = tuple(f"#0a0b{index:02x}" for index in range(8))
"""Placeholders for colours of the style sheet, which differ between light and dark mode."""
_VARIABLES = {TEXT: "var(--soft)", LINE: "var(--line)"} | {hue: f"var(--h{index})" for index, hue in enumerate(HUES)}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": "sans-serif", "text.color": TEXT, "axes.labelcolor": TEXT,
    "xtick.color": TEXT, "ytick.color": TEXT, "axes.edgecolor": LINE, "grid.color": LINE, "axes.axisbelow": True,
    "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False}


@dataclass(frozen=True)
class Plot:
    """A drawing with a title that stands above it."""

    title: str
    figure: Figure

    @property
    def axes(self) -> Axes:
        """Return the axes of the figure."""
        return self.figure.axes[0]

    @property
    def svg(self) -> str:
        """Return the drawing as an element of an HTML page."""
        drawn = io.StringIO()
        with mpl.rc_context({**_STYLE, "svg.hashsalt": self.title}):
            self.figure.savefig(drawn, format="svg", transparent=True, bbox_inches="tight")
        whole = drawn.getvalue()
        box = re.search(r'viewBox="([^"]*)"', whole)
        body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", whole[whole.index("<svg"):],
                      flags=re.DOTALL)
        body = re.sub(r'<g id="[^"]*"', "<g", body)  # equal ones in every drawing of a page
        for stand_in, variable in _VARIABLES.items():
            body = body.replace(stand_in, variable)
        head = f'<svg class="plot" viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(self.title)}">'
        return re.sub(r"<svg[^>]*>", lambda _: head, body, count=1)


def _plot(title: str, height: float = HEIGHT) -> Plot:
    plot = Plot(title, Figure(figsize=(WIDTH, height)))
    plot.figure.subplots()
    return plot


@mpl.rc_context(_STYLE)
def lines(title: str, x_label: str, series: Mapping[str, tuple[ArrayLike, ArrayLike]],
          stated: Mapping[str, float] | None = None, top: float | None = None) -> Plot:
    """Draw lines (x, y) by name, with y from 0, and the values that a paper ``stated`` as dashed lines."""
    plot = _plot(title)
    for hue, (name, (x, y)) in zip(_hues(), series.items(), strict=False):
        plot.axes.plot(x, y, color=hue, label=name)
    for hue, (name, value) in zip(_hues(len(series)), (stated or {}).items(), strict=False):
        plot.axes.axhline(value, color=hue, linestyle="--", label=name)
    plot.axes.set_ylim(0.0, top)
    _labelled(plot.axes, x_label)
    if len(series) + len(stated or ()) > 1:
        plot.axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plot


@mpl.rc_context(_STYLE)
def forest(title: str, x_label: str, rows: Sequence[tuple[str, Mapping[str, Interval]]]) -> Plot:
    """Draw a forest plot: rows of intervals from the top; every row has the same names, and bounds."""
    plot, names = _plot(title, ROW * len(rows) + 1.0), list(rows[0][1])
    axes, drawn = plot.axes, []
    for number, (hue, name) in enumerate(zip(_hues(), names, strict=False)):
        intervals = [row[name] for _, row in rows]
        reach = np.array([[interval.estimate - interval.low for interval in intervals],
                          [interval.high - interval.estimate for interval in intervals]])
        at = np.arange(len(rows)) + 0.3 * (number - (len(names) - 1) / 2)
        drawn.append(axes.errorbar([interval.estimate for interval in intervals], at, xerr=reach, fmt="D", markersize=4,
                                   capsize=3,
                                   color=hue))
    none = axes.axvline(0.0, color=HUES[len(names)])
    axes.set_yticks(np.arange(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xticks(_percents([interval for _, row in rows for interval in row.values()]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    _labelled(axes, x_label)
    axes.legend([*drawn, none], [*names, "no difference"], loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plot


def _percents(intervals: Sequence[Interval]) -> Floats:
    """Return ticks at whole per cents around all bounds and 0; every 5 % if the span is wide."""
    bounds = [0.0, *(bound for interval in intervals for bound in (interval.low, interval.high))]
    step = COARSE if max(bounds) - min(bounds) > WIDE else FINE
    return np.arange(np.floor(min(bounds) / step), np.ceil(max(bounds) / step) + 1) * step


@mpl.rc_context(_STYLE)
def bars(title: str, x_label: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> Plot:
    """Draw a group of bars for each name; a missing bar leaves a gap."""
    plot, names = _plot(title), list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.84 / len(names)
    for number, (hue, name) in enumerate(zip(_hues(), names, strict=False)):
        known = {place: group[name] for place, group in enumerate(groups.values()) if name in group}
        at = np.array(list(known)) + width * (number - (len(names) - 1) / 2)
        drawn = plot.axes.bar(at, list(known.values()), 0.9 * width, color=hue, label=name)
        plot.axes.bar_label(drawn, fmt="%.2f", color=TEXT, fontsize=8)
    plot.axes.set_xticks(np.arange(len(groups)), list(groups))
    plot.axes.set_ylabel(unit)
    _labelled(plot.axes, x_label)
    plot.axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plot


@mpl.rc_context(_STYLE)
def schedule(title: str, x_label: str, rows: Mapping[str, tuple[float, float]],
             held: Iterable[tuple[str, Floats, Floats]], hues: Sequence[str]) -> Plot:
    """Draw a schedule: ``held`` has (name, [start, end], [first row, row after the last]); ``rows`` name row spans."""
    plot = _plot(title, ROW * max(end for _, end in rows.values()) / 2 + 1.0)
    for name, (start, end), (first, after) in held:
        hue = HUES[hues.index(name)]
        known = name in plot.axes.get_legend_handles_labels()[1]
        plot.axes.barh(first, end - start, after - first, start, align="edge", color=hue, edgecolor="white",
                       linewidth=0.5, label=None if known else name)
    plot.axes.set_yticks([(first + after) / 2 for first, after in rows.values()], list(rows))
    plot.axes.invert_yaxis()
    _labelled(plot.axes, x_label)
    plot.axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return plot


def _labelled(axes: Axes, x_label: str) -> None:
    axes.set_xlabel(x_label)
    axes.grid(axis="both", linewidth=0.6)


def _hues(first: int = 0) -> Iterable[str]:
    """Yield the colours in an endless cycle."""
    while True:
        yield HUES[first % len(HUES)]
        first += 1
