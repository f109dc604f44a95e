"""How long each cause was seen in a run, with the means of its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...storage.underuse import Cause, CauseTally
from .rules import CauseVerdict


class Tally:
    """The verdicts of one run, by cause: seconds of GPUs, confidence and evidence, each weighted by time."""

    def __init__(self) -> None:
        self._seconds: dict[Cause, float] = {}
        self._confidence: dict[Cause, float] = {}
        self._evidence: dict[Cause, dict[str, list[float]]] = {}
        self.activity = [0.0, 0.0]

    def add(self, verdict: CauseVerdict, seconds: float, activity: float | None) -> None:
        """Add what was judged of one GPU over one window."""
        self._put(verdict.cause, seconds, verdict.confidence, verdict.evidence.items())
        if activity is not None:
            self.activity[0] += activity * seconds
            self.activity[1] += seconds

    def resume(self, recorded: CauseTally) -> None:
        """Go on from what was recorded before a restart."""
        self._put(recorded.cause, recorded.gpu_seconds, recorded.confidence, recorded.evidence.items())

    @property
    def mean_activity(self) -> float | None:
        """Return how busy its GPUs were over the judged time, since this process began."""
        total, seconds = self.activity
        return total / seconds if seconds else None

    def rows(self, run: tuple[str, float, float], now_s: float) -> Iterator[CauseTally]:
        """Yield the tally as it is recorded."""
        for cause, seconds in self._seconds.items():
            evidence = {name: total / weight for name, (total, weight) in self._evidence[cause].items()}
            yield CauseTally(*run, cause, now_s, seconds, self._confidence[cause] / seconds, evidence)

    def _put(self, cause: Cause, seconds: float, confidence: float, evidence: Iterable[tuple[str, float]]) -> None:
        if seconds <= 0:
            return
        self._seconds[cause] = self._seconds.get(cause, 0.0) + seconds
        self._confidence[cause] = self._confidence.get(cause, 0.0) + confidence * seconds
        known = self._evidence.setdefault(cause, {})
        for name, value in evidence:
            pair = known.setdefault(name, [0.0, 0.0])
            pair[0] += value * seconds
            pair[1] += seconds
