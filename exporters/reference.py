"""``python -m idlewatt.exporters.reference``: write the reference of the page, docs/metrics.md, as declared."""

from __future__ import annotations

from pathlib import Path

from .metrics import METRICS
from .metrics.declared import Declared

FILE = Path(__file__).parents[1] / "docs" / "metrics.md"
UNITS = ("watts", "joules", "seconds", "bytes", "ratio")
_HEAD = """# Metrics

Everything that idlewatt publishes on `/metrics`, in the order of the page. Written by `make docs-reference`: change the
declarations in `exporters/metrics`, not this file. Power is in watts, energy in joules, time in seconds (since the
epoch in `_timestamp_seconds`), ratios are 0 to 1. What is not measured is absent, never 0. *Most* is how many series of
a metric one page may hold; `idlewatt_capped_series` counts what was left out.

| metric | type | unit | labels | most | meaning |
|---|---|---|---|---:|---|
"""


def unit(metric: Declared) -> str:
    """Return the unit that a metric's name ends with; '' for counts and texts."""
    return next((unit for unit in UNITS if metric.name.removesuffix("_total").endswith(f"_{unit}")), "")


def reference() -> str:
    """Return the documentation of all metrics as Markdown."""
    return _HEAD + "".join(_row(metric) for metric in METRICS)


def _row(metric: Declared) -> str:
    labels, help_text = ", ".join(f"`{label}`" for label in metric.labels), metric.help.replace("|", "\\|")
    return f"| `{metric.name}` | {metric.kind} | {unit(metric)} | {labels} | {metric.cap:,} | {help_text} |\n"


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
