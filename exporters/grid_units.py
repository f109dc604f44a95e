"""The units in which prices and the carbon of electricity are given, and what is too much to be true."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

_PRICE = re.compile(r"([A-Z]{3})/(kWh|MWh)")
_CARBON = re.compile(r"(g|kg|t)CO2(?:e|eq)?/(kWh|MWh)")
_GRAMS: Mapping[str, float] = {"g": 1.0, "kg": 1e3, "t": 1e6}
_KWH: Mapping[str, float] = {"kWh": 1.0, "MWh": 1e3}

PriceUnit = Annotated[str, Field(pattern=f"^{_PRICE.pattern}$")]
CarbonUnit = Literal["gCO2e/kWh", "gCO2eq/kWh", "kgCO2e/MWh", "kgCO2eq/MWh", "tCO2e/MWh", "tCO2eq/MWh", "kgCO2e/kWh"]
MOST_PER_KWH = 10.0
"""More is taken for a wrong unit where nothing else is set: markets of euros, dollars and pounds stop at 5 or less."""
MOST_GRAMS = 2000.0
"""Lignite alone is at 1,100 g a kWh."""


def currency_of(unit: str) -> str:
    """Return the currency of a price's unit; '' of what is no such unit."""
    match = _PRICE.fullmatch(unit)
    return match[1] if match else ""


def per_kwh(value: float, unit: str, most: float) -> float:
    """Return a price by kWh; it may be below 0. Raise ``ValueError`` for one that nobody believes."""
    match = _PRICE.fullmatch(unit)
    if match is None:
        raise ValueError(f"{unit!r} is no unit of a price such as EUR/MWh")
    price = value / _KWH[match[2]]
    if not math.isfinite(price) or abs(price) > most:
        raise ValueError(f"{value:g} {unit} is no price: more than {most:g} {match[1]} a kWh cannot be believed")
    return price


def grams_per_kwh(value: float, unit: str) -> float:
    """Return a carbon intensity in g CO2e a kWh; raise ``ValueError`` for one that nobody believes."""
    match = _CARBON.fullmatch(unit)
    if match is None:
        raise ValueError(f"{unit!r} is no unit of carbon intensity such as gCO2e/kWh")
    grams = value * _GRAMS[match[1]] / _KWH[match[2]]
    if not 0 <= grams <= MOST_GRAMS:
        raise ValueError(f"{value:g} {unit} is no carbon intensity: 0 to {MOST_GRAMS:g} g CO2e a kWh can be believed")
    return grams
