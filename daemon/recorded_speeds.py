"""The site's speeds from what the daemon has recorded: how fast runs were, where they ran, beside what, with what.

Only runs whose own throughput was measured count: the activity of a GPU is no speed, for one that waits for the others
of its job is as active as one that works. What is no speed at all, and what was seen once, is left out and noted.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from ..storage.placements import PlacementColumns
from ..storage.reading import HistoryReader
from ..storage.speeds import RunSpeed
from .replay.cluster import Cluster
from .replay.recorded_work import HeldNodes, Neighbours, as_work
from .replay.runtime_prediction import template
from .replay.site_speeds import ENOUGH, OTHERS, SiteSpeeds, SpeedCell, SpeedGroup, escaped
from .replay.speed_pooling import Observed, Pooled, pooled, profile
from .replay.workload import Workload
from .replay.workload_builder import WorkloadBuilder

PAST_S = 90 * 86400.0
"""Older runs tell of programs that have changed since."""
MOST_RUNS, MOST_GROUPS = 20_000, 300
"""The last runs that count; the groups with most of them that get speeds of their own."""
EVER_S = 1e12
"""Later than any time that is recorded."""
LEAST_SAMPLES = 3
"""Readings before a run counts."""
MOST_RATIO = 1000.0
"""Like jobs do not differ by more, on whatever they run: a source is wrong."""
NAMED = 5
THROUGHPUT = "throughput"

Kind = tuple[str, str]
"""User and template."""
Run = tuple[str, float, float]
"""Job id, submit time and start time."""


def site_speeds(history: HistoryReader, until_s: float | None = None,
                applications: Mapping[str, str] | None = None) -> SiteSpeeds:
    """Return what was recorded until a moment, else until the last run.

    ``applications`` name published profiles by pattern of job names.
    """
    patterns, notes = applications or {}, list[str]()
    speeds = history.speeds(MOST_RUNS)
    if until_s is None:  # runs of a simulated cluster may be ahead of our clock
        until_s = max((run.last_s for run in speeds if math.isfinite(run.last_s)), default=EVER_S)
    runs = _sound(speeds, until_s, notes)
    kinds = [kind for kind, _ in Counter((run.user, run.template) for run in runs).most_common(MOST_GROUPS)]
    number = {kind: row for row, kind in enumerate(kinds, 1)}
    watched = _WatchedPlacements(history, min((run.start_s for run in runs), default=until_s), until_s, number)
    by_kind: dict[Kind, list[Observed]] = {kind: [] for kind in kinds}
    for run in runs:
        if (run.user, run.template) in number:
            by_kind[run.user, run.template].append(watched.observed(run))
    needs = _needs(history, until_s)
    groups = [_group(kind, by_kind[kind], _follows(kind[1], patterns), needs.get(kind)) for kind in kinds]
    useful = [group for group in groups if group.runs > 1 or group.follows]
    once = [group.label for group in groups if group.runs == 1]
    alone = {(group.user, group.name) for group in useful}
    used = sorted(needs.items(), key=lambda kind: -kind[1].runs)[:MOST_GROUPS]
    useful += [group for kind, need in used if (group := _group(kind, (), _follows(kind[1], patterns), need))
               and (group.user, group.name) not in alone]
    if once:
        notes.append(f"{_counted(once, 'application was', 'applications were')} seen once, which shows nothing of "
                     f"their speeds: {_some(once)}")
    useful += [published(pattern, name) for pattern, name in patterns.items()]
    odd = [sentence for group in useful for sentence in group.contradictions()]
    notes += odd[:NAMED] + ([f"{len(odd) - NAMED} more groups contradict themselves so"] if len(odd) > NAMED else [])
    return SiteSpeeds("site", tuple(_labelled(useful, groups)), (*notes, *watched.notes()), watched.topology)


def _sound(runs: Sequence[RunSpeed], until_s: float, notes: list[str]) -> list[RunSpeed]:
    """Return the runs whose speed is a positive number and near to that of like runs; note how many are left out."""
    within = [run for run in runs if run.basis == THROUGHPUT and until_s - PAST_S <= run.last_s <= until_s
              and run.samples >= LEAST_SAMPLES]
    sound = [run for run in within if math.isfinite(run.rate) and run.rate > 0 and run.gpus > 0]
    rates: dict[tuple[str, str, str], list[float]] = {}
    for run in sound:
        rates.setdefault((run.user, run.template, run.gpu_model), []).append(run.rate / run.gpus)
    usual = {kind: float(np.median(kind_rates)) for kind, kind_rates in rates.items()}
    like = [run for run in sound if 1 / MOST_RATIO <= run.rate / run.gpus / usual[run.user, run.template, run.gpu_model]
            <= MOST_RATIO]
    for left_out, why in ((len(within) - len(sound), "is no positive number"),
                          (len(sound) - len(like), f"is more than {MOST_RATIO:.0f} times that of their like, or less")):
        if left_out:
            notes.append(f"{left_out} runs are left out, as their speed {why}")
    return like


class _WatchedPlacements:
    """Where runs ran, and which runs were beside them."""

    def __init__(self, history: HistoryReader, since_s: float, until_s: float, number: Mapping[Kind, int]) -> None:
        placements = history.load_placements(since_s, until_s) if number else None
        self._switches, self.topology = _switches(history, until_s)
        self._found = placements
        self._rows: dict[Run, list[int]] = {}
        if placements is not None:
            self._names = placements.vocabularies["node"]
            for row, key in enumerate(zip(placements.job_id.tolist(), placements.submit_s.tolist(),
                                          placements.start_s.tolist(), strict=True)):
                self._rows.setdefault(key, []).append(row)
            self._held = _held_of(placements, until_s, number, self._rows)
            self._neighbours = Neighbours(self._held)
        self._lost = 0
        self._moved = 0

    def observed(self, run: RunSpeed) -> Observed:
        """Return a run with where it ran; without a place where none is recorded."""
        rows = self._rows.get((run.job_id, run.submit_s, run.start_s), [])
        if self._found is None or not rows or int(self._found.gpus[rows].sum()) != run.gpus:
            self._lost += 1
            return Observed(run.rate, run.gpu_model, run.gpus)
        nodes = [self._names[code] for code in self._found.node[rows].tolist()]
        hung = [self._hung(node, run.start_s) for node in nodes]
        self._moved += any(switches is not None and switches != self.topology.get(node, switches)
                           for node, switches in zip(nodes, hung, strict=True))
        level = _level(hung)
        self._lost += level is None
        return Observed(run.rate, run.gpu_model, run.gpus, level, self._company(rows),
                        float(self._found.cpus[rows].sum()) / run.gpus or None)

    def notes(self) -> list[str]:
        """Return sentences about runs that count otherwise or not at all."""
        counts = [(self._lost, "runs are left out, as where they ran is not recorded"),
                  (self._moved, "runs were on nodes that hang on other switches now: they count by where those hung")]
        return [f"{count} {clause}" for count, clause in counts if count]

    def _hung(self, node: str, time_s: float) -> tuple[str, str] | None:
        """Return the leaf and the spine of a node at a moment; None where nobody knows it."""
        known = self._switches.get(node)
        if known is None:
            return None
        # What was there when recording began is taken to have hung there before.
        return known[1][max(0, bisect_right(known[0], time_s) - 1)]

    def _company(self, rows: Sequence[int]) -> dict[int, float]:
        """Return the mean number of neighbours by group, on the node where there were most."""
        most: dict[int, float] = {}
        for row in rows:
            lasted = float(self._held.end[row] - self._held.begin[row])
            neighbours = Counter[int]()
            for other, begin, end in self._neighbours.beside(row):
                neighbours[int(self._held.application[other])] += (end - begin) / lasted  # type: ignore[assignment]
            most |= {group: max(mean, most.get(group, 0.0)) for group, mean in neighbours.items()}
        return most


def _held_of(placements: PlacementColumns, until_s: float, number: Mapping[Kind, int],
             rows: Mapping[Run, Sequence[int]]) -> HeldNodes:
    """Return all placements, each run a job of its own."""
    job = np.zeros(len(placements), np.int64)
    for key, run_rows in enumerate(rows.values()):
        job[list(run_rows)] = key
    users, names = placements.vocabularies["user"], [template(name) for name in placements.vocabularies["name"]]
    group = np.array([number.get((users[user], names[name]), 0)
                      for user, name in zip(placements.user.tolist(), placements.name.tolist(), strict=True)], np.int64)
    end = np.where(np.isnan(placements.end_s), until_s, placements.end_s)
    node, gpus = placements.node.astype(np.int64), placements.gpus.astype(np.int64)
    return HeldNodes(job, node, gpus, placements.start_s, end, group)


Hung = dict[str, tuple[list[float], list[tuple[str, str]]]]


def _switches(history: HistoryReader, until_s: float) -> tuple[Hung, dict[str, tuple[str, str]]]:
    """Return when each node hung on which switches, and on which it hangs."""
    hung: Hung = {}
    for change in history.node_changes(0.0, until_s):
        if change.present:
            times, places = hung.setdefault(change.node.name, ([], []))
            times.append(change.time_s)
            places.append((change.node.leaf, change.node.spine))
    return hung, {node: places[-1] for node, (_, places) in hung.items()}


def _level(hung: Sequence[tuple[str, str] | None]) -> int | None:
    """Return how far apart nodes were, as a column of ``LEVELS``."""
    if None in hung:
        return None
    if len(hung) == 1:
        return 0
    spines, leaves = {place[1] for place in hung if place}, set(hung)
    return 4 if len(spines) > 1 else 3 if len(leaves) > 1 else 2


@dataclass(frozen=True, slots=True)
class _Need:
    """What runs of a kind used for each GPU, at most."""

    cpus: float
    memory: float
    runs: int


def _needs(history: HistoryReader, until_s: float) -> dict[Kind, _Need]:
    """Return the medians of what kinds of jobs used, where enough of their runs were watched."""
    amounts: dict[Kind, list[tuple[float, float]]] = {}
    for use in history.uses(until_s - PAST_S, MOST_RUNS):
        if use.gpus > 0 and use.updated_s <= until_s and use.cpus_p95 > 0 and use.memory_peak_bytes:
            amounts.setdefault((use.user, use.template), []).append(
                (use.cpus_p95 / use.gpus, use.memory_peak_bytes / use.gpus))
    middle = {kind: np.median(kind_uses, axis=0) for kind, kind_uses in amounts.items() if len(kind_uses) >= ENOUGH}
    return {kind: _Need(float(cpus), float(memory), len(amounts[kind])) for kind, (cpus, memory) in middle.items()}


def _group(kind: Kind, runs: Sequence[Observed], follows: str, need: _Need | None) -> SpeedGroup:
    """Return a group; the speeds it keeps beside other groups are keyed by their number for now."""
    published = profile(follows)
    made: Pooled = pooled(runs, published)
    cpus = made.cpus
    memory: Mapping[float, SpeedCell] = {}
    if need is not None:  # below what it uses a job is slower in proportion, at worst; above it gains nothing
        enough = SpeedCell(1.0, 1.0, 1.0, "fitted", need.runs)
        cpus = cpus if any(cell.source == "measured" for cell in cpus.values()) else {need.cpus: enough}
        memory = {need.memory: enough}
    return SpeedGroup(escaped(kind[0]), escaped(kind[1]), len(runs), follows, made.size, made.spread,
                      {str(group): cell for group, cell in made.company.items()}, cpus, memory)


def _labelled(kept: Iterable[SpeedGroup], numbered: Sequence[SpeedGroup]) -> Iterable[SpeedGroup]:
    """Yield groups that call their neighbours by label; those that are not kept are others."""
    kept = list(kept)
    known = {group.label for group in kept}
    labels = {"0": OTHERS} | {str(row): group.label for row, group in enumerate(numbered, 1) if group.label in known}
    for group in kept:
        yield replace(group, company={labels[key]: cell for key, cell in group.company.items() if key in labels})


def published(pattern: str, application: str) -> SpeedGroup:
    """Return the jobs whose name alone tells what they are like."""
    made = pooled((), profile(application))
    return SpeedGroup("*", pattern, 0, application, made.size, made.spread, {}, made.cpus)


def _follows(name: str, patterns: Mapping[str, str]) -> str:
    return next((application for pattern, application in patterns.items()
                 if fnmatchcase(name.lower(), pattern.lower())), "")


def _counted(items: Sequence[str], singular: str, plural: str) -> str:
    return f"{len(items)} {singular if len(items) == 1 else plural}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def applied(history: HistoryReader, prepared: WorkloadBuilder, cluster: Cluster, speeds: SiteSpeeds) -> WorkloadBuilder:
    """Return a recorded history with the group of each job, and its run times turned into work where it ran."""
    grouped = in_groups(prepared, speeds)
    if speeds.flat or grouped.submitted is None:
        return replace(grouped, unplaced=0)
    work = grouped.workload
    began, until_s = float(np.nanmin(grouped.started)), float(np.nanmax(grouped.started + work.run)) + 1.0
    row = {key: number for number, key in enumerate(zip(work.ids, grouped.submitted.tolist(),
                                                        grouped.started.tolist(), strict=True))}
    placements = history.load_placements(began, until_s)
    node = {name: number for number, name in enumerate(cluster.names)}
    vocabularies = placements.vocabularies
    held = HeldNodes(np.array([row.get(key, -1) for key in zip(placements.job_id.tolist(), placements.submit_s.tolist(),
                                                               placements.start_s.tolist(), strict=True)], np.int64),
                     np.array([node.get(name, -1) for name in vocabularies["node"]], np.int64)[placements.node],
                     placements.gpus.astype(np.int64), placements.start_s,
                     np.where(np.isnan(placements.end_s), until_s, placements.end_s),
                     speeds.rows(placements.user, vocabularies["user"], placements.name,
                                 vocabularies["name"]).astype(np.int64))
    work, placed = as_work(work, cluster, speeds.table, held)
    return replace(grouped, workload=work, unplaced=int((~placed).sum()))


def in_groups(prepared: WorkloadBuilder, speeds: SiteSpeeds) -> WorkloadBuilder:
    """Return a history with the group of each job; its run times stay as they are, wherever it ran."""
    if speeds.flat or prepared.name is None:
        return replace(prepared, speeds=speeds)
    work = prepared.workload
    rows = speeds.rows(work.user, work.user_names, prepared.name, prepared.names)
    return replace(prepared, workload=replace(work, application=rows), speeds=speeds, unplaced=len(work))


def unplaced(jobs: int) -> list[str]:
    """Return the note on jobs whose places are not recorded."""
    return [f"{jobs} jobs keep their run times, as where they ran is not recorded"] if jobs else []


def held_by(workload: Workload, cluster: Cluster, parts: Iterable[tuple[int, str, int]],
            started: NDArray[np.float64]) -> HeldNodes:
    """Return where the jobs of a workload ran, given (row, node, GPUs), from when they really started."""
    node = {name: number for number, name in enumerate(cluster.names)}
    rows = [(row, node.get(name, -1), gpus) for row, name, gpus in parts]
    job, place, gpus = (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (
        np.zeros(0, np.int64),) * 3
    return HeldNodes(job, place, gpus, started[job], started[job] + workload.run[job],
                     workload.application[job].astype(np.int64))
