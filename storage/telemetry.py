"""What sources read of boards, servers and jobs at one moment; units as in :mod:`.records`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One board at one moment, already reduced over MIG, time-slicing and job repeats."""

    uuid: str
    node: str
    index: int
    time_s: float
    model: str = ""
    power_watts: float | None = None
    energy_joules: float | None = None
    """A counter since driver load; it restarts from 0 when the driver does."""
    activity: float | None = None
    """Share of time the board worked, 0..1."""
    activity_source: str = ""
    """``sm_active``, ``gr_engine_active`` or ``gpu_util``: they do not mean the same."""
    resident: float | None = None
    """Share of time *some* kernel was resident (GPU_UTIL or GR_ENGINE_ACTIVE), 0..1: the test for 'busy'."""
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    temperature_celsius: float | None = None
    power_limit_watts: float | None = None
    jobs: tuple[str, ...] = ()
    """Job ids that the exporter's own mapping names; a hint, never the truth about allocation."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One server at one moment; several sources each fill their part."""

    node: str
    time_s: float
    power_watts: float | None = None
    power_source: str = ""
    """``ipmi``, ``redfish``, ``hwmon``, ``ceems`` or ``estimated``."""
    cpu_busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class JobReading:
    """What one job uses of one server at one moment."""

    job_id: str
    """The scheduler's own number: ``Job.raw_id`` where that differs from ``Job.job_id``."""
    node: str
    time_s: float
    cpu_seconds: float | None = None
    """A counter of CPU time since the job began there; it restarts when the job's cgroup is made anew."""
    memory_used_bytes: float | None = None
    """With its page cache."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What one read of a telemetry source gave."""

    gpus: tuple[GpuReading, ...] = ()
    nodes: tuple[NodeReading, ...] = ()
    jobs: tuple[JobReading, ...] = ()
