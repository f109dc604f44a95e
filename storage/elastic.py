"""What more or fewer GPUs would do for a job."""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[float, float]
"""Lower and upper bound, 95 %."""


@dataclass(frozen=True, slots=True)
class ResizeEffect:
    """What becomes of a job that gets some GPUs more, or gives some up; ratios are against its present size."""

    gpus: int
    """Change in GPUs; negative are given up."""
    speed_ratio: float
    """Change in speed: 0.8 is 80 % faster."""
    speed_interval: Interval
    time_ratio: float
    """Change in the time that it still takes: -0.4 finishes 40 % sooner."""
    time_interval: Interval
    per_gpu_ratio: float
    """Change in speed for each GPU of the change: what one more brings, or one fewer costs."""
    how: str
    """What it takes of the scheduler."""
    saved_s: float | None = None
    """Time that it would end sooner, in seconds, if what like jobs took holds for it; negative is later."""
    helps: tuple[str, ...] = ()
    """Pending jobs that would have room for a start if it gave these GPUs up; each by itself."""


@dataclass(frozen=True, slots=True)
class ElasticAdvice:
    """A job whose speed by its number of GPUs is known, and what is to be had for more or fewer of them."""

    job_id: str
    submit_s: float
    partition: str
    issued_s: float
    state: str
    user: str
    nodes: tuple[str, ...]
    """Those it runs on; () while it is pending."""
    gpus: int
    """It has, or asks for."""
    basis: str
    """Where its curve comes from: ``throughput``, ``activity`` (of the GPUs times their number: communication counts
    as activity, so it flatters large sizes) or ``configured``."""
    runs: int
    """Runs behind the curve; 0 where it is configured."""
    sizes: tuple[int, ...]
    """Numbers of GPUs at which it was measured."""
    error_ratio: float | None
    """Root mean square of relative residuals at the measured sizes."""
    reason: str
    """One sentence for a person."""
    more: ResizeEffect | None = None
    """None where twice as many lie too far from what was measured."""
    fewer: ResizeEffect | None = None
    falls_at: int | None = None
    """Number of GPUs from which more make it slower, if it is within reach."""
    remaining_s: float | None = None
    """Expected time to its end, or its run time while it is pending; None where no prediction is to be had."""
    free_gpus: int = 0
    """GPUs that are free for it now: no start is advised for them, and it delays no earlier job there."""
    has_room: bool = False
    """Whether ``more`` fits there now."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""
