"""How much sooner jobs would finish with more GPUs, and how little later with fewer.

Advice only: Slurm lets no running job grow and takes whole nodes only from one, so that most of it means a new
submission from a checkpoint. Jobs of which no curve is known are counted, and have no row.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ....exporters.metrics.declared import ADVICE, Series
from ....storage.elastic import ElasticAdvice
from ....storage.errors import StoreError
from ....storage.history import History
from ....storage.records import Job, JobState
from ....storage.speeds import Throughput
from ...durations import sooner
from ...replay.speed import SpeedError
from ...settings.recommenders import ElasticSettings
from ..held_gpus import HeldGpus
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register, told_apart
from ..scaling.benefit import Case, weigh
from ..scaling.curves import Learned, learned
from ..scaling.throughput_samples import ACTIVITY, THROUGHPUT, Kind, Models, WatchedRuns, kind_of, readings
from ..scaling.what_if_sizes import SpareCapacity

log = logging.getLogger(__name__)

MOST_EVALUATED = 500
"""Jobs that are weighed in one round, the oldest first."""
MOST_FITTED = 2_000
"""Curves that are kept."""
PAST = 20_000
"""Runs of the history that a new daemon begins with."""
STALE_S = 300.0
"""An older reading says nothing of the present."""
Points = tuple[tuple[int, ...], tuple[float, ...]]
"""GPUs and rates of runs."""
CONFIGURED = "configured"
CAUSES = ("unseen", "one_size", "no_curve")
"""Why a job has no row: no like run was seen for long enough, or all had one size, or no curve fits them."""
FAR = "too_far"
"""Its own size lies too far from those that were measured."""


class ElasticRecommender:
    """Watches how fast runs are, and weighs other sizes of jobs whose curve is known."""

    def __init__(self, settings: ElasticSettings, history: History) -> None:
        self._settings, self._history = settings, history
        self._runs = WatchedRuns(history.speeds(PAST))
        self._fitted: dict[Points, Learned | None] = {}
        self._before: dict[Points, Learned | None] = {}
        """Curves of this round, and of the last one while this goes on: 6 kB each, and new runs make new ones."""

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return what other sizes would do, and record how fast jobs are."""
        kinds = self._watch(context)
        try:
            self._history.record_speeds(self._runs.changed())
        except StoreError as error:
            log.error("speeds of runs cannot be written; they are kept and tried again", extra={"error": str(error)})
        self._before, self._fitted = self._fitted, {}
        rows, unknown = self._rows(context, kinds)
        self._before = {}
        return Recommendations(context.now_s, tuple(rows),
                               _metrics(told_apart(rows, context.snapshot.jobs)[:ADVICE], unknown))

    def _watch(self, context: RecommenderContext) -> dict[tuple[str, float], Kind]:
        """Take new readings into the means of running jobs; return the kind of every job."""
        models, kinds = Models(context.snapshot.nodes), dict[tuple[str, float], "Kind"]()
        given = [facts for facts in context.facts if isinstance(facts, Throughput)]
        samples = readings(context.snapshot.jobs, given, HeldGpus(context.telemetry.gpus, context.snapshot.nodes))
        self._runs.forget_ended(context.snapshot.jobs)
        for job in context.snapshot.jobs:
            kind = kinds[job.key] = kind_of(job, models.of(job))
            reading = samples.get(job.key)
            if reading and job.start_s is not None and context.now_s - reading.time_s <= STALE_S \
                    and reading.time_s - job.start_s >= self._settings.settle:
                self._runs.watch(job, kind, reading)
        return kinds

    def _rows(self, context: RecommenderContext, kinds: Mapping[tuple[str, float], Kind]) \
            -> tuple[list[ElasticAdvice], Counter[str]]:
        advised = context.advice.recommendations if context.advice else ()
        site = SpareCapacity(context.snapshot, [row for row in advised if not row.shadow], context.now_s)
        jobs, unknown, rows = _sized(context.snapshot.jobs), Counter[str](), list[ElasticAdvice]()
        remaining = _remaining(context, [job for job, _ in jobs])
        for job, gpus in jobs:
            curve, basis = self._curve(job, kinds[job.key])
            if curve is None:
                unknown[basis] += 1
            elif len(rows) < MOST_EVALUATED:
                row = weigh(Case(job, gpus, curve, basis, remaining.get(job.key)), site, context.now_s)
                unknown[FAR] += row.more is None and row.fewer is None
                rows += [row] if row.more or row.fewer else []
        return sorted(rows, key=_worth), unknown

    def _curve(self, job: Job, kind: Kind) -> tuple[Learned | None, str]:
        """Return a job's curve and its basis; None and the cause where there is none."""
        configured = next((known.speeds for known in self._settings.curves
                           if fnmatchcase(job.name, known.name) and fnmatchcase(job.user, known.user)), None)
        if configured is not None:
            curve = self._fit(tuple(configured), tuple(configured.values()))
            return curve, CONFIGURED if curve else "no_curve"
        causes = []
        for basis in (THROUGHPUT, ACTIVITY):
            runs = self._runs.of(kind, basis)
            curve = self._fit(tuple(gpus for gpus, _ in runs), tuple(rate for _, rate in runs))
            if curve is not None:
                return curve, basis
            causes.append(CAUSES[min(2, len({gpus for gpus, _ in runs}))])
        return None, max(causes, key=CAUSES.index)

    def _fit(self, gpus: tuple[int, ...], rates: tuple[float, ...]) -> Learned | None:
        """Return the curve of runs; those that have hardly changed since are not fitted again."""
        if len(set(gpus)) < 2:
            return None
        key = gpus, tuple(float(f"{rate:.3g}") for rate in rates)
        if key not in self._fitted:
            if len(self._fitted) >= MOST_FITTED:
                self._fitted.clear()
            self._fitted[key] = self._before[key] if key in self._before else _learned(gpus, rates)
        return self._fitted[key]


def _learned(gpus: tuple[int, ...], rates: tuple[float, ...]) -> Learned | None:
    try:
        return learned(gpus, rates)
    except SpeedError:
        return None


def _sized(jobs: Sequence[Job]) -> list[tuple[Job, int]]:
    """Return jobs that run or wait with their GPUs, the oldest first; those without are left out."""
    sized = []
    for job in sorted(jobs, key=lambda job: (job.submit_s, job.job_id)):
        requested = max(job.request.gpus, (job.request.gpus_per_node or 0) * max(1, job.request.nodes))
        gpus = sum(part.gpus for part in job.allocations) if job.state is JobState.RUNNING else requested
        if gpus > 0 and job.state in (JobState.RUNNING, JobState.PENDING):
            sized.append((job, gpus))
    return sized


def _remaining(context: RecommenderContext, jobs: Sequence[Job]) -> dict[tuple[str, float], float]:
    """Return the expected time to the end of jobs, from what like jobs took; not of those that have outlived it."""
    if context.predictor is None or not jobs:
        return {}
    predicted = context.predictor(jobs)["prediction"]
    ran = (0.0 if job.start_s is None else max(0.0, context.now_s - job.start_s) for job in jobs)
    left = ((job.key, float(run_s) - ran_s) for job, run_s, ran_s in zip(jobs, predicted, ran, strict=True))
    return {key: seconds for key, seconds in left if math.isfinite(seconds) and seconds > 0}


def _worth(row: ElasticAdvice) -> tuple[bool, float, str]:
    """Return the order of rows: those that something can be done about now, then by what a GPU more brings."""
    gain = row.more.per_gpu_ratio if row.more else 0.0
    acts = (row.has_room and gain > 0) or bool(row.fewer and row.fewer.helps)
    return not acts, -gain, row.job_id


def _metrics(rows: Sequence[ElasticAdvice], unknown: Counter[str]) -> dict[str, Series]:
    times, gains, infos = (dict[tuple[str, ...], float | None]() for _ in range(3))
    for row, change in ((advised, change) for advised in rows for change in (advised.more, advised.fewer) if change):
        key = row.partition, row.job_id, f"{change.gpus:+d}"
        gains[key] = change.per_gpu_ratio
        low, high = change.time_interval
        times |= {(*key, "estimate"): change.time_ratio, (*key, "low"): low, (*key, "high"): high}
        infos[*key, str(row.gpus), row.basis, "now" if row.has_room and change.gpus > 0 else "no",
              " ".join(change.helps)] = 1.0
    return {"elastic_time_ratio": times, "elastic_marginal_gain_ratio": gains, "elastic_info": infos,
            "elastic_unknown_jobs": {cause: float(unknown[cause]) for cause in (*CAUSES, FAR)}}


def _cells(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a row as the table shows it."""
    return {**row, "more": _change(row["more"]), "fewer": _change(row["fewer"]),
            "helps": " ".join((row["fewer"] or {}).get("helps", ())) or None,
            "room": "now" if row["has_room"] else "no" if row["more"] else None,
            "how": "; ".join(_ways(row))}


def _change(change: Mapping[str, Any] | None) -> str | None:
    if change is None:
        return None
    return f"{change['gpus']:+d}: {sooner(change['time_ratio'], change['time_interval'])}"


def _ways(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what can be done now, where somebody gains by it."""
    if row["has_room"] and row["more"]["time_ratio"] < 0:
        yield row["more"]["how"]
    if row["fewer"] and row["fewer"]["helps"]:
        yield row["fewer"]["how"]


register(RecommenderKind(
    "elastic", ElasticAdvice, ElasticRecommender,
    {"job_id": "job", "state": "state", "partition": "partition", "gpus": "GPUs", "more": "with more",
     "room": "room", "fewer": "with fewer", "helps": "makes room for", "basis": "data source", "runs": "runs",
     "how": "how"},
    _cells, "of no job is it known how fast it is with more or fewer GPUs", ("throughput",)))
