"""What a lower power limit, or a power profile, would save and cost a job, where like runs were measured under both."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PowerCap:
    """A power limit, or a workload power profile, that a running job's GPUs would do with."""

    job_id: str
    submit_s: float
    partition: str
    user: str
    issued_s: float
    nodes: tuple[str, ...]
    gpus: int
    limit_watts: float | None
    """Enforced on each of its GPUs now; None, for a profile, where nobody tells or they differ."""
    cap_watts: float | None
    """Under which like runs were measured; None for a profile that no limit shows."""
    saves_ratio: float
    """Share of the energy for the same work that would be saved."""
    saves_interval: Interval
    """95 % interval of it."""
    slower_ratio: float
    """Share of its speed that it would cost; below 0 it would gain."""
    slower_interval: Interval
    runs: tuple[int, int]
    """Like runs that were measured under the cap, and under the present limit."""
    throttled_ratio: float | None
    """Share of its readings in which the power limit held its clocks down; None where nobody tells."""
    commands: tuple[str, ...]
    """What sets the cap, a command for each node."""
    profile: str = ""
    """Number and name of the workload power profile that is advised in place of a limit."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""
