"""The site's watts from what the daemon has recorded: of each node and GPU type, and of each job, user and name.

One model for replays, verdicts, counterfactuals and reports. What nothing was recorded of goes by its like: a node by
those with the same GPUs, these by the catalogue; a job by its own runs, these by its user's with such a name, its
user's, everybody's. What rests on few readings is drawn towards what is usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage.energy_queries import RunFilter, RunRow
from ..storage.energy_schema import CLASS_COLUMNS
from ..storage.placements import PlacementColumns
from ..storage.power_classes import ModelPart, PowerClass
from ..storage.reading import HistoryReader
from ..storage.records import Node
from .replay.cluster import Cluster
from .replay.power import PowerModel, Watts, by_node
from .replay.runtime_prediction import template
from .replay.workload import Workload
from .replay.workload_builder import WorkloadBuilder
from .settings.waste import WasteSettings
from .waste.hardware import named
from .waste.nodes import looks_hung

PAST_S = 14 * 86400.0
"""Older readings tell of other drivers, fans and jobs."""
MOST_WINDOWS, MOST_RUNS = 400, 10_000
"""The windows of nodes that are read, spread evenly; the last runs that count."""
SETTLED_S = 6 * 3600.0
"""A node's own readings of so long count as much as those of its like."""
LEAST_S = 900.0
"""What was measured for less is left out."""
LIKE_RUNS = 4.0
"""A group of so many runs counts as much as the one that it is part of."""
SEEN_S = 300.0
"""A run that was watched for less says nothing."""
OWN_S = 600.0
"""A run that was watched for so long counts as much as its group."""
FEWEST, LEAST_SPREAD = 5, 0.05
"""Runs, and the standard deviation of their activity, from which on watts against activity are a line."""
SHARES = (-0.5, 1.5)
"""What a job's share of the way from an idle context to full load may be: outside lie errors of readings."""

Floats = NDArray[np.float64]
Kind = tuple[str, str]
"""User and template; the template is '' for all of a user's jobs, and both for everybody's."""
EVERYBODY: Kind = ("", "")
_GPU_PARTS: tuple[ModelPart, ...] = ("held", "work")
_RUN_COLUMNS = tuple(CLASS_COLUMNS[row] for row in PowerClass if row.model_part in _GPU_PARTS)


class NodeWatts(NamedTuple):
    """Watts of a node and of each of its GPUs, as in :class:`.replay.power.PowerModel`."""

    idle: float
    context: float
    limit: float
    host: float
    host_busy: float


class JobWatts(NamedTuple):
    """What is known of a job's GPUs, as the columns of a workload."""

    load: float
    draw: float


@dataclass(frozen=True, slots=True)
class SiteWatts:
    """What nodes and jobs of a site draw."""

    nodes: Mapping[str, NodeWatts] = field(default_factory=dict)
    types: Mapping[str, NodeWatts] = field(default_factory=dict)
    """By the model of their GPUs in lower case, '' for all together."""
    jobs: Mapping[str, JobWatts] = field(default_factory=dict)
    """By job id, those that were watched themselves."""
    kinds: Mapping[Kind, JobWatts] = field(default_factory=dict)
    summary: str = "of the catalogue, by GPU type"
    """What the watts rest on, in words."""

    def on(self, cluster: Cluster) -> PowerModel:
        """Return the watts of each node of a cluster."""
        rows = [self.nodes.get(name) or self.types.get(model.lower()) or _catalogued(model, self.types.get(""))
                for name, model in zip(cluster.names, cluster.model, strict=True)]
        columns: dict[str, Watts] = {name: _plain(np.array(column)) for name, column in
                                     zip(NodeWatts._fields, zip(*rows, strict=True), strict=True)}
        usual = self.kinds.get(EVERYBODY)
        return PowerModel(**columns) if usual is None else PowerModel(**columns, load=usual.load)  # type: ignore[arg-type]

    def with_watts(self, work: Workload, users: Iterable[str], names: Iterable[str]) -> Workload:
        """Return a workload with what is known of each job's watts; ``users`` and ``names`` are those of its rows."""
        if not self.kinds:
            return work
        of = cache(self.of)
        rows = [self.jobs.get(str(job)) or of(user, name)
                for job, user, name in zip(work.ids, users, names, strict=True)]
        load, draw = np.array(rows, np.float32).reshape(-1, 2).T
        return replace(work, load=load, draw=draw)

    def of(self, user: str, name: str) -> JobWatts:
        """Return what is known of a new job's watts."""
        kinds = ((user, template(name)), (user, ""), EVERYBODY)
        return next(self.kinds[kind] for kind in kinds if kind in self.kinds)


CATALOGUED = SiteWatts()
"""Nothing is recorded: the catalogue's GPUs, and hosts of usual watts."""


def site_watts(history: HistoryReader, until_s: float = 1e12, own_until_s: float | None = None) -> SiteWatts:
    """Return what was recorded until a moment; jobs' own watts as far as another one, where they are replayed."""
    last_s = history.watched_until(until_s)
    if last_s is None:
        return CATALOGUED
    since_s, nodes = last_s - PAST_S, history.nodes(last_s) or history.nodes()
    later_s = max(until_s, own_until_s or until_s)
    placed = history.load_placements(since_s, later_s)
    spent, where = _spent(history, nodes, placed, since_s, last_s), _where(placed, nodes)
    runs = _runs(history, since_s, until_s, where)
    types = {model: _type(model, spent, runs) for model in ("", *sorted({node.gpu_model.lower() for node in nodes}))}
    job_runs = runs if later_s == until_s else _runs(history, since_s, later_s, where)
    kinds = _kinds(runs, types)
    summary = f"as recorded of {len(spent.own)} nodes with {len(types) - 1} types of GPUs and of {len(runs)} runs"
    return SiteWatts({name: _own(types[spent.model[row]], spent, row) for row, name in enumerate(spent.names)
                      if name in spent.own}, types, _jobs(job_runs, types, kinds), kinds, summary)


def in_watts(prepared: WorkloadBuilder, cluster: Cluster, watts: SiteWatts) -> WorkloadBuilder:
    """Return a history with what its nodes and each of its jobs draw."""
    work, names = prepared.workload, np.array([*prepared.names, ""], object)
    users = np.array([*work.user_names, ""], object)[work.user]
    called = np.full(len(work), "", object) if prepared.name is None else names[prepared.name]
    return replace(prepared, workload=watts.with_watts(work, users.tolist(), called.tolist()), power=watts.on(cluster),
                   watts=watts.summary)


@dataclass(frozen=True, slots=True)
class _Spent:
    """How nodes spent the windows that were watched, and what they drew meanwhile; arrays are [node]."""

    names: tuple[str, ...]
    model: tuple[str, ...]
    seconds: float
    gpus: Floats
    held: Floats
    """GPU-seconds."""
    busy: Floats
    joules: Mapping[ModelPart | str, Floats]
    """By part of the model, those of hosts by ``host`` and ``host_busy``; all nodes alike where no node is known."""
    own: frozenset[str]
    """Nodes of which energy is recorded."""


def _spent(history: HistoryReader, nodes: Sequence[Node], placed: PlacementColumns, since_s: float,
           until_s: float) -> _Spent:
    row = {node.name: number for number, node in enumerate(nodes)}
    windows = history.waste_of_nodes(since_s, until_s, MOST_WINDOWS)
    energies = [(row[node], power_class, joules) for _, energy_by_node in windows
                for node, by_class in energy_by_node.items() if node in row for power_class, joules in by_class.items()]
    spans = [window for window, _ in windows]
    joules = {part: np.zeros(len(nodes)) for part in ("free", *_GPU_PARTS, "host", "host_busy")}
    if energies:
        for number, power_class, amount in energies:
            joules[_part(power_class)][number] += amount
    else:  # an older recorder, or a thinned history: all nodes together, each its share
        readings = history.waste(since_s, until_s)
        spans = sorted({(reading.start_s, reading.seconds) for reading in readings})
        for reading in readings:
            joules[_part(reading.power_class)] += reading.energy_joules / len(nodes)
    held, busy = _occupied(placed, row, _watched(spans))
    return _Spent(tuple(row), tuple(node.gpu_model.lower() for node in nodes), sum(length for _, length in spans),
                  np.array([node.gpus for node in nodes], np.float64), held, busy, joules,
                  frozenset(nodes[number].name for number in {number for number, _, _ in energies}))


def _part(power_class: PowerClass) -> str:
    return "host_busy" if power_class is PowerClass.HOST_ACTIVE else power_class.model_part


def _watched(spans: Sequence[tuple[float, float]]) -> Callable[[Floats], Floats]:
    """Return the seconds that were watched up to each moment."""
    edges, seconds = [-np.inf], [0.0]
    for start_s, length in spans:
        begin = max(start_s, edges[-1])
        if start_s + length > begin:
            edges += [begin, start_s + length]
            seconds += [seconds[-1], seconds[-1] + start_s + length - begin]
    return lambda times: np.interp(times, edges[1:], seconds[1:]) if len(edges) > 1 else np.zeros(len(times))


def _occupied(placements: PlacementColumns, row: Mapping[str, int], watched: Callable[[Floats], Floats]) \
        -> tuple[Floats, Floats]:
    """Return GPU-seconds held and seconds with a job of each node, within what was watched."""
    node = np.array([row.get(name, -1) for name in placements.vocabularies["node"]], np.int64)[placements.node] \
        if len(placements) else np.zeros(0, np.int64)
    begin, end = watched(placements.start_s), watched(np.nan_to_num(placements.end_s, nan=np.inf))
    kept = (node >= 0) & (end > begin)
    node, begin, end, gpus = node[kept], begin[kept], end[kept], placements.gpus[kept]
    (held,) = by_node(node, len(row), gpus * (end - begin))
    busy = np.zeros(len(row))
    for number in np.unique(node).tolist():
        on_node = node == number
        order = np.argsort(begin[on_node])
        starts, ends = begin[on_node][order], end[on_node][order]
        reached = np.concatenate([[-np.inf], np.maximum.accumulate(ends)[:-1]])
        busy[number] = np.maximum(0.0, ends - np.maximum(starts, reached)).sum()
    return held, busy


@dataclass(frozen=True, slots=True)
class _WatchedRun:
    """A run whose GPUs were watched."""

    job_id: str
    kind: Kind
    model: str
    gpu_s: float
    seen_s: float
    watts: float
    """The mean watts of each GPU."""
    load: float
    """NaN where no activity was measured."""


def _where(placed: PlacementColumns, nodes: Sequence[Node]) -> dict[tuple[str, float], str]:
    """Return on which type of GPUs each run was, by job id and start."""
    model = {node.name: node.gpu_model.lower() for node in nodes}
    by_code = [model.get(name, "") for name in placed.vocabularies["node"]]
    return {(job, start_s): by_code[code] for job, start_s, code in
            zip(placed.job_id.tolist(), placed.start_s.tolist(), placed.node.tolist(), strict=True)}


def _runs(history: HistoryReader, since_s: float, until_s: float,
          where: Mapping[tuple[str, float], str]) -> list[_WatchedRun]:
    rows, _ = history.runs(RunFilter(since_s, until_s), "ended", MOST_RUNS)
    return [_run(row, where.get((row.job_id, row.start_s), "")) for row in rows
            if row.sums["gpu_ms"] > 0 and row.seen_s >= SEEN_S]


def _run(row: RunRow, model: str) -> _WatchedRun:
    gpu_s, measured_s = row.sums["gpu_ms"] / 1000, row.sums["measured_ms"] / 1000
    joules = sum(row.sums[column] for column in _RUN_COLUMNS) / 1000
    return _WatchedRun(row.job_id, (row.user, template(row.name)), model, gpu_s, row.seen_s, joules / gpu_s,
                       row.sums["active_ms"] / 1000 / measured_s if measured_s > gpu_s / 2 else np.nan)


def _type(model: str, spent: _Spent, runs: Sequence[_WatchedRun]) -> NodeWatts:
    """Return the watts of nodes with GPUs of a model, '' for all; what was not watched is the catalogue's."""
    rows = [row for row, name in enumerate(spent.model) if model in ("", name)]
    usual = _catalogued(model, None)
    host, busy = (_mean(spent, part, rows, watts) for part, watts in (("host", usual.host),
                                                                      ("host_busy", usual.host_busy)))
    idle = _mean(spent, "free", rows, usual.idle)
    alike = [run for run in runs if model in ("", run.model) and not _hung(run, idle)]
    context, limit = _line(alike) or _of_classes(spent, rows, usual, runs)
    return NodeWatts(idle, context, limit, host, busy)


def _hung(run: _WatchedRun, idle: float) -> bool:
    """Tell whether a run was busy at the watts of an idle context, be it that the recorder did not see it yet."""
    known, settings = next(iter(named(run.model)), None), WasteSettings()
    limit = None if known is None or known.limit is None else known.limit.watts
    return looks_hung(run.watts, run.load, idle + settings.context_extra_watts, limit, settings)


def _mean(spent: _Spent, part: str, rows: Sequence[int], usual: float) -> float:
    seconds, joules = float(_seconds(spent, part)[rows].sum()), float(spent.joules[part][rows].sum())
    return joules / seconds if seconds >= LEAST_S and joules > 0 else usual


def _seconds(spent: _Spent, part: str) -> Floats:
    """Return the seconds over which a part of the model drew its watts."""
    if part == "host_busy":
        return spent.busy
    if part == "host":
        return np.asarray(np.maximum(0.0, spent.seconds - spent.busy))
    return np.asarray(np.maximum(0.0, spent.gpus * spent.seconds - spent.held))


def _line(runs: Sequence[_WatchedRun]) -> tuple[float, float] | None:
    """Return the watts of an idle context and of full load, as a line through runs; None where none can be drawn.

    What hangs says nothing of full load, and must not be among them: it is busy at the watts of an idle context.
    """
    known = [run for run in runs if run.load == run.load]
    if len(known) < FEWEST:
        return None
    load, watts, weight = np.array([(run.load, run.watts, run.gpu_s) for run in known]).T
    centre = np.average(load, weights=weight)
    spread = np.average((load - centre) ** 2, weights=weight)
    if spread < LEAST_SPREAD ** 2:
        return None
    middle = np.average(watts, weights=weight)
    slope = float(np.average((load - centre) * (watts - middle), weights=weight) / spread)
    context = float(middle - slope * centre)
    return (max(0.0, context), context + slope) if slope > 1.0 and context + slope > 1.0 else None


def _of_classes(spent: _Spent, rows: Sequence[int], usual: NodeWatts, runs: Sequence[_WatchedRun]) -> tuple[float,
                                                                                                            float]:
    """Return context and full-load watts by the classes of held GPUs' energy, which work as much as GPUs usually do."""
    known = np.array([(run.load * run.gpu_s, run.gpu_s) for run in runs if run.load == run.load]).reshape(-1, 2).sum(0)
    load = float(known[0] / known[1]) if known[1] else PowerModel().load
    held = float(spent.held[rows].sum())
    idle, every = (float(sum(spent.joules[part][rows].sum() for part in parts)) for parts in (("held",), _GPU_PARTS))
    if held < LEAST_S or not every > 0 or not 0 < load < 1:
        return usual.context, usual.limit
    context = min(every / held, idle / (held * (1 - load)) if idle > 0 else usual.context)
    return context, context + (every / held - context) / load


def _own(like: NodeWatts, spent: _Spent, row: int) -> NodeWatts:
    """Return a node's watts: those of its like, moved towards its own readings."""
    readings = {field: (float(spent.joules[part][row]) + SETTLED_S * usual)
                / (float(_seconds(spent, part)[row]) + SETTLED_S)
                for field, part, usual in (("idle", "free", like.idle), ("host", "host", like.host),
                                           ("host_busy", "host_busy", like.host_busy))}
    return like._replace(**readings)


def _kinds(runs: Sequence[_WatchedRun], types: Mapping[str, NodeWatts]) -> dict[Kind, JobWatts]:
    """Return what jobs draw by user and template, each drawn towards its user's, and these towards everybody's."""
    groups: dict[Kind, list[_WatchedRun]] = {}
    for run in runs:
        for kind in (EVERYBODY, (run.kind[0], ""), run.kind):
            groups.setdefault(kind, []).append(run)
    watts: dict[Kind, JobWatts] = {}
    for kind, kind_runs in sorted(groups.items(), key=lambda item: (item[0] != EVERYBODY, item[0][1] != "")):
        parent = watts.get((kind[0], ""), watts.get(EVERYBODY))
        watts[kind] = _pooled(kind_runs, types, parent)
    return watts


def _pooled(runs: Sequence[_WatchedRun], types: Mapping[str, NodeWatts], parent: JobWatts | None) -> JobWatts:
    """Return the mean over runs, drawn towards that of a larger group.

    A run of a week says more than one of an hour, but not 168 times as much: it is one way in which a job may go.
    """
    weight, draw = (np.array(column) for column in zip(*((run.gpu_s ** 0.5, _draw(run, types)) for run in runs),
                                                       strict=True))
    load = np.array([run.load for run in runs])
    load = np.where(np.isnan(load), np.clip(draw, 0.0, 1.0), load)
    effective = weight.sum() ** 2 / (weight ** 2).sum()
    mean = JobWatts(float(np.average(load, weights=weight)), float(np.average(draw, weights=weight)))
    return mean if parent is None else _between(mean, parent, effective, LIKE_RUNS)


def _between(own_watts: JobWatts, usual: JobWatts, weight: float, usual_weight: float) -> JobWatts:
    return JobWatts(*((weight * of_site + usual_weight * of_usual) / (weight + usual_weight)
                      for of_site, of_usual in zip(own_watts, usual, strict=True)))


def _draw(run: _WatchedRun, types: Mapping[str, NodeWatts]) -> float:
    watts = types.get(run.model, types[""])
    return float(np.clip((run.watts - watts.context) / max(1.0, watts.limit - watts.context), *SHARES))


def _jobs(runs: Sequence[_WatchedRun], types: Mapping[str, NodeWatts], kinds: Mapping[Kind, JobWatts]) -> dict[str,
                                                                                                               JobWatts]:
    """Return what jobs draw by their own runs, those that were hardly seen drawn towards their like."""
    by_job: dict[str, list[_WatchedRun]] = {}
    for run in runs:
        by_job.setdefault(run.job_id, []).append(run)
    watts = {}
    for job, watched in by_job.items():
        user, name = watched[0].kind
        usual = kinds.get((user, name)) or kinds.get((user, "")) or kinds.get(EVERYBODY)
        job_watts, seen_s = _pooled(watched, types, None), sum(run.seen_s for run in watched)
        watts[job] = job_watts if usual is None else _between(job_watts, usual, seen_s, OWN_S)
    return watts


def _catalogued(model: str, fleet: NodeWatts | None) -> NodeWatts:
    """Return the catalogue's watts of nodes with GPUs of a model, else all nodes', else the usual ones."""
    usual, known = PowerModel(), next(iter(named(model)), None)
    host = fleet or NodeWatts(*(float(value) for value in (usual.idle, usual.context, usual.limit, usual.host,
                                                           usual.host)))
    if known is None or known.idle is None or known.limit is None:
        return host
    idle = known.idle.watts
    return host._replace(idle=idle, context=idle + WasteSettings().context_extra_watts, limit=known.limit.watts)


def _plain(column: Floats) -> Watts:
    return column if len(set(column.tolist())) > 1 else float(column[0])
