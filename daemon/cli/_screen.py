"""What ``live`` shows: one look at the daemon's API, drawn for a terminal or told in plain lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...storage.records import WASTED, PowerClass
from ..web.page import CLASSES, percent, watts
from ._output import plain

Row = Mapping[str, Any]
NARROW = 76
"""Columns below which the second half of every line is left out."""
_USEFUL = (PowerClass.PRODUCTIVE, PowerClass.HOST_ACTIVE)


@dataclass(frozen=True, slots=True)
class Picture:
    """The daemon's answers at one moment."""

    waste: Sequence[Row]
    recommendations: Sequence[Row]
    jobs: Sequence[Row]
    sources: Sequence[Row]

    @classmethod
    def take(cls, ask: Callable[[str], Sequence[Row]]) -> Picture:
        """Ask for all four lists."""
        return cls(*(ask(path) for path in ("waste", "recommendations", "jobs", "sources")))

    @property
    def by_class(self) -> dict[PowerClass, float]:
        """Return the watts of each class that has any, the most actionable waste first."""
        sums: dict[str, float] = defaultdict(float)
        for row in self.waste:
            sums[row["power_class"]] += row["power_watts"] or 0.0
        return {power_class: sums[power_class] for power_class in CLASSES if sums[power_class] > 0}

    @property
    def pending(self) -> list[tuple[Row, Row | None]]:
        """Return pending jobs with the advice in charge: those to start now first, then the oldest."""
        advice = {(row["job_id"], row["submit_s"]): row for row in self.recommendations if not row["shadow"]}
        waiting = [(job, advice.get((job["job_id"], job["submit_s"]))) for job in self.jobs
                   if job["state"] == "PENDING"]
        return sorted(waiting, key=lambda pair: (pair[1] is None or pair[1]["action"] != "start", pair[0]["submit_s"]))


def screen(picture: Picture, width: int, height: int, footer: Sequence[str] = ()) -> RenderableType:
    """Return the picture drawn to fit a terminal of ``width`` columns and ``height`` lines."""
    bars, sources = _bars(picture, width), _sources(picture)
    # Title, two rules, the table's heading and the line that counts what was left out.
    room = max(1, height - bars.row_count - len(sources) - len(footer) - 6)
    return Group(_title(picture), bars, Rule("Pending jobs", style="dim", align="left"),
                 *_pending(picture, width, room), Rule("Sources", style="dim", align="left"), *sources,
                 *(Text(line, style="cyan", no_wrap=True, overflow="ellipsis") for line in footer))


def summary(picture: Picture) -> Iterator[str]:
    """Yield the picture in plain lines, for logs and pipes."""
    yield _headline(picture)
    total = sum(picture.by_class.values())
    for power_class, power in picture.by_class.items():
        yield f"  {CLASSES[power_class][0]:<24} {watts(power):>9}  {percent(power / total):>6}"
    for job, advice in picture.pending:
        yield f"  job {plain(job['job_id'])} ({_wish(job)}): {_told(advice)}"
    yield from (f"  source {line.plain}" for line in _sources(picture))


def _headline(picture: Picture) -> str:
    by_class = picture.by_class
    total = sum(by_class.values())
    if not total:
        return "no watts measured yet"
    wasted = sum(power for power_class, power in by_class.items() if power_class in WASTED)
    return f"{watts(total)} at the wall, {watts(wasted)} wasted ({percent(wasted / total)})"


def _title(picture: Picture) -> Text:
    return Text.assemble(("idlewatt  ", "bold"), (_headline(picture), "bold yellow"), no_wrap=True, overflow="ellipsis")


def _bars(picture: Picture, width: int) -> Table:
    by_class = picture.by_class
    total, most = sum(by_class.values()), max(by_class.values(), default=1.0)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    cells = max(4, width - 44)
    for power_class, power in by_class.items():
        style = _style(power_class)
        table.add_row(Text(CLASSES[power_class][0], style=style), watts(power), percent(power / total),
                      Text("█" * max(1, round(cells * power / most)), style=style))
    return table


def _style(power_class: PowerClass) -> str:
    if power_class in WASTED:
        return "red" if power_class.value.startswith("allocated") else "yellow"
    return "green" if power_class in _USEFUL else "bright_black"


def _pending(picture: Picture, width: int, room: int) -> list[RenderableType]:
    waiting = picture.pending
    if not waiting:
        return [Text("none", style="dim")]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0), expand=True)
    for heading in ("job", "user", "asks for", "advice"):
        table.add_column(heading, no_wrap=True)
    if width >= NARROW:
        table.add_column("because", no_wrap=True, overflow="ellipsis", ratio=1)
    for job, advice in waiting[:room]:
        cells = [Text(plain(job["job_id"])), Text(plain(job["user"])), Text(_wish(job)), _action(advice)]
        table.add_row(*cells, *([Text(plain(advice["reason"]) if advice else "")] if width >= NARROW else []))
    more = len(waiting) - room
    return [table, *([Text(f"and {more} more", style="dim")] if more > 0 else [])]


def _wish(job: Row) -> str:
    request = job["request"]
    gpus = request["gpus"] * job["tasks"]
    return f"{gpus} GPU{'s' if gpus != 1 else ''} of {plain(job['partition'])}"


def _action(advice: Row | None) -> Text:
    if advice is None:
        return Text("-", style="dim")
    if advice["action"] == "start":
        return Text(f"start on {_where(advice)}", style="bold green")
    return Text(advice["action"], style="yellow" if advice["action"] == "hold" else "dim")


def _where(advice: Row) -> str:
    placement = advice["placement"]
    if not placement:
        return "-"
    return " ".join(f"{plain(node)}:{gpus}" for node, gpus in
                    zip(placement["nodes"], placement["gpus"], strict=True))


def _told(advice: Row | None) -> str:
    if advice is None:
        return "no advice yet"
    return f"{_action(advice).plain} - {plain(advice['reason'])} [{plain(advice['policy'])}]"


def _sources(picture: Picture) -> list[Text]:
    return [_source(row) for row in picture.sources] or [Text("none", style="dim")]


def _source(row: Row) -> Text:
    targets: Sequence[Row] = row["targets"]
    answering = sum(bool(target["up"]) for target in targets)
    health = f"{answering} of {len(targets)} targets up" if targets else "up" if row["up"] else "down"
    broken = row["error"] or _first_error(targets)
    good = row["up"] and answering == len(targets)
    return Text.assemble((f"{plain(row['name'])}  ", "bold"), (health, "green" if good else "red"),
                         (f"  {plain(broken)}" if broken else "", "red"), no_wrap=True, overflow="ellipsis")


def _first_error(targets: Iterable[Row]) -> str:
    return next((f"{target['target']}: {target['error']}" for target in targets if target["error"]), "")
