"""A smaller part of a GPU that a job would do with, as it is advised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmallerSlice:
    """A part of a GPU that each pod of a job would do with, in place of what it holds."""

    job_id: str
    submit_s: float
    partition: str
    user: str
    issued_s: float
    nodes: tuple[str, ...]
    """Where it runs."""
    pods: int
    """Each of them holds one, and would do with one."""
    held: str
    """The scheduler's name of what each holds: ``nvidia.com/gpu``, ``nvidia.com/mig-3g.40gb``."""
    advised: str
    activity: float
    """Of a whole GPU, 0..1: the most that any of them had in the window."""
    memory_bytes: float
    """The most that any of them used in the window."""
    window_s: float
    offered: int
    """How many of ``advised`` the nodes have that the job may use."""
    free: int
    """How many of these nobody holds now."""
    reason: str
    """One sentence for a person."""
    command: str
    """What asks for it: changes a service, or prints a job's manifest for its next run; '' where no command can."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""
