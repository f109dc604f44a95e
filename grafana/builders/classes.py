"""The classes of power as the dashboards show them: a table of data, which ``idlewatt.exporters.reference`` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[1] / "power_classes.json"
KINDS = ("useful", "wasted", "apart")
"""The kinds of power in the order in which they are stacked."""


class ShownClass(NamedTuple):
    """One class of power: the label of metrics, what people read, and its colour."""

    value: str
    label: str
    kind: str
    color: str
    code: int | None
    """What ``idlewatt_gpu_state`` says of a GPU in this class; None for the classes of hosts."""
    held: bool
    """Whether it is a class of GPUs that jobs hold."""


POWER_CLASSES = {row.value: row for row in (ShownClass(**row) for row in json.loads(FILE.read_text(encoding="utf-8")))}
"""All classes by the value of their label."""

CLASSES = {row.value: (row.label, row.color) for kind in KINDS for row in POWER_CLASSES.values() if row.kind == kind}
"""The classes of power, also states of GPUs and reasons of waste: what people read, and its colour."""

GPU_WORDS = {str(row.code): CLASSES[row.value]
             for row in sorted(POWER_CLASSES.values(), key=lambda row: row.code or 0) if row.code is not None}
"""What the numbers of ``idlewatt_gpu_state`` mean."""


def any_of(rows: Iterable[ShownClass]) -> str:
    """Return the pattern that matches the labels of the classes."""
    return "|".join(row.value for row in rows)
