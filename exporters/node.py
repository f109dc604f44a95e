"""node_exporter's page: how busy CPUs, disks and RDMA ports are, memory used, and the kernel's power meters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ..storage.telemetry import NodeReading, Telemetry
from .exposition import Samples
from .facts import measured, node_name
from .power_meters import Meter, MeterBook, MeterRole, Roles
from .power_meters import total as watts_of
from .scrape import SERVER, PageConfig, PageSource
from .source import Clock, Source, register
from .targets import Target

DISK = "node_disk_io_time_seconds_total"
WAITING = "node_pressure_io_waiting_seconds_total"
FABRIC = ("node_infiniband_port_data_transmitted_bytes_total", "node_infiniband_port_data_received_bytes_total")
FABRIC_RATE = "node_infiniband_rate_bytes_per_second"
IO_METRICS = (DISK, WAITING, *FABRIC, FABRIC_RATE)

_MOST_SERVERS = 65_536
_MOST_SERIES = 512
"""Of one server: more disks and ports than any has."""
_LONGEST_S = 600.0

Counts = Mapping[tuple[str, str], float]
"""Counters by metric and device."""


@dataclass(frozen=True, slots=True)
class IoShares:
    """Shares of time, or of capacity, between two pages, 0..1; None is not measured."""

    disk_busy: float | None = None
    waiting: float | None = None
    fabric: float | None = None


NO_IO = IoShares()


def counts_of(samples: Samples) -> dict[tuple[str, str], float]:
    """Return the counters of a page by metric and device."""
    return {(name, f"{labels.get('device', '')}/{labels.get('port', '')}"): value
            for (name, labels), value in samples if name in IO_METRICS}


class IoCounters:
    """The last counters of each server; the one that was not read for longest goes first."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, Counts]] = {}

    def shares(self, key: str, time_s: float, counts: Counts) -> IoShares:
        """Return what was moved since the last page of this server, from its second page on."""
        if not counts:
            return NO_IO
        before = self._before.pop(key, None)
        if len(self._before) >= _MOST_SERVERS:
            self._before.pop(next(iter(self._before)), None)
        self._before[key] = time_s, dict(list(counts.items())[:_MOST_SERIES])
        if before is None or not 0 < time_s - before[0] <= _LONGEST_S:
            return NO_IO
        rates = _rates(before[1], counts, time_s - before[0])
        disks = [rate for (name, _), rate in rates.items() if name == DISK]
        waits = [rate for (name, _), rate in rates.items() if name == WAITING]
        return IoShares(_share(max(disks)) if disks else None, _share(max(waits)) if waits else None,
                        _fabric(rates, counts))


def _rates(before: Counts, now: Counts, seconds: float) -> dict[tuple[str, str], float]:
    """Return what each counter gained in a second, without those that began anew."""
    return {key: (value - before[key]) / seconds for key, value in now.items()
            if key[0] != FABRIC_RATE and key in before and value >= before[key]}


def _fabric(rates: Mapping[tuple[str, str], float], counts: Counts) -> float | None:
    capacity = sum(value for (name, _), value in counts.items()
                   if name == FABRIC_RATE and measured(value) is not None)
    moved = [rate for (name, _), rate in rates.items() if name in FABRIC]
    return _share(sum(moved) / (2 * capacity)) if moved and capacity > 0 else None


def _share(value: float) -> float | None:
    """Return a share; pages are never read at exactly the moments that they bear, so a little more than 1 is 1."""
    return min(value, 1.0) if 0 <= value <= 1.2 else None


CPU = "node_cpu_seconds_total"
MEMORY_TOTAL = "node_memory_MemTotal_bytes"
MEMORY_AVAILABLE = "node_memory_MemAvailable_bytes"
POWER = "node_hwmon_power_average_watt"
SENSOR_LABEL, METER_INFO = "node_hwmon_sensor_label", "node_power_meter_info"
POWER_LABELS = (SENSOR_LABEL, METER_INFO)
"""What the firmware calls its meters: hwmon's labels, and node_exporter's collector of ACPI meters."""
NAME = "node_uname_info"
METRICS = (CPU, MEMORY_TOTAL, MEMORY_AVAILABLE, POWER, *POWER_LABELS, NAME, *IO_METRICS)

_WAITING = frozenset(("idle", "iowait"))
_COUNTED_TWICE = frozenset(("guest", "guest_nice"))
"""The kernel has these within user and nice already."""


class NodePages:
    """Reads pages of node_exporter; keeps the last CPU counters of each server, since busy is a difference."""

    def __init__(self, told: Roles | None = None) -> None:
        self.meters = MeterBook(told)
        self._before: dict[str, tuple[float, float]] = {}
        """By target; the one that was not read for longest goes first."""
        self._io = IoCounters()

    def parse(self, samples: Samples, target: Target, time_s: float) -> Telemetry:
        """Return the server's reading; how busy it is from its second page on."""
        values: dict[str, float] = {}
        power: dict[str, float] = {}
        called: dict[str, str] = {}
        own_name = ""
        waiting = spent = 0.0
        for (name, labels), value in samples:
            if name == CPU:
                mode = labels.get("mode", "")
                if mode not in _COUNTED_TWICE:
                    spent += value
                    if mode in _WAITING:
                        waiting += value
            elif name == POWER:
                power[meter_of(labels)] = value
            elif name in POWER_LABELS:
                called[meter_of(labels)] = labels.get("label") or labels.get("oem_info", "")
            elif name == NAME:
                own_name = labels.get("nodename", "")
            elif name not in IO_METRICS and (number := measured(value)) is not None:
                values[name] = number
        io = self._io.shares(target.url, time_s, counts_of(samples))
        if not (spent or values or power):
            return Telemetry()
        server = node_name({}, target.labels, own_name or target.instance)
        meters = self.meters.judge(server, power, named(power, called))
        return Telemetry(nodes=(reading(
            server, time_s, busy=self._busy(target.url, waiting, spent), total=values.get(MEMORY_TOTAL),
            available=values.get(MEMORY_AVAILABLE), meters=meters, io=io),))

    def _busy(self, key: str, waiting: float, total: float) -> float | None:
        """Return the share of CPU time since the last page that was neither idle nor waiting for disks."""
        before = self._before.pop(key, None)
        if len(self._before) >= _MOST_SERVERS:  # discovery with ever new targets
            self._before.pop(next(iter(self._before)), None)
        self._before[key] = waiting, total
        if before is None:
            return None
        elapsed = total - before[1]
        # A reboot restarts the counters, CPU hotplug takes some away; NaN compares false.
        if not 0 < elapsed < float("inf"):
            return None
        return min(max(1 - (waiting - before[0]) / elapsed, 0.0), 1.0)


def reading(name: str, time_s: float, *, busy: float | None, total: float | None, available: float | None,
            meters: tuple[Meter, ...], io: IoShares = NO_IO) -> NodeReading:
    """Return the reading of a server; memory in bytes."""
    watts, source = watts_of(meters)
    return NodeReading(
        node=name, time_s=time_s, power_watts=watts, power_source=source,
        cpu_busy_ratio=busy, memory_used_bytes=memory_used(total, available), memory_total_bytes=total,
        disk_busy_ratio=io.disk_busy, io_wait_ratio=io.waiting, fabric_ratio=io.fabric)


def meter_of(labels: Mapping[str, str]) -> str:
    """Return the name of the meter that a row is of; ``chip`` alone where the chip has but one, as ACPI's have."""
    chip, sensor = labels.get("chip") or labels.get("meter", ""), labels.get("sensor", "")
    return chip if sensor in ("", "power1") else f"{chip}/{sensor}"


def named(power: Iterable[str], called: Mapping[str, str]) -> dict[str, str]:
    """Return what the firmware calls each meter: hwmon's chip of ``ACPI000D:01`` is ``lnxsybus:00_acpi000d:01``."""
    return {name: text for name in power for meter, text in called.items()
            if name == meter or name.lower().endswith(f"_{meter.lower()}")}


def memory_used(total: float | None, available: float | None) -> float | None:
    """Return bytes in use, None where either part is unknown or they contradict each other."""
    if total is None or available is None or available > total:
        return None
    return total - available


@register("node")
class NodeConfig(PageConfig):
    """Pages of node_exporter: CPU, memory, and power where the kernel knows a meter."""

    finds = SERVER
    kind: Literal["node"] = "node"
    power_meters: dict[str, MeterRole] = Field(
        default_factory=dict, description="What power meters measure, by a pattern of their name: wall, module (of a "
                                          "Grace tray), or part. Empty: as they are called, or add up.")

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, NodePages(self.power_meters).parse, clock)
