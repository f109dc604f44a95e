"""What must be true of a candidate before it is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..settings.sections import Sections
from ..settings.training import TermsSettings

_SET = TermsSettings()

ON, DOWN = "all nodes on", "empty nodes powered down"
"""How energy is counted."""
COMPLETION, ENERGY, UTILIZATION = "completion time", "energy", "utilization"
"""The figures by which a candidate may earn its place."""
AFTER_ENERGY = frozenset({"energy", "energy_wasted"})
"""Weights of an objective that make energy count."""

ERROR = 0.025
"""Probability, in a year of nights, that anything at all is promoted which is no better than the incumbent."""
TRIALS = 4
"""The most agents of a kind that are tried in a year, one after the other, and the most shortlists of heuristics."""
SHORTLIST = 10
"""Most heuristics that are tried at a time."""


@dataclass(frozen=True, slots=True)
class PromotionCriteria:
    """Bounds on what held-out replays show; assumed defaults, for nobody publishes better ones."""

    days: int = _SET.days
    """Held-out days; from fewer nothing is concluded."""
    jobs: int = _SET.jobs
    error: float = ERROR / (2 * TRIALS)
    """Probability that this one candidate is ever promoted though it is no better, however often one looks."""
    alike: float = 1.01
    """Its mean JCT is surely less than this, with ``error``, where it is to be promoted for its energy,"""
    saving: float = 0.98
    """which must surely lie below so much of the other's; more than the inverse of it is harm."""
    group: float = _SET.group
    """The mean JCT of every partition and class of users is surely less than this, as is"""
    tail: float = _SET.tail
    """the p99 wait than this, both over the incumbent's and with ``error``."""
    group_jobs: int = 30
    """Smaller groups are not looked at: one job would decide."""
    tail_floor_s: float = 300.0
    """A p99 wait counts as this where it is less."""
    start_error_s: float = _SET.start_error
    """Where nobody waited, the incumbent's replay starts jobs that close to when they really started on the mean;"""
    wait_error: float = 0.25
    """where jobs waited, the mean error of their starts is surely at most such a share of their mean wait, and it"""
    missed: float = _SET.missed
    """misses at most this share of those that did."""
    power_down_s: float | None = None
    """The time after which the site powers an empty node down; None where it does not."""

    @property
    def counted(self) -> tuple[str, str]:
        """Return how energy is counted as the site runs, and the other way."""
        return (ON, DOWN) if self.power_down_s is None else (DOWN, ON)

    def ways(self, objective: str) -> tuple[str, ...]:
        """Return by what a candidate with this objective may be promoted.

        Energy is a way where the site powers empty nodes down, for then the policy decides which are empty, and for
        candidates that are after it; elsewhere the same jobs take nearly the same energy in any order.
        """
        after = set(objective.split("+"))
        return (COMPLETION, *([ENERGY] if self.power_down_s is not None or after & AFTER_ENERGY else []),
                *([UTILIZATION] if UTILIZATION in after else []))

    @classmethod
    def of(cls, settings: Sections) -> Self:
        """Return what the configuration says, and what the scheduler reported of itself where that was read into it."""
        terms = settings.training.terms
        return cls(days=terms.days, jobs=terms.jobs, group=terms.group, tail=terms.tail,
                   start_error_s=terms.start_error, missed=terms.missed, power_down_s=settings.power_down_s)


ASSUMED = PromotionCriteria()
