"""``python -m idlewatt.daemon.cli._pictures``: draw docs/pictures/waste-classes.svg from the table of classes."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ...storage.power_classes import PowerClass

PLACE = Path(__file__).parents[2] / "docs/pictures/waste-classes.svg"
_ROW, _LEFT, _SCALE = 30, 230, 1.1
_EXAMPLES = {
    PowerClass.ALLOCATED_IDLE: (88, 88, "held, activity 0 for ten minutes: all of 88 W"),
    PowerClass.ALLOCATED_HUNG: (101, 101, "held, activity 1.0, yet 101 W: all of it, suspected"),
    PowerClass.ALLOCATED_UNDERUSED: (210, 72, "held, activity 0.2, floor 90 W: 90 x (1 - 0.2) = 72 of 210 W"),
    PowerClass.STRANDED: (55, 55, "free, but no waiting job fits: all of 55 W"),
    PowerClass.IDLE_UNALLOCATED: (55, 55, "free, and nobody waits: all of 55 W"),
    PowerClass.NODE_OVERHEAD_EMPTY: (410, 410, "the host of a node without a job: all of 410 W"),
    PowerClass.PRODUCTIVE: (380, 0, "held, activity 0.95: the rest above the idle share"),
    PowerClass.HOST_ACTIVE: (430, 0, "the host around GPUs that jobs hold"),
    PowerClass.PLANNED: (55, 0, "free, held for a job that is to start"),
    PowerClass.OUTSIDE_SCHEDULER: (290, 0, "works, and the scheduler knows of nobody"),
    PowerClass.UNAVAILABLE: (180, 0, "the node is down or drained"),
    PowerClass.UNMEASURED: (430, 0, "no fresh reading: never zero, never waste"),
}
"""Watts of a GPU or a host, how many of them are wasted, and why."""


def drawn() -> str:
    """Return the picture: a bar for each class, the wasted part of it full."""
    height = _ROW * len(_EXAMPLES) + 40
    rows = "".join(_row(index, *row) for index, row in enumerate(_EXAMPLES.items()))
    return ('<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="14" '
            f'viewBox="0 0 1180 {height}" role="img" aria-label="An example of each class of watts">\n'
            f'<rect width="1180" height="{height}" fill="#ffffff"/>\n{rows}'
            f'<text x="{_LEFT}" y="{height - 12}" fill="#555555">full: wasted; pale: not wasted</text>\n</svg>\n')


def _row(index: int, row: PowerClass, example: tuple[int, int, str]) -> str:
    watts, wasted, why = example
    top, width = 8 + index * _ROW, watts * _SCALE
    text = f'<text x="{_LEFT - 10}" y="{top + 16}" text-anchor="end" fill="#222222">{escape(row.label)}</text>\n'
    text += f'<rect x="{_LEFT}" y="{top}" width="{width:g}" height="22" fill="{row.color}" fill-opacity="0.25"/>\n'
    if wasted:
        text += f'<rect x="{_LEFT}" y="{top}" width="{wasted * _SCALE:g}" height="22" fill="{row.color}"/>\n'
    return text + f'<text x="{_LEFT + width + 8:g}" y="{top + 16}" fill="#222222">{escape(why)}</text>\n'


if __name__ == "__main__":
    PLACE.write_text(drawn(), encoding="utf-8")
