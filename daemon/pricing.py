"""Puts a price on energy as it is recorded, and money and carbon beside it as it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ..storage.run_energy import EnergyShare
from .settings.costs import CostSettings

KWH_J = 3.6e6
_KWH_MJ = KWH_J * 1000


def priced(shares: Iterable[EnergyShare], costs: CostSettings) -> list[EnergyShare]:
    """Return shares with the prices in force when their window began."""
    prices: dict[float, float | None] = {}
    found = []
    for share in shares:
        if share.start_s not in prices:
            prices[share.start_s] = costs.price(datetime.fromtimestamp(share.start_s, UTC).time())
        price, hour = prices[share.start_s], costs.gpu_hour(share.model) if share.job_id else None
        found.append(share if price is None and hour is None
                     else replace(share, price_per_kwh=price, price_per_gpu_hour=hour))
    return found


@dataclass(frozen=True, slots=True)
class Cost:
    """Money and carbon of some energy; what is not set is None, and shown nowhere."""

    currency: str
    energy: float | None
    """Of all its electricity, with the site's PUE where that is set."""
    wasted: float | None
    gpu_hours: float | None
    carbon_grams: float | None


@dataclass(frozen=True, slots=True)
class Costing:
    """The prices that are set now, with the PUE of the site."""

    costs: CostSettings = CostSettings()
    pue: float | None = None

    def of(self, sums: Mapping[str, int]) -> Cost | None:
        """Return what the sums of a row cost; None when nothing is set."""
        costs, pue = self.costs, self.pue or 1.0
        energy, wasted, priced_mj = sums["energy_mj"], sums["wasted_mj"], sums["priced_mj"]
        paid, paid_wasted = (sums[name] / 1e6 if priced_mj else None for name in ("cost_micro", "wasted_cost_micro"))
        if costs.per_kwh is not None and energy > priced_mj:
            left = energy - priced_mj
            paid = (paid or 0.0) + left / _KWH_MJ * costs.per_kwh
            paid_wasted = (paid_wasted or 0.0) + wasted * (left / energy) / _KWH_MJ * costs.per_kwh
        held = sums["gpu_cost_micro"] / 1e6 if costs.per_gpu_hour and sums["gpu_cost_micro"] else None
        carbon = None if costs.grams_per_kwh is None else energy / _KWH_MJ * costs.grams_per_kwh * pue
        if not costs.currency and carbon is None:
            return None
        return Cost(costs.currency, None if paid is None else paid * pue,
                    None if paid_wasted is None else paid_wasted * pue, held, carbon)
