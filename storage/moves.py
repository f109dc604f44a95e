"""Moves of running jobs that would make room for one that waits."""

from __future__ import annotations

from dataclasses import dataclass

from .recommendations import Placement


@dataclass(frozen=True, slots=True)
class Move:
    """A running job that would go on elsewhere, whole."""

    job_id: str
    user: str
    gpus: int
    origin: str
    destination: str
    ran_s: float | None = None
    """How long it has run: what is lost where it keeps no checkpoint."""
    command: str = ""
    """What takes it away so that it starts again, in a scheduler that chooses where; '' for those that take nodes."""


@dataclass(frozen=True, slots=True)
class Relief:
    """What would let a waiting job start now."""

    job_id: str
    submit_s: float
    partition: str
    user: str
    issued_s: float
    placement: Placement
    """Where it would start."""
    moves: tuple[Move, ...]
    """In this order; those of earlier rows are taken as done."""
    gpus_moved: int
    expected_start_s: float | None = None
    """When it starts if nothing is moved, as advised; None when nobody knows."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the moves touch."""
        touched = (name for move in self.moves for name in (move.origin, move.destination))
        return tuple(dict.fromkeys((*self.placement.nodes, *touched)))
