"""Slurm's words for priority/multifactor and sched/backfill, from ``scontrol show config`` or a file, as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

_DURATION = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$")
_NOTHING = ("", "(null)", "none", "n/a")
WEIGHTS = {"PriorityWeightAge": "age", "PriorityWeightAssoc": "association", "PriorityWeightFairShare": "fair_share",
           "PriorityWeightJobSize": "job_size", "PriorityWeightPartition": "partition", "PriorityWeightQOS": "qos"}
"""Lines of slurm.conf and the factor that each weighs."""
PRIORITY_LINES = (*WEIGHTS, "PriorityType", "PriorityWeightTRES", "PriorityMaxAge", "PriorityDecayHalfLife",
                  "PriorityCalcPeriod", "PriorityFavorSmall", "PriorityFlags", "FairShareDampeningFactor",
                  "PriorityUsageResetPeriod")
"""All lines that decide about priorities."""
WEIGHED_RESOURCES = frozenset(("cpu", "mem", "node", "billing", "gres/gpu"))
"""What PriorityWeightTRES may weigh in a replay, beside GPUs of a model (``gres/gpu:a100``)."""
FOLLOWED_FLAGS = frozenset((
    "FAIR_TREE", "NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME", "SMALL_RELATIVE", "MAX_TRES", "MAX_TRES_GRES",
    "NO_NORMAL_ALL", "NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"))
"""PriorityFlags that replays go by, or that change nothing else."""


@dataclass(frozen=True)
class PrioritySettings:
    """What priority/multifactor goes by. The defaults are Slurm's; ``unset`` names the lines that are unknown."""

    age: float = 0.0
    """Weights of the factors, each of which is 0 to 1."""
    association: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Weights of trackable resources by name: ``cpu``, ``mem``, ``gres/gpu``."""
    max_age_s: float = 7 * 86400.0
    half_life_s: float = 7 * 86400.0
    """0 for usage that never decays."""
    calc_period_s: float = 300.0
    """How often usage is booked and priorities are computed again."""
    favor_small: bool = False
    flags: frozenset[str] = frozenset()
    """Upper case, as ``NO_FAIR_TREE``, ``SMALL_RELATIVE_TO_TIME``, ``MAX_TRES``."""
    dampening: float = 1.0
    unset: tuple[str, ...] = PRIORITY_LINES
    unfollowed: tuple[str, ...] = ()
    """What Slurm goes by and a replay does not, as it stands in slurm.conf."""

    @property
    def fair_tree(self) -> bool:
        """Tell whether fair-share is by Fair Tree, Slurm's default, and not by the classic formula."""
        return "NO_FAIR_TREE" not in self.flags and "DEPTH_OBLIVIOUS" not in self.flags

    @property
    def decay(self) -> float:
        """Return what is left of usage after a second; Slurm's own approximation of a half-life."""
        return 1.0 - 0.693 / self.half_life_s if self.half_life_s > 0 else 1.0

    def normal(self, what: str) -> bool:
        """Tell whether a factor, ``ASSOC``, ``QOS``, ``PART`` or ``TRES``, is brought to 0..1 before it is weighed."""
        return not self.flags & {"NO_NORMAL_ALL", f"NO_NORMAL_{what}"}

    @classmethod
    def of(cls, lines: Mapping[str, str]) -> PrioritySettings:
        """Return the settings in lines of ``scontrol show config``; ValueError names one that is no number."""
        weights = {name: _number(key, lines[key]) for key, name in WEIGHTS.items() if key in lines}
        flags = frozenset(flag.strip().upper() for flag in lines.get("PriorityFlags", "").split(",")
                          if flag.strip().lower() not in _NOTHING)
        others: dict[str, float] = {
            name: read(key, lines[key]) for key, name, read in (
                ("PriorityMaxAge", "max_age_s", _seconds), ("PriorityDecayHalfLife", "half_life_s", _seconds),
                ("PriorityCalcPeriod", "calc_period_s", _seconds), ("FairShareDampeningFactor", "dampening", _number))
            if key in lines}
        priority = cls(**{**weights, **others}, resources=_resources(lines.get("PriorityWeightTRES", "")),
                       favor_small=lines.get("PriorityFavorSmall", "").strip().lower() in ("yes", "1", "true"),
                       flags=flags, unset=tuple(key for key in PRIORITY_LINES if key not in lines), unfollowed=())
        return replace(priority, unfollowed=tuple(_unfollowed(priority, lines)))


def _unfollowed(settings: PrioritySettings, lines: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that replays ignore although they matter, unless associations are known besides."""
    if settings.association:
        yield "PriorityWeightAssoc"
    for name, weight in settings.resources.items():
        if weight and name not in WEIGHED_RESOURCES and not name.startswith("gres/gpu:"):
            yield f"PriorityWeightTRES={name}"
    yield from (f"PriorityFlags={flag}" for flag in sorted(settings.flags - FOLLOWED_FLAGS))
    if settings.fair_share and _set(lines, "PriorityUsageResetPeriod"):
        yield "PriorityUsageResetPeriod"
    if _set(lines, "PrioritySiteFactorPlugin"):
        yield "PrioritySiteFactorPlugin"


def _set(lines: Mapping[str, str], line: str) -> bool:
    return lines.get(line, "").strip().lower() not in (*_NOTHING, "0")


MULTIFACTOR = "multifactor+slurm-placement+slurm-backfill"
"""What Slurm does with priority/multifactor and sched/backfill, in our words, for replays."""
LIVE = {MULTIFACTOR: "priority+first-fit+easy"}
"""What stands for it live, where Slurm tells its priorities: its plans would take seconds for thousands of jobs."""


def own_policy(lines: Mapping[str, str]) -> str | None:
    """Return the policy that decides as a scheduler with these settings; None where they leave something open."""
    multifactor = lines.get("PriorityType", "").strip().lower().endswith("/multifactor")
    try:
        return MULTIFACTOR if multifactor and not PrioritySettings.of(lines).unset else None
    except ValueError:
        return None


UNFOLLOWED = frozenset((
    "assoc_limit_stop", "bf_busy_nodes", "bf_ignore_newly_avail_nodes", "bf_job_part_count_reserve", "bf_licenses",
    "bf_max_job_assoc", "bf_max_job_part", "bf_max_job_start", "bf_max_job_user", "bf_max_job_user_part", "bf_max_time",
    "bf_min_age_reserve", "bf_min_prio_reserve", "bf_one_resv_per_job", "default_queue_depth", "max_sched_time",
    "max_switch_wait", "pack_serial_at_end", "partition_job_depth", "reduce_completing_frag"))
"""``SchedulerParameters`` that change which jobs Slurm looks at, keeps room for or places where, but no replay."""


@dataclass(frozen=True)
class BackfillSettings:
    """What sched/backfill goes by. The defaults are those of Slurm 22.05."""

    interval_s: float = 30.0
    """How long the scheduler pauses between two walks through the queue."""
    window_s: float = 86400.0
    """How far ahead starts are planned."""
    resolution_s: float = 60.0
    """Plans begin and end at multiples of this."""
    jobs_tested: int = 500
    """Jobs that one walk looks at."""
    array_plans: int = 20
    """Tasks of an array for which one walk keeps nodes (``bf_max_job_array_resv``); it does for one at least."""
    looks_s: float = 0.0
    """How often the quick pass looks; 0 for whenever something happens. Slurm's controller does once a second, which
    only jobs of seconds notice."""
    began_s: float = -math.inf
    """When the last walk before the replay began; the first one is otherwise when the first job comes."""
    unfollowed: tuple[str, ...] = ()
    """Names of parameters that Slurm goes by and a replay does not."""

    @classmethod
    def of(cls, parameters: tuple[str, ...]) -> BackfillSettings:
        """Return the settings among ``SchedulerParameters``; what is not among them has Slurm's default."""
        pairs = {name.strip().lower(): value.strip()
                 for name, _, value in (parameter.partition("=") for parameter in parameters)}
        values = {name: value for name, value in pairs.items() if value}
        unfollowed = tuple(sorted(name for name, value in pairs.items() if name in UNFOLLOWED and value != "0"))
        return cls(_parameter(values, "bf_interval", 30.0), _parameter(values, "bf_window", 1440.0) * 60.0,
                   _parameter(values, "bf_resolution", 60.0), max(1, int(_parameter(values, "bf_max_job_test", 500.0))),
                   1 if values.get("bf_max_job_array_resv") == "0" else
                   max(1, int(_parameter(values, "bf_max_job_array_resv", 20.0))), unfollowed=unfollowed)


def _parameter(values: Mapping[str, str], name: str, usual: float) -> float:
    """Return a parameter, or Slurm's default where it is missing or nonsense."""
    try:
        value = float(values.get(name, usual))
    except ValueError:
        return usual
    return value if 0 < value < float("inf") else usual


def _number(line: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{line}={text[:40]!r} is no number") from None


def _seconds(line: str, text: str) -> float:
    """Return the seconds of ``[days-]hours:minutes:seconds``, or of plain minutes as in slurm.conf."""
    match = _DURATION.match(text.strip())
    if match is None:
        if text.strip().lower() in (*_NOTHING, "unlimited"):
            return 0.0
        raise ValueError(f"{line}={text[:40]!r} is no duration")
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[1] is not None:
        return days * 86400.0 + first * 3600.0 + second * 60.0 + third
    if match[3] is None:
        return first * 60.0
    return first * 3600.0 + second * 60.0 + third if match[4] is not None else first * 60.0 + second


def _resources(text: str) -> dict[str, float]:
    """Return ``CPU=1000,GRES/gpu=3000`` by name, lower case."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip().lower(): _number("PriorityWeightTRES", value) for name, _, value in pairs}
