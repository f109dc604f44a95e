"""Whether the use of GPUs is told in per cent or as a share: judged by all GPUs of a server, not by a metric's name."""

from __future__ import annotations

from collections.abc import Iterable

from .facts import ratio

Told = tuple[float, float | None, float | None]
"""The number of one GPU, with its watts and power limit."""


def of_percent(told: Iterable[Told]) -> list[float | None]:
    """Return the use of each GPU of one server as a share of 0..1, where whole per cent is usual (NVML, DCGM, AMD).

    Numbers none of which is above 1 are shares where one of them is a fraction, or where one that shows 1 draws more
    than half its limit. A fraction of one beside whole per cent is unmeasured: nobody knows which of the two it is.
    """
    rows = list(told)
    numbers = [number for number, _, _ in rows]
    fractions = [number for number in numbers if number % 1]
    if max(numbers, default=0.0) > 1:
        averaged = any(number > 1 for number in fractions)
        return [None if 0 < number < 1 and not averaged else ratio(number / 100) for number in numbers]
    busy = any(number == 1 and watts is not None and limit and watts > limit / 2 for number, watts, limit in rows)
    return [ratio(number if fractions or busy else number / 100) for number in numbers]


def of_shares(told: Iterable[Told]) -> list[float | None]:
    """Return the use of each GPU of one server, where shares are usual; with a number far above 1 all are per cent."""
    numbers = [number for number, _, _ in told]
    per = 100 if max(numbers, default=0.0) > 1.1 else 1
    return [ratio(number / per) for number in numbers]
