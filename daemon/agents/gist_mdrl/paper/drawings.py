"""The paper's figures, drawn from our numbers, with what the paper says of them as dashed lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .... import charts
from ....charts import Chart, Shape, Tick
from ..environment import Bar, Outcome, Partition
from .trial import DAY_S

HEIGHT = 300
SIZES = "smlf"
Curves = Mapping[str, Sequence[float]]


def schedule(title: str, outcome: Outcome, partition: Partition) -> Chart:
    """Draw who ran where and when (Fig. 3, on its side): a row per GPU, a bar per job and server."""
    gpus, row = partition.server[0], 10
    days = charts.across(0.0, outcome.makespan_s / DAY_S)
    shapes = []
    for run, server, first, count in _rows(outcome, partition):
        left, right = days(np.array([run.start_s, run.end_s]) / DAY_S).tolist()
        top = charts.TOP + row * (server * gpus + first)
        shapes.append(Shape(f"h{SIZES.index(run.flavor.name[0])}", f"{run.flavor.name}, days {run.start_s / DAY_S:.1f} "
                            f"to {run.end_s / DAY_S:.1f}", charts.box(left, right - 1, top, top + row * count - 1)))
    names = tuple(Tick(charts.TOP + row * gpus * (index + 0.5), f"server {index + 1}")
                  for index in range(partition.servers))
    return Chart(title, charts.TOP + charts.BOTTOM + row * gpus * partition.servers, "days since the first job",
                 _numbers(days), names, tuple(shapes), filled=True)


def _rows(outcome: Outcome, partition: Partition) -> Iterator[tuple[Bar, int, int, int]]:
    """Yield each run's (bar, server, first GPU, number of GPUs), on GPUs that nobody else holds then."""
    gpus = partition.server[0]
    held: list[tuple[Bar, int, set[int]]] = []
    for run in outcome.bars:
        for server in range(partition.servers) if run.server < 0 else [run.server]:
            count = run.flavor.gpus // (partition.servers if run.server < 0 else 1)
            taken = set().union(*(rows for other, where, rows in held if where == server and other.end_s > run.start_s))
            first = next(row for row in range(gpus - count + 1) if not taken & set(range(row, row + count)))
            held.append((run, server, set(range(first, first + count))))
            yield run, server, first, count


def curves(title: str, series: Curves, stated: Curves, x_label: str) -> Chart:
    """Draw lines over episodes, and what the paper states as dashed ones."""
    longest = max(len(values) for values in series.values())
    x, y = charts.across(1, longest), charts.upwards(1.0, HEIGHT)
    shapes = [Shape(f"h{index}", name, charts.line(x(np.arange(1.0, len(values) + 1)), y(np.asarray(values))))
              for index, (name, values) in enumerate(series.items())]
    shapes += [Shape(f"h{index + len(series)} dashed", name, charts.line(x(np.array([1.0, longest])),
                                                                         y(np.array([values[0], values[0]]))))
               for index, (name, values) in enumerate(stated.items())]
    return Chart(title, HEIGHT, x_label, _numbers(x), charts.value_ticks(y), tuple(shapes))


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> Chart:
    """Draw a group of bars for each partition (Fig. 7), in MWh."""
    highest = max(value for group in groups.values() for value in group.values())
    y, width = charts.upwards(highest * 1.05, HEIGHT), (charts.WIDTH - charts.LEFT - charts.RIGHT) / len(groups)
    shapes, ticks = [], []
    for place, (partition, group) in enumerate(groups.items()):
        left = charts.LEFT + width * (place + 0.08)
        each = width * 0.84 / len(group)
        ticks.append(Tick(left + width * 0.42, partition))
        shapes += [Shape(f"h{index}", f"{name}: {value:.2f} MWh",
                         charts.box(left + each * index, left + each * (index + 0.9), float(y(value)), float(y(0.0))))
                   for index, (name, value) in enumerate(group.items())]
    return Chart(title, HEIGHT, "partition", tuple(ticks), charts.value_ticks(y, "MWh"), tuple(shapes), filled=True)


def legend(names: Sequence[str], stated: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the (CSS class, name) pairs of a legend: of what was measured, then, dashed, of what was ``stated``."""
    return [(f"h{index}" + (" dashed" if name in stated else ""), name)
            for index, name in enumerate((*names, *stated))]


def smooth(values: Sequence[float], width: int = 20) -> NDArray[np.float64]:
    """Return the mean over the last ``width`` episodes, of fewer at the beginning."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    upper = np.arange(1, len(values) + 1)
    lower = np.maximum(0, upper - width)
    return np.asarray((total[upper] - total[lower]) / (upper - lower))


def _numbers(scale: charts.Scale) -> tuple[Tick, ...]:
    return tuple(Tick(float(scale(value)), f"{value:g}") for value in charts.round_ticks(scale.high, 8)
                 if value >= scale.low)
