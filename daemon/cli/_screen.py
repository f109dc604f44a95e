"""The output of ``live``: the answers of the daemon's API, drawn for a terminal or as plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ...storage.power_classes import UNUSED_PART, PowerClass
from ...storage.records import JobState
from ..headline import Balance, HeadlineRow, balance, percent, watts
from ._output import Row, plain

NARROW = 76
"""Width below which the second half of every line is omitted, columns."""
LABEL = max(len(row.label) for row in PowerClass)
MOST_OUTSIDE = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """The daemon's answers at one moment."""

    waste: Sequence[Row]
    recommendations: Sequence[Row]
    jobs: Sequence[Row]
    sources: Sequence[Row]
    status: Row = field(default_factory=dict)
    """The daemon's status row; empty for a daemon that is too old to report one."""

    @classmethod
    def take(cls, ask: Callable[[str], Sequence[Row]], status: Callable[[], Row]) -> Picture:
        """Request all four lists and the status."""
        waste, recommendations, jobs, sources = map(ask, ("waste", "recommendations", "jobs", "sources"))
        return cls(waste, recommendations, jobs, sources, status())

    @property
    def degraded(self) -> list[str]:
        """Return everything that is degraded in the daemon, one line each."""
        return [f"degraded: {plain(cause['words'])}" for cause in self.status.get("degraded", ())]

    @property
    def balance(self) -> Balance:
        """Return the watts by class, and the unmeasured part."""
        return balance(map(HeadlineRow.of_json, self.waste))

    @property
    def outside(self) -> list[Row]:
        """Return the GPUs in use outside the scheduler."""
        return [row for row in self.waste
                if row["power_class"] == PowerClass.OUTSIDE_SCHEDULER and row.get("gpu") is not None]

    @property
    def pending(self) -> list[tuple[Row, Row | None]]:
        """Return pending jobs with the active advice: those to start now first, then the oldest."""
        advice = {(row["job_id"], row["submit_s"]): row for row in self.recommendations if not row["shadow"]}
        waiting = [(job, advice.get((job["job_id"], job["submit_s"]))) for job in self.jobs
                   if job["state"] == JobState.PENDING]
        return sorted(waiting, key=lambda pair: (pair[1] is None or pair[1]["action"] != "start", pair[0]["submit_s"]))


def screen(picture: Picture, width: int, height: int, footer: Sequence[str] = ()) -> RenderableType:
    """Return the answers drawn for a terminal of ``width`` columns and ``height`` lines."""
    sums = picture.balance
    bars, outside, sources = _bars(sums, width), _outside(picture), _sources(picture)
    # Title, two rules, the table's heading and the line that counts what was left out.
    room = max(1, height - bars.row_count - len(outside) - len(sources) - len(footer) - len(picture.degraded) - 6)
    wrong = [Text(line, style="bold red", no_wrap=True, overflow="ellipsis") for line in picture.degraded]
    return Group(_title(sums), *wrong, bars, *(Text(line, no_wrap=True, overflow="ellipsis") for line in outside),
                 Rule("Pending jobs", style="dim", align="left"),
                 *_pending(picture, width, room), Rule("Sources", style="dim", align="left"), *sources,
                 *(Text(line, style="cyan", no_wrap=True, overflow="ellipsis") for line in footer))


def summary(picture: Picture) -> Iterator[str]:
    """Yield the answers as plain lines, for logs and pipes."""
    sums = picture.balance
    yield sums.sentence
    for row in _drawing(sums):
        yield f"  {row.label:<{LABEL}} {row.words:>9}  {row.share:>6}"
    yield from (f"  {line}" for line in _outside(picture))
    for job, advice in picture.pending:
        yield f"  job {plain(job['job_id'])} ({_wish(job)}): {_told(advice, picture.status)}"
    yield from (f"  source {line.plain}" for line in _sources(picture))


class DrawnRow(NamedTuple):
    """Watts of a class, or of a part of the class above it."""

    label: str
    power: float
    words: str
    share: str
    style: str


def _drawing(sums: Balance) -> Iterator[DrawnRow]:
    """Yield the classes that have any watts, and below a class, indented, its unused part."""
    for row, power in sums.watts.items():
        if power > 0.0:
            yield DrawnRow(row.label, power, watts(power), percent(power / sums.total), _style(row))
            if row is PowerClass.HOST_ACTIVE and (sums.unused or sums.dark_busy):
                share = percent(sums.unused / sums.total) if sums.unused else ""
                yield DrawnRow(f"  {UNUSED_PART}", sums.unused, sums.unused_text, share, "yellow")


def _title(sums: Balance) -> Text:
    return Text.assemble(("idlewatt  ", "bold"), (sums.sentence, "bold yellow"), no_wrap=True, overflow="ellipsis")


def _outside(picture: Picture) -> list[str]:
    """Return one line on GPUs that are busy although no job holds them, if there are any."""
    names = [f"{plain(row['node'])} GPU {row['gpu']}" for row in picture.outside]
    more = f" and {len(names) - MOST_OUTSIDE} more" if len(names) > MOST_OUTSIDE else ""
    return [f"in use outside the scheduler: {', '.join(names[:MOST_OUTSIDE])}{more}"] if names else []


def _bars(sums: Balance, width: int) -> Table:
    most = max(sums.watts.values(), default=1.0)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    cells = max(4, width - LABEL - 20)
    for row in _drawing(sums):
        cell = max(1, round(cells * row.power / most)) if row.power else 0
        table.add_row(Text(row.label, style=row.style), row.words, row.share, Text("█" * cell, style=row.style))
    return table


def _style(row: PowerClass) -> str:
    if row.wasted:
        return "red" if row.held else "yellow"
    return "green" if row.kind == "useful" else "bright_black"


def _pending(picture: Picture, width: int, room: int) -> list[RenderableType]:
    waiting, silent = picture.pending, picture.status.get("no_advice", "")
    if not waiting:
        return [Text(plain(silent or "none"), style="dim")]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0), expand=True)
    for heading in ("job", "user", "asks for", "advice"):
        table.add_column(heading, no_wrap=True)
    if width >= NARROW:
        table.add_column("because", no_wrap=True, overflow="ellipsis", ratio=1)
    for job, advice in waiting[:room]:
        cells = [Text(plain(job["job_id"])), Text(plain(job["user"])), Text(_wish(job)), _action(advice)]
        table.add_row(*cells, *([Text(plain(advice["reason"] if advice else silent))] if width >= NARROW else []))
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


def _told(advice: Row | None, status: Row) -> str:
    if advice is None:
        return plain(status.get("no_advice") or "no advice yet")
    return f"{_action(advice).plain} - {plain(advice['reason'])} [{plain(advice['policy'])}]"


def _sources(picture: Picture) -> list[Text]:
    late = {condition["subject"]
            for condition in picture.status.get("degraded", ()) if condition["cause"] == "source_slow"}
    return [_source(row, row["name"] in late) for row in picture.sources] or [Text("none", style="dim")]


def _source(row: Row, late: bool) -> Text:
    targets: Sequence[Row] = row["targets"]
    answering = sum(bool(target["up"]) for target in targets)
    health = f"{answering} of {len(targets)} targets up" if targets else "up" if row["up"] else "down"
    broken = row["error"] or _first_error(targets)
    good = row["up"] and answering == len(targets) and not late
    return Text.assemble((f"{plain(row['name'])}  ", "bold"), (health, "green" if good else "red"),
                         (f"  {plain(broken)}" if broken else "", "red"), no_wrap=True, overflow="ellipsis")


def _first_error(targets: Iterable[Row]) -> str:
    return next((f"{target['target']}: {target['error']}" for target in targets if target["error"]), "")
