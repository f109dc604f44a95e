"""From watts to joules: counters that only grow, and closed windows of five minutes by GPU, class and run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from ...storage.power_classes import WASTED, PowerClass
from ...storage.records import GpuRollup, WasteReading
from ...storage.run_energy import EnergyShare
from .assessment import CLASSES, GpuVerdict
from .holders import ACTIVE, COLUMNS, GPUS, MEASURED, MEMORY, SHARED, Key, Share

Floats = npt.NDArray[np.float64]
Run = tuple[str, float, float]
WINDOW_S = 300.0
_AGAIN_S = 0.001
_FULL_S = WINDOW_S + _AGAIN_S / 2
MOST_CLOSED = 24
"""Closed windows kept for a recorder that does not come: two hours."""

Place = tuple[str, str]
"""Node and partition."""

_PEAKS = [GPUS, MEMORY]
"""Columns of which the most of any moment is kept."""


class Moment:
    """All shares of one cycle as arrays, taken apart once however many windows it touches.

    From one cycle to the next the same runs hold the same nodes, as a rule: what was sorted then is taken over.
    """

    run_places: tuple[list[Run], npt.NDArray[np.intp]]
    """The runs of all nodes, and which of them each share is of."""

    def __init__(self, shares: Sequence[Share], before: Moment | None = None) -> None:
        self.shares = shares
        self.keys = [share.key for share in shares]
        self.values = np.fromiter(chain.from_iterable([share.values for share in shares]), np.float64,
                                  len(shares) * COLUMNS).reshape(-1, COLUMNS)
        if before is not None and before.keys == self.keys:
            self.keys = before.keys
            self.run_places = before.run_places
        else:
            self.run_places = _run_places(self.keys)
        runs, places = self.run_places
        self.run_watts = np.bincount(places, self.values[:, :len(CLASSES)].sum(axis=1), len(runs))


def _run_places(keys: Sequence[Key]) -> tuple[list[Run], npt.NDArray[np.intp]]:
    """Return the runs of all nodes, each once, and which of them each key is of."""
    runs: dict[Run, int] = {}
    places = np.array([runs.setdefault(key[1:], len(runs)) for key in keys], np.intp)
    return list(runs), places


class RunWindow:
    """One window that is being filled: a row per node and run."""

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._runs: dict[Run, int] = {}
        self._last: dict[int, Share] = {}
        self._latest: Sequence[Share] = ()
        self._keys: list[Key] | None = None
        self._found = self._runs_found = np.zeros(0, np.intp)
        self._sums: Floats = np.zeros((0, COLUMNS))
        self._peaks: Floats = np.zeros((0, len(_PEAKS)))
        self._seen: Floats = np.zeros(0)
        self._watts: Floats = np.zeros(0)

    def add(self, moment: Moment, seconds: float) -> None:
        """Add ``seconds`` of a moment."""
        if moment.keys is not self._keys:
            self._take(moment)
        rows = self._found
        self._sums[rows] += moment.values * seconds
        self._peaks[rows] = np.maximum(self._peaks[rows], moment.values[:, _PEAKS])
        self._seen[rows] += seconds
        self._latest = moment.shares
        self._watts[self._runs_found] = np.maximum(self._watts[self._runs_found], moment.run_watts)

    def _take(self, moment: Moment) -> None:
        """Give rows to what is new."""
        self._keep_last()
        rows, runs = self._rows, self._runs
        self._keys = moment.keys
        self._found = np.array([rows.setdefault(key, len(rows)) for key in moment.keys], np.intp)
        self._runs_found = np.array([runs.setdefault(run, len(runs)) for run in moment.run_places[0]], np.intp)
        self._grow(len(rows))
        self._watts = np.concatenate([self._watts, np.zeros(len(runs) - len(self._watts))])

    def _keep_last(self) -> None:
        """Keep the last facts of each row: which run it was, and which GPUs were not used."""
        self._last.update(zip(self._found.tolist(), self._latest, strict=True))

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._sums)
        if missing > 0:
            self._sums = np.vstack([self._sums, np.zeros((missing, COLUMNS))])
            self._peaks = np.vstack([self._peaks, np.zeros((missing, len(_PEAKS)))])
            self._seen = np.concatenate([self._seen, np.zeros(missing)])

    def shares(self, start_s: float, seconds: float) -> Iterator[EnergyShare]:
        """Yield the window by node and run, and by node and partition where nobody held what drew the power."""
        self._keep_last()
        watts = self._watts.tolist()
        last = (self._last[row] for row in range(len(self._sums)))
        for share, sums, peaks, seen in zip(last, self._sums.tolist(), self._peaks.tolist(), self._seen.tolist(),
                                            strict=True):
            joules = {power_class: energy for power_class, energy in zip(CLASSES, sums, strict=False) if energy > 0.0}
            job = share.job
            if job is None:
                yield EnergyShare(start_s, seconds, share.node, share.partition, joules)
                continue
            of_run = EnergyShare(
                start_s, seconds, share.node, share.partition, joules, job.job_id, job.submit_s, share.key[3],
                job.user, job.account, share.model, peaks[0], seen, sums[GPUS], sums[MEASURED], sums[ACTIVE],
                sums[SHARED], watts[self._runs[share.key[1:]]], peaks[1] if peaks[1] > 0.0 else None,
                tuple(f"{share.node}:{index}" for index in share.idle))
            # No run on record is known to be this one: its user has the energy, no run has it.
            yield of_run if job.start_s is not None else replace(of_run, job_id="")


@dataclass(slots=True)
class Counters:
    """Energy and unobserved time since the start. They are never revised."""

    energy_joules: dict[tuple[str, PowerClass], float] = field(default_factory=dict)
    """By partition and class."""
    unmeasured_seconds: dict[str, float] = field(default_factory=dict)
    """GPU-seconds by partition: GPUs without a class, and all GPUs across gaps."""
    wasted_gpu_seconds: dict[str, float] = field(default_factory=dict)
    """By partition: held GPUs' time without activity, ``sum of (1 - u) dt``."""

    @property
    def wasted_joules(self) -> dict[tuple[str, PowerClass], float]:
        """Return the wasted energy by partition and reason."""
        return {key: joules for key, joules in self.energy_joules.items() if key[1] in WASTED}

    def add(self, totals: Mapping[str, Mapping[PowerClass, float]], seconds: float) -> None:
        """Integrate the watts of every class over the seconds that were observed."""
        for partition, watts in totals.items():
            for power_class, value in watts.items():
                key = partition, power_class
                self.energy_joules[key] = self.energy_joules.get(key, 0.0) + value * seconds

    def add_gpus(self, gpus: Sequence[GpuVerdict], seconds: float, gap_s: float) -> None:
        """Count the time of GPUs that was not measured, or was held and not used."""
        for gpu in gpus:
            if gpu.state is PowerClass.UNMEASURED:
                _add(self.unmeasured_seconds, gpu.partition, seconds + gap_s)
            elif gap_s:
                _add(self.unmeasured_seconds, gpu.partition, gap_s)
            if gpu.allocated and gpu.activity is not None:
                _add(self.wasted_gpu_seconds, gpu.partition, (1.0 - gpu.activity) * seconds)


def _add(counts: dict[str, float], key: str, value: float) -> None:
    counts[key] = counts.get(key, 0.0) + value


class _Window:
    """One window that is being filled: a row per GPU and per place."""

    def __init__(self, start_s: float, seconds: float) -> None:
        self.start_s, self.seconds = start_s, seconds
        self.observed_s = 0.0
        self._gpus: dict[str, int] = {}
        self._known: list[tuple[str, str, int]] = []
        self._sums: Floats = np.zeros((0, 5))
        self._most: Floats = np.zeros((0, 2))
        self._places: dict[Place, int] = {}
        self._joules: Floats = np.zeros((0, len(CLASSES)))
        self._uuids: list[str] = []
        self._found = np.zeros(0, np.intp)
        self.runs = RunWindow()

    def add_gpus(self, gpus: Sequence[GpuVerdict], columns: Floats, seconds: float) -> None:
        """Add ``seconds`` of GPUs; ``columns`` holds watts, activity and held of each, NaN where unmeasured."""
        uuids = [gpu.uuid for gpu in gpus]
        if uuids != self._uuids:  # nearly always the same as in the cycle before
            self._uuids, self._found = uuids, np.array([self._row(gpu) for gpu in gpus], dtype=np.intp)
        rows = self._found
        watts, activity, held = columns
        self._sums = _grown(self._sums, len(self._known), 0.0)
        self._most = _grown(self._most, len(self._known), np.nan)
        # Seconds measured, joules, seconds active, seconds with activity measured, seconds held: see _rollup.
        sums = np.stack([np.isfinite(watts), np.nan_to_num(watts), np.nan_to_num(activity),
                         np.isfinite(activity), held], axis=1)
        self._sums[rows] += sums * seconds
        self._most[rows] = np.fmax(self._most[rows], columns[:2].T)

    def _row(self, gpu: GpuVerdict) -> int:
        row = self._gpus.get(gpu.uuid)
        if row is None:
            row = self._gpus[gpu.uuid] = len(self._known)
            self._known.append((gpu.node, gpu.uuid, gpu.index))
        return row

    def add_places(self, places: Sequence[Place], watts: Floats, seconds: float) -> None:
        """Add ``seconds`` of the watts by class of each node and partition."""
        rows = np.array([self._places.setdefault(place, len(self._places)) for place in places], dtype=np.intp)
        self._joules = _grown(self._joules, len(self._places), 0.0)
        self._joules[rows] += watts * seconds

    def rollups(self) -> list[GpuRollup]:
        """Return the window by GPU."""
        return [self._rollup(known, sums, most) for known, sums, most
                in zip(self._known, self._sums.tolist(), self._most.tolist(), strict=True)]

    def _rollup(self, known: tuple[str, str, int], sums: list[float], most: list[float]) -> GpuRollup:
        node, uuid, index = known
        measured, energy, active, activity_measured, held = sums
        watts, activity = most
        return GpuRollup(
            self.start_s, self.seconds, node, uuid, index, measured, allocated_seconds=held,
            energy_joules=energy if measured else None,
            activity_mean=active / activity_measured if activity_measured else None,
            activity_max=None if math.isnan(activity) else activity,
            power_mean_watts=energy / measured if measured else None,
            power_max_watts=None if math.isnan(watts) else watts)

    def readings(self) -> list[WasteReading]:
        """Return the energy by partition and class, in sum and by node, where there is any."""
        partitions: dict[str, Floats] = {}
        by_node = []
        for (node, partition), row in self._places.items():
            joules = self._joules[row]
            partitions[partition] = partitions.get(partition, 0.0) + joules
            by_node += self._by_class(partition, joules, node)
        totals = [reading for partition, joules in sorted(partitions.items())
                  for reading in self._by_class(partition, joules, "")]
        return totals + by_node

    def _by_class(self, partition: str, joules: Floats, node: str) -> list[WasteReading]:
        return [WasteReading(self.start_s, self.seconds, partition, power_class, energy, node)
                for power_class, energy in zip(CLASSES, joules.tolist(), strict=True) if energy > 0.0]


def _grown(array: Floats, rows: int, fill: float) -> Floats:
    """Return the array with at least that many rows."""
    missing = rows - len(array)
    return array if missing <= 0 else np.vstack([array, np.full((missing, array.shape[1]), fill)])


class Closed:
    """Closed windows by GPU, by class and by run, each made when it is requested: all at once they take megabytes."""

    def __init__(self, windows: Sequence[_Window]) -> None:
        self._windows = windows

    @property
    def rollups(self) -> list[GpuRollup]:
        """Return what GPUs did."""
        return [rollup for window in self._windows for rollup in window.rollups()]

    @property
    def readings(self) -> list[WasteReading]:
        """Return the energy by class."""
        return [reading for window in self._windows for reading in window.readings()]

    @property
    def shares(self) -> list[EnergyShare]:
        """Return the energy by run."""
        return [share for window in self._windows for share in window.runs.shares(window.start_s, window.seconds)]


class Windows:
    """Cut time at multiples of five minutes and close each window once.

    Where a clock that is set back shows hours again, these have windows of their own, longer by a millisecond for each
    time that it was set back: start and length are what the history knows a window by.
    """

    def __init__(self) -> None:
        self._open: _Window | None = None
        self._closed: deque[_Window] = deque(maxlen=MOST_CLOSED)
        self._moment: Moment | None = None
        self._until_s = -math.inf
        """End of the latest window so far."""
        self._set_back = 0

    def add(self, now_s: float, seconds: float, gpus: Sequence[GpuVerdict],
            watts: Mapping[Place, Sequence[float]], shares: Sequence[Share] = ()) -> None:
        """Add the ``seconds`` before ``now_s``, cut where a window ends; the window before the open one is past."""
        known = [gpu for gpu in gpus if gpu.uuid]
        columns = np.array([[math.nan if gpu.watts is None else gpu.watts for gpu in known],
                            [math.nan if gpu.activity is None else gpu.activity for gpu in known],
                            [float(gpu.allocated) for gpu in known]])
        places = list(watts)
        matrix = np.array([watts[place] for place in places]).reshape(len(places), len(CLASSES))
        moment = self._moment = Moment(shares, self._moment)
        for start_s, part_s in _cut(now_s - seconds, now_s):
            window = self._window(start_s, part_s)
            window.observed_s += part_s
            window.add_gpus(known, columns, part_s)
            window.add_places(places, matrix, part_s)
            window.runs.add(moment, part_s)
        self._window(now_s // WINDOW_S * WINDOW_S, 0.0)

    def _window(self, start_s: float, seconds: float) -> _Window:
        """Return the window that takes ``seconds`` from a start on."""
        window = self._open
        if window is not None and start_s > window.start_s:
            self._closed.append(window)
        elif window is not None:
            if start_s >= window.start_s - WINDOW_S and window.observed_s + seconds <= _FULL_S:
                return window
            self._set_back += 1
            self._cut_short(window, window.observed_s)
        elif start_s < self._until_s - WINDOW_S:
            self._set_back += 1
        again = self._set_back if start_s < self._until_s else 0
        self._until_s = max(self._until_s, start_s + WINDOW_S)
        self._open = _Window(start_s, WINDOW_S + again * _AGAIN_S)
        return self._open

    def close(self, now_s: float) -> None:
        """Close the open window before its time, under its own length: the rest of it will be another window's."""
        if self._open is not None:
            self._cut_short(self._open, max(now_s - self._open.start_s, self._open.observed_s))

    def _cut_short(self, window: _Window, seconds: float) -> None:
        self._open = None
        if window.observed_s > 0:
            # The backlog keeps six digits, and what waited there must be the same window.
            again_s = window.seconds - WINDOW_S
            window.seconds = round(min(WINDOW_S, max(seconds, _AGAIN_S)) + again_s, 3)
            self._closed.append(window)

    def drain(self) -> Closed:
        """Return the windows closed since the last call; each is returned once."""
        windows, self._closed = tuple(self._closed), deque(maxlen=MOST_CLOSED)
        return Closed(windows)


def _cut(from_s: float, until_s: float) -> list[tuple[float, float]]:
    """Return the start of each window that the span touches, with the seconds within it."""
    cuts, at = [], from_s
    while at < until_s:
        start = at // WINDOW_S * WINDOW_S
        end = min(until_s, start + WINDOW_S)
        cuts.append((start, end - at))
        at = end
    return cuts
