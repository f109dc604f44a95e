"""Plots as data: paths, ticks and labels in the pixels of an SVG; a template draws them, and escapes every name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 880, 70, 16, 12, 34
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A line, an area or a bar; ``kind`` is its CSS class, ``name`` what a pointer over it shows."""

    kind: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot."""

    title: str
    height: int
    x_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    shapes: tuple[Mark, ...]
    filled: bool = False
    """Shapes are areas and bars, not lines."""


class Scale:
    """From values to pixels, linear or logarithmic."""

    def __init__(self, low: float, high: float, first: float, last: float, *, logarithmic: bool = False) -> None:
        self._log = logarithmic
        self.low, self.high = (max(low, 1e-12), max(high, low * 1.001, 1e-12)) if logarithmic else (low, high)
        if not logarithmic and not self.high > self.low:
            self.high = self.low + 1.0
        self._first, self._last = first, last

    def __call__(self, values: Floats | float) -> Floats:
        """Return the pixels of values; what lies outside is moved to the edge."""
        clipped = np.clip(np.asarray(values, np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self._log:
            clipped, low, high = np.log10(clipped), math.log10(low), math.log10(high)
        return np.asarray(self._first + (clipped - low) / (high - low) * (self._last - self._first))


def across(low: float, high: float, *, logarithmic: bool = False) -> Scale:
    """Return the scale of the horizontal axis."""
    return Scale(low, high, LEFT, WIDTH - RIGHT, logarithmic=logarithmic)


def upwards(high: float, height: int) -> Scale:
    """Return the scale of a vertical axis from 0."""
    return Scale(0.0, high, height - BOTTOM, TOP)


def line(x: Floats, y: Floats) -> str:
    """Return the path through points in pixels."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)) if len(x) else ""


def steps(x: Floats, y: Floats) -> str:
    """Return the path of a value that holds from ``x[k]`` to ``x[k + 1]``."""
    return line(np.repeat(x, 2)[1:-1], np.repeat(y, 2)) if len(y) else ""


def area(x: Floats, lower: Floats, upper: Floats) -> str:
    """Return the outline between two step lines."""
    if not len(upper):
        return ""
    edges = np.repeat(x, 2)[1:-1]
    return f"{line(edges, np.repeat(upper, 2))}L{line(edges[::-1], np.repeat(lower, 2)[::-1])[1:]}Z"


def box(left: float, right: float, top: float, bottom: float) -> str:
    """Return a rectangle, at least half a pixel wide so that a short job is seen."""
    return f"M{left:.1f} {top:.1f}H{max(right, left + 0.5):.1f}V{bottom:.1f}H{left:.1f}Z"


def round_ticks(high: float, count: int = 5) -> list[float]:
    """Return round values from 0 to about ``high``."""
    if not high > 0:
        return [0.0]
    rough = high / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    return [step * index for index in range(int(high / step + 1e-9) + 1)]


def value_ticks(scale: Scale, unit: str = "") -> tuple[Tick, ...]:
    """Return ticks of a vertical axis."""
    return tuple(Tick(float(scale(value)), short(value, unit)) for value in round_ticks(scale.high))


def time_ticks(scale: Scale, first: float) -> tuple[tuple[Tick, ...], str]:
    """Return ticks of a time axis that counts from ``first``, and its unit."""
    span = scale.high - first
    length, unit = next(((length, unit) for length, unit in _SPANS if span >= 3 * length), _SPANS[-1])
    begin = (scale.low - first) / length
    marks = round_ticks((scale.high - scale.low) / length, 8)
    step = marks[1] if len(marks) > 1 else 1.0
    offsets = [step * index for index in range(math.ceil(begin / step - 1e-9), int(span / length / step + 1e-9) + 1)]
    return tuple(Tick(float(scale(first + offset * length)), f"{offset:g}") for offset in offsets), unit


def duration_ticks(scale: Scale) -> tuple[Tick, ...]:
    """Return ticks of a logarithmic axis of durations."""
    named = ((1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (36000.0, "10 h"),
             (86400.0, "1 d"), (864000.0, "10 d"), (8.64e6, "100 d"))
    return tuple(Tick(float(scale(seconds)), label) for seconds, label in named if scale.low <= seconds <= scale.high)


def short(value: float, unit: str = "") -> str:
    """Return a number with a prefix: ``12.5 kW``."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}".rstrip()
    return f"{value:.4g} {unit}".rstrip()


def stacked(parts: Floats) -> Iterable[tuple[Floats, Floats]]:
    """Yield (lower, upper) of each column of ``parts`` stacked on those before it."""
    upper = np.cumsum(parts, axis=1)
    for column in range(parts.shape[1]):
        yield upper[:, column] - parts[:, column], upper[:, column]


def highest(series: Sequence[Floats]) -> float:
    """Return the highest value of all series; 1 when there is none above 0."""
    return max((float(values.max(initial=0.0)) for values in series), default=0.0) or 1.0
