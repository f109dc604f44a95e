"""The colours of the classes of power as CSS, for every page that shows them."""

from __future__ import annotations

from ..storage.power_classes import PowerClass


def class_colors() -> str:
    """Return a rule for each class, of the same name: its colour, and shapes filled with it."""
    return "\n".join(f".{row} {{ --hue: {row.color}; fill: var(--hue); }}" for row in PowerClass)
