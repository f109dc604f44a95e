"""How much the queues of a scheduler may use, and borrow of one another."""

from __future__ import annotations

from dataclasses import dataclass

NEVER, LOWER_PRIORITY, ANY = "Never", "LowerPriority", "Any"


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue may use of one resource on one kind of node."""

    resource: str
    """``gpu``, ``cpu``, ``mem`` (bytes), ``pods``, else as the scheduler names it."""
    flavor: str
    nominal: float
    used: float = 0.0
    """By all jobs that were let in, borrowed amounts included."""
    borrowing: float | None = None
    """The most that may be borrowed beyond ``nominal``; None for any amount."""
    lending: float | None = None
    """The most of ``nominal`` that others may borrow; None for all of it."""

    @property
    def borrowed(self) -> float:
        """Return what is used beyond the queue's own."""
        return max(0.0, self.used - self.nominal)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with its quotas."""

    name: str
    cohort: str = ""
    """Queues of one cohort lend to one another; '' for none."""
    quotas: tuple[Quota, ...] = ()
    reclaims: str = NEVER
    """Which jobs it may preempt to get back what was borrowed of it: ``Never``, ``LowerPriority`` or ``Any``."""
    nested: bool = False
    """Its cohort has a parent or quotas of its own: what may be borrowed then is not known here."""


@dataclass(frozen=True, slots=True)
class Flavored:
    """The nodes of a flavor."""

    flavor: str
    nodes: frozenset[str]
