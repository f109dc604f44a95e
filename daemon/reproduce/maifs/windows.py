"""Windows of real traces for clusters of any size: the packaged Philly and Helios traces, with drawn models.

Neither trace tells what its jobs train; models are drawn by Synergy's split. A block holds the jobs that follow each
other and load the nodes for a day, their submissions stretched to a day; no two blocks share a job. Nothing is learned
from Helios: lessons are Philly's earlier days, now and then with as large jobs as a cluster of such jobs may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....storage.traces import TraceError
from ...replay.arrays import Floats, Longs
from ...replay.workload import Workload
from .. import packaged
from ..packaged import workload_of
from . import models
from .arena import ArenaTrace, site_of
from .kernel import Site

DAY_S = 86400.0
GPUS = 8
"""Number of GPUs of a node."""
LEAF = 4
"""Number of nodes at a leaf switch, if a cluster has several."""
LOAD = 1.2
"""Work of a block at the fair share, over the capacity of the GPUs in a day."""
NODES, LARGE_NODES = (6, 17), (8, 25)
"""Ranges (from, below) of the number of nodes of training windows, without and with large jobs."""
LARGE, LARGE_JOBS = 0.4, 0.8
"""Share of the training windows with large jobs, and share of their jobs that are enlarged."""
LONGEST_S = DAY_S
"""Longest run time, s; longer jobs are cut, because otherwise the longest job alone decides the makespan."""
SHORTEST_S = 60.0
"""Shortest run time of enlarged jobs, which become shorter, s."""


@dataclass(frozen=True, slots=True)
class PackagedTrace:
    """A packaged trace, and its division into training days and held-out days."""

    name: str
    file: str
    first: int
    held_out: int
    """First held-out day; days from ``first`` up to it are for training."""
    last: int


PHILLY = PackagedTrace("Philly", packaged.PHILLY, 40, 80, 130)
HELIOS = PackagedTrace("Helios", packaged.VENUS, 0, 0, 26)


class HeldOutCluster(NamedTuple):
    """A virtual cluster whose trace is complete, from the first day held out on."""

    history: PackagedTrace
    partition: str
    end: int
    """The day after the last held-out day."""
    nodes: int

    @property
    def name(self) -> str:
        """Return the name of the virtual cluster."""
        return f"{self.history.name} {self.partition}, days {self.history.held_out} to {self.end - 1}"


COMPLETE = (HeldOutCluster(PHILLY, "0e4a51", 109, 32), HeldOutCluster(HELIOS, "vcvGl", 30, 20))


def _midnight(work: Workload) -> float:
    return float(work.submit[0] - work.submit[0] % DAY_S)


def _fitting(work: Workload, day: int, until: float, nodes: int) -> Longs:
    """Return the jobs of some days that fit the nodes."""
    since, end = (_midnight(work) + at * DAY_S for at in (day, until))
    return np.flatnonzero((work.submit >= since) & (work.submit < end) & (work.run > 0) & (work.gpus >= 1)
                          & (work.gpus <= GPUS * nodes))


def _run(work: Workload, rows: Longs) -> Floats:
    """Return the run times of jobs, cut at ``LONGEST_S``, s."""
    return np.minimum(work.run[rows], LONGEST_S).astype(np.float64)


def _stretched(submit: Floats) -> Floats:
    """Return submission times stretched from 0 to the end of a day, s."""
    since = submit - submit[0]
    return np.asarray(since * (DAY_S / max(float(since[-1]), 1.0)))


def held_out(history: PackagedTrace, traces: Path, nodes: int, most: int) -> list[ArenaTrace]:
    """Return at most a number of blocks of held-out days, spread over them; none if the jobs do not fill one.

    A block ends with the last job before the load is complete, so its mean load is the intended one.
    """
    work = workload_of(traces / history.file)
    rows = _fitting(work, history.held_out, history.last, nodes)
    number = np.cumsum(_run(work, rows) * work.gpus[rows]) // (LOAD * nodes * GPUS * DAY_S)
    blocks = np.unique(number)[:-1]  # the last one is not full
    chosen = blocks[np.unique(np.linspace(0, len(blocks) - 1, min(most, len(blocks))).round().astype(int))]
    return [_as_it_was(work, rows[number == block], int(block)) for block in chosen]


def _as_it_was(work: Workload, rows: Longs, seed: int) -> ArenaTrace:
    """Return jobs with submissions stretched to a day and cut run times, otherwise unchanged."""
    return ArenaTrace(_stretched(work.submit[rows]), _run(work, rows), work.gpus[rows].astype(np.int64),
                      models.drawn(len(rows), np.random.default_rng([0, seed])))


def complete(place: HeldOutCluster, traces: Path, seed: int = 0) -> ArenaTrace:
    """Return a virtual cluster's held-out jobs unchanged: not cut, not stretched; ``TraceError`` if there are none."""
    path = traces / place.history.file
    work = workload_of(path)
    rows = _fitting(work, place.history.held_out, place.end, place.nodes)
    rows = rows[np.array(work.partition_names)[work.partition[rows]] == place.partition]
    if not len(rows):
        raise TraceError(f"{path}: no job of {place.partition} since day {place.history.held_out}; is this all of it?")
    return ArenaTrace(work.submit[rows] - work.submit[rows[0]], work.run[rows].astype(np.float64),
                      work.gpus[rows].astype(np.int64), models.drawn(len(rows), np.random.default_rng(seed)))


def at_once(trace: ArenaTrace) -> ArenaTrace:
    """Return the jobs of a trace, all submitted at the beginning."""
    return trace._replace(submit=np.zeros(len(trace.submit)))


def training_window(traces: Path, number: int) -> tuple[Site, ArenaTrace]:
    """Return training window number ``n``, without jobs of held-out days; the cluster and its load are drawn.

    ``TraceError`` if there is no job.
    """
    draw = np.random.default_rng([29, number])
    large = bool(draw.random() < LARGE)
    nodes = int(draw.integers(*(LARGE_NODES if large else NODES)))
    trace = _drawn(traces, nodes, large, draw)
    disturbing, apart = draw.random(2) < 0.3
    site = site_of(nodes, disturbing=bool(disturbing), leaf=LEAF if apart else 0)
    return site, at_once(trace) if number % 2 else trace


def _drawn(traces: Path, nodes: int, large: bool, draw: np.random.Generator) -> ArenaTrace:
    """Return the first jobs from a random training day on that have a given load."""
    day, work = int(draw.integers(PHILLY.first, PHILLY.held_out - 2)), workload_of(traces / PHILLY.file)
    rows = _fitting(work, day, PHILLY.held_out, nodes)
    if not len(rows):
        raise TraceError(f"{traces / PHILLY.file}: no job since day {day} fits {nodes} nodes; is this all of it?")
    run, gpus = _run(work, rows), work.gpus[rows].astype(np.int64)
    if large:
        run, gpus = enlarged(run, gpus, nodes, draw)
    enough = 1 + int(np.searchsorted(np.cumsum(run * gpus), draw.uniform(0.8, 1.6) * nodes * GPUS * DAY_S))
    return ArenaTrace(_stretched(work.submit[rows[:enough]]), run[:enough], gpus[:enough],
                      models.drawn(len(rows[:enough]), draw))


def enlarged(run: Floats, gpus: Longs, nodes: int, draw: np.random.Generator) -> tuple[Floats, Longs]:
    """Return jobs of which most are moved to 1, 2, 4, ... whole nodes, with run times shorter by the same factor."""
    sizes = GPUS * 2 ** np.arange(int(np.log2(nodes)) + 1)
    chosen = np.where(draw.random(len(gpus)) < LARGE_JOBS, draw.choice(sizes, len(gpus)), gpus)
    return np.maximum(run * (gpus / chosen) ** draw.uniform(0.3, 1.0), np.minimum(run, SHORTEST_S)), chosen
