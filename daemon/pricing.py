"""Puts a price and a carbon intensity on energy as it is recorded, and money and carbon beside it as it is shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter

from ..exporters.source import Facts
from ..storage.energy_prices import GridReading, GridSample
from ..storage.energy_schema import CLASS_COLUMNS, COST_COLUMNS
from ..storage.power_classes import PowerClass
from ..storage.run_energy import EnergyShare
from .settings.costs import CostSettings

KWH_J = 3.6e6
_KWH_MJ = KWH_J * 1000
_SINCE = attrgetter("since_s")


def priced(shares: Iterable[EnergyShare], costs: CostSettings, facts: Sequence[Facts] = ()) -> list[EnergyShare]:
    """Return shares with price and carbon of a kWh when their window began; what is not known stays None.

    ``facts`` are readings of the grid, the first that knows a moment counts; where none does, what is set in ``costs``.
    """
    known: dict[tuple[float, float], tuple[float | None, float | None]] = {}
    priced = []
    for share in shares:
        window = share.start_s, share.seconds
        if window not in known:
            known[window] = in_force(costs, facts, share.start_s, share.start_s + share.seconds)
        price, grams = known[window]
        hour = costs.gpu_hour(share.model) if share.job_id else None
        priced.append(share if price is None and grams is None and hour is None else replace(
            share, price_per_kwh=price, price_per_gpu_hour=hour, grams_per_kwh=grams, currency=costs.currency))
    return priced


def in_force(costs: CostSettings, facts: Sequence[Facts], start_s: float, end_s: float | None = None) \
        -> tuple[float | None, float | None]:
    """Return price and grams of carbon a kWh of a moment, or of a window that may begin before the first reading."""
    readings = [reading for reading in facts if isinstance(reading, GridReading)]
    moments = (start_s,) if end_s is None else (start_s, end_s)
    price = _first((reading.prices for reading in readings if reading.currency == costs.currency), moments)
    grams = _first((reading.carbon for reading in readings), moments)
    return (costs.price(datetime.fromtimestamp(start_s, UTC).time()) if price is None else price,
            costs.grams_per_kwh if grams is None else grams)


def _first(tables: Iterable[Sequence[GridSample]], moments: Sequence[float]) -> float | None:
    """Return what the first table that knows one of the moments says of it."""
    for table in tables:
        for moment in moments:
            place = bisect_right(table, moment, key=_SINCE) - 1
            if place >= 0 and moment < table[place].until_s:
                return table[place].value
    return None


@dataclass(frozen=True, slots=True)
class Cost:
    """Money and carbon of some energy; what is not known is None, and shown nowhere."""

    currency: str
    energy: float | None
    """The money for the electricity as far as its price is known, with the site's PUE where that is set."""
    wasted: float | None
    gpu_hours: float | None
    carbon_grams: float | None
    priced_ratio: float = 1.0
    """Share of the energy whose price is known."""
    carbon_ratio: float = 1.0
    """Share of the energy whose carbon intensity is known."""


@dataclass(frozen=True, slots=True)
class Costing:
    """The prices that are set now, with the PUE of the site."""

    costs: CostSettings = CostSettings()
    pue: float | None = None

    def of(self, sums: Mapping[str, int]) -> Cost | None:
        """Return what the sums of a row cost; None when nothing of it is known."""
        pue, energy, wasted = self.pue or 1.0, sums["energy_mj"], sums["wasted_mj"]
        paid, priced_ratio = _completed(sums["cost_micro"] / 1e6, sums["priced_mj"], energy, energy,
                                        self.costs.per_kwh)
        paid_wasted, _ = _completed(sums["wasted_cost_micro"] / 1e6, sums["priced_mj"], energy, wasted,
                                    self.costs.per_kwh)
        carbon, carbon_ratio = _completed(sums["carbon_mg"] / 1e3, sums["intensity_mj"], energy, energy,
                                          self.costs.grams_per_kwh)
        held = sums["gpu_cost_micro"] / 1e6 if self.costs.per_gpu_hour and sums["gpu_cost_micro"] else None
        if carbon is None and (not self.costs.currency or (paid is None and held is None)):
            return None
        return Cost(self.costs.currency, None if paid is None else paid * pue,
                    None if paid_wasted is None else paid_wasted * pue, held,
                    None if carbon is None else carbon * pue, priced_ratio, carbon_ratio)

    def of_classes(self, sums: Mapping[str, int]) -> dict[PowerClass, float]:
        """Return what the energy of each class cost, as far as its price is known; {} where none is."""
        costs = {}
        for power_class, column in CLASS_COLUMNS.items():
            paid, _ = _completed(sums[COST_COLUMNS[power_class]] / 1e6, sums["priced_mj"], sums["energy_mj"],
                                 sums[column], self.costs.per_kwh)
            if sums[column] and paid is not None and self.costs.currency:
                costs[power_class] = paid * (self.pue or 1.0)
        return costs


def _completed(booked: float, booked_mj: int, energy_mj: int, part_mj: int, per_kwh: float | None) \
        -> tuple[float | None, float]:
    """Return what was booked with what is set now for the rest, and the share of the energy that it stands for.

    None where nothing was booked and nothing is set: what is unknown costs nothing known, and never 0.
    """
    left = max(0, energy_mj - booked_mj)
    if per_kwh is not None and (left or not booked_mj):
        part = part_mj * (left / energy_mj) if energy_mj else 0.0
        return booked + part / _KWH_MJ * per_kwh, 1.0
    if not booked_mj:
        return None, 0.0
    return booked, min(1.0, booked_mj / energy_mj) if energy_mj else 1.0
