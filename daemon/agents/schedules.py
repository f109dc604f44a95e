"""How a figure of training changes over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Linear:
    """From ``first`` to ``last`` in ``steps``, then ``last`` for ever."""

    first: float
    last: float
    steps: int

    def __call__(self, step: int) -> float:
        """Return the value at a step, counted from 0."""
        if step >= self.steps:
            return self.last
        return self.first + step / self.steps * (self.last - self.first)
