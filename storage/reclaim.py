"""A running job that holds idle GPUs, and what ending it would give to others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """A waiting job that would start."""

    job_id: str
    user: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """A job that holds idle GPUs; nothing is ended, a canceller of the site's own may be."""

    job_id: str
    submit_s: float
    start_s: float
    partition: str
    user: str
    account: str
    name: str
    issued_s: float
    since_s: float
    """Since when all of the GPUs that are counted as idle have done nothing."""
    gpus_idle: int
    gpus_held: int
    whole: bool
    """Whether all of its GPUs are idle: of any other job something works."""
    owner_kind: str
    """``batch``, ``interactive`` or ``service``."""
    idle_watts: float | None
    """What the idle GPUs draw; None where not all of them are measured."""
    nodes: tuple[str, ...]
    cpus: int
    """Freed by ending it, as are memory and all of its GPUs."""
    memory_bytes: int
    starts: tuple[Started, ...] | None
    """Jobs that would start now if it ended, by the policy that advises; None where that was not worked out."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""
