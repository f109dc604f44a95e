"""What electricity cost and what carbon it meant: as it is reported, and as it was booked, by quarters of an hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection, select

from . import schema
from .database import upsert
from .values import number, words

QUARTER_S = 900.0
"""Markets settle electricity by quarters of an hour, or by whole hours."""


@dataclass(frozen=True, slots=True)
class GridSample:
    """A value that holds from one moment until another."""

    value: float
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class GridReading:
    """Reported by the grid: prices of a kWh in ``currency`` (below 0 where it is paid to use it), g CO2e a kWh."""

    time_s: float
    prices: tuple[GridSample, ...] = ()
    carbon: tuple[GridSample, ...] = ()
    currency: str = ""


@dataclass(frozen=True, slots=True)
class EnergyPrice:
    """What a kWh cost and meant in a quarter of an hour, as it was booked; None where nobody knew it."""

    start_s: float
    per_kwh: float | None
    currency: str
    grams_per_kwh: float | None


class Priced(Protocol):
    """Energy with what was known of its price."""

    @property
    def price_per_kwh(self) -> float | None:
        """Return what a kWh of it cost."""

    @property
    def grams_per_kwh(self) -> float | None:
        """Return what carbon a kWh of it meant."""

    @property
    def currency(self) -> str:
        """Return what the price is in."""


def store(connection: Connection, start_s: float, booked: Iterable[Priced]) -> None:
    """Record what held in a window; what is unknown in a later window of the same quarter replaces nothing."""
    known = next((share for share in booked
                  if share.price_per_kwh is not None or share.grams_per_kwh is not None), None)
    if known is None:
        return
    row = {"start_s": start_s // QUARTER_S * QUARTER_S, "per_kwh": number(known.price_per_kwh),
           "currency": words(known.currency), "grams_per_kwh": number(known.grams_per_kwh)}
    upsert(connection, schema.energy_prices, [row], update=("currency",), keep_known=("per_kwh", "grams_per_kwh"))


def load(connection: Connection, since_s: float, until_s: float, most: int) -> tuple[EnergyPrice, ...]:
    """Return what held in the newest quarters that begin in [since, until), the newest first."""
    table = schema.energy_prices
    rows = connection.execute(select(table).where(table.c.start_s >= since_s, table.c.start_s < until_s).order_by(
        table.c.start_s.desc()).limit(most))
    return tuple(EnergyPrice(row.start_s, row.per_kwh, row.currency, row.grams_per_kwh) for row in rows)
