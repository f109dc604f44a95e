"""From shares of watts to energy by run: one closed window of every run on every node, and of what nobody holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ...storage.run_energy import EnergyShare
from .assessment import CLASSES
from .shares import ACTIVE, COLUMNS, GPUS, MEASURED, MEMORY, SHARED, Key, Share

Floats = npt.NDArray[np.float64]
Run = tuple[str, float, float]

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
        found = self._found
        self._sums[found] += moment.values * seconds
        self._peaks[found] = np.maximum(self._peaks[found], moment.values[:, _PEAKS])
        self._seen[found] += seconds
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
        """Remember what was said last of each row: who it was, and which GPUs were not used."""
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
            else:
                yield EnergyShare(
                    start_s, seconds, share.node, share.partition, joules, job.job_id, job.submit_s, share.key[3],
                    job.user, job.account, share.model, peaks[0], seen, sums[GPUS], sums[MEASURED], sums[ACTIVE],
                    sums[SHARED], watts[self._runs[share.key[1:]]], peaks[1] if peaks[1] > 0.0 else None,
                    tuple(f"{share.node}:{index}" for index in share.idle))
