"""What electricity costs and what carbon it means hour by hour, from a file: day-ahead prices, a year of a contract.

The first line names the units, as ``from,EUR/MWh,gCO2e/kWh``; every other line is a moment and its values, the earlier
first. A value holds until the next line, an hour at most; an empty cell is not known.
"""

from __future__ import annotations

import csv
import stat
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ..storage.energy_prices import GridReading, GridSample
from .grid_units import MOST_PER_KWH, currency_of, grams_per_kwh, per_kwh
from .source import Clock, Role, Source, SourceConfig, SourceError, TargetHealth, register

LARGEST_BYTES = 2 * 2**20
"""More than a year of quarters of an hour."""
HOLDS_S = 3600.0
_LONGEST_CELL = 64


@register("grid_file")
class GridFileConfig(SourceConfig):
    """A CSV file with prices of electricity and carbon intensities by hours or parts of them."""

    role: ClassVar[Role] = "grid"
    kind: Literal["grid_file"] = "grid_file"
    file: Path = Field(description="The file, read again when it changes: `from,EUR/MWh,gCO2e/kWh` and a line for each "
                                   "hour or part of one. Times without an offset are UTC.")
    currency: Annotated[str, Field(pattern="^([A-Z]{3})?$")] = Field(
        default="", description="What its prices must be in, as costs.currency; none where it tells carbon alone.")
    price_most: float = Field(default=MOST_PER_KWH, gt=0, allow_inf_nan=False,
                              description="Per kWh: more, or less than minus this, is not believed.")

    def build(self, clock: Clock) -> Source:
        """Return the source that reads this file."""
        return GridFileSource(self, clock)


class GridFileSource:
    """Reads the file when it has changed; a file that is refused leaves the last good one in force."""

    role: Role = "grid"

    def __init__(self, config: GridFileConfig, clock: Clock) -> None:
        self.name = config.name or config.kind
        self._config, self._clock = config, clock
        self._stamp: tuple[int, int, int] | None = None
        self._known = GridReading(0.0)
        self._health = TargetHealth(str(config.file), up=False, duration_s=0.0)

    def read(self) -> GridReading:
        """Return what the file tells; ``SourceError`` names the line that cannot be."""
        began, last = time.perf_counter(), self._health.last_success_s
        path = self._config.file
        try:
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_ino, status.st_size
            if stamp != self._stamp:
                self._known = parse(_text(path, status.st_mode, status.st_size), self._config.currency,
                                    self._config.price_most, self._clock())
                self._stamp = stamp
        except (OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) else str(fault)
            error = f"{path}: {why}"
            self._health = TargetHealth(str(path), False, time.perf_counter() - began, error, last)
            raise SourceError(error) from fault
        self._health = TargetHealth(str(path), True, time.perf_counter() - began, "", self._clock())
        return self._known

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how the last read went."""
        return (self._health,)

    def close(self) -> None:
        """Do nothing: a file is held only while it is read."""


def _text(path: Path, mode: int, size: int) -> str:
    if not stat.S_ISREG(mode):
        raise ValueError("no regular file")
    if size > LARGEST_BYTES:
        raise ValueError(f"larger than {LARGEST_BYTES >> 20} MiB")
    with path.open("rb") as file:
        body = file.read(LARGEST_BYTES + 1)
    if len(body) > LARGEST_BYTES or b"\0" in body:
        raise ValueError("no table of prices")
    return body.decode("utf-8-sig")


def parse(text: str, currency: str, most: float, now_s: float) -> GridReading:
    """Return what a table tells; ``ValueError`` names the first line that cannot be."""
    lines = csv.reader(text.splitlines(), strict=True)
    try:
        units = [cell.strip() for cell in next(lines, [])]
        _check_units(units, currency)
        rows = list(_rows(lines, units, most))
    except csv.Error as error:
        raise ValueError(f"line {lines.line_num}: {error}") from error
    columns = [list(_held(rows, column)) for column in range(len(units) - 1)]
    values = dict(zip(units[1:], columns, strict=True))
    prices = next((readings for unit, readings in values.items() if currency_of(unit)), [])
    carbon = next((readings for unit, readings in values.items() if not currency_of(unit)), [])
    return GridReading(now_s, tuple(prices), tuple(carbon), currency)


def _check_units(units: Sequence[str], currency: str) -> None:
    currencies = [currency_of(unit) for unit in units[1:]]
    if not units or units[0] != "from" or not 1 <= len(currencies) <= 2 \
            or len(set(map(bool, currencies))) != len(currencies):
        raise ValueError("the first line is `from` and the units of a price, of carbon or of both: "
                         "from,EUR/MWh,gCO2e/kWh")
    for unit, of_money in zip(units[1:], currencies, strict=True):
        if of_money and of_money != currency:
            raise ValueError(f"its prices are in {of_money}, not in {currency or 'any currency (costs.currency)'}")
        if not of_money:
            grams_per_kwh(0.0, unit[:_LONGEST_CELL])


_Row = tuple[float, tuple[float | None, ...]]


def _rows(lines: Iterator[list[str]], units: Sequence[str], most: float) -> Iterator[_Row]:
    before = float("-inf")
    for number, cells in enumerate(lines, start=2):
        if not cells:
            continue
        try:
            if len(cells) != len(units):
                raise ValueError(f"{len(cells)} columns, not {len(units)}")
            since_s = _moment(cells[0])
            if since_s <= before:
                raise ValueError(f"{cells[0]} does not come after the line before")
            yield since_s, tuple(_value(cell, unit, most) for cell, unit in zip(cells[1:], units[1:], strict=True))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        before = since_s


def _moment(cell: str) -> float:
    try:
        moment = datetime.fromisoformat(cell.strip()[:_LONGEST_CELL])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{cell[:_LONGEST_CELL]!r} is no time such as 2026-10-01T14:00Z") from error


def _value(cell: str, unit: str, most: float) -> float | None:
    text = cell.strip()
    if not text:
        return None
    try:
        value = float(text[:_LONGEST_CELL])
    except ValueError as error:
        raise ValueError(f"{text[:_LONGEST_CELL]!r} is no number") from error
    return per_kwh(value, unit, most) if currency_of(unit) else grams_per_kwh(value, unit)


def _held(rows: Sequence[_Row], column: int) -> Iterator[GridSample]:
    ends = [since_s for since_s, _ in rows[1:]] + [float("inf")]
    for (since_s, values), end_s in zip(rows, ends, strict=True):
        value = values[column]
        if value is not None:
            yield GridSample(value, since_s, min(end_s, since_s + HOLDS_S))
