"""Power limits under which jobs would do the same work with less energy, as far as like runs were measured so.

Speed comes from the site's own throughput, power and limits from the GPUs. Runs are alike when user, name, GPU model
and number of GPUs are. A limit that nobody has tried has no row, and nothing is ever set: a row is a command.
Power profiles, which no exporter tells, are weighed by the runs that a site names in its configuration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....exporters.metrics.declared import ADVICE
from ....storage.power_caps import PowerCap
from ....storage.records import Job, JobState
from ....storage.speeds import Throughput
from ....storage.telemetry import GpuReading
from ...settings.recommenders import LEAST_RUNS, PowerCapsSettings
from ..held_gpus import HeldGpus
from ..power_profiles import STEP_WATTS, best_profile, called, commands, enforcing, setting
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register, told_apart
from ..scaling.throughput_samples import THROUGHPUT, Kind, Models, ThroughputSample, kind_of, readings
from ..welch import lost

if TYPE_CHECKING:
    from ....exporters.metrics.declared import Labelled, Scalar, Series

LEAST_SAMPLES = 3
"""Readings before a run counts."""
MOST_RUNS, MOST_GROUPS = 24, 2_000
"""Last runs of a group under one limit, and groups, that are remembered."""
STALE_S = 120.0
"""Speed and power that lie further apart belong to different moments."""

Group = tuple[Kind, int]
Run = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Mean:
    """What was seen of one run under one limit, for each of its GPUs."""

    rate: float
    watts: float
    throttled: float | None
    samples: int
    last_s: float


@dataclass(frozen=True, slots=True)
class CappedGpus:
    """The GPUs of a job, all of them known and under one limit."""

    gpus: tuple[GpuReading, ...]
    limit_watts: float

    @property
    def watts(self) -> float:
        """Return the mean power of a GPU."""
        return sum(gpu.power_watts or 0.0 for gpu in self.gpus) / len(self.gpus)

    @property
    def throttled(self) -> float | None:
        """Return the share of GPUs that their power limit holds down; None where one of them does not tell."""
        reasons = [gpu.detail.throttled_by for gpu in self.gpus]
        return None if None in reasons else sum("power" in (why or ()) for why in reasons) / len(reasons)


class PowerCapRecommender:
    """Watches speed and power of runs by their power limit, and compares what like runs had."""

    def __init__(self, settings: PowerCapsSettings) -> None:
        self._settings = settings
        self._groups: dict[Group, dict[float, dict[Run, Mean]]] = {}

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return the limits that running jobs would do with."""
        models, held = Models(context.snapshot.nodes), HeldGpus(context.telemetry.gpus, context.snapshot.nodes)
        given = [facts for facts in context.facts if isinstance(facts, Throughput)]
        speeds = readings(context.snapshot.jobs, given, held)
        running = [(job, group, gpus) for job in context.snapshot.jobs if job.state is JobState.RUNNING
                   and (gpus := _held(job, held)) and (group := (kind_of(job, models.of(job)), len(gpus.gpus)))]
        for job, group, gpus in running:
            self._watch(job, group, gpus, speeds.get(job.key))
        capped = {job.key: self._advice(job, group, gpus, context.now_s) for job, group, gpus in running}
        rows = [row for job in context.snapshot.jobs if job.state is JobState.RUNNING
                and (row := _better(capped.get(job.key), self._profile(job, held, context.now_s)))]
        rows.sort(key=lambda row: (-row.saves_ratio * row.gpus, row.job_id))
        return Recommendations(context.now_s, tuple(rows),
                               _metrics(context.telemetry.gpus, told_apart(rows, context.snapshot.jobs)[:ADVICE]))

    def _watch(self, job: Job, group: Group, held: CappedGpus, speed: ThroughputSample | None) -> None:
        """Take a measured speed with its power into the mean of a run; one that is not newer is no news."""
        if speed is None or speed.basis != THROUGHPUT or job.start_s is None or not speed.rate > 0 or not held.watts:
            return
        if speed.time_s - job.start_s < self._settings.settle or any(
                abs(speed.time_s - gpu.time_s) > STALE_S for gpu in held.gpus):
            return
        limits = self._groups.pop(group, {})
        self._groups[group] = limits  # those seen last stay
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        runs, key = limits.setdefault(held.limit_watts, {}), (*job.key, job.start_s)
        old = runs.pop(key, Mean(0.0, 0.0, 0.0, 0, -math.inf))
        runs[key] = old if speed.time_s <= old.last_s else _taken(old, speed, held)
        while len(runs) > MOST_RUNS:
            del runs[next(iter(runs))]

    def _advice(self, job: Job, group: Group, held: CappedGpus, now_s: float) -> PowerCap | None:
        """Return the limit that saves most for sure; None where none was measured, or none is worth it."""
        limits = self._groups.get(group, {})
        now = _counted(limits.get(held.limit_watts, {}))
        best: PowerCap | None = None
        for cap, runs in limits.items():
            tried = _counted(runs)
            if cap >= held.limit_watts or min(len(now), len(tried)) < LEAST_RUNS or not _may(held, cap):
                continue
            row = self._row(job, held, cap, tried, now, now_s)
            if row.saves_interval[0] > 0 and row.slower_interval[1] <= self._settings.slower and (
                    best is None or row.saves_interval[0] > best.saves_interval[0]):
                best = row
        return best

    def _profile(self, job: Job, known: HeldGpus, now_s: float) -> PowerCap | None:
        """Return the workload power profile that saves most for sure, by what the site has measured itself."""
        gpus = [gpu for part in job.allocations for gpu in known.of(part)] if self._settings.profiles else []
        return best_profile(job, gpus, self._settings, now_s)

    def _row(self, job: Job, held: CappedGpus, cap: float, tried: Sequence[Mean], now: Sequence[Mean],
             now_s: float) -> PowerCap:
        saves, saves_interval = lost([run.watts / run.rate for run in tried], [run.watts / run.rate for run in now])
        slower, slower_interval = lost([run.rate for run in tried], [run.rate for run in now])
        throttled = [run.throttled for run in now if run.throttled is not None]
        profile = enforcing(self._settings.profiles, held.gpus, cap)
        command = setting(profile) if profile else f"nvidia-smi -i {{gpus}} -pl {cap:.0f}"
        return PowerCap(
            job.job_id, job.submit_s, job.partition, job.user, now_s, tuple(part.node for part in job.allocations),
            len(held.gpus), held.limit_watts, cap, saves, saves_interval, slower, slower_interval,
            (len(tried), len(now)), sum(throttled) / len(throttled) if throttled else None,
            tuple(commands(held.gpus, command)), profile=called(profile) if profile else "")


def _better(one: PowerCap | None, other: PowerCap | None) -> PowerCap | None:
    """Return the power limit that surely saves more of two, either of which may be None."""
    return max((row for row in (one, other) if row), key=lambda row: row.saves_interval[0], default=None)


def _held(job: Job, known: HeldGpus) -> CappedGpus | None:
    """Return a job's GPUs; None unless all are known, measured, of NVIDIA's, and under one limit."""
    gpus = [gpu for part in job.allocations for gpu in known.of(part)]
    gpus_known = tuple(gpu for gpu in gpus if gpu is not None and gpu.power_watts and gpu.power_limit_watts
                       and gpu.uuid.startswith("GPU-"))
    limits = {round((gpu.power_limit_watts or 0.0) / STEP_WATTS) * STEP_WATTS for gpu in gpus_known}
    if not gpus_known or len(gpus_known) != len(gpus) or len(limits) != 1:
        return None
    return CappedGpus(gpus_known, limits.pop())


def _taken(old: Mean, speed: ThroughputSample, held: CappedGpus) -> Mean:
    count = old.samples + 1

    def mean(before: float, value: float) -> float:
        return (before * old.samples + value) / count

    throttled = held.throttled
    return Mean(mean(old.rate, speed.rate / len(held.gpus)), mean(old.watts, held.watts),
                None if throttled is None or old.throttled is None else mean(old.throttled, throttled), count,
                speed.time_s)


def _counted(runs: Mapping[Run, Mean]) -> list[Mean]:
    return [run for run in runs.values() if run.samples >= LEAST_SAMPLES]


def _may(held: CappedGpus, cap: float) -> bool:
    """Tell whether the GPUs take such a limit, as far as they tell."""
    return all(gpu.detail.least_limit_watts is None or cap >= gpu.detail.least_limit_watts for gpu in held.gpus)


def _metrics(gpus: Iterable[GpuReading], rows: Sequence[PowerCap]) -> dict[str, Scalar | Series]:
    """Return the GPUs whose limit is below their default, those that are held down by reason, and what is advised."""
    readings = list(gpus)
    held = Counter(why for gpu in readings for why in gpu.detail.throttled_by or ())
    below = [gpu for gpu in readings if gpu.power_limit_watts is not None and gpu.detail.default_limit_watts is not None
             and gpu.power_limit_watts < gpu.detail.default_limit_watts - STEP_WATTS]
    caps: Labelled = {(row.partition, row.job_id, f"{row.cap_watts:.0f}", bound): value
                      for row in rows if not row.profile for bound, value in _bounds(row)}
    profiles: Labelled = {(row.partition, row.job_id, row.profile, bound): value
                          for row in rows if row.profile for bound, value in _bounds(row)}
    return {"capped_gpus": float(len(below)) if any(gpu.detail.default_limit_watts for gpu in readings) else None,
            "throttled_gpus": {why: float(count) for why, count in held.items()},
            "power_cap_saving_ratio": caps, "power_profile_saving_ratio": profiles}


def _bounds(row: PowerCap) -> tuple[tuple[str, float], ...]:
    low, high = row.saves_interval
    return ("estimate", row.saves_ratio), ("low", low), ("high", high)


def _cells(row: Mapping[str, Any]) -> Mapping[str, Any]:
    throttled = row["throttled_ratio"]
    limit = "now" if row["limit_watts"] is None else f"{row['limit_watts']:.0f}{' W' * bool(row['profile'])}"
    change = f"profile {row['profile']}" if row["profile"] else f"{row['cap_watts']:.0f} W"
    return {**row, "change": f"{limit} \N{RIGHTWARDS ARROW} {change}",
            "saves": _share(row["saves_ratio"], row["saves_interval"]),
            "slower": _share(row["slower_ratio"], row["slower_interval"]),
            "throttled": None if throttled is None else f"{100 * throttled:.0f} %",
            "runs": " + ".join(map(str, row["runs"])), "how": "; ".join(row["commands"])}


def _share(ratio: float, interval: Sequence[float]) -> str:
    return f"{100 * ratio:.0f} % ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


register(RecommenderKind("power_caps", PowerCap, lambda settings, history: PowerCapRecommender(settings), {
    "job_id": "job", "partition": "partition", "gpus": "GPUs", "change": "power limit", "saves": "saves energy",
    "slower": "slower", "throttled": "held down now", "runs": "runs", "how": "how"}, _cells,
    "of no job like runs were measured under a lower power limit or with a power profile", ("throughput",)))
