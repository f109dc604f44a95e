"""What share of a positive quantity was lost from one group of runs to another, with the interval of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...storage.power_caps import Interval

CONFIDENCE = 0.95


def lost(new: Sequence[float], old: Sequence[float]) -> tuple[float, Interval]:
    """Return which share of a positive quantity is lost on the way from old to new, with Welch's interval of it."""
    logs = [[math.log(value) for value in values] for values in (new, old)]
    means = [sum(values) / len(values) for values in logs]
    parts = [sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
             for values, mean in zip(logs, means, strict=True)]
    change, spread = means[0] - means[1], sum(parts)
    if spread == 0:
        return 1 - math.exp(change), (1 - math.exp(change), 1 - math.exp(change))
    from scipy.special import stdtrit  # 14 MB, which only a site pays that has measured runs to compare

    degrees = spread**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, logs, strict=True))
    reach = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * math.sqrt(spread)
    return 1 - math.exp(change), (1 - math.exp(change + reach), 1 - math.exp(change - reach))
