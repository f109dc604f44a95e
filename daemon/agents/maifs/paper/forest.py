"""Intervals drawn row by row: how far ours is below a policy in each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....charts import BOTTOM, TOP, Chart, Shape, Tick, across, line
from ....replay.arrays import Floats
from ....replay.outcome import Interval

ROW, APART, CAP = 30, 9, 3
"""Pixels: the height of a row, from one interval of a row to the next, and half the height of what ends one."""
FINE, COARSE, WIDE = 0.01, 0.05, 0.15
"""From tick to tick, and the span from which on it is the coarser step."""


def forest(title: str, x_label: str, rows: Sequence[tuple[str, Mapping[str, Interval]]]) -> Chart:
    """Return a chart of intervals, by row and then by name; every row has the same names, and bounds."""
    names = list(rows[0][1])
    bounds = [0.0, *(bound for _, row in rows for interval in row.values() for bound in (interval.low, interval.high))]
    step = COARSE if max(bounds) - min(bounds) > WIDE else FINE
    first, last = np.floor(min(bounds) / step), np.ceil(max(bounds) / step)
    x = across(first * step, last * step)
    middle = TOP + ROW * (np.arange(len(rows)) + 0.5)
    height = int(TOP + ROW * len(rows) + BOTTOM)
    shapes = [Shape(f"h{number}", name, "".join(
        _drawn(x(np.array([row[name].low, row[name].estimate, row[name].high])),
               at + APART * (number - (len(names) - 1) / 2)) for at, (_, row) in zip(middle, rows, strict=True)))
        for number, name in enumerate(names)]
    zero = Shape(f"h{len(names)}", "no difference", line(np.repeat(x(0.0), 2), np.array([TOP, height - BOTTOM])))
    ticks = np.arange(first, last + 1) * step
    return Chart(title, height, x_label, tuple(Tick(float(x(value)), f"{value:.0%}") for value in ticks),
                 tuple(Tick(float(at), label) for at, (label, _) in zip(middle, rows, strict=True)), (*shapes, zero))


def _drawn(ends: Floats, y: float) -> str:
    """Return the path of one interval: low, estimate and high, in pixels, at a height."""
    low, estimate, high = ends.tolist()
    return (f"M{low:.1f} {y:.1f}H{high:.1f}"
            + "".join(f"M{at:.1f} {y - CAP:.1f}V{y + CAP:.1f}" for at in (low, high))
            + f"M{estimate - CAP:.1f} {y:.1f}l{CAP} {-CAP}l{CAP} {CAP}l{-CAP} {CAP}Z")
