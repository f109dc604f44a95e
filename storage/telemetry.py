"""What sources read of GPUs, servers and jobs at one moment; units as in :mod:`.records`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuDetail:
    """What the units of a GPU do at one moment, and what holds it back; None is not measured."""

    tensor_active: float | None = None
    """Share of cycles in which a matrix unit worked, 0..1."""
    dram_active: float | None = None
    """Share of cycles in which the GPU's memory moved data, 0..1."""
    sm_occupancy: float | None = None
    """Resident warps as a share of what fits, 0..1."""
    engine_active: float | None = None
    """Share of time in which any kernel ran (GR_ENGINE_ACTIVE), 0..1: finer than ``GpuReading.resident``."""
    fp32_active: float | None = None
    """Share of cycles in which the units for 32 bit numbers worked, 0..1; and for 64 bit."""
    fp64_active: float | None = None
    pcie_bytes_per_s: float | None = None
    """Sent and received."""
    nvlink_bytes_per_s: float | None = None
    """Sent and received over NVLink, Infinity Fabric or the like."""
    sm_clock_hertz: float | None = None
    memory_clock_hertz: float | None = None
    memory_temperature_celsius: float | None = None
    throttled_by: tuple[str, ...] | None = None
    """Why the clocks are held down: ``heat``, ``power``, ``power_brake``, ``slowdown``; () for no reason."""
    throttled_by_power_s: float | None = None
    """A counter of the seconds in which the power limit or a power brake held the clocks down."""
    throttled_by_heat_s: float | None = None
    """The same for heat."""
    default_limit_watts: float | None = None
    """Power limit as delivered."""
    least_limit_watts: float | None = None
    """The lowest power limit that may be set."""
    xid: int | None = None
    """NVIDIA's number of the last error that the driver reported since it was loaded; 0 for none."""


NO_DETAIL = GpuDetail()


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """One MIG instance of a GPU at one moment."""

    number: str
    slices: float
    """Its share of the GPU's computing slices, 0..1."""
    activity: float | None = None
    """Share of time that it worked, of its own slices, 0..1."""
    jobs: tuple[str, ...] = ()
    """The jobs that the exporter names on it."""
    memory_used_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment, already reduced over MIG, time-slicing and job repeats."""

    uuid: str
    node: str
    index: int
    time_s: float
    model: str = ""
    power_watts: float | None = None
    energy_joules: float | None = None
    """A counter since driver load; it restarts from 0 when the driver does."""
    activity: float | None = None
    """Share of time the GPU worked, 0..1."""
    activity_source: str = ""
    """``sm_active``, ``gr_engine_active``, ``gpu_util``, ``gfx_activity`` or ``power_derived``: they do not mean
    the same."""
    resident: float | None = None
    """Share of time *some* kernel was resident (GPU_UTIL or GR_ENGINE_ACTIVE), 0..1: the test for 'busy'."""
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    temperature_celsius: float | None = None
    power_limit_watts: float | None = None
    jobs: tuple[str, ...] = ()
    """Job ids that the exporter's own mapping names; a hint, never the truth about allocation."""
    detail: GpuDetail = NO_DETAIL
    instances: tuple[GpuInstance, ...] = ()
    """Its MIG instances, where it is split into such."""
    domain: str | None = None
    """NVLink domain across servers as its driver tells it (``ClusterUUID.CliqueID``); '' for none, None where nobody
    tells."""
    vendor: str = ""
    """``nvidia``, ``amd`` or ``intel``: the driver of each counts its own GPUs of a server from 0."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One server at one moment; several sources each fill their part."""

    node: str
    time_s: float
    power_watts: float | None = None
    power_source: str = ""
    """``ipmi``, ``redfish``, ``hwmon``, ``ceems`` or ``estimated``; ``modules`` is what the superchips of a Grace tray
    draw, without the rest of it."""
    meters: int = 1
    """Power supplies, chassis or other parts whose watts were added up."""
    meter: str = ""
    """What reported them, where one source knows several places: a metric or a resource."""
    cpu_busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    disk_busy_ratio: float | None = None
    """Share of the time in which its busiest disk worked, 0..1."""
    io_wait_ratio: float | None = None
    """Share of the time in which some process waited for files, 0..1 (pressure stall information)."""
    fabric_ratio: float | None = None
    """What its InfiniBand or RoCE ports sent and received, as a share of what they can, 0..1."""


@dataclass(frozen=True, slots=True)
class JobReading:
    """What one job uses of one server at one moment."""

    job_id: str
    """The scheduler's own number: ``Job.raw_id`` where that differs from ``Job.job_id``."""
    node: str
    time_s: float
    cpu_seconds: float | None = None
    """A counter of CPU time since the job began there; it restarts when the job's cgroup is created again."""
    memory_used_bytes: float | None = None
    """With its page cache."""


@dataclass(frozen=True, slots=True)
class EnclosureReading:
    """What stands above servers at one moment: a rack by its power shelves or PDUs."""

    enclosure: str
    time_s: float
    power_watts: float
    """At its own input."""
    power_source: str = ""
    """``redfish`` or ``snmp``."""
    meters: int = 1
    """Shelves or PDUs that were added up."""
    meter: str = ""
    """The meter that reported it: a rack may have several PDUs, each a target of its own."""


@dataclass(frozen=True, slots=True)
class EnclosureMeter:
    """A meter that is to tell of an enclosure, whether or not it does."""

    enclosure: str
    power_source: str
    meter: str
    """As in ``EnclosureReading``."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What one read of a telemetry source gave."""

    gpus: tuple[GpuReading, ...] = ()
    nodes: tuple[NodeReading, ...] = ()
    jobs: tuple[JobReading, ...] = ()
    enclosures: tuple[EnclosureReading, ...] = ()
    left: tuple[str, ...] = ()
    """Names of servers that are called otherwise now, by whoever reported them."""
    meters: tuple[EnclosureMeter, ...] = ()
    """The meters of enclosures that are targets."""
