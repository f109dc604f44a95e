"""Money, carbon and numbers of GPUs in words: an amount, and of how much energy it is where that is not all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_LEAST = 0.005
"""The least amount of a currency that is shown as a hundredth of it."""


def amount(cost: Mapping[str, Any] | None, part: str = "energy") -> str:
    """Return an amount of a cost from JSON with its currency, and the share that it covers where that is not all.

    '' where nothing is known.
    """
    value = cost.get(part) if cost else None
    if cost is None or value is None:
        return ""
    known = 1.0 if part == "gpu_hours" else cost.get("priced_ratio", 1.0)
    # A little is not nothing.
    text = "< 0.01" if 0 < value < _LEAST else f"{value:,.2f}"
    return f"{text} {cost['currency']}{_of(known)}"


def carbon(cost: Mapping[str, Any] | None) -> str:
    """Return the carbon of a cost as JSON tells it; '' where nothing is known."""
    grams = cost.get("carbon_grams") if cost else None
    return "" if cost is None or grams is None else f"{grams / 1000:,.3g} kg CO2e{_of(cost.get('carbon_ratio', 1.0))}"


def total(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return what rows of energy as JSON tells them cost together; None where nothing is known of any."""
    known = [(row["cost"], row["energy_joules"]) for row in rows if row["cost"]]
    joules = sum(row["energy_joules"] for row in rows)
    if not known:
        return None
    sums: dict[str, Any] = {"currency": known[0][0]["currency"]}
    for part in ("energy", "wasted", "gpu_hours", "carbon_grams"):
        values = [cost[part] for cost, _ in known if cost[part] is not None]
        sums[part] = sum(values) if values else None
    for part in ("priced_ratio", "carbon_ratio"):
        sums[part] = sum(cost[part] * row_joules for cost, row_joules in known) / joules if joules else 1.0
    return sums


def counted(gpus: int) -> str:
    """Return a number of GPUs."""
    return f"{gpus} GPU{'' if gpus == 1 else 's'}"


def _of(known: float) -> str:
    """Return the part of the energy that a figure covers, in words; '' where it covers all."""
    return "" if known >= 0.9995 else f" for {math.floor(1000 * known) / 10:g} %"
