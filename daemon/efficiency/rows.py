"""The rows that page, API and command line show alike: joules, seconds, watts, ratios; what is unknown is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from ...storage.energy_queries import RunRow
from ...storage.energy_schema import CLASS_COLUMNS
from ...storage.power_classes import PowerClass
from ...storage.records import Job, JobState
from ...storage.underuse import Cause
from ..pricing import Cost, Costing
from ..waste import HeldRun

Classes = Mapping[PowerClass, float]
"""Joules by class, those with energy only."""


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """What a user, an account, a partition, a node, a day, a job or a class took; '' is what nobody held."""

    name: str
    energy_joules: float
    wasted_joules: float
    """In the requested classes."""
    classes: Classes
    gpu_seconds: float
    activity: float | None
    """Mean share of the measured time that its GPUs worked, 0..1."""
    measured_share: float | None
    """Share of its GPU-seconds with activity measured."""
    cost: Cost | None
    class_costs: Classes = field(default_factory=dict)
    """Money of each class, as far as its price is known."""
    partition: str = ""
    """Of a job: several clusters may have a job of one id. '' of all else."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One run of a job that was recorded."""

    job_id: str
    submit_s: float
    start_s: float
    end_s: float | None
    """None while it runs."""
    state: JobState
    user: str
    account: str
    partition: str
    name: str
    gpus: float
    gpu_model: str
    energy_joules: float
    wasted_joules: float
    classes: Classes
    gpu_seconds: float
    activity: float | None
    measured_share: float | None
    seen_seconds: float
    """How long of its time it was looked at."""
    shared_share: float
    """Share of its GPU-seconds on GPUs that others held too, or of which it held a part."""
    power_mean_watts: float | None
    power_max_watts: float | None
    memory_max_bytes: float | None
    """Of its fullest GPU."""
    idle_gpus: tuple[str, ...] | None
    """GPUs that were never seen at work; None where that is not known."""
    cost: Cost | None
    class_costs: Classes = field(default_factory=dict)
    """Money of each class, as far as its price is known."""


@dataclass(frozen=True, slots=True)
class Note:
    """What stands out of a job, and what to do about it."""

    words: str
    fix: str = ""
    kind: str = ""
    """What it is, by the name that rules of notices call it; '' of what no rule names."""


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Why the GPUs of a run were underused for some of the time."""

    cause: Cause
    words: str
    share_ratio: float
    """Of the judged time of its GPUs."""
    confidence: float
    evidence: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One GPU over time, or all classes of a run: a point per window."""

    name: str
    start_s: tuple[float, ...]
    seconds: tuple[float, ...]
    watts: tuple[float | None, ...]
    activity: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job with all that is known of one of its runs."""

    job: Job
    """With what that run held."""
    run: JobRow | None
    """None when nothing of it was recorded."""
    notes: tuple[Note, ...]
    waited_s: float | None
    """From when it could start until it did."""
    reasons: tuple[str, ...]
    """Why it waited, one after the other."""
    cpus_used: float | None
    """On the node where it used most, as is the memory; None where neither was measured for long enough."""
    memory_used_bytes: float | None
    classes: tuple[ChartSeries, ...]
    """Watts of each class over time."""
    series: tuple[ChartSeries, ...]
    """Watts and activity of each GPU over time, where the scheduler named them."""
    series_source: str = ""
    """From where that is known, in words; why not from the Prometheus that was to tell it."""
    causes: tuple[CauseRow, ...] = ()
    """Why its GPUs were underused, as far as that is known; what was seen longest first."""
    judged_ratio: float | None = None
    """Share of its GPU-seconds that were examined for a cause; None where nothing was."""


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A running job that wastes power now."""

    job_id: str
    user: str
    account: str
    partition: str
    name: str
    power_class: PowerClass
    """The one with the most wasted watts."""
    gpus: int
    """That waste."""
    gpus_held: int
    power_watts: float
    wasted_watts: float
    energy_joules: float | None = None
    """Since its start, as far as it was recorded."""
    wasted_joules: float | None = None
    cost: Cost | None = None
    since_s: float | None = None
    """Since when; for GPUs that are used too little, since the start."""
    action: str = ""
    command: str = ""
    run: Annotated[HeldRun | None, Field(exclude=True)] = None
    """What identifies its run; in no answer."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What every kind of row says of its sums."""

    joules: float
    wasted: float
    classes: Classes
    gpu_seconds: float
    activity: float | None
    measured: float | None
    cost: Cost | None
    class_costs: Classes


def parts(sums: Mapping[str, int], costing: Costing, wasted: tuple[PowerClass, ...]) -> _Parts:
    """Return sums in base units."""
    held, measured = sums["gpu_ms"], sums["measured_ms"]
    return _Parts(
        sums["energy_mj"] / 1000, sum(sums[CLASS_COLUMNS[power_class]] for power_class in wasted) / 1000,
        {power_class: sums[column] / 1000 for power_class, column in CLASS_COLUMNS.items() if sums[column]},
        held / 1000,
        sums["active_ms"] / measured if measured else None, min(1.0, measured / held) if held else None,
        costing.of(sums), costing.of_classes(sums))


def energy_row(name: str, sums: Mapping[str, int], costing: Costing, wasted: tuple[PowerClass, ...]) -> EnergyRow:
    """Return the row of a sum."""
    figures = parts(sums, costing, wasted)
    return EnergyRow(name, figures.joules, figures.wasted, figures.classes, figures.gpu_seconds, figures.activity,
                     figures.measured, figures.cost, figures.class_costs)


def job_row(run: RunRow, costing: Costing, wasted: tuple[PowerClass, ...]) -> JobRow:
    """Return the row of a run."""
    figures = parts(run.sums, costing, wasted)
    return JobRow(
        run.job_id, run.submit_s, run.start_s, run.end_s, run.state, run.user, run.account, run.partition, run.name,
        run.gpus, run.gpu_model, figures.joules, figures.wasted, figures.classes, figures.gpu_seconds, figures.activity,
        figures.measured, run.seen_s, run.shared_s / figures.gpu_seconds if figures.gpu_seconds else 0.0,
        figures.joules / run.seen_s if run.seen_s else None, run.power_max_watts, run.memory_max_bytes, run.idle,
        figures.cost, figures.class_costs)
