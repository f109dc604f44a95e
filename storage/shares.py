"""What a job should have of its node's CPUs and memory, as it is advised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Giver:
    """A job that does not use what another one could."""

    job_id: str
    submit_s: float
    cpus: int
    memory_bytes: int
    sooner_ratio: float
    """Share of its own remaining time by which it ends sooner, negative later."""
    sooner_interval: tuple[float, float]
    """95 %."""


@dataclass(frozen=True, slots=True)
class ShareAdvice:
    """What one job should have of each of its nodes, what it has, and what that would be worth."""

    job_id: str
    submit_s: float
    partition: str
    issued_s: float
    state: str
    """``running``, or ``pending``: then ``nodes`` is where it could start."""
    nodes: tuple[str, ...]
    gpus: int
    """On each node, as are CPUs and memory."""
    cpus: int
    """Held, or requested."""
    cpus_advised: int
    memory_bytes: int
    memory_advised_bytes: int
    basis: str
    """How its needs are known: ``measured``, ``prior`` (of the model that its name tells) or ``fair-share``."""
    reason: str
    """One sentence for a person."""
    request: str
    """What its owner would ask of the scheduler to have it."""
    policy: str
    cpus_used: float | None = None
    """In use nearly always (95th percentile); None where it was not measured."""
    memory_used_bytes: float | None = None
    """At the most."""
    sooner_ratio: float | None = None
    """Share of the remaining time by which it ends sooner if it runs; None where nobody can tell."""
    sooner_interval: tuple[float, float] | None = None
    """95 %."""
    starts_sooner_s: float | None = None
    """By which it starts sooner if it waits; None where its start is not known."""
    givers: tuple[Giver, ...] = ()
    """Jobs that hold these CPUs and memory; what nobody holds has none."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""

    @property
    def gains(self) -> bool:
        """Tell whether it would start, or be given more than it has."""
        return (self.state == "pending" or self.cpus_advised > self.cpus
                or self.memory_advised_bytes > self.memory_bytes)
