"""How long each cause was seen in a run, with the means of its evidence."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...storage.underuse import Cause, CauseTally
from .rules import CauseVerdict


class Tally:
    """The verdicts of one run, by cause: seconds of GPUs, confidence and evidence, each weighted by time.

    In 0.3 kB a cause: a large site has thousands, and dictionaries of them would take three times as much.
    """

    __slots__ = ("_active_s", "_causes", "_measured_s")

    def __init__(self) -> None:
        self._causes: dict[Cause, tuple[tuple[str, ...], array[float]]] = {}
        """Names of evidence; seconds, confidence, and of each name the integral and the seconds that it is over."""
        self._active_s = self._measured_s = 0.0

    def add(self, verdict: CauseVerdict, seconds: float, activity: float | None) -> None:
        """Add what was judged of one GPU over one window."""
        self._put(verdict.cause, seconds, verdict.confidence, verdict.evidence.items())
        if activity is not None:
            self._active_s += activity * seconds
            self._measured_s += seconds

    def resume(self, recorded: CauseTally) -> None:
        """Go on from what was recorded before a restart."""
        self._put(recorded.cause, recorded.gpu_seconds, recorded.confidence, recorded.evidence.items())

    @property
    def mean_activity(self) -> float | None:
        """Return how busy its GPUs were over the judged time, since this process began."""
        return self._active_s / self._measured_s if self._measured_s else None

    def rows(self, run: tuple[str, float, float], now_s: float) -> Iterator[CauseTally]:
        """Yield the tally as it is recorded."""
        for cause, (names, sums) in self._causes.items():
            seconds, confidence, *rest = sums
            evidence = {name: total / weight for name, total, weight in zip(names, rest[::2], rest[1::2], strict=True)}
            yield CauseTally(*run, cause, now_s, seconds, confidence / seconds, evidence)

    def _put(self, cause: Cause, seconds: float, confidence: float, evidence: Iterable[tuple[str, float]]) -> None:
        if seconds <= 0:
            return
        names, sums = self._causes.get(cause) or ((), array("d", (0.0, 0.0)))
        sums[0] += seconds
        sums[1] += confidence * seconds
        for name, value in evidence:
            if name not in names:
                names = _shared((*names, name))
                sums.extend((0.0, 0.0))
            place = 2 + 2 * names.index(name)
            sums[place] += value * seconds
            sums[place + 1] += seconds
        self._causes[cause] = names, sums


@lru_cache(256)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for the same names."""
    return names
