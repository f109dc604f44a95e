"""What the landing page shows: the watts by class, the pending jobs, the sources; in a person's words and units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files

from jinja2 import Environment, FunctionLoader

from ...exporters.hostlist import ranges
from ...storage.eligibility import named_reason
from ...storage.errors import StoreError
from ...storage.power_classes import UNUSED_PART, UNUSED_PART_HELP, PowerClass
from ...storage.power_down import PowerDown
from ...storage.recommendations import ACTIONS, Placement, Recommendation
from ...storage.records import Job, JobState
from ...storage.underuse import Underuse
from ..advice.recommenders.power_down import idle_text
from ..causes import label
from ..efficiency import HolderRow
from ..efficiency.wasters import wasters
from ..headline import Balance, HeadlineRow, Scope, balance, percent, scope, watts
from ..waste.domains import domains
from . import units
from .view import ModelRow, NodeRow, Status, View, WasteRow

MOST_JOBS = 50
MOST_PARTITIONS = 20
MOST_NODES = 20
MOST_NAMED = 4
MOST_WASTERS = 15
REFRESH_S = 10
MOST_ALIKE_S = 60.0
"""A smaller change in wait is none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One class in a bar; ``x`` and ``width`` are thousandths of it."""

    name: str
    label: str
    meaning: str
    watts: float
    share: float
    wasted: bool
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class PartitionBar:
    """The watts of a partition, or of all of them, by class."""

    name: str
    balance: Balance
    slices: tuple[Slice, ...]

    @property
    def watts(self) -> float:
        """Return all watts."""
        return self.balance.total

    @property
    def wasted_watts(self) -> float:
        """Return the watts that are wasted, at least."""
        return self.balance.wasted



@dataclass(frozen=True, slots=True)
class Pending:
    """A pending job and what is advised for it; advice is None until there is some."""

    job: Job
    advice: Recommendation | None


def bar(name: str, parts: Iterable[HeadlineRow], within: Scope | None = None) -> PartitionBar:
    """Return the bar of the parts: wasted classes first, empty ones left out; ``within`` as of ``balance``."""
    sums = balance(parts, within)
    slices, x, total = [], 0.0, sums.total
    for row, power in sums.watts.items():
        if not power or not total:
            continue
        share = power / total
        slices.append(Slice(row.value, row.label, f"{row.help} {row.remedy}".strip(), power, share, row.wasted,
                            round(1000 * x, 2), round(1000 * share, 2)))
        x += share
    return PartitionBar(name, sums, tuple(slices))


def bars(rows: Sequence[WasteRow]) -> tuple[PartitionBar, list[PartitionBar]]:
    """Return the bar of all rows, and one per partition, the most wasteful first."""
    parts = [_part(row) for row in rows]
    partitions: dict[str, list[HeadlineRow]] = {}
    for row, part in zip(rows, parts, strict=True):
        partitions.setdefault(row.partition, []).append(part)
    within = scope(parts)
    return bar("", parts, within), sorted((bar(name, bar_parts, within) for name, bar_parts in partitions.items()),
                                          key=lambda drawn: (-drawn.balance.reported, drawn.name))


def part_of(rows: Sequence[WasteRow]) -> PartitionBar:
    """Return the bar of some of the rows, by themselves."""
    return bar("", map(_part, rows))


def _part(row: WasteRow) -> HeadlineRow:
    return HeadlineRow(row.node, row.power_class, row.power_watts, row.gpu is not None, row.power_source,
                       row.unused_power_watts)


def pending(view: View) -> list[Pending]:
    """Return pending jobs: those to start now, then those with advice to wait, then the others, the oldest first."""
    advice: dict[tuple[str, float], Recommendation] = {}
    for recommendation in view.recommendations():
        if not recommendation.shadow:
            advice.setdefault((recommendation.job_id, recommendation.submit_s), recommendation)
    rows = [Pending(job, advice.get(job.key)) for job in view.jobs() if job.state == JobState.PENDING]
    return sorted(rows, key=lambda row: (_urgency(row.advice), row.job.submit_s, row.job.job_id))


def _urgency(advice: Recommendation | None) -> int:
    return len(ACTIONS) if advice is None else ACTIONS.index(advice.action)


def span(seconds: float) -> str:
    """Return a length of time in its two largest units."""
    left = int(max(0.0, min(seconds, 1e10)))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])


def day(seconds: float | None) -> str:
    """Return a moment as day and minute, UTC."""
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def change(advice: Recommendation) -> str:
    """Return how much sooner or later a job starts than it would without the advice; '' when nobody knows."""
    seconds = advice.wait_change_s
    if seconds is None:
        return ""
    if abs(seconds) < MOST_ALIKE_S:
        return "as soon as without the advice"
    ends = [] if advice.interval_s is None else [*map(_signed, advice.interval_s)]
    interval = f" (95 %: {' to '.join(ends)})" if len(set(ends)) > 1 else ""
    return f"{span(abs(seconds))} {'sooner' if seconds < 0 else 'later'} than without the advice{interval}"


def within(advice: Recommendation, now_s: float) -> str:
    """Return in which interval a job starts in nine of ten futures; '' where nobody knows, or its ends read alike."""
    if advice.start_interval_s is None:
        return ""
    low_s, high_s = advice.start_interval_s
    first, last = span(max(0.0, low_s - now_s)), None if high_s is None else span(high_s - now_s)
    interval = f"{first} or more" if last is None else f"{first} to {last}"
    return "" if first == last else f", in nine of ten futures {interval}"


def gpus(advice: Recommendation, place: int) -> str:
    """Return how many GPUs of a node of the placement to take, and which, where that is known."""
    number = advice.placement.gpus[place] if advice.placement else 0
    return f"{number} ({ranges(advice.gpu_indexes[place])})" if advice.gpu_indexes else str(number)


def closeness(advice: Recommendation) -> str:
    """Return what the placement costs in communication beside others; '' where no GPU has another to talk to."""
    cost = advice.communication_cost
    if cost is None or advice.placement is None or sum(advice.placement.gpus) < 2:
        return ""
    best = [other for other in advice.alternatives if other.relative_speed is None][:1]  # scattered GPUs come after
    others = [f"{other.communication_cost:.3g} on {named(other.placement)}"
              for other in best if other.communication_cost is not None]
    return "; ".join((f"{cost:.3g}", *others))


def speedup(advice: Recommendation) -> str:
    """Return how fast the job is expected to run beside scattered GPUs; '' where no such job was measured."""
    return next((f"{1 / other.relative_speed:.2g} times as fast as on {named(other.placement)}, {other.reason}"
                 for other in advice.alternatives if other.relative_speed), "")


def named(placement: Placement) -> str:
    """Return the nodes of a placement, of many the first."""
    more = " …" if len(placement.nodes) > MOST_NAMED else ""
    return ", ".join(placement.nodes[:MOST_NAMED]) + more


def _signed(seconds: float) -> str:
    return ("\N{MINUS SIGN}" if seconds < 0 else "+") + span(abs(seconds))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _source(name: str) -> str:
    return files("idlewatt.daemon").joinpath("templates", name).read_text()


TEMPLATES = Environment(loader=FunctionLoader(_source), autoescape=True, trim_blocks=True, lstrip_blocks=True)
TEMPLATES.filters |= {"energy": units.energy, "day": day, "money": units.money,
                      "of_currency": units.of_currency, "carbon": units.carbon,
                      "beside": units.beside, "job_path": units.job_path, "counted": units.counted,
                      "user_path": units.user_path, "node_path": units.node_path, "watts": watts, "percent": percent,
                      "span": span, "change": change, "within": within, "gpus": gpus, "closeness": closeness,
                      "speedup": speedup, "idle": idle_text, "capitalized": _capitalized, "cause": label,
                      "named_reason": named_reason}


def render(view: View, telemetry_path: str) -> str:
    """Return the landing page as HTML."""
    rows, waiting, nodes = view.waste(), pending(view), view.nodes()
    (total, partitions), spare, outside, status = bars(rows), _spare(nodes), _outside(rows), view.status()
    wasters, wasting = _wasters(view, rows)
    return TEMPLATES.get_template("index.html").render(
        version=version("idlewatt"), telemetry_path=telemetry_path.lstrip("/"), refresh_s=REFRESH_S, now=view.now(),
        total=total, missing=_only(status), status=status, troubled=_troubled(status),
        unused_part=UNUSED_PART, unused_help=UNUSED_PART_HELP,
        bars=partitions[:MOST_PARTITIONS], more_partitions=max(0, len(partitions) - MOST_PARTITIONS),
        leader=_leader(view), unfit=_unfit(view), causes=_causes(view),
        wasters=wasters, more_wasters=wasting - len(wasters),
        pending=waiting[:MOST_JOBS], more_jobs=max(0, len(waiting) - MOST_JOBS),
        spare=spare[:MOST_NODES], idle=_idle(view), more_spare=max(0, len(spare) - MOST_NODES),
        unknown_spare=sum(bool(row.unknown_use) for row in nodes),
        outside=outside[:MOST_NODES], more_outside=max(0, len(outside) - MOST_NODES), nodes=nodes,
        racks=view.racks()[:MOST_NODES], more_racks=max(0, len(view.racks()) - MOST_NODES), **_nvlink(nodes, status),
        sources=view.sources())


def _wasters(view: View, rows: Sequence[WasteRow]) -> tuple[Sequence[HolderRow], int]:
    """Return jobs that waste now with their cost so far; without cost while the history cannot be read."""
    try:
        return view.book().wasters(rows, view.jobs(), MOST_WASTERS)
    except StoreError:
        holders = wasters(rows, view.jobs())
        return holders[:MOST_WASTERS], len(holders)


def _causes(view: View) -> dict[tuple[str, float], Underuse]:
    """Return why GPUs of running jobs are underused, by id and submission."""
    return {(row.job_id, row.submit_s): row for row in view.recommended("causes") if isinstance(row, Underuse)}


def _only(status: Status) -> list[str]:
    """Return what is missing and not among what is degraded: nothing is shown twice."""
    degraded = {condition.words for condition in status.degraded}
    return [what for what in status.missing if what not in degraded]


def _troubled(status: Status) -> dict[str, str]:
    """Return the words on each source that is late or slow while its last read went well."""
    return {condition.subject: condition.words for condition in status.degraded
            if condition.cause in ("source_slow", "targets_slow")}


def _nvlink(nodes: Sequence[NodeRow], status: Status) -> dict[str, object]:
    """Return the NVLink domains, the broken ones first, since these are what can be mended.

    Which GPUs are free is what the scheduler says: while it is not read, domains have no other row.
    """
    nvlink_domains = sorted(domains(row.node for row in nodes),
                            key=lambda domain: (domain.state != "broken", domain.name))
    if unread := [condition.words for condition in status.degraded
                  if nvlink_domains and condition.cause == "scheduler_unread"]:
        return {"domains_unknown": "; ".join(unread)}
    return {"domains": nvlink_domains[:MOST_NODES], "more_domains": max(0, len(nvlink_domains) - MOST_NODES),
            "broken": [domain for domain in nvlink_domains if domain.state == "broken"]}


def _leader(view: View) -> ModelRow | None:
    return next((row for row in view.models() if row.state == "active"), None)


def _unfit(view: View) -> dict[str, list[str]]:
    """Return the heuristics that are no candidates, by the reason."""
    reasons = dict[str, list[str]]()
    for row in view.models():
        if row.state == "not a candidate" and "@" not in row.model:
            reasons.setdefault(row.reason, []).append(row.model)
    return reasons


def _spare(nodes: Sequence[NodeRow]) -> list[NodeRow]:
    return [row for row in nodes if row.power_down]


def _idle(view: View) -> dict[str, PowerDown]:
    """Return until when nodes are not needed, by node."""
    return {node: row for row in view.recommended("power_down") if isinstance(row, PowerDown) for node in row.nodes}


def _outside(rows: Iterable[WasteRow]) -> list[WasteRow]:
    """Return the GPUs that are in use outside the scheduler, the longest first."""
    outside = [row for row in rows if row.power_class is PowerClass.OUTSIDE_SCHEDULER and row.gpu is not None]
    return sorted(outside, key=lambda row: (row.since_s or 0.0, row.node, row.gpu or 0))
