"""The API of recorded energy by job, user and node. The command line and the pages show these same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import TypeAdapter
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import NotFound

from ...storage.energy_prices import EnergyPrice
from ...storage.energy_queries import DIMENSIONS, MOST_COUNTED, ORDERS, Dimension, Order, RunFilter
from ...storage.notices import STATES, Notice
from ...storage.power_classes import WASTED, PowerClass
from ...storage.records import Job, JobState
from ..advice.job_wait_estimate import JobWaitEstimate
from ..efficiency import EnergyBook, EnergyRow, HolderRow, JobReport, JobRow, digest_pages
from ..efficiency.digest import digest
from ..efficiency.namesakes import EVERY, holds
from ..flavour_rows import FlavourRow
from ..moments import moment_of
from ..pricing import KWH_J
from .api import ENDPOINTS, LONGEST_FILTER, BadData, dumps
from .view import NodeRow, View

MOST_ROWS = 10_000
ROWS = 100
FURTHEST = 1_000_000
DEFAULT_SINCE = "7d"
Arguments = MultiDict[str, str]

SPAN = {"since": "From when on: an age (`7d`, `12h`), a day (`2026-10-01`) or seconds since the epoch.",
        "until": "Until when, in the same words; now by default."}
HOLDERS = {"user": "Only this user.", "account": "Only this account.", "partition": "Only this partition."}
CLASS = {"class": "What counts as wasted, more than once if need be; all wasted classes by default."}
PAGE = {"limit": f"Most rows to return, {ROWS} by default.", "offset": "How many rows to leave out first."}
CHOICES: Mapping[str, Sequence[str]] = {"state": tuple(JobState), "sort": ORDERS, "by": DIMENSIONS,
                                        "class": tuple(PowerClass)}


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node: as it is now, what it took, and which jobs run on it."""

    name: str
    now: NodeRow | None
    """None when the scheduler no longer lists it."""
    days: tuple[EnergyRow, ...]
    """What it took, in one row a span: the last."""
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class EnergyAnswer:
    """Rows, and how many there are in all where some were left out."""

    rows: Sequence[object]
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One question to the history."""

    name: str
    path: str
    """With its variable part, if it has one, as ``{name}``."""
    help: str
    row: TypeAdapter[Any]
    parameters: Mapping[str, str]
    ask: Callable[[View, EnergyBook, Arguments, str], EnergyAnswer]
    choices: Mapping[str, Sequence[str]] = field(default_factory=lambda: CHOICES)


def answer(query: Query, view: View, arguments: Arguments, name: str = "") -> str:
    """Return the answer as JSON; raise BadData for what makes no sense, NotFound for what nobody knows."""
    for given in arguments:
        if given not in query.parameters:
            raise BadData(f"unknown parameter {given[:40]!r}; this path knows {', '.join(query.parameters)}")
        for value in arguments.getlist(given):
            _check(given, value, query.choices)
    result = query.ask(view, view.book(), arguments, name)
    envelope: dict[str, object] = {"status": "success", "data": query.row.dump_python(tuple(result.rows), mode="json")}
    if result.total is not None and result.total > len(result.rows):
        envelope["warnings"] = [f"{len(result.rows)} of {_many(result.total)} rows; the others with limit and offset"]
    return dumps(envelope)


def _many(total: int) -> str:
    return f"more than {MOST_COUNTED}" if total > MOST_COUNTED else str(total)


def _check(name: str, value: str, choices: Mapping[str, Sequence[str]]) -> None:
    if len(value) > LONGEST_FILTER:
        raise BadData(f"{name} is longer than {LONGEST_FILTER} characters")
    if name in choices and value not in choices[name]:
        raise BadData(f"{name} must be one of {', '.join(choices[name])}, not {value[:40]!r}")


def moment(text: str, now_s: float) -> float:
    """Return the moment that an age, a day or seconds since the epoch name; raise BadData."""
    try:
        return moment_of(text, now_s)
    except ValueError as error:
        raise BadData(str(error)) from error


def _since(arguments: Arguments, now_s: float) -> float:
    """Return the first moment of a request; raise BadData for one in the future."""
    moment_s = moment(arguments.get("since", DEFAULT_SINCE), now_s)
    if moment_s > now_s:
        raise BadData("since lies in the future")
    return moment_s


def wanted(arguments: Arguments, now_s: float) -> RunFilter:
    """Return which runs the arguments ask for."""
    until_s = moment(arguments["until"], now_s) if "until" in arguments else None
    since_s = moment(arguments.get("since", DEFAULT_SINCE), now_s if "since" in arguments or until_s is None
                     else until_s)
    if since_s > now_s:
        raise BadData("since lies in the future")
    if until_s is not None and until_s < since_s:
        raise BadData("until lies before since")
    classes = tuple(PowerClass(name) for name in dict.fromkeys(arguments.getlist("class")))
    least = arguments.get("min_kwh", "0")
    if not least.replace(".", "", 1).isdigit() or not least.isascii():
        raise BadData(f"min_kwh must be a number, not {least[:40]!r}")
    return RunFilter(since_s, until_s, arguments.get("user", ""), arguments.get("account", ""),
                     arguments.get("partition", ""), arguments.get("state", ""), arguments.get("search", ""),
                     arguments.get("software", ""),
                     min(float(least), 1e9) * KWH_J, classes or WASTED)


def whole(arguments: Arguments, name: str, default: int, most: int) -> int:
    """Return a whole number among the arguments."""
    text = arguments.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 8 and int(text) <= most):
        raise BadData(f"{name} must be a whole number up to {most}, not {text[:40]!r}")
    return int(text)


def _runs(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    limit = whole(arguments, "limit", ROWS, MOST_ROWS)
    offset = whole(arguments, "offset", 0, FURTHEST)
    order = cast(Order, arguments.get("sort", "ended"))
    rows, total = book.runs(wanted(arguments, view.now()), order, limit, offset)
    return EnergyAnswer(rows, total - offset)


def _by(by: Dimension | Literal[""]) -> Callable[[View, EnergyBook, Arguments, str], EnergyAnswer]:
    def ask(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
        dimension = by or cast(Dimension, arguments.get("by", "user"))
        holders = [key for key in HOLDERS if key in arguments]
        if dimension == "node" and holders:
            raise BadData(f"by=node does not know {', '.join(holders)}: nodes are not told apart by who holds them")
        return EnergyAnswer(book.by(dimension, wanted(arguments, view.now()), whole(arguments, "limit", 1000,
                                                                                    MOST_ROWS)))

    return ask


def _job(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    return EnergyAnswer(job_reports(view, book, arguments, name))


def job_reports(view: View, book: EnergyBook, arguments: Arguments, name: str) -> tuple[JobReport, ...]:
    """Return the reports of a job, or of each of one id on several clusters; raise ``NotFound`` where there is none."""
    reports = book.reports(name, view.jobs(), holders_of(arguments))
    if not reports:
        raise NotFound(f"no job {name[:40]!r}{_named(arguments)} is known")
    return reports


def holders_of(arguments: Arguments) -> RunFilter:
    """Return the user, account and partition that tell which job of an id is meant."""
    return RunFilter(user=arguments.get("user", ""), account=arguments.get("account", ""),
                     partition=arguments.get("partition", ""))


def _named(arguments: Arguments) -> str:
    """Return user, account and partition in words."""
    return "".join(f", {key} {arguments[key][:40]!r}," for key in HOLDERS if key in arguments)


def node_report(view: View, book: EnergyBook, name: str, selection: RunFilter) -> NodeReport | None:
    """Return what is known of a node; None when nothing is."""
    now = next((row for row in view.nodes() if row.node.name == name), None)
    took = tuple(row for row in book.by("node", selection) if row.name == name)
    if now is None and not took:
        return None
    jobs = tuple(job for job in view.jobs() if job.state.active and any(
        part.node == name for part in job.allocations))
    return NodeReport(name, now, took, jobs)


def _node(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    report = node_report(view, book, name, wanted(arguments, view.now()))
    if report is None:
        raise NotFound(f"no node {name[:40]!r} is known")
    return EnergyAnswer((report,))


def _wait(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    estimates, selection = view.wait_estimates(name), holders_of(arguments)
    if selection != EVERY:
        named = {job.key for job in view.jobs() if holds(job, selection)}
        estimates = [estimate for estimate in estimates if (estimate.job_id, estimate.submit_s) in named]
    if not estimates:
        raise NotFound(f"no job {name[:40]!r}{_named(arguments)} waits, as far as the scheduler was read")
    return EnergyAnswer(estimates)


def _wasters(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    return EnergyAnswer(*book.wasters(view.waste(), view.jobs(), whole(arguments, "limit", ROWS, MOST_ROWS)))


def _digest(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    selection, account = wanted(arguments, view.now()), arguments.get("account", "")
    until_s = view.now()
    return EnergyAnswer((digest(book, selection.since_s, until_s, account, None if account else view.saved()),))


def _notices(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    since_s = _since(arguments, view.now())
    states = set(arguments.getlist("state"))
    rows = [row for row in view.notices(since_s, arguments.get("user", "")) if not states or row.state in states]
    return EnergyAnswer(rows[:whole(arguments, "limit", 1000, MOST_ROWS)], len(rows))


def _flavours(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    return EnergyAnswer(view.flavours(_since(arguments, view.now())))


def _prices(view: View, book: EnergyBook, arguments: Arguments, name: str) -> EnergyAnswer:
    since_s = _since(arguments, view.now())
    until_s = moment(arguments["until"], view.now()) if "until" in arguments else view.now()
    return EnergyAnswer(book.history.energy_prices(since_s, until_s, whole(arguments, "limit", 1000, MOST_ROWS)))


QUERIES: Mapping[str, Query] = {query.name: query for query in (
    Query("runs", "jobs", "With `since`, `sort` or the like: recorded runs with what they took, newest first.",
          TypeAdapter(tuple[JobRow, ...]), SPAN | HOLDERS | CLASS | PAGE | {
              "state": "State in which it ended, or is.", "sort": "By what: the most first.",
              "search": "Part of the id, the user or the name.", "min_kwh": "Those that took at least so much.",
              "software": "Part of the container image, the framework or the version of CUDA."},
          _runs),
    Query("job", "jobs/{job}", "A job with all that is known of its runs: energy, use, notes, timeline. Of an array, "
          "its tasks. Where several clusters have a job of that id, each of them: name one by its partition, user or "
          "account.", TypeAdapter(tuple[JobReport, ...]), HOLDERS, _job),
    Query("wait", "waits/{wait}", "A job that waits: when it starts, what stands before it, which smaller request "
          "would start now. Where several clusters have a waiting job of that id, each of them: name one by its "
          "partition, user or account.", TypeAdapter(tuple[JobWaitEstimate, ...]), HOLDERS, _wait),
    Query("energy", "waste", "With `since`, `by` or the like: what users, accounts, jobs, ... took over whole days "
          "(UTC). The rows of all but jobs and flavours add up to the cluster; '' is what nobody held. Jobs of one id "
          "on several clusters are rows of their own, each with its partition.",
          TypeAdapter(tuple[EnergyRow, ...]), SPAN | HOLDERS | CLASS | {
              "by": "What to add up; user by default.", "limit": "Most rows to return, 1000 by default."}, _by("")),
    Query("users", "users", "What each user took over whole days (UTC), the most wasteful first; '' is what nobody "
          "held.", TypeAdapter(tuple[EnergyRow, ...]), SPAN | CLASS | {
              "account": HOLDERS["account"], "partition": HOLDERS["partition"],
              "limit": "Most rows to return, 1000 by default."}, _by("user")),
    Query("node", "nodes/{node}", "A node: as it is now, what it took, who runs on it.",
          TypeAdapter(tuple[NodeReport, ...]), SPAN, _node),
    Query("wasters", "wasters", "Running jobs that waste power now, the most wasteful first, each with what to do.",
          TypeAdapter(tuple[HolderRow, ...]), {"limit": PAGE["limit"]}, _wasters),
    Query("digest", "digest", "What a span took and wasted beside the one before, the best and the worst of it, and "
          "what advice would have saved; whole days (UTC).", digest_pages.ADAPTER, {
              "since": SPAN["since"], "account": HOLDERS["account"]}, _digest),
    Query("prices", "prices", "What a kWh cost, and what carbon it meant, by quarters of an hour as it was booked with "
          "the energy, the newest first; null where nobody knew it.", TypeAdapter(tuple[EnergyPrice, ...]), SPAN | {
              "limit": "Most rows to return, 1000 by default."}, _prices),
    Query("flavours", "flavours", "What users may ask for under a name, or the sizes that occur with their limits: how "
          "often since when, what waits and runs, what no partition can hold; '' are jobs of none.",
          TypeAdapter(tuple[FlavourRow, ...]), {"since": SPAN["since"]}, _flavours),
    Query("notices", "notices", "Notices that were sent or would have been sent, with user and job, the newest first.",
          TypeAdapter(tuple[Notice, ...]), {
              "since": SPAN["since"], "user": HOLDERS["user"], "state": "What became of it.",
              "limit": "Most rows to return, 1000 by default."}, _notices, {"state": STATES}),
)}
RECORDED = {"jobs": "runs", "waste": "energy"}
"""Paths of today's state that answer from the history when one of its own parameters is given."""


def recorded(name: str, arguments: Arguments) -> Query | None:
    """Return the query of the history that a path of today's state stands for, if it does."""
    query, now = QUERIES.get(RECORDED.get(name, "")), (*ENDPOINTS[name].filters, "limit")
    if query and any(argument in query.parameters and argument not in now for argument in arguments):
        return query
    return None
