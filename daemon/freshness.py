"""How old what is known may be and how often sources are read, by the configuration; and why there is no advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..exporters.source import Role, Watched
from .advice.advisor import Advice
from .advice.recommenders import subjects
from .config import Settings
from .current import Ages
from .cycles import CycleHealth
from .degraded import HealthFacts, SourceSeen, unread

ACCOUNTING = "accounting"
"""What a Slurm source calls the target that is read when runs are recorded, less often than its others."""
Beats = Mapping[str, CycleHealth]


def ages(settings: Settings, speed: float, beats: Beats) -> Ages:
    """Return how old what advice rests on may be, on a clock that runs ``speed`` times as fast as ours."""
    periods = {name: cycle.period_s * speed for name, cycle in beats.items()}
    return Ages(settings.waste.scheduler_max_age, periods["advise"], periods)


def sources_seen(sources: Iterable[Watched], settings: Settings, beats: Beats, speed: float) -> tuple[SourceSeen, ...]:
    """Return how the sources and their targets fare, each with the time between two of its reads."""
    return tuple(SourceSeen(watched.status, watched.kind, _period_s(watched.role, settings, beats) * speed,
                            watched.health(), {ACCOUNTING: settings.cycles.record * speed}) for watched in sources)


def _period_s(role: Role, settings: Settings, beats: Beats) -> float:
    if role == "telemetry":
        return settings.cycles.scrape
    asked = (beats[name].period_s for name, subject in subjects().items() if role in subject.reads and name in beats)
    return max((settings.cycles.jobs, *asked))


def unadvised(seen: HealthFacts, advice: Advice | None, *, compiling: bool) -> str:
    """Return why there is no advice, in words; '' when there is."""
    if advice is not None and not advice.withdrawn:
        return ""  # of two schedulers the other may be silent: that is degraded, and costs only its own
    silent = unread(seen)
    if silent:
        return "no advice: " + "; ".join(one.words for one in silent)
    if compiling:
        return "no advice yet: policies are being compiled"
    return "no advice yet: the first round has not ended" if advice is None else "no advice: the last is too old"
