"""The paper's figures, drawn from our numbers, with the paper's values as dashed lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...agents.gist_mdrl.environment import Bar, EpisodeOutcome, GpuPartition
from .. import plots
from ..plots import Plot
from .exact import DAY_S

SIZES = "smlf"


def schedule(title: str, outcome: EpisodeOutcome, partition: GpuPartition) -> Plot:
    """Draw the schedule of Fig. 3: a row for each GPU, and a bar for each job and server."""
    gpus = partition.server[0]
    held = [(run.flavor.name, np.array([run.start_s, run.end_s]) / DAY_S,
             np.array([0.0, count]) + server * gpus + first)
            for run, server, first, count in _rows(outcome, partition)]
    servers = {f"server {index + 1}": (index * gpus, (index + 1) * gpus) for index in range(partition.servers)}
    names = sorted({name for name, *_ in held}, key=lambda name: SIZES.index(name[0]))
    return plots.schedule(title, "days since the first job", servers, held, names)


def _rows(outcome: EpisodeOutcome, partition: GpuPartition) -> Iterator[tuple[Bar, int, int, int]]:
    """Yield each run's (bar, server, first GPU, number of GPUs), on GPUs that no other run holds at that time."""
    gpus = partition.server[0]
    held: list[tuple[Bar, int, set[int]]] = []
    for run in outcome.bars:
        for server in range(partition.servers) if run.server < 0 else [run.server]:
            count = run.flavor.gpus // (partition.servers if run.server < 0 else 1)
            taken = set().union(*(rows for other, where, rows in held if where == server and other.end_s > run.start_s))
            first = next(row for row in range(gpus - count + 1) if not taken & set(range(row, row + count)))
            held.append((run, server, set(range(first, first + count))))
            yield run, server, first, count


def curves(title: str, series: Mapping[str, Sequence[float]], stated: Mapping[str, float], x_label: str) -> Plot:
    """Draw utilisation over episodes, with the paper's values as dashed lines."""
    numbered = {name: (range(1, len(values) + 1), values) for name, values in series.items()}
    return plots.lines(title, x_label, numbered, stated, top=1.0)


def smooth(values: Sequence[float], width: int = 20) -> NDArray[np.float64]:
    """Return the moving mean over the last ``width`` episodes, or fewer at the beginning."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    upper = np.arange(1, len(values) + 1)
    lower = np.maximum(0, upper - width)
    return np.asarray((total[upper] - total[lower]) / (upper - lower))
