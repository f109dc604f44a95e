"""Days of real traces as work for a cluster of any size: Philly and Helios as packaged, with models drawn.

Neither trace tells what its jobs train; models are drawn by Synergy's split. A window holds as many of a day's first
jobs as load the nodes for a day (or, on large clusters, those of the next days), their submissions stretched to a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....storage.traces import TraceError, read_trace
from ...replay import fungible
from ...replay.arrays import Longs
from ...replay.intake import from_trace
from ...replay.workload import Workload
from .arena import Trace, site_of
from .kernel import Site

DAY_S = 86400.0
GPUS = 8
"""Of a node."""
LOAD = 1.2
"""Work at the fair share that a window brings, over what the GPUs can do in a day."""
SMALL, LARGE = (6, 13), (16, 33)
"""Nodes to learn on, from and below; Helios' larger jobs need more."""
LONGEST_S = DAY_S
"""Longer jobs are cut to this: else a window's makespan is its longest job, whatever is decided."""


@dataclass(frozen=True, slots=True)
class History:
    """A packaged trace."""

    name: str
    file: str
    first: int
    held_out: int
    """Days from ``first`` on are learned from; from ``held_out`` on they only judge."""
    last: int
    pace: int
    """Days from one window to the next."""


PHILLY = History("Philly", "philly/philly_jobs.csv.gz", 40, 85, 130, 4)
HELIOS = History("Helios", "helios_venus/helios_venus_2vc_sept.csv", 0, 13, 26, 1)


class Place(NamedTuple):
    """A virtual cluster whose trace is complete, from the first day held out on."""

    history: History
    partition: str
    end: int
    """The day after the last."""
    nodes: int

    @property
    def name(self) -> str:
        """Return what the virtual cluster is called."""
        return f"{self.history.name} {self.partition}, days {self.history.held_out} to {self.end - 1}"


COMPLETE = (Place(PHILLY, "0e4a51", 109, 32), Place(HELIOS, "vcvGl", 30, 20))


@cache
def _workload(path: Path) -> Workload:
    return from_trace(read_trace(path)).workload


class Jobs(NamedTuple):
    """Of a window."""

    rows: Longs
    full: bool
    """There are enough of them for the load."""


def _midnight(work: Workload) -> float:
    return float(work.submit[0] - work.submit[0] % DAY_S)


def _fitting(work: Workload, day: int, until: float, nodes: int) -> Longs:
    """Return the jobs of some days that fit the nodes."""
    since, end = (_midnight(work) + at * DAY_S for at in (day, until))
    return np.flatnonzero((work.submit >= since) & (work.submit < end) & (work.run > 0) & (work.gpus >= 1)
                          & (work.gpus <= GPUS * nodes))


def _rows(work: Workload, day: int, nodes: int, load: float, until: float = np.inf) -> Jobs:
    """Return the first jobs since a day that fit the nodes and load them for a day, none of day ``until`` or later."""
    rows = _fitting(work, day, until, nodes)
    service = np.cumsum(np.minimum(work.run[rows], LONGEST_S) * work.gpus[rows])
    enough = int(np.searchsorted(service, load * nodes * GPUS * DAY_S)) + 1
    return Jobs(rows[:enough], enough <= len(rows))


def window(history: History, traces: Path, day: int, nodes: int, *, load: float = LOAD, until: float = np.inf,
           seed: int = 0) -> Trace:
    """Return the jobs of a day, none of day ``until`` or later; ``TraceError`` when there is no trace, or no job."""
    work = _workload(traces / history.file)
    rows = _rows(work, day, nodes, load, until).rows
    if not len(rows):
        raise TraceError(f"{traces / history.file}: no job since day {day} fits {nodes} nodes; is this all of it?")
    submit = work.submit[rows] - (_midnight(work) + day * DAY_S)
    submit = submit * (DAY_S / max(float(submit[-1]), 1.0))
    return Trace(submit, np.minimum(work.run[rows], LONGEST_S).astype(np.float64), work.gpus[rows].astype(np.int64),
                 fungible.drawn(len(rows), np.random.default_rng([seed, day])))


def days(history: History, traces: Path, nodes: int, most: int = 12) -> Iterator[int]:
    """Yield the held-out days whose windows share no job."""
    day, work = history.held_out, _workload(traces / history.file)
    for _ in range(most):
        found = _rows(work, day, nodes, LOAD)
        if day >= history.last or not found.full:
            return
        yield day
        day = max(day + history.pace, int((work.submit[found.rows[-1]] - _midnight(work)) // DAY_S) + 1)


def complete(place: Place, traces: Path, seed: int = 0) -> Trace:
    """Return a virtual cluster's held-out jobs as they are: not cut, not stretched; ``TraceError`` without any."""
    path = traces / place.history.file
    work = _workload(path)
    rows = _fitting(work, place.history.held_out, place.end, place.nodes)
    rows = rows[np.array(work.partition_names)[work.partition[rows]] == place.partition]
    if not len(rows):
        raise TraceError(f"{path}: no job of {place.partition} since day {place.history.held_out}; is this all of it?")
    return Trace(work.submit[rows] - work.submit[rows[0]], work.run[rows].astype(np.float64),
                 work.gpus[rows].astype(np.int64), fungible.drawn(len(rows), np.random.default_rng(seed)))


def at_once(trace: Trace) -> Trace:
    """Return the same jobs, all submitted at the beginning."""
    return trace._replace(submit=np.zeros(len(trace.submit)))


def lesson(traces: Path, number: int) -> tuple[Site, Trace]:
    """Return the window number ``n`` to learn from: no job of a held-out day; size, load and neighbours are drawn."""
    draw = np.random.default_rng([29, number])
    history = HELIOS if draw.random() < 0.35 else PHILLY
    nodes = int(draw.integers(*(LARGE if history is HELIOS else SMALL)))
    day = int(draw.integers(history.first, history.held_out - 2))
    trace = window(history, traces, day, nodes, load=float(draw.uniform(0.8, 1.6)), until=history.held_out,
                   seed=1000 + number)
    return site_of(nodes, disturbing=bool(draw.random() < 0.3)), at_once(trace) if number % 2 else trace
