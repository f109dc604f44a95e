"""What energy and GPUs cost, and what carbon a kilowatt-hour means; what is not set is shown nowhere."""

from __future__ import annotations

from datetime import time
from typing import Annotated

from pydantic import Field, model_validator

from .values import StrictSettings, UtcTime

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Tariff(StrictSettings):
    """A price that holds from one time of day (UTC) until another, be it past midnight."""

    since: UtcTime
    until: UtcTime
    per_kwh: Price

    def holds(self, moment: time) -> bool:
        """Tell whether it is in force at a time of day."""
        if self.since <= self.until:
            return self.since <= moment < self.until
        return moment >= self.since or moment < self.until


class CostSettings(StrictSettings):
    """Money and carbon beside energy. Prices are booked with the energy as it is recorded."""

    currency: Annotated[str, Field(max_length=8)] = ""
    """Shown beside every amount: EUR, USD, KRW."""
    per_kwh: Price | None = None
    """Of electricity, whenever no tariff holds; energy recorded without a price is counted at this one."""
    tariffs: tuple[Tariff, ...] = ()
    """By time of day (UTC); the first that holds counts."""
    per_gpu_hour: dict[str, Price] = {}
    """Of a held GPU, by part of its vendor's name (``A100``, ``H100``)."""
    grams_per_kwh: Price | None = None
    """Carbon dioxide of the grid, g CO2e a kWh."""

    @model_validator(mode="after")
    def _with_currency(self) -> CostSettings:
        if not self.currency and (self.per_kwh is not None or self.tariffs or self.per_gpu_hour):
            raise ValueError("a price needs its currency")
        return self

    def price(self, moment: time) -> float | None:
        """Return what a kWh costs at a time of day (UTC); None when that is not set."""
        return next((tariff.per_kwh for tariff in self.tariffs if tariff.holds(moment)), self.per_kwh)

    def gpu_hour(self, model: str) -> float | None:
        """Return what an hour of a GPU costs; None when that is not set."""
        return next((price for part, price in self.per_gpu_hour.items() if part in model), None)
