"""What a configuration asks for, opened: sources, recommenders, policies to compile, how long history is kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ..exporters.causes import innermost
from ..exporters.source import Clock, SourceError, Watched
from ..storage.errors import StoreError
from ..storage.history import History
from ..storage.retention import Retention
from . import recorded_scheduling
from .advice.recommender import Recommender
from .advice.recommenders import subjects
from .advice.warm_up import WarmUp
from .config import ConfigError, Settings

log = logging.getLogger(__name__)


def kept_for(settings: Settings) -> Retention:
    """Return how long the history keeps each kind of record."""
    ages = settings.storage.retention
    return Retention(ages.rollups, ages.hourly_rollups, ages.waste, ages.hourly_waste, ages.jobs, ages.recommendations,
                     ages.speeds, ages.uses, ages.notices)


def with_recorded_scheduler(settings: Settings, history: History) -> Settings:
    """Return settings with the recorded incumbent of the scheduler; as configured where none is recorded."""
    try:
        return recorded_scheduling.with_recorded_scheduler(settings, history)
    except StoreError as error:
        log.warning("the recorded configuration of the scheduler cannot be read", extra={"error": str(error)})
        return settings


def heuristics(settings: Settings) -> tuple[str, ...]:
    """Return the heuristics that advise live."""
    return settings.advising(None), *settings.advice.shadow, settings.live_incumbent


def warm_up(settings: Settings) -> WarmUp:
    """Begin to compile what will advise live, in a process of its own."""
    return WarmUp(heuristics(settings))


def recommenders(settings: Settings, history: History, kept: Mapping[str, Recommender]) -> dict[str, Recommender]:
    """Return each enabled recommender; ConfigError names one whose settings are impossible."""
    opened = dict(kept)
    for name, subject in subjects().items():
        if name not in kept and settings.recommenders.of(name).enabled:
            try:
                opened[name] = subject.open(settings.recommenders.of(name), history)
            except ValueError as error:
                raise ConfigError(f"recommenders.{name}: {error}") from error
    return opened


def sources(settings: Settings, clock: Clock, kept: Mapping[str, Watched]) -> list[Watched]:
    """Return the configured sources, those that are kept as they are; ConfigError names the one that cannot be."""
    built: list[Watched] = []
    for config in settings.sources:
        try:
            built.append(kept.get(config.name or config.kind) or Watched(config.build(clock), clock, config.kind))
        except (OSError, ValueError, SourceError) as error:
            for watched in built:
                if watched not in kept.values():
                    watched.close()
            why = innermost(error) if isinstance(error, OSError) else error
            raise ConfigError(f"source {config.name or config.kind}: {why}") from error
    return built


def unchanged(opened: Mapping[str, Recommender], before: Settings, settings: Settings) -> dict[str, Recommender]:
    """Return the recommenders that go on with all that they have seen."""
    return {name: recommender for name, recommender in opened.items()
            if settings.recommenders.of(name) == before.recommenders.of(name)}


def kept(opened: Sequence[Watched], before: Settings, settings: Settings) -> dict[str, Watched]:
    """Return the sources that go on with what they know of their targets; what is read from files is read again."""
    return {watched.name: watched for config, watched in zip(before.sources, opened, strict=True)
            if config in settings.sources and watched.role in ("telemetry", "scheduler", "grid")}
