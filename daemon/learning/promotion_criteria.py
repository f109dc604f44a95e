"""What must be true of an agent before it is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..settings.training import TermsSettings

_SET = TermsSettings()


@dataclass(frozen=True, slots=True)
class PromotionCriteria:
    """Bounds on what held-out replays show; assumed defaults, for nobody publishes better ones."""

    days: int = _SET.days
    """Held-out days; drawn from fewer an interval means nothing."""
    jobs: int = _SET.jobs
    better: float = 1.0
    """The whole interval of its mean JCT relative to another's lies below this,"""
    alike: float = 1.01
    """or at least below this, and its p99 wait or wasted energy is clearly better:"""
    clearly: float = 0.98
    group: float = _SET.group
    """No partition or class of users has a mean JCT worse than this."""
    group_jobs: int = 30
    """Smaller groups are not looked at: one job would decide."""
    tail: float = _SET.tail
    """Its p99 wait is at most so much of the incumbent's,"""
    tail_floor_s: float = 300.0
    """which counts as this where it is less."""
    start_error_s: float = _SET.start_error
    """Where nobody waited, the incumbent's replay starts jobs that close to when they really started on the mean;"""
    wait_error: float = 0.25
    """where jobs waited, the mean error of their starts is at most such a share of their mean wait, and it"""
    missed: float = _SET.missed
    """misses at most this share of those that did."""
    resamples: int = 2000

    @classmethod
    def of(cls, settings: TermsSettings) -> Self:
        """Return what the configuration says."""
        return cls(days=settings.days, jobs=settings.jobs, group=settings.group, tail=settings.tail,
                   start_error_s=settings.start_error, missed=settings.missed)


ASSUMED = PromotionCriteria()
