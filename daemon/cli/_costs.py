"""The cost of replayed energy at the price of the configuration, which is shown beside the amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..amounts import amount

if TYPE_CHECKING:
    from ..config import Settings

_QUARTERS = 96
"""Number of quarter-hours in a day."""
KWH_J = 3.6e6


@dataclass(frozen=True, slots=True)
class StatedPrice:
    """The price of a kWh in the configuration; None if it has none."""

    per_kwh: float | None = None
    currency: str = ""
    pue: float | None = None
    mean: bool = False
    """Whether the price is the mean of tariffs over a day, because a replay's energy has no time of day."""

    @classmethod
    def of(cls, settings: Settings) -> StatedPrice:
        """Return the price of a configuration; prices from a metric or a file do not count, as they vary with time."""
        costs = settings.costs
        prices = [costs.price(time(quarter // 4, 15 * (quarter % 4))) for quarter in range(_QUARTERS)]
        known = [price for price in prices if price is not None]
        price = sum(known) / _QUARTERS if len(known) == _QUARTERS else None
        return cls(price, costs.currency, settings.waste.pue, bool(costs.tariffs))

    def money(self, joules: float | None) -> float | None:
        """Return the cost of energy; None if the price is unknown."""
        return None if joules is None or self.per_kwh is None else joules / KWH_J * self.per_kwh * (self.pue or 1.0)

    def said(self, joules: float | None) -> str:
        """Return the cost of energy with its currency; '' if the price is unknown."""
        return amount({"currency": self.currency, "energy": self.money(joules)})

    def row(self, row: Mapping[str, Any]) -> dict[str, object]:
        """Return the costs in a replay's row for programs; {} without a price."""
        if self.per_kwh is None:
            return {}
        return {"cost": self.money(row["energy_joules"]), "wasted_cost": self.money(row["energy_wasted_joules"]),
                "currency": self.currency}

    def readable(self, row: Mapping[str, Any]) -> dict[str, object]:
        """Return the costs in a replay's row for people."""
        return {"cost": self.said(row["energy_joules"]), "wasted_cost": self.said(row["energy_wasted_joules"])}

    @property
    def words(self) -> str:
        """Return the price of energy in words; '' without a price."""
        if self.per_kwh is None:
            return ""
        mean = ", the mean of the tariffs over a day" if self.mean else ""
        pue = f", times a PUE of {self.pue:g}" if self.pue else ""
        return f"energy is priced at {self.per_kwh:.4g} {self.currency} a kWh{mean}{pue}"


def stated(config_file: Path) -> StatedPrice:
    """Return the price in a configuration; an unknown price if this user cannot read a configuration."""
    from .. import config

    try:
        return StatedPrice.of(config.load(config_file))
    except config.ConfigError:
        return StatedPrice()
