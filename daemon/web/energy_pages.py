"""The pages of jobs, users and nodes: rendered by the server, whole without JavaScript, charts as inline SVG."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import cast
from urllib.parse import urlencode

import numpy as np
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import NotFound

from ...storage.energy_queries import ORDERS, Order
from ...storage.power_classes import WASTED, PowerClass
from ...storage.records import Job, JobState
from .. import charts
from ..advice.job_wait_estimate import JobWaitEstimate
from ..advice.job_wait_worker import NotYet
from ..charts import Chart, Mark
from ..efficiency import ChartSeries, EnergyRow, JobReport
from ..pricing import KWH_J
from .api import BadData
from .energy_api import DEFAULT_SINCE, FURTHEST, job_reports, node_report, wanted, whole
from .page import TEMPLATES, part_of
from .units import money
from .view import View, WasteRow

Arguments = MultiDict[str, str]
Page = Callable[[View, Arguments, str, str], str]
"""From the view, the arguments, a name and the way back to the root of the site to HTML."""

ROWS = 50
MOST_LIVE = 50
MOST_GPUS = 16
"""GPUs of a job that are drawn."""
PATIENCE_S = 0.05
"""How long a page waits for a wait estimate; it then says that it is coming, and asks again by itself."""
SPANS = ("1d", "7d", "30d", "90d", "365d")
KNOWN = ("since", "until", "user", "account", "partition", "state", "search", "software", "min_kwh", "sort", "offset")
STATES = tuple(state.value for state in JobState if state.finished or state.active)
HEIGHT = 220


@dataclass(frozen=True, slots=True)
class GpuNow:
    """A GPU of a node as it is now."""

    gpu: int
    classes: Mapping[PowerClass, float | None]
    """Its watts by class; None where they were not measured."""
    watts: float | None
    activity: float | None
    holders: tuple[tuple[str, str], ...]
    """Job and user of each that holds it, or a part of it."""


def jobs_page(view: View, arguments: Arguments, name: str, root: str) -> str:
    """Return the recorded jobs that the arguments ask for."""
    given = {key: arguments[key] for key in KNOWN if arguments.get(key)}
    if given.get("sort", "ended") not in ORDERS:
        raise BadData(f"sort must be one of {', '.join(ORDERS)}")
    offset = whole(arguments, "offset", 0, FURTHEST) if "offset" in given else 0
    order = cast(Order, given.get("sort", "ended"))
    rows, total = view.book().runs(wanted(MultiDict(given), view.now()), order, ROWS, offset)
    live = _live(view, given) if not offset else []
    return _render("jobs.html", view, root, live=live[:MOST_LIVE], more_live=len(live) - MOST_LIVE, rows=rows,
                   total=total, offset=offset, given=given, spans=SPANS, orders=ORDERS, states=STATES,
                   api_query=_api_query(given), last=offset + len(rows), since=given.get("since", DEFAULT_SINCE),
                   order=order, earlier=_query(given, offset - ROWS) if offset else "",
                   later=_query(given, offset + ROWS) if offset + len(rows) < total else "")


def _live(view: View, given: Mapping[str, str]) -> list[Job]:
    """Return the jobs that wait or run now and are looked for by name: in no record is one before it has run."""
    text, state = given.get("search", ""), given.get("state", "")
    holders = {name: given[name] for name in ("user", "account", "partition") if name in given}
    if not (text or holders or state) or any(name in given for name in ("min_kwh", "software", "until")):
        return []
    return [job for job in view.jobs() if not job.state.finished and state in ("", job.state)
            and any(text in word for word in (job.job_id, job.user, job.name))
            and all(getattr(job, name) == value for name, value in holders.items())]


def _api_query(given: Mapping[str, str]) -> str:
    """Return the same question to the API, which answers about recorded jobs only with ``since``."""
    return urlencode({"since": DEFAULT_SINCE, "limit": str(ROWS), **given})


def _query(given: Mapping[str, str], offset: int) -> str:
    parameters = {key: value for key, value in given.items() if key != "offset"}
    return urlencode(parameters | ({"offset": str(max(0, offset))} if offset > 0 else {}))


def job_page(view: View, arguments: Arguments, name: str, root: str) -> str:
    """Return the page of a job, or of the tasks of an array."""
    reports = job_reports(view, view.book(), arguments, name)
    advice = {row.submit_s: row for row in view.recommendations() if row.job_id == name and not row.shadow}
    waits = any(report.job.state is JobState.PENDING for report in reports)
    wait_estimates, awaited = _wait_estimates(view, name) if waits else ({}, False)
    namesakes = {report.job.key: report.job for report in reports if report.job.job_id == name}
    return _render("job.html", view, root, name=name, reports=reports, pue=view.book().costing.pue,
                   advised=[advice.get(report.job.submit_s) for report in reports], namesakes=list(namesakes.values()),
                   wait_estimates=wait_estimates, awaited=awaited,
                   faults=[gpu_faults(view, report.job) for report in reports],
                   power=[_power(report) for report in reports], gpus=[_activity(report) for report in reports])


def _wait_estimates(view: View, name: str) -> tuple[Mapping[tuple[str, float], JobWaitEstimate], bool]:
    """Return wait estimates by job, and whether they are still being worked out: the page does not wait for them."""
    try:
        return {(estimate.job_id, estimate.submit_s): estimate
                for estimate in view.wait_estimates(name, PATIENCE_S)}, False
    except NotYet:
        return {}, True


def gpu_faults(view: View, job: Job) -> list[tuple[str, str]]:
    """Return the GPUs that a running job holds whose driver has reported an error, each with NVIDIA's number of it.

    Of a node whose GPUs the scheduler did not name, all are looked at, and where two GPUs have one number both: one of
    them may be the job's.
    """
    held = {part.node: part.gpu_indexes for part in job.allocations if part.gpus} if job.state.active else {}
    return [(f"{node}:{gpu}", xid) for node, gpu, xid in _errors(view) if node in held and (
        held[node] is None or not gpu.isdecimal() or gpu in map(str, held[node] or ()))]


def _errors(view: View) -> list[tuple[str, ...]]:
    """Return node, GPU and number of every error that a driver has reported."""
    return sorted(key for key in view.published().gpu_error_info if isinstance(key, tuple))


def _power(report: JobReport) -> Chart | None:
    """Return the watts of a run by class over time, useful ones at the bottom."""
    run, series = report.run, report.classes
    if run is None or not series or not series[0].start_s:
        return None
    by_class = {PowerClass(class_series.name): class_series for class_series in series}
    names = [name for kind in ("useful", "wasted", "apart") for name in PowerClass
             if name.kind == kind and name in by_class]
    edges = _edges(series[0])
    parts = np.array([[value or 0.0 for value in by_class[name].watts] for name in names]).T
    x = charts.across(float(edges[0]), float(edges[-1]))
    y = charts.upwards(charts.highest([parts.sum(axis=1)]) * 1.05, HEIGHT)
    shapes = tuple(Mark(name.value, name.label, charts.area(x(edges), y(lower), y(upper)))
                   for name, (lower, upper) in zip(names, charts.stacked(parts), strict=True))
    ticks, unit = charts.time_ticks(x, run.start_s)
    return Chart("Power by class", HEIGHT, f"{unit} since the start", ticks, charts.value_ticks(y, "W"), shapes, True)


def _activity(report: JobReport) -> list[tuple[str, str, str, float | None]]:
    """Return of each GPU its name, a strip of activity and one of power as SVG paths, and its mean watts."""
    most = max((watts for series in report.series for watts in series.watts if watts is not None), default=1.0) or 1.0
    strips = []
    for series in report.series[:MOST_GPUS]:
        edges = _edges(series)
        known = [value for value in series.watts if value is not None]
        strips.append((series.name, _strip(edges, series.activity, 1.0), _strip(edges, series.watts, most),
                       sum(known) / len(known) if known else None))
    return strips


def _strip(edges: charts.Floats, values: Sequence[float | None], most: float) -> str:
    """Return the area under values in a strip of 1000 by 30; nothing where nothing was measured."""
    x = charts.Scale(float(edges[0]), float(edges[-1]), 0.0, 1000.0)(edges)
    heights = [30.0 * (1.0 - min(1.0, max(0.0, (value or 0.0) / most))) for value in values]
    return "".join(f"M{left:.1f} 30V{top:.1f}H{right:.1f}V30Z" for left, right, top, value in zip(
        x[:-1].tolist(), x[1:].tolist(), heights, values, strict=True) if value)


def _edges(series: ChartSeries) -> charts.Floats:
    """Return where windows begin, and where the last one ends: a step goes on until the next window that is read."""
    return np.array([*series.start_s, series.start_s[-1] + series.seconds[-1]])


def users_page(view: View, arguments: Arguments, name: str, root: str) -> str:
    """Return what users took."""
    since = arguments.get("since", DEFAULT_SINCE)
    rows = view.book().by("user", wanted(MultiDict({"since": since}), view.now()), 500)
    return _render("users.html", view, root, rows=rows, since=since, spans=SPANS)


def user_page(view: View, arguments: Arguments, name: str, root: str) -> str:
    """Return what one user took, day by day, and the jobs that wasted most."""
    since = arguments.get("since", "30d")
    selection = wanted(MultiDict({"since": since, "user": name}), view.now())
    book = view.book()
    runs, total = book.runs(selection, "wasted", ROWS)
    user_jobs: list[Job] = [job for job in view.jobs() if job.user == name and not job.state.finished]
    days = book.by("day", selection)
    if not (total or user_jobs or days):
        raise NotFound(f"nothing is known of a user {name[:40]!r}")
    return _render("user.html", view, root, name=name, since=since, spans=SPANS, runs=runs, total=total, days=days,
                   sums=next(iter(book.by("user", selection)), None), jobs=user_jobs[:ROWS],
                   more_jobs=max(0, len(user_jobs) - ROWS), chart=_days(days))


def _days(days: Sequence[EnergyRow]) -> Chart | None:
    """Return energy by day, wasted energy within it."""
    if not days:
        return None
    starts = [float(row.name) for row in days]
    x = charts.across(starts[0], starts[-1] + 86400.0)
    y = charts.upwards(charts.highest([np.array([row.energy_joules for row in days])]) / KWH_J * 1.05, HEIGHT)
    shapes = []
    for start, row in zip(starts, days, strict=True):
        left, right = (x(np.array([start, start + 86400.0])) + np.array([1.0, -1.0])).tolist()
        day = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d")
        for kind, joules in (("productive", row.energy_joules), ("allocated_idle", row.wasted_joules)):
            top, bottom = y(np.array([joules / KWH_J, 0.0])).tolist()
            paid = money(row.cost, "energy" if kind == "productive" else "wasted")
            shapes.append(Mark(kind, f"{day}: {joules / KWH_J:.3g} kWh{f' = {paid}' if paid else ''}",
                               charts.box(left, right, top, bottom)))
    ticks, unit = charts.time_ticks(x, starts[0])
    return Chart("Energy by day", HEIGHT, f"{unit} since {datetime.fromtimestamp(starts[0], UTC):%Y-%m-%d}", ticks,
                 charts.value_ticks(y, "kWh"), tuple(shapes), True)


def node_page(view: View, arguments: Arguments, name: str, root: str) -> str:
    """Return a node as it is now, what it took, and which jobs run on it."""
    since = arguments.get("since", DEFAULT_SINCE)
    report = node_report(view, view.book(), name, wanted(MultiDict({"since": since}), view.now()))
    if report is None:
        raise NotFound(f"no node {name[:40]!r} is known")
    parts = [row for row in view.waste() if row.node == name]
    errors = [(gpu, xid) for where, gpu, xid in _errors(view) if where == name]
    return _render("node.html", view, root, errors=errors, report=report, since=since, spans=SPANS,
                   gpus=list(_gpus(parts)), parts=part_of(parts))


def _gpus(parts: Sequence[WasteRow]) -> Iterator[GpuNow]:
    """Yield each GPU of a node once, whatever classes its watts are in and however many hold parts of it."""
    by_gpu: dict[int, list[WasteRow]] = {}
    for row in parts:
        if row.gpu is not None:
            by_gpu.setdefault(row.gpu, []).append(row)
    for gpu, rows in sorted(by_gpu.items()):
        classes: dict[PowerClass, float | None] = {}
        for row in sorted(rows, key=lambda row: row.power_class):
            classes[row.power_class] = _added(classes.get(row.power_class, 0.0), row.power_watts)
        yield GpuNow(gpu, classes, functools.reduce(_added, classes.values()), rows[0].activity,
                     tuple(dict.fromkeys((row.job_id, row.user) for row in rows if row.job_id)))


def _added(first: float | None, second: float | None) -> float | None:
    """Return a sum of watts; None where a part of it was not measured."""
    return None if first is None or second is None else first + second


def error_page(view: View, status: int, message: str, root: str) -> str:
    """Return why there is no page, with the way back."""
    titles = {400: "Invalid request", 404: "Not found", 503: "Not to be read now"}
    return _render("error.html", view, root, title=titles.get(status, "No such page"), message=message)


def _render(template: str, view: View, root: str, **facts: object) -> str:
    return TEMPLATES.get_template(template).render(
        root=root or "./", version=version("idlewatt"), now=view.now(), status=view.status(), wasted=WASTED, **facts)


PAGES: Mapping[str, Page] = {"/jobs": jobs_page, "/jobs/<path:name>": job_page, "/users": users_page,
                             "/users/<path:name>": user_page, "/nodes/<path:name>": node_page}
