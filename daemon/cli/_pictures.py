"""``python -m idlewatt.daemon.cli._pictures``: a picture of every class of watts, docs/waste-classes.md with them, and
the table of docs/waste.md.

The classes come from their one table; a class without a scene of its own fails here and in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from ...storage.power_classes import Kind, PowerClass
from ._scenes import CONTEXT_W, SCENES, STEPS, DrawnClass

DOCS = Path(__file__).parents[2] / "docs"
PLACE, PAGE, FORMULAS = DOCS / "pictures/waste", DOCS / "waste-classes.md", DOCS / "waste.md"
_WIDTH, _HEIGHT = 720, 262
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 704.0, 34.0, 164.0
"""Edges of the plot area, in units of the SVG."""
_STRIP, _HIGH = 18, 20
"""Height of the strips below the plot, without and with the gap."""
_STYLE = """text{font:13px sans-serif;fill:#222222}.quiet{fill:#5f6368}.ground{fill:#ffffff}
.line{stroke:#80868b;fill:none}
.strip{fill:#e8eaed}.busy{fill:#5f6368}
@media(prefers-color-scheme:dark){text{fill:#e8eaed}.quiet{fill:#b0b5bb}.ground{fill:#1e2129}.line{stroke:#9aa0a6}
.strip{fill:#3c4043}.busy{fill:#bdc1c6}}"""
_KINDS: dict[Kind, str] = {"wasted": "wasted", "useful": "useful", "apart": "shown apart: neither wasted nor useful"}

_HEAD = """# Every class of watts in a picture

Each picture shows two hours of one GPU, or of the host around the GPUs. Wasted watts have full colour, other watts of
the class have pale colour, and watts of other classes are grey. Strips below the watts show the holder of the GPU and
its activity. [Every class of watts, with its formula](waste.md) explains the letters of the formulas.
`make docs-reference` writes this page from the table of classes: change a class there, and its scene in
`daemon/cli/_scenes.py`, not this file.
"""


_TABLE = "| class | called | when | wasted watts | what helps |\n|---|---|---|---|---|\n"


def picture(row: PowerClass) -> str:
    """Return two hours of a class as an SVG: its watts (wasted ones in full colour), the holder and the activity."""
    scene = SCENES[row]
    most = max(scene.watts) * 1.12
    parts = [f'<rect class="ground" width="{_WIDTH}" height="{_HEIGHT}"/>',
             _text(_LEFT, 20, row.label, "start", "", 15),
             *_areas(scene, row.color, most), *_axes(most), *_strips(scene)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(f"{row.label}: {scene.story}")}">\n<style>{_STYLE}</style>\n'
            + "\n".join(parts) + "\n</svg>\n")


def _x(look: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * look / STEPS


def _y(watts: float, most: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * watts / most


def _areas(scene: DrawnClass, color: str, most: float) -> Iterator[str]:
    """Yield the areas of the watts: grey for other classes, pale for the class, full colour for wasted watts."""
    first, last = scene.of_class
    whole = range(STEPS)
    yield f'<path class="strip" d="{_steps(scene.watts, whole, most)}"/>'
    yield f'<path fill="{color}" fill-opacity="0.3" d="{_steps(scene.watts, range(first, last), most)}"/>'
    if any(scene.wasted):
        wasted = [look for look in whole if scene.wasted[look]]
        yield f'<path fill="{color}" d="{_steps(scene.wasted, range(wasted[0], STEPS), most)}"/>'
    if scene.floor:
        line = _y(CONTEXT_W, most)
        yield f'<path class="line" stroke-dasharray="5 4" d="M{_LEFT:g} {line:.1f}H{_RIGHT:g}"/>'
        yield _text(_RIGHT - 4, line - 5, f"c = {CONTEXT_W:g} W: idle with a context", "end", "")


def _steps(watts: Sequence[float], looks: range, most: float) -> str:
    tops = "".join(f"V{_y(watts[look], most):.1f}H{_x(look + 1):.1f}" for look in looks)
    return f"M{_x(looks[0]):.1f} {_BOTTOM:g}{tops}V{_BOTTOM:g}Z"


def _axes(most: float) -> Iterator[str]:
    yield f'<path class="line" d="M{_LEFT:g} {_TOP:g}V{_BOTTOM:g}H{_RIGHT:g}"/>'
    step = next(step for step in (20, 50, 100, 200) if most / step <= 4)  # noqa: PLR2004 - lines that a glance counts
    for watts in range(0, int(most) + 1, step):
        yield _text(_LEFT - 8, _y(watts, most) + 4, f"{watts} W", "end", "quiet")
    for look in range(0, STEPS + 1, 6):
        yield _text(_x(look), _BOTTOM + 16, f"{5 * look} min", "middle" if 0 < look < STEPS else
                    "start" if look == 0 else "end", "quiet")


def _strips(scene: DrawnClass) -> Iterator[str]:
    top = _BOTTOM + 26
    yield _text(_LEFT - 8, top + 14, "held by", "end", "quiet", 11)
    ends = [*(look for look, _ in scene.holders[1:]), STEPS]
    for (look, who), end in zip(scene.holders, ends, strict=True):
        yield _strip(look, end, top)
        yield _text(_x(look) + 6, top + 13, who, "start", "", 12)
    if not scene.activity:
        return
    top += _HIGH + 6
    yield _text(_LEFT - 8, top + 14, "active", "end", "quiet", 11)
    for look in range(STEPS):
        share = scene.activity[look] if look < len(scene.activity) else None
        yield _strip(look, look + 1, top)
        if share is None:
            yield _text(_x(look + 0.5) - 1, top + 13, "?", "middle", "quiet", 12)
        elif share:
            yield (f'<rect class="busy" x="{_x(look):.1f}" y="{top + _STRIP * (1 - share):.1f}" '
                   f'width="{_x(1) - _x(0) - 2:.1f}" height="{_STRIP * share:.1f}"/>')


def _strip(first: int, end: int, top: float) -> str:
    left, width = _x(first), _x(end) - _x(first) - 2
    return f'<rect class="strip" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_STRIP}"/>'


def _text(x: float, y: float, words: str, anchor: str, kind: str, size: int = 13) -> str:
    named = f' class="{kind}"' if kind else ""
    return (f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="font-size:{size}px">'
            f'{escape(words)}</text>')


def page() -> str:
    """Return the text of docs/waste-classes.md."""
    return _HEAD + "".join(map(_section, PowerClass))


def _section(row: PowerClass) -> str:
    scene = SCENES[row]
    helps = f"\n**What helps:** {row.remedy}\n" if row.remedy else ""
    return (f"\n## {row.label}\n\n`{row.value}`, {_KINDS[row.kind]}. {row.help}\n\n"
            f"![{row.label}](pictures/waste/{row.value}.svg)\n\n{scene.story}\n\n"
            f"**When:** {scene.when}.\n\n**Wasted watts:** {scene.formula}.\n{helps}")


def table() -> str:
    """Return the table of docs/waste.md, with a row for each class."""
    return "".join(f"| `{row.value}` | {row.label} | {SCENES[row].when} | {SCENES[row].formula} | {row.remedy} |\n"
                   for row in PowerClass)


def with_table(text: str) -> str:
    """Return the text of docs/waste.md with the present table."""
    before, rest = text.split(_TABLE)
    return before + _TABLE + table() + rest[rest.index("\n\n") + 1:]


if __name__ == "__main__":
    PLACE.mkdir(parents=True, exist_ok=True)
    for power_class in PowerClass:
        (PLACE / f"{power_class.value}.svg").write_text(picture(power_class), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    FORMULAS.write_text(with_table(FORMULAS.read_text(encoding="utf-8")), encoding="utf-8")
