"""From shares of watts to energy by run: one closed window of every run on every node, and of what nobody holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ...storage.run_energy import EnergyShare
from .assessment import CLASSES
from .shares import ACTIVE, COLUMNS, GPUS, MEASURED, SHARED, Key, Share

Floats = npt.NDArray[np.float64]
Run = tuple[str, float, float]

_PEAKS = 2
"""Columns that keep the most of any moment: GPUs, bytes of memory."""


class Moment:
    """All shares of one cycle as arrays, taken apart once however many windows it touches."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self.shares = shares
        self.values = np.array([share.values for share in shares]).reshape(-1, COLUMNS)
        self.peaks = np.array([(share.values[GPUS], share.memory_bytes) for share in shares]).reshape(-1, _PEAKS)
        runs: dict[Run, int] = {}
        self.run_rows = np.array([runs.setdefault(share.key[1:], len(runs)) for share in shares], np.intp)
        self.runs = runs
        self.run_watts = np.bincount(self.run_rows, self.values[:, :len(CLASSES)].sum(axis=1), len(runs))


class RunWindow:
    """One window that is being filled: a row per node and run."""

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._last: dict[int, Share] = {}
        self._sums: Floats = np.zeros((0, COLUMNS))
        self._peaks: Floats = np.zeros((0, _PEAKS))
        self._seen: Floats = np.zeros(0)
        self._watts: dict[Run, float] = {}

    def add(self, moment: Moment, seconds: float) -> None:
        """Add ``seconds`` of a moment."""
        rows = self._rows
        found = np.array([rows.setdefault(share.key, len(rows)) for share in moment.shares], np.intp)
        self._grow(len(rows))
        self._sums[found] += moment.values * seconds
        self._peaks[found] = np.maximum(self._peaks[found], moment.peaks)
        self._seen[found] += seconds
        self._last.update(zip(found.tolist(), moment.shares, strict=True))
        for run, watts in zip(moment.runs, moment.run_watts.tolist(), strict=True):
            if watts > self._watts.get(run, -1.0):
                self._watts[run] = watts

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._sums)
        if missing > 0:
            self._sums = np.vstack([self._sums, np.zeros((missing, COLUMNS))])
            self._peaks = np.vstack([self._peaks, np.zeros((missing, _PEAKS))])
            self._seen = np.concatenate([self._seen, np.zeros(missing)])

    def shares(self, start_s: float, seconds: float) -> Iterator[EnergyShare]:
        """Yield the window by node and run, and by node and partition where nobody held what drew the power."""
        last = (self._last[row] for row in range(len(self._sums)))
        for share, sums, peaks, seen in zip(last, self._sums.tolist(), self._peaks.tolist(), self._seen.tolist(),
                                            strict=True):
            joules = {power_class: energy for power_class, energy in zip(CLASSES, sums, strict=False) if energy > 0.0}
            job = share.job
            if job is None:
                yield EnergyShare(start_s, seconds, share.node, share.partition, joules)
            else:
                yield EnergyShare(
                    start_s, seconds, share.node, share.partition, joules, job.job_id, job.submit_s, share.key[3],
                    job.user, job.account, share.model, peaks[0], seen, sums[GPUS], sums[MEASURED], sums[ACTIVE],
                    sums[SHARED], self._watts[share.key[1:]], peaks[1] if peaks[1] > 0.0 else None,
                    tuple(f"{share.node}:{index}" for index in share.idle))
