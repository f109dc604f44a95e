"""An empty node that is worth powering down: until when, and what that would save."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerDown:
    """A measured, idle node that no known job needs; nothing is powered down here."""

    job_id: str
    """'': no job is meant. A recommendation has one."""
    submit_s: float
    partition: str
    issued_s: float
    nodes: tuple[str, ...]
    gpus: int
    watts: float
    """What it draws now."""
    needed_from_s: float | None
    """The early end of an interval that holds in nine of ten, by like moments of the past; None: too short a past."""
    needed_mid_s: float | None
    """In half of these moments it would have been needed again by then."""
    needed_until_s: float | None
    """The late end; None also where it may not be needed within two days."""
    saved_joules: tuple[float, float] | None
    """What powering it down from now until it is needed would save, at the ends of the interval."""
    saved_mid_joules: float | None
    days: int
    """Days of the past that this rests on."""
    reason: str
    power_source: str = ""
    """Where its watts were read: a wall meter by its kind, or what they are estimated from."""
    snapshot_s: float | None = None
    """When the scheduler was read that this rests on."""
