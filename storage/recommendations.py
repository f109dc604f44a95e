"""What is recommended for pending jobs; units as in :mod:`.records`."""

from __future__ import annotations

from dataclasses import dataclass

ACTIONS = ("start", "hold", "unknown")
"""What is advised on a pending job."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job would run: GPUs per node, in node order."""

    nodes: tuple[str, ...]
    gpus: tuple[int, ...]

    def __str__(self) -> str:
        """Return ``node:gpus`` pairs joined by commas."""
        return ",".join(f"{node}:{gpus}" for node, gpus in zip(self.nodes, self.gpus, strict=True))


@dataclass(frozen=True, slots=True)
class Placed:
    """A job that runs and was advised to start: where it is, and where it was to be."""

    partition: str
    actual: Placement
    advised: Placement


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another placement that was weighed, and what speaks against it."""

    placement: Placement
    reason: str
    communication_cost: float | None = None
    """As that of the recommendation."""
    relative_speed: float | None = None
    """Speed of the job there over that on the placement that is advised; None where nobody measured such jobs."""


@dataclass(frozen=True, slots=True)
class Instead:
    """What the heuristic would have advised in an agent's place."""

    policy: str
    action: str
    placement: Placement | None = None
    expected_start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to do with one pending job now: start it on a placement, or hold it, and why."""

    job_id: str
    submit_s: float
    partition: str
    issued_s: float
    policy: str
    objective: str
    action: str
    """One of ``ACTIONS``; ``unknown`` where a fact is missing that decides, which the reason names."""
    reason: str
    """One sentence for a person: what binds, or why here."""
    placement: Placement | None = None
    """Where it starts now, or where it is expected to start when held; None when nowhere."""
    expected_start_s: float | None = None
    """When it starts if the policy is followed and jobs use their full limits; None when never."""
    alternatives: tuple[Alternative, ...] = ()
    shadow: bool = False
    """True for a policy that is not active."""
    interval_s: tuple[float, float] | None = None
    """95 % interval of ``wait_change_s``; None where too few run times were drawn for one."""
    wait_change_s: float | None = None
    """Expected wait from now on less that under the incumbent, over drawn run times; negative is sooner."""
    reasons: tuple[str, ...] = ()
    """What moved an agent most, the weightiest first."""
    instead: Instead | None = None
    """Of an agent's advice, what the heuristic would have advised."""
    communication_cost: float | None = None
    """Weight of the edges between the placement's GPUs, less is closer together; None without a placement."""
    cause: str = ""
    """Of a hold, the kind of what binds: ``room``, ``ahead``, ``nodes``, ``limit``, ``licenses``, ``held``, …"""
    raw_id: int | None = None
    """The scheduler's own number of the job, where it differs from ``job_id``: its commands take no ``24+1``."""
    gpu_indexes: tuple[tuple[int, ...], ...] = ()
    """GPUs to take on each node of the placement; () where the scheduler does not say which are free."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on; None of what was recorded."""
    command: str = ""
    """What tells the scheduler to start it there; '' for a job that is held, and of what was recorded."""
    start_interval_s: tuple[float, float | None] | None = None
    """Within which it starts in nine of ten futures, None at the end for later than 30 days; None where unknown."""
