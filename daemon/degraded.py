"""What is wrong with what the daemon knows: one list, in one vocabulary, for page, command line, metrics and JSON.

``found`` is a pure function of what has been seen; ``Chronicle`` remembers since when each fault has stood, and tells
the log. Everybody shows ``Degradation.words`` as they are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..exporters.metrics.declared import DEGRADED
from ..exporters.source import Role, SourceStatus, TargetHealth, Watched
from ..storage.history import Recording
from ..storage.power_classes import PowerClass
from ..storage.records import NodeState, SchedulerSnapshot
from .advice.recommenders import subjects
from .cycles import WITH_JOBS, CycleHealth
from .durations import span
from .moments import moment
from .settings.degraded import DegradedSettings
from .settings.sections import Sections

if TYPE_CHECKING:
    from .waste import Assessment

log = logging.getLogger(__name__)

_CALLED = {"kubernetes": "Kubernetes"}
ACCOUNTING = "accounting"
"""What a Slurm source calls the target that is read when runs are recorded, less often than its others."""
AHEAD_S = 60.0
"""By how much a fact may be younger than now: clocks of one site differ by seconds. A clock steps by more than this."""
BEATS = 4.0
"""A source or target that was read last more beats ago is slow, whatever its last read returned,"""
QUIET_S = 60.0
"""unless that is no longer ago than this."""
LEAST_S = 5.0
"""A read or run that takes less long is not slow, however short its beat."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Notices that were tried and wait."""

    notices: int
    since_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Degradation:
    """One thing that is wrong with what the daemon knows."""

    cause: str
    """One of ``DEGRADED``."""
    subject: str
    """The source or cycle that it is about; '' where there is only one."""
    words: str
    """What is wrong and since when, for people; the same words everywhere."""
    since_s: float | None = None
    """Since when; None where it has been so from the beginning."""


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """How a source and its targets fare."""

    status: SourceStatus
    kind: str = ""
    period_s: float = 15.0
    """Time between two reads, on the daemon's clock."""
    targets: tuple[TargetHealth, ...] = ()
    seldom: Mapping[str, float] = field(default_factory=dict)
    """Time between two reads of targets that are read less often, by name."""

    @property
    def called(self) -> str:
        """Return the name by which people know the source."""
        return "Slurm" if self.kind.startswith("slurm") else _CALLED.get(self.kind, self.status.name)


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What is known at one moment of how the daemon itself fares."""

    now_s: float
    sources: tuple[SourceSeen, ...] = ()
    cycles: Mapping[str, CycleHealth] = field(default_factory=dict)
    recording: Recording = Recording()
    unmeasured: float | None = None
    """Share of GPUs without fresh readings; None where there are none."""
    away: frozenset[str] = frozenset()
    """Nodes out of service: their exporters may be silent."""
    step_s: float = 0.0
    """The seconds by which the clock has jumped lately, negative where it was set back."""
    stepped_s: float | None = None
    """When."""
    scheduler_max_age_s: float = float("inf")
    limits: DegradedSettings = DegradedSettings()
    undelivered: Undelivered | None = None
    """Notices that nobody took."""
    latest_event_s: float | None = None
    """The latest submission or start of a job by the scheduler's clock; None where there are no jobs."""


def believed(time_s: float | None, now_s: float, max_age_s: float) -> bool:
    """Tell whether what was known at a time may still be acted upon now.

    What comes from the future is not believed: the clock was set back since, and its true age is unknown.
    """
    return time_s is not None and -AHEAD_S <= now_s - time_s <= max_age_s


def sources_seen(sources: Iterable[Watched], settings: Sections, beats: Mapping[str, CycleHealth],
                 speed: float) -> tuple[SourceSeen, ...]:
    """Return how the sources and their targets fare, each with the time between two of its reads.

    The daemon's clock runs ``speed`` times as fast as ours.
    """
    return tuple(SourceSeen(watched.status, watched.kind, _period_s(watched.role, settings, beats) * speed,
                            watched.health(), {ACCOUNTING: settings.cycles.record * speed}) for watched in sources)


def _period_s(role: Role, settings: Sections, beats: Mapping[str, CycleHealth]) -> float:
    if role == "telemetry":
        return settings.cycles.scrape
    if role in WITH_JOBS:
        return settings.cycles.jobs
    periods = (beats[name].period_s for name, kind in subjects().items() if role in kind.reads and name in beats)
    return max((settings.cycles.jobs, *periods))


def unread(seen: HealthFacts) -> list[Degradation]:
    """Return the schedulers whose newest good read is too old to act upon, or that were never read."""
    several = sum(source.status.role == "scheduler" for source in seen.sources) > 1
    return [_dated(Degradation("scheduler_unread", source.status.name,
                               f"{source.called}{f' ({source.status.name})' if several else ''} not read",
                               source.status.last_success_s), seen.now_s, "yet")
            for source in seen.sources
            if source.status.role == "scheduler"
            and not believed(source.status.last_success_s, seen.now_s, seen.scheduler_max_age_s)]


def found(seen: HealthFacts, since: Mapping[tuple[str, str], float] | None = None) -> tuple[Degradation, ...]:
    """Return all that is wrong, the worst first.

    ``since`` holds, by cause and subject, the begin of degradations without a date of their own.
    """
    return _with_dates(_wrong(seen), seen.now_s, since or {})


def _wrong(seen: HealthFacts) -> tuple[list[Degradation], list[Degradation]]:
    """Return what is wrong: first what has its date in its text already, then what has not."""
    dated = unread(seen)
    silent = {condition.subject for condition in dated}
    undated = [*_backlog(seen), *_cycles(seen), *_unmeasured(seen), *_notices(seen)]
    for source in seen.sources:
        if source.status.reads and source.status.name not in silent:  # one that nothing reads has not failed
            undated += _source(source, seen.now_s)
            undated += _targets(source, seen)
    return [*dated, *(_behind(seen) or _step(seen))], undated


def _with_dates(wrong: tuple[list[Degradation], list[Degradation]], now_s: float,
                stood: Mapping[tuple[str, str], float]) -> tuple[Degradation, ...]:
    """Return what is wrong with its dates, the worst first."""
    known, undated = wrong
    since = (condition if condition.since_s is not None
             else replace(condition, since_s=stood.get((condition.cause, condition.subject)))
             for condition in undated)
    dated = [_dated(condition, now_s) for condition in since]
    return tuple(sorted((*known, *dated), key=lambda condition: (DEGRADED.index(condition.cause), condition.subject)))


def _dated(degradation: Degradation, now_s: float, never: str = "") -> Degradation:
    """Return a degradation with its date in its words."""
    date = never if degradation.since_s is None else f"since {moment(degradation.since_s, now_s)}"
    return replace(degradation, words=f"{degradation.words} {date}".rstrip())


def _source(source: SourceSeen, now_s: float) -> Iterator[Degradation]:
    """Yield that a source fails, or is green and has not brought anything for long, or takes too long."""
    status, name = source.status, source.status.name
    if not status.success:
        yield Degradation("source_down", name, f"{source.called} not read", status.last_success_s)
    elif not believed(status.last_success_s, now_s, _quiet_s(source.period_s)):
        yield Degradation("source_slow", name, f"{source.called} not read", status.last_success_s)
    elif status.duration_s > max(source.period_s, LEAST_S):
        yield Degradation("source_slow", name, f"{source.called} takes {_time(status.duration_s)} to read, more than "
                                               f"its period of {_time(source.period_s)}")


def _targets(source: SourceSeen, seen: HealthFacts) -> Iterator[Degradation]:
    """Yield that more than the usual share of a source's targets are down, or slow; of several targets only."""
    if not source.status.success or len(source.targets) < 2:
        return
    wanted = [target for target in source.targets if target.node not in seen.away or not target.node]
    down = sum(not target.up for target in wanted)
    slow = sum(target.up and _slow(target, source, seen.now_s) for target in wanted)
    for cause, count, state in (("targets_down", down, "down"), ("targets_slow", slow, "slow")):
        if count > seen.limits.targets * len(wanted):
            yield Degradation(cause, source.status.name,
                              f"{count} of {len(wanted)} {source.status.name} targets {state}")


def _slow(target: TargetHealth, source: SourceSeen, now_s: float) -> bool:
    if target.duration_s <= LEAST_S and believed(target.last_success_s, now_s, QUIET_S):
        return False  # whatever its period
    period_s = max(source.period_s, source.seldom.get(target.target, 0.0), target.beat_s)
    return target.duration_s > max(period_s, LEAST_S) or not believed(target.last_success_s, now_s, _quiet_s(period_s))


def _quiet_s(period_s: float) -> float:
    return max(QUIET_S, BEATS * period_s)


def _cycles(seen: HealthFacts) -> Iterator[Degradation]:
    for name, cycle in seen.cycles.items():
        lasted = max(cycle.last_duration_s or 0.0, cycle.running_s or 0.0)
        if lasted > max(cycle.period_s, LEAST_S):
            yield Degradation("cycle_overrun", name, f"the cycle {name} takes {_time(lasted)}, more than its period of "
                                                     f"{_time(cycle.period_s)},")
        elif cycle.failed:
            yield Degradation("cycle_failing", name, f"the cycle {name} fails (the log says why)")


def _backlog(seen: HealthFacts) -> Iterator[Degradation]:
    recording = seen.recording
    if not recording.possible or recording.backlog > seen.limits.backlog:
        why = f" ({recording.reason})" if recording.reason else ""
        yield Degradation("database_behind", "", f"{recording.backlog:,} facts not written to the database{why}",
                          recording.since_s)


def _unmeasured(seen: HealthFacts) -> Iterator[Degradation]:
    if seen.unmeasured is not None and seen.unmeasured > seen.limits.unmeasured:
        yield Degradation("unmeasured", "", f"{100 * seen.unmeasured:.0f} % of the GPUs not measured")


def _notices(seen: HealthFacts) -> Iterator[Degradation]:
    waits = seen.undelivered
    if waits is not None:
        yield Degradation("notices_behind", "", f"{waits.notices:,} notices not delivered ({waits.why})", waits.since_s)


def _step(seen: HealthFacts) -> Iterator[Degradation]:
    """Yield that the clock has jumped, as long as figures may still rest on times of both sides."""
    if seen.stepped_s is None:
        return
    how = "set back" if seen.step_s < 0 else "set forward, or the machine slept,"
    yield Degradation("clock_step", "", f"the clock was {how} by {span(abs(seen.step_s))} at "
                                        f"{moment(seen.stepped_s, seen.now_s)}", seen.stepped_s)


def _behind(seen: HealthFacts) -> list[Degradation]:
    """Return that the scheduler's jobs have times to come: a new database cannot tell that the clock is wrong."""
    latest_s = seen.latest_event_s
    if latest_s is None or latest_s - seen.now_s <= AHEAD_S:
        return []
    return [Degradation("clock_step", "", f"a job was submitted or started at {moment(latest_s, seen.now_s)}, "
                                          f"{_time(latest_s - seen.now_s)} after now: the clock of this machine or of "
                                          "the scheduler is wrong")]


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else span(seconds)


def unmeasured_share(assessment: Assessment | None) -> float | None:
    """Return the share of GPUs without fresh readings, of nodes in service; None where there are none."""
    gpus = [gpu for gpu in assessment.gpu_verdicts if gpu.state is not PowerClass.UNAVAILABLE] if assessment else []
    return sum(gpu.state is PowerClass.UNMEASURED for gpu in gpus) / len(gpus) if gpus else None


def out_of_service(snapshot: SchedulerSnapshot | None) -> frozenset[str]:
    """Return the nodes that the scheduler does not use now."""
    nodes = snapshot.nodes if snapshot else ()
    return frozenset(node.name for node in nodes if node.state is not NodeState.UP)


def latest_event_s(snapshot: SchedulerSnapshot | None) -> float | None:
    """Return when a job was submitted or started last, by the scheduler's clock; None without jobs."""
    jobs = snapshot.jobs if snapshot else ()
    return max((job.start_s if job.start_s is not None and job.start_s > job.submit_s else job.submit_s
                for job in jobs), default=None)


class ClockWatch:
    """Compares a clock that runs ``speed`` times as fast as time with one that cannot be set, nor goes on in sleep."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0,
                 timer: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._speed, self._timer = clock, speed, timer
        self._lock = threading.Lock()
        self._ahead_s = self._offset()
        self.step_s, self.stepped_s = 0.0, float("-inf")

    def look(self, now_s: float, lasts_s: float) -> tuple[float, float | None]:
        """Return by how much the clock has jumped in the last ``lasts_s`` seconds, and when; None when it has not."""
        with self._lock:
            offset = self._offset()
            step, self._ahead_s = offset - self._ahead_s, offset
            if abs(step) > AHEAD_S * max(1.0, self._speed):
                log.warning("the clock was set, or the machine slept", extra={"seconds": round(step)})
                self.step_s, self.stepped_s = step, now_s
            recent = 0 <= now_s - self.stepped_s <= lasts_s
            return (self.step_s, self.stepped_s) if recent else (0.0, None)

    def _offset(self) -> float:
        return self._clock() - self._speed * self._timer()


class Chronicle:
    """Remembers since when what is wrong has been so, and says in the log when it begins and ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[tuple[str, str], float] = {}

    def look(self, seen: HealthFacts) -> tuple[Degradation, ...]:
        """Return all that is wrong now, each with its date."""
        with self._lock:
            wrong = _wrong(seen)
            now = {(condition.cause, condition.subject) for conditions in wrong for condition in conditions}
            over = self._since.keys() - now
            new = now - self._since.keys()
            self._since = {key: min(self._since.get(key, seen.now_s), seen.now_s) for key in now}
            dated = _with_dates(wrong, seen.now_s, self._since)
        _log_changes((condition for condition in dated if (condition.cause, condition.subject) in new), over)
        return dated


def _log_changes(new: Iterable[Degradation], over: Iterable[tuple[str, str]]) -> None:
    for condition in new:
        log.warning("degraded", extra={"cause": condition.cause, "what": condition.words})
    for cause, subject in sorted(over):
        log.info("no longer degraded", extra={"cause": cause, "subject": subject})
