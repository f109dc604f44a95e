"""How agents are trained on the site's own history, and what must be true of one before it is made active."""

from __future__ import annotations

from datetime import time
from typing import Annotated, Self

from pydantic import Field, model_validator

from .values import AgentName, Duration, Limit, LocalTime, StrictSettings, Weight

TRIAL_S = 75 * 86400.0
"""So long after its training an agent is judged by what comes: then it is too old to be made active."""
WARM_UP_S = 2 * 86400.0
"""Replays begin so much earlier than what they count, so that there are queues by then."""


class ObjectiveSettings(StrictSettings):
    """What the operator is after: weights of figures relative to the incumbent's; only their proportions matter."""

    jct_mean: Weight = 0.7
    """Mean time from submission to end."""
    slowdown_mean: Weight = 0.2
    """Mean of that time over the run time: short jobs count as much as long ones."""
    wait_p99: Weight = 0.1
    wait_mean: Weight = 0.0
    utilization: Weight = 0.0
    """Share of GPU time that jobs hold while jobs come, the mean over partitions: Eq. (5) of the GIST AI-X paper."""
    makespan: Weight = 0.0
    """Time until the last job has ended."""
    energy: Weight = 0.0
    """At the wall, of all nodes."""
    energy_wasted: Weight = 0.0
    longest_wait: Duration = 7 * 86400.0
    """No weight: a job that has waited for longer goes before all younger jobs, whatever order an agent gives."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not any(self.weights.values()):
            raise ValueError("all weights are 0, and at least one weight must be more than 0: "
                             f"{', '.join(self.weights)}")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """Return the weights by what they are of."""
        return {name: value for name, value in self.model_dump().items() if name != "longest_wait"}


class TermsSettings(StrictSettings):
    """What must be true of an agent before it is made active."""

    days: Annotated[int, Field(ge=2)] = 14
    """Held-out days; from fewer nothing is concluded."""
    jobs: Annotated[int, Field(ge=2)] = 100
    """Held-out jobs."""
    group: Limit = 1.10
    """Mean JCT of each partition and class of users over that under the incumbent is surely less, and"""
    tail: Limit = 1.25
    """so are p99 waits."""
    start_error: Duration = 900.0
    """Where nobody waited, the incumbent's replay starts jobs that close to when they really started, and"""
    missed: Annotated[float, Field(ge=0, le=1)] = 0.1
    """misses at most this share of those that did."""


class TrainingSettings(StrictSettings):
    """How agents are trained on this site's history, night by night."""

    enabled: bool = False
    """The daemon trains, in a process of its own; leave it off where idlewatt-train.timer does it."""
    agent: AgentName = "scorer"
    at: LocalTime = time(3)
    """Local time at which it begins."""
    budget: Duration = 600.0
    history: Duration = 90 * 86400.0
    """How far back it learns from."""
    promote: bool = True
    """What has earned it is made active at once; else an operator decides."""
    keep: Annotated[int, Field(ge=1)] = 10
    """Models of each kind that are kept, beside those that are active and in shadow."""
    objective: ObjectiveSettings = ObjectiveSettings()
    terms: TermsSettings = TermsSettings()
