"""How fast a job runs, by its number of GPUs and by how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SpeedTable:
    """Relative speeds by application; row ``m`` serves jobs with ``application == m``."""

    size: NDArray[np.float64]
    """[application, GPUs] throughput; the last column serves all larger sizes."""
    spread: NDArray[np.float64]
    """[application, level] factor on one node, one leaf switch, one spine switch, further."""


FLAT = SpeedTable(np.ones((1, 1)), np.ones((1, 4)))
"""Speed depends on nothing."""
