"""The learning curve of a training, kept beside its order, so that an interruption loses none of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from ...storage.whole_files import write
from ..agents.checkpoint import LARGEST_CARD_BYTES, CheckpointError, plain_content

CURVE = "curve.json"
POINTS = 100
"""A curve has a point per hundredth of the budget at most."""


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """What shares of a budget are shares of."""

    time_s: FiniteFloat
    steps: int | None = None
    """In place of the time, where there are any."""

    def share_of(self, other: TrainingBudget) -> float:
        """Return how much of another budget this one is; NaN where nobody can tell."""
        if self == other:
            return 1.0
        mine, others = (self.time_s, other.time_s) if self.steps is None else (self.steps, other.steps)
        comparable = (self.steps is None) == (other.steps is None)
        return mine / others if comparable and others else math.nan


@dataclass(frozen=True, slots=True)
class _KeptCurve:
    budget: TrainingBudget
    points: tuple[tuple[FiniteFloat, FiniteFloat], ...]
    """Held-out score by the share of the budget that was spent."""


_FILE = TypeAdapter(_KeptCurve)


def rounded(done: float) -> float:
    """Return the share of the budget whose point a score is."""
    return round(done * POINTS) / POINTS


def keep(folder: Path, budget: TrainingBudget, curve: Mapping[float, float]) -> None:
    """Keep a curve beside the order of its training; where it cannot be written, the training goes on without."""
    points = tuple((done, score) for done, score in sorted(curve.items()) if math.isfinite(score))
    with suppress(OSError):
        write(folder / CURVE, _FILE.dump_json(_KeptCurve(budget, points)))


def kept(folder: Path, budget: TrainingBudget) -> dict[float, float]:
    """Return the curve before an interruption by shares of this budget; {} where there is none that can be read."""
    try:
        found = _FILE.validate_json(plain_content(folder / CURVE, LARGEST_CARD_BYTES))
    except (OSError, CheckpointError, ValidationError):
        return {}
    share = found.budget.share_of(budget)
    return {rounded(done * share): score for done, score in found.points if 0.0 <= done * share <= 1.0}
