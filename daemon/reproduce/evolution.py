"""Evolution strategies (Salimans et al., arXiv 1703.03864): training by nothing but scores of whole replays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..replay.arrays import Floats


def rising(score: Callable[[Floats], float], weights: Floats, noise: float | Floats, steps: Floats) -> Floats:
    """Return where a score rises, in units of the noise, from antithetic pairs; ``steps`` [pair, weight] are normal.

    Scores count by their spread over the pairs. Pairs should be scored on the same traces: common random numbers.
    """
    more = np.array([score(weights + noise * step) - score(weights - noise * step) for step in steps])
    return np.asarray((more / (more.std() + 1e-9)) @ steps / len(steps))
