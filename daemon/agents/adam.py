"""Adam (Kingma & Ba 2015) in numpy, for agents that learn without torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..replay.arrays import Floats


@dataclass
class Adam:
    """The running moments of past gradients: the whole state of the optimiser."""

    first: Floats
    second: Floats
    """Moments."""
    steps: int = 0

    @classmethod
    def of(cls, size: int) -> Adam:
        """Return an optimiser that has seen no gradient yet."""
        return cls(np.zeros(size), np.zeros(size))

    def direction(self, gradient: Floats) -> Floats:
        """Add a gradient to the moments; return the direction to step against, of about unit size in every weight."""
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.99 * self.second + 0.01 * gradient**2
        unbiased = self.first / (1 - 0.9**self.steps)
        return np.asarray(unbiased / (np.sqrt(self.second / (1 - 0.99**self.steps)) + 1e-8))
