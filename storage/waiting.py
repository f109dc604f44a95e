"""Why a job waits, in words that every scheduler can be translated to."""

from __future__ import annotations

from enum import StrEnum


class WaitReason(StrEnum):
    """Why a job is pending; each source translates its scheduler's own word, which stays beside it as text."""

    NONE = ""
    """The scheduler names no reason, or the job does not wait."""
    RESOURCES = "resources"
    """What it asks for is not free."""
    TOPOLOGY = "topology"
    """Enough is free, but not as close together as it asks for."""
    PRIORITY = "priority"
    """Others come first."""
    BEGIN_TIME = "begin_time"
    """It is not to start before a time to come."""
    DEPENDENCY = "dependency"
    """Another job has to end first."""
    HELD = "held"
    """Somebody holds it, or a gate that somebody has to open."""
    QUOTA = "quota"
    """A limit of its user, account, project or quality of service is reached, or one of the site's power."""
    LICENSES = "licenses"
    ARRAY_LIMIT = "array_limit"
    """As many tasks of its array run as may run at once."""
    QUEUE_LIMIT = "queue_limit"
    """It asks for more time or nodes than its partition gives."""
    QUEUE_CLOSED = "queue_closed"
    """Its partition starts no jobs."""
    RESERVATION = "reservation"
    """The reservation that it asks for has not begun, or is not for it."""
    NODES_UNAVAILABLE = "nodes_unavailable"
    """Nodes that it needs are down, drained or reserved."""
    CONSTRAINT = "constraint"
    """No node is as it asks for."""
    INVALID = "invalid"
    """It asks for what does not exist or is not allowed to it."""
    DEADLINE = "deadline"
    """It could not end in time."""
    PREPARING = "preparing"
    """It is being set up, or its last run cleaned up."""
    OTHER = "other"
    """A word that the source does not know; it is taken for none that keeps the job from starting."""

    @property
    def bars(self) -> bool:
        """Tell whether a job with this reason would not start even if everything were free."""
        return self not in ONLY_ROOM


ONLY_ROOM = frozenset({WaitReason.NONE, WaitReason.RESOURCES, WaitReason.TOPOLOGY, WaitReason.PRIORITY,
                       WaitReason.OTHER})
"""Reasons of jobs that would start if everything were free."""


class StrandedCause(StrEnum):
    """Why no eligible pending job can use a free GPU: the first binding constraint."""

    CPU = "cpu"
    MEMORY = "memory"
    GPU_FRAGMENT = "gpu_fragment"
    CONSTRAINT = "constraint"
    TOPOLOGY = "topology"
    """Enough is free, but not below so few switches, or in one NVLink domain, as the job has to stay within."""
    INSUFFICIENT = "insufficient"
