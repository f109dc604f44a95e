"""What of notices could not be delivered, as the daemon's state says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What was tried and waits."""

    notices: int
    since_s: float
    why: str
