"""The GPUs of a run over time: from the site's Prometheus where it is configured, else from recorded windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...exporters.gpu_ranges import GpuRange, GpuRanges
from ...exporters.source import SourceError
from ...storage.energy_queries import RunRow
from ...storage.job_runs import JobRun
from ...storage.reading import HistoryReader
from ...storage.records import GpuRollup
from ...storage.windows import GpuKey
from .rows import ChartSeries

MOST_POINTS = 96
"""Windows that a timeline is drawn from: of a long run every so many."""
MOST_SERIES = 64
LEAST_KNOWN = 0.9
"""Share of the time for which Prometheus must have each GPU; else recorded windows may have it."""
REST_S = 60.0
"""How long a server that could not be read is left alone: each page would wait for it."""
RECORDED = "recorded windows"


class Ranges(Protocol):
    """A Prometheus that is queried for a range of time."""

    def read(self, uuids: Sequence[str], since_s: float, until_s: float, most: int) -> GpuRanges:
        """Return what GPUs did; ``SourceError`` when that cannot be had."""


class GpuTimelines:
    """Returns what GPUs did over time, with the data source; many threads use it."""

    def __init__(self, ranges: Ranges | None, now: Callable[[], float]) -> None:
        self._ranges, self._now = ranges, now
        self._rests_until_s, self._why = float("-inf"), ""

    def of(self, history: HistoryReader, held: JobRun, run: RunRow) -> tuple[tuple[ChartSeries, ...], str]:
        """Return the GPUs that a run held over time, and the name of the source; '' without any."""
        places = {part.node: part.gpu_indexes for part in held.allocations
                  if part.gpus and part.gpu_indexes is not None}
        gpus = history.held_gpus(places)[:MOST_SERIES]
        ranges, why = self._from_prometheus(gpus, run)
        if ranges is not None:
            return tuple(_series(f"{node}:{index}", ranges, ranges.gpus[uuid], held.released.get(node, math.inf))
                         for uuid, node, index in gpus), why
        series = _recorded(history, places, held.released, run)
        return series, (f"{RECORDED}{f' ({why})' if why else ''}" if series else why)

    def _from_prometheus(self, gpus: Sequence[GpuKey], run: RunRow) -> tuple[GpuRanges | None, str]:
        """Return the ranges of Prometheus and its name; None and the reason where it has none, '' where none is set."""
        if self._ranges is None or not gpus:
            return None, ""
        if self._now() < self._rests_until_s:
            return None, self._why
        until_s = min(run.last_s, self._now()) if run.end_s is None else run.end_s
        try:
            ranges = self._ranges.read([uuid for uuid, _, _ in gpus], run.start_s, until_s, MOST_POINTS)
        except SourceError as error:
            self._why = f"Prometheus could not be queried: {str(error)[:160]}"
            if until_s - run.start_s > REST_S:
                self._rests_until_s = self._now() + REST_S
            return None, self._why
        least = min(gpu_range.measured for gpu_range in ranges.gpus.values())
        if least < LEAST_KNOWN:
            return None, f"Prometheus knows {100 * least:.0f} % of the time"
        return ranges, f"Prometheus, by {ranges.step_s:.0f} s"


def _series(name: str, ranges: GpuRanges, gpu: GpuRange, until_s: float) -> ChartSeries:
    """Return a GPU over time; after the run has given it back it may be another's."""
    starts = tuple(ranges.start_s + step * ranges.step_s for step in range(ranges.steps))
    held = [start_s + ranges.step_s <= until_s for start_s in starts]
    return ChartSeries(name, starts, (ranges.step_s,) * ranges.steps, _while(held, gpu.watts),
                       _while(held, gpu.activity))


def _while(held: Sequence[bool], values: Sequence[float | None]) -> tuple[float | None, ...]:
    return tuple(value if own else None for own, value in zip(held, values, strict=True))


def _recorded(history: HistoryReader, places: Mapping[str, tuple[int, ...] | None], released: Mapping[str, float],
              run: RunRow) -> tuple[ChartSeries, ...]:
    """Return the GPUs at places from the windows of the history.

    A window in which the run started or ended covers other runs, too: it has no figures while there are other windows.
    """
    by_gpu: dict[tuple[str, int], list[GpuRollup]] = {}
    for rollup in history.gpus_of(places, run.start_s, run.last_s, MOST_POINTS):
        by_gpu.setdefault((rollup.node, rollup.index), []).append(rollup)
    return tuple(_windows(f"{node}:{index}", some, run, released.get(node, math.inf))
                 for (node, index), some in sorted(by_gpu.items())[:MOST_SERIES])


def _windows(name: str, some: Sequence[GpuRollup], run: RunRow, released_s: float) -> ChartSeries:
    end_s = min(released_s, math.inf if run.end_s is None else run.end_s)
    within = [run.start_s <= window.start_s and window.start_s + window.seconds <= end_s for window in some]
    shown = within if any(within) or released_s < math.inf else [True] * len(some)
    return ChartSeries(name, tuple(window.start_s for window in some), tuple(window.seconds for window in some),
                       _while(shown, [window.power_mean_watts for window in some]),
                       _while(shown, [window.activity_mean for window in some]))
