"""``python -m idlewatt.exporters.reference``: write what others read of the page as declared, in two files.

The reference is docs/metrics.md; grafana/power_classes.json tells the dashboards the classes of power, so that their
code needs nothing of the package.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..storage.power_classes import PowerClass
from .metrics import METRICS
from .metrics.declared import Declared

_ROOT = Path(__file__).parents[1]
FILE = _ROOT / "docs" / "metrics.md"
CLASSES_FILE = _ROOT / "grafana" / "power_classes.json"
UNITS = ("watts", "joules", "seconds", "bytes", "ratio")
_HEAD = """# Metrics

This page lists every metric of `/metrics`, in the order of that page. `make docs-reference` writes it: change the
declarations in `exporters/metrics`, not this file. Power is in watts, energy in joules, time in seconds (since the
epoch in `_timestamp_seconds`); ratios go from 0 to 1. An unmeasured value is absent, never 0. *Most* is the largest
number of series of a metric on one page; `idlewatt_capped_series` counts the omitted series.

| metric | type | unit | labels | most | meaning |
|---|---|---|---|---:|---|
"""


def unit(metric: Declared) -> str:
    """Return the unit that a metric's name ends with; '' for counts and texts."""
    return next((unit for unit in UNITS if metric.name.removesuffix("_total").endswith(f"_{unit}")), "")


def reference() -> str:
    """Return the documentation of all metrics as Markdown."""
    return _HEAD + "".join(_row(metric) for metric in METRICS)


def power_classes() -> str:
    """Return the classes of power as the dashboards need them, as JSON."""
    rows = [{"value": row.value, "label": row.label, "kind": row.kind, "color": row.color, "code": row.code,
             "held": row.held} for row in PowerClass]
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"


def _row(metric: Declared) -> str:
    labels, help_text = ", ".join(f"`{label}`" for label in metric.labels), metric.help.replace("|", "\\|")
    return f"| `{metric.name}` | {metric.kind} | {unit(metric)} | {labels} | {metric.cap:,} | {help_text} |\n"


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
    CLASSES_FILE.write_text(power_classes(), encoding="utf-8")
