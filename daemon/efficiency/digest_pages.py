"""A digest as text and as HTML: the same figures, names escaped, no parts from outside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import TypeAdapter

from ...exporters.text import clean
from ...storage.power_classes import PowerClass
from ..amounts import amount, carbon
from .digest import Digest

ADAPTER = TypeAdapter(tuple[Digest, ...])
Row = Mapping[str, Any]
LEAST_PRICED = 0.5
"""Share of a span's energy whose price must be known so that its mean stands for all."""


def as_json(digest: Digest) -> Row:
    """Return a digest as the API returns it."""
    (row,) = ADAPTER.dump_python((digest,), mode="json")
    shown: Row = row
    return shown


def subject(row: Row, cluster: str = "") -> str:
    """Return the subject of its mail."""
    holder = f"account {row['account']}" if row["account"] else cluster or "the cluster"
    total = row["total"]
    if not total["energy_joules"]:
        return f"nothing was recorded: {holder}, {span(row)}"
    lost = amount(total["cost"], "wasted")
    return (f"{kwh(total['wasted_joules'])}{f' ({lost})' if lost else ''} of {kwh(total['energy_joules'])} wasted: "
            f"{holder}, {span(row)}")


def text(row: Row, cluster: str = "") -> str:
    """Return a digest as plain text."""
    return _pages(escaped=False).get_template("digest.txt").render(row=row, subject=subject(row, cluster))


def html(row: Row, cluster: str = "") -> str:
    """Return a digest as a page that mail programs and browsers show alike: styles stand at each element."""
    return _pages(escaped=True).get_template("digest.html").render(row=row, subject=subject(row, cluster))


@cache
def _pages(escaped: bool) -> Environment:
    pages = Environment(loader=PackageLoader("idlewatt.daemon"), autoescape=escaped,  # noqa: S701 - plain text
                        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"kwh": kwh, "percent": percent, "span": span, "change": change, "money": amount,
                      "carbon": carbon, "worth": worth, "saved": saved, "plain": _plain, "share": share,
                      "label": label}
    return pages


def kwh(joules: float | None) -> str:
    """Return energy."""
    if joules is None:
        return "not measured"
    value = joules / 3.6e6
    return f"{value / 1000:,.3g} MWh" if abs(value) >= 1000 else f"{value:,.3g} kWh"


def percent(value: float | None) -> str:
    """Return a ratio."""
    return "not measured" if value is None else f"{100 * value:.0f} %"


def share(row: Row) -> float | None:
    """Return which share of its energy a row wasted."""
    return row["wasted_joules"] / row["energy_joules"] if row["energy_joules"] else None


def span(row: Row) -> str:
    """Return from which day to which."""
    first, last = (datetime.fromtimestamp(row[name], UTC).strftime("%Y-%m-%d") for name in ("since_s", "until_s"))
    return f"{first} to {last}"


def change(row: Row) -> str:
    """Return how waste compares with the span before, in words."""
    before, now = row["before"], row["total"]
    if before is None or not before["wasted_joules"]:
        return "nothing to compare with was recorded before"
    ratio = now["wasted_joules"] / before["wasted_joules"] - 1
    if abs(ratio) < 0.005:
        return "as much as in the span before"
    return f"{100 * abs(ratio):.0f} % {'more' if ratio > 0 else 'less'} than in the span before"


def worth(row: Row) -> str:
    """Return what saved energy would have cost at the span's mean price; '' where its price is not known."""
    cost, total = row["total"]["cost"], row["total"]["energy_joules"]
    if not cost or cost["energy"] is None or not total or cost["priced_ratio"] < LEAST_PRICED:
        return ""
    saved = abs(row["saved"]["joules"]) * cost["energy"] / (total * cost["priced_ratio"])
    return f"{saved:,.2f} {cost['currency']} at the mean price of these days"


def saved(row: Row) -> str:
    """Return what advice would have saved and how far that replay is off, in words.

    What lies within that error is nothing, and where the error is not known no amount is called a saving.
    """
    saved, since = row["saved"], "since counting began, by replay"
    error = saved["error_ratio"]
    if error is None:
        return f"is not known to have saved anything {since}, as the error of the replay is not known"
    if not row["saved_certain"]:
        return (f"would have saved nothing distinguishable from 0 (+-{kwh(abs(error) * saved['of_joules'])}) {since} "
                f"with an error of {100 * abs(error):.1f} %")
    amount = f" ({money})" if (money := worth(row)) else ""
    return (f"would have {'saved' if saved['joules'] >= 0 else 'cost'} {kwh(abs(saved['joules']))}{amount} {since}; "
            f"its error is {100 * abs(error):.1f} %")


def label(name: str) -> str:
    """Return what people call a class."""
    return PowerClass(name).label


def _plain(name: object) -> str:
    return clean(str(name)) or "-"
