"""Figures for people in tables of 80 columns: short, with their unit, and a dash for unknown values."""

from __future__ import annotations

from datetime import UTC, datetime

from ..durations import ago
from ._output import Row, plain

WIDTH = 80


def energy(joules: float | None) -> str:
    """Return energy, J, as text in Wh, kWh or MWh."""
    if joules is None:
        return "-"
    for unit, size in (("MWh", 3.6e9), ("kWh", 3.6e6)):
        if abs(joules) >= size:
            return f"{joules / size:.3g} {unit}" if abs(joules) < 1000 * size else f"{joules / size:,.0f} {unit}"
    return f"{joules / 3600:.3g} Wh"


def length(seconds: float | None) -> str:
    """Return a duration as text with three digits: ``45.3 s``, ``12.6 min``, ``231 d``."""
    if seconds is None:
        return "-"
    for unit, size, least in (("d", 86400.0, 4 * 86400.0), ("h", 3600.0, 5400.0), ("min", 60.0, 90.0)):
        if abs(seconds) >= least:
            return f"{plain(seconds / size)} {unit}"
    return f"{plain(float(seconds))} s"


def gpus(number: int) -> str:
    """Return a number of GPUs as text."""
    return "1 GPU" if number == 1 else f"{number} GPUs"


def share(value: float | None) -> str:
    """Return a ratio as text in percent."""
    return "-" if value is None else f"{100 * value:.0f} %"


def hours(seconds: float | None) -> str:
    """Return GPU-hours as text."""
    return "-" if seconds is None else f"{seconds / 3600:,.1f}"


def day(seconds: float | None) -> str:
    """Return a moment, seconds since the epoch, as text with day and minute, UTC."""
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M")


def ran(row: Row) -> str:
    """Return the duration of a run as text; of a running one, the time so far."""
    return ago(row["seen_seconds"]) + "+" if row["end_s"] is None else ago(row["end_s"] - row["start_s"])


def wasted_share(row: Row) -> float | None:
    """Return the wasted share of a row's energy as text."""
    return row["wasted_joules"] / row["energy_joules"] if row["energy_joules"] else None
