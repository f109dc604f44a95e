"""node_exporter's page: how busy CPUs, disks and RDMA ports are, memory used, and which power meter measures what.

A server of the x86 kind has one ACPI meter, and it is the wall. A Grace superchip has four for each of its modules:
the module as a whole, its Grace, and of that the cores and the I/O. The largest of them is one module, not the wall,
and none of them knows fans, network cards or what conversion loses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from ..storage.telemetry import NodeReading, Telemetry
from .exposition import Samples
from .facts import measured, node_name, server_watts
from .scrape import PageConfig, PageSource
from .source import SERVER, Clock, Source, register
from .targets import Target

log = logging.getLogger(__name__)

MeterRole = Literal["wall", "module", "part", "unknown"]
Roles = Mapping[str, MeterRole]
"""What a site says of its meters, by a pattern of their name."""

_ACPI = re.compile(r"acpi000d|power_meter", re.IGNORECASE)
_DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}[._]", re.IGNORECASE)
"""A PCI address: a GPU or a network card tells of itself."""
_NAMED = re.compile(r"(module|grace|cpu|sysio) power socket \d+", re.IGNORECASE)
"""How Grace's firmware names its meters (power1_oem_info)."""
_OF_A_MODULE = 4
_COUNTED = ("wall", "module")
_REMOVED_AFTER_S = 86400.0
_MOST_SERVERS = 65_536
_LIKE, _LIKE_WATTS = 0.15, 3.0
"""How far a sum may be off its parts: the meters are not read in one moment."""


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter of a server, and what it is taken for."""

    name: str
    watts: float
    role: MeterRole
    why: str
    """In words, for the configuration check."""


class MeterBook:
    """Judges the meters of servers, and keeps to what it once found: the modules of a tray are not always alike.

    Where a meter that counts has no reading, the others are not the server: nothing is measured then. One that is not
    there for a day was removed.
    """

    def __init__(self, roles: Roles | None = None) -> None:
        self._roles = roles or {}
        self.servers: dict[str, tuple[Meter, ...]] = {}
        """What the meters of each server were taken for when all of them reported last."""
        self._silent: dict[str, float] = {}
        """Since when a meter of a server is not there."""

    def judge(self, server: str, power: Mapping[str, float], labels: Mapping[str, str],
              now_s: float = 0.0) -> tuple[Meter, ...]:
        """Return the meters of a server with their roles."""
        now, before = judged(power, labels, self._roles), self.servers.get(server, ())
        if _is_torn(power, now, before) or not self._complete(server, power.keys(), before, now_s):
            return tuple(Meter(meter.name, meter.watts, "unknown", "another meter of it has no reading")
                         for meter in now)
        if any(meter.role == "unknown" for meter in now) and _names(now) == _names(before):
            now = tuple(Meter(new.name, new.watts, old.role, old.why) for new, old in zip(now, before, strict=True))
        if server not in self.servers and len(self.servers) >= _MOST_SERVERS:
            self.servers.clear()
            self._silent.clear()
        self.servers[server] = now
        return now

    def _complete(self, server: str, there: Collection[str], before: Sequence[Meter], now_s: float) -> bool:
        """Tell whether all meters that counted are there, or have not been for so long that they are removed."""
        gone = [meter.name for meter in before if meter.role in _COUNTED and meter.name not in there]
        if not gone:
            self._silent.pop(server, None)
            return True
        since_s = self._silent[server] = min(now_s, self._silent.get(server, now_s))
        if now_s - since_s < _REMOVED_AFTER_S:
            return False
        del self._silent[server]
        log.warning("power meters of %s that are silent for a day are taken as removed: %s", server, ", ".join(gone))
        return True


def _is_torn(power: Mapping[str, float], now: Sequence[Meter], before: Sequence[Meter]) -> bool:
    """Tell whether a meter that counts has no reading; at 0 it has one, unless the others were then something else."""
    measuring, known = {meter.name: meter.role for meter in now}, {meter.name: meter.role for meter in before}
    parts = {name for name, role in known.items() if role == "part"}
    if any(watts != 0 and name not in measuring and name not in parts and not _DEVICE.search(name)
           for name, watts in power.items()):
        return True
    idle = [name for name, role in known.items() if role in _COUNTED and name not in measuring and name in power]
    return bool(idle) and any(known.get(name, role) != role for name, role in measuring.items())


def _names(meters: Sequence[Meter]) -> list[str]:
    return [meter.name for meter in meters]


def judged(power: Mapping[str, float], labels: Mapping[str, str], roles: Roles) -> tuple[Meter, ...]:
    """Return the meters that measure something, each with its role: as configured, as it is named, or as they add up.

    Args:
        power: watts by name of the meter (chip).
        labels: what the firmware calls them, by the same name.
        roles: what the configuration says.
    """
    measuring = {name: watts for name, number in sorted(power.items()) if (watts := server_watts(number)) is not None}
    if any(_configured(name, roles) for name in measuring):
        return tuple(_as_configured(name, watts, _configured(name, roles)) for name, watts in measuring.items())
    if any(_NAMED.match(labels.get(name, "")) for name in measuring):
        return tuple(_as_named(name, watts, labels.get(name, "")) for name, watts in measuring.items())
    acpi = {name: watts for name, watts in measuring.items() if _ACPI.search(name)}
    servers = acpi or {name: watts for name, watts in measuring.items() if not _DEVICE.search(name)}
    others = tuple(Meter(name, watts, "part", "a device's own, or beside an ACPI meter")
                   for name, watts in measuring.items() if name not in servers)
    return (*_by_sums(servers), *others)


def watts_of(meters: Sequence[Meter]) -> tuple[float | None, str]:
    """Return watts and what they are of: ``hwmon``, the wall; ``modules`` without the rest of the tray; or nothing."""
    for role, source in (("wall", "hwmon"), ("module", "modules")):
        watts = [meter.watts for meter in meters if meter.role == role]
        if watts:
            return sum(watts), source
    return None, ""


def _configured(name: str, roles: Roles) -> MeterRole | None:
    return next((role for pattern, role in roles.items() if fnmatchcase(name, pattern)), None)


def _as_configured(name: str, watts: float, role: MeterRole | None) -> Meter:
    return Meter(name, watts, role or "part", "configured" if role else "not configured, where others are")


def _as_named(name: str, watts: float, label: str) -> Meter:
    match = _NAMED.match(label)
    role: MeterRole = "module" if match and match[1].lower() == "module" else "part"
    return Meter(name, watts, role, f"its firmware calls it {label}" if match else "beside meters of a Grace module")


def _by_sums(meters: Mapping[str, float]) -> tuple[Meter, ...]:
    """Return the roles of meters that nobody has named, by how their numbers add up."""
    rows = list(meters.items())
    largest = max(rows, key=lambda row: row[1], default=None)
    if largest is None:
        return ()
    if len(rows) == 1:
        return (Meter(*largest, "wall", "the only one"),)
    fours = [rows[start:start + _OF_A_MODULE] for start in range(0, len(rows), _OF_A_MODULE)]
    if all(_is_module(four) for four in fours):
        return tuple(Meter(*row, "module" if row == max(four, key=lambda each: each[1]) else "part",
                           "of four that add up like a Grace module's") for four in fours for row in four)
    if min(watts for _, watts in rows) >= largest[1] / 2:
        return tuple(Meter(*row, "module", "several of one size: the modules of a tray") for row in rows)
    return tuple(Meter(*row, "unknown", "several that do not add up: configure power_meters") for row in rows)


def _is_module(meters: list[tuple[str, float]]) -> bool:
    """Tell whether these are four: a module, its Grace, and the two parts of that."""
    if len(meters) != _OF_A_MODULE:
        return False
    smaller, small, grace, module = sorted(watts for _, watts in meters)
    return abs(grace - small - smaller) <= max(_LIKE * grace, _LIKE_WATTS) and module > grace


DISK = "node_disk_io_time_seconds_total"
WAITING = "node_pressure_io_waiting_seconds_total"
FABRIC = ("node_infiniband_port_data_transmitted_bytes_total", "node_infiniband_port_data_received_bytes_total")
FABRIC_RATE = "node_infiniband_rate_bytes_per_second"
IO_METRICS = (DISK, WAITING, *FABRIC, FABRIC_RATE)

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
    """Return what each counter gained in a second, without those that restarted."""
    return {key: (value - before[key]) / seconds for key, value in now.items()
            if key[0] != FABRIC_RATE and key in before and value >= before[key]}


def _fabric(rates: Mapping[tuple[str, str], float], counts: Counts) -> float | None:
    """Return the share of their capacity that all ports moved; None where one of them does not tell."""
    rated = [measured(value) for (name, _), value in counts.items() if name == FABRIC_RATE]
    moved = [rates.get(key) for key in counts if key[0] in FABRIC]
    if not moved or None in rated or None in moved:
        return None
    capacity = sum(value for value in rated if value is not None)
    return _share(sum(rate for rate in moved if rate is not None) / (2 * capacity)) if capacity > 0 else None


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

    def __init__(self, roles: Roles | None = None) -> None:
        self.meters = MeterBook(roles)
        self._before: dict[str, tuple[float, float, float]] = {}
        """By target, with the time of the page; the one that was not read for longest goes first."""
        self._io = IoCounters()

    def parse(self, samples: Samples, target: Target, time_s: float) -> Telemetry:
        """Return the server's reading; how busy it is from its second page on."""
        values: dict[str, float] = {}
        power: dict[str, float] = {}
        called: dict[str, str] = {}
        own_name = ""
        waiting, spent, others = _cpu_time(samples)
        for (name, labels), value in others:
            if name == POWER:
                power[meter_of(labels)] = value
            elif name in POWER_LABELS:
                called[meter_of(labels)] = labels.get("label") or labels.get("oem_info", "")
            elif name == NAME:
                own_name = labels.get("nodename", "")
            elif name not in IO_METRICS and (number := measured(value)) is not None:
                values[name] = number
        io = self._io.shares(target.url, time_s, counts_of(others))
        if not (spent or values or power):
            return Telemetry()
        server = node_name({}, target.labels, own_name or target.instance)
        meters = self.meters.judge(server, power, named(power, called), time_s)
        return Telemetry(nodes=(reading(
            server, time_s, busy=self._busy(target.url, time_s, waiting, spent), total=values.get(MEMORY_TOTAL),
            available=values.get(MEMORY_AVAILABLE), meters=meters, io=io),))

    def _busy(self, key: str, time_s: float, waiting: float, total: float) -> float | None:
        """Return the share of CPU time since the last page that was neither idle nor waiting for disks."""
        before = self._before.pop(key, None)
        if len(self._before) >= _MOST_SERVERS:  # discovery with ever new targets
            self._before.pop(next(iter(self._before)), None)
        self._before[key] = time_s, waiting, total
        if before is None or not 0 <= time_s - before[0] <= _LONGEST_S:  # an hour's mean is not what is so now
            return None
        elapsed = total - before[2]
        # A reboot restarts the counters, CPU hotplug takes some away; NaN compares false.
        if not 0 < elapsed < float("inf"):
            return None
        return min(max(1 - (waiting - before[1]) / elapsed, 0.0), 1.0)


def _cpu_time(samples: Samples) -> tuple[float, float, Samples]:
    """Return the seconds in which CPUs waited, all seconds of theirs, and the samples that tell of other things."""
    waiting = spent = 0.0
    others: Samples = []
    for sample in samples:
        (name, labels), value = sample
        if name != CPU:
            others.append(sample)
        elif (mode := labels.get("mode", "")) not in _COUNTED_TWICE:
            spent += value
            if mode in _WAITING:
                waiting += value
    return waiting, spent, others


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
