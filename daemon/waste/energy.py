"""From watts to joules: counters that only grow, and closed windows of five minutes for the history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...storage.power_classes import WASTED, PowerClass
from ...storage.records import GpuRollup, WasteReading
from ...storage.run_energy import EnergyShare
from .assessment import CLASSES, GpuVerdict
from .run_windows import Moment, RunWindow
from .shares import Share

WINDOW_S = 300.0
MOST_CLOSED = 24
"""Closed windows kept for a recorder that does not come: two hours."""

Floats = npt.NDArray[np.float64]
Closed = tuple[list[GpuRollup], list[WasteReading], list[EnergyShare]]
"""Closed windows by GPU, by class, and by run."""
Place = tuple[str, str]
"""Node and partition."""


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

    def __init__(self, start_s: float) -> None:
        self.start_s, self.seconds = start_s, WINDOW_S
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
        found = []
        for (node, partition), row in self._places.items():
            joules = self._joules[row]
            partitions[partition] = partitions.get(partition, 0.0) + joules
            found += self._by_class(partition, joules, node)
        totals = [reading for partition, joules in sorted(partitions.items())
                  for reading in self._by_class(partition, joules, "")]
        return totals + found

    def _by_class(self, partition: str, joules: Floats, node: str) -> list[WasteReading]:
        return [WasteReading(self.start_s, self.seconds, partition, power_class, energy, node)
                for power_class, energy in zip(CLASSES, joules.tolist(), strict=True) if energy > 0.0]


def _grown(array: Floats, rows: int, fill: float) -> Floats:
    """Return the array with at least that many rows."""
    missing = rows - len(array)
    return array if missing <= 0 else np.vstack([array, np.full((missing, array.shape[1]), fill)])


class Windows:
    """Cut time at multiples of five minutes and close each window once."""

    def __init__(self) -> None:
        self._open: _Window | None = None
        self._closed: deque[_Window] = deque(maxlen=MOST_CLOSED)
        self._moment: Moment | None = None

    def add(self, now_s: float, seconds: float, gpus: Sequence[GpuVerdict],
            watts: Mapping[Place, Sequence[float]], shares: Sequence[Share] = ()) -> None:
        """Add the ``seconds`` before ``now_s``, cut where a window ends; a window before the open one is past."""
        known = [gpu for gpu in gpus if gpu.uuid]
        columns = np.array([[math.nan if gpu.watts is None else gpu.watts for gpu in known],
                            [math.nan if gpu.activity is None else gpu.activity for gpu in known],
                            [float(gpu.allocated) for gpu in known]])
        places = list(watts)
        matrix = np.array([watts[place] for place in places]).reshape(len(places), len(CLASSES))
        moment = self._moment = Moment(shares, self._moment)
        for start_s, part_s in _cut(now_s - seconds, now_s):
            window = self._window(start_s)
            window.add_gpus(known, columns, part_s)
            window.add_places(places, matrix, part_s)
            window.runs.add(moment, part_s)
        self._window(now_s // WINDOW_S * WINDOW_S)

    def _window(self, start_s: float) -> _Window:
        if self._open is None or start_s > self._open.start_s:
            if self._open is not None:
                self._closed.append(self._open)
            self._open = _Window(start_s)
        return self._open

    def close(self, now_s: float) -> None:
        """Close the open window before its time, under its own length: the rest of it will be another window's."""
        if self._open is not None and now_s > self._open.start_s:
            self._open.seconds = min(WINDOW_S, now_s - self._open.start_s)
            self._closed.append(self._open)
            self._open = None

    def drain(self) -> Closed:
        """Return the windows closed since the last call; each is returned once."""
        rollups: list[GpuRollup] = []
        readings: list[WasteReading] = []
        shares: list[EnergyShare] = []
        while self._closed:
            window = self._closed.popleft()
            rollups += window.rollups()
            readings += window.readings()
            shares += window.runs.shares(window.start_s, window.seconds)
        return rollups, readings, shares


def _cut(from_s: float, until_s: float) -> list[tuple[float, float]]:
    """Return the start of each window that the span touches, with the seconds within it."""
    cuts, at = [], from_s
    while at < until_s:
        start = at // WINDOW_S * WINDOW_S
        end = min(until_s, start + WINDOW_S)
        cuts.append((start, end - at))
        at = end
    return cuts
