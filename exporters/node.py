"""node_exporter's page: how busy the CPUs are, memory used, and the ACPI power meter where a server has one."""

from __future__ import annotations

from typing import Literal

from ..storage.telemetry import NodeReading, Telemetry
from .exposition import Samples
from .facts import measured, node_name, server_watts
from .findings import SERVER
from .scrape import PageConfig, PageSource
from .source import Clock, Source, register
from .targets import Target

CPU = "node_cpu_seconds_total"
MEMORY_TOTAL = "node_memory_MemTotal_bytes"
MEMORY_AVAILABLE = "node_memory_MemAvailable_bytes"
POWER = "node_hwmon_power_average_watt"
NAME = "node_uname_info"
METRICS = (CPU, MEMORY_TOTAL, MEMORY_AVAILABLE, POWER, NAME)

_MOST_SERVERS = 65_536
_WAITING = frozenset(("idle", "iowait"))
_COUNTED_TWICE = frozenset(("guest", "guest_nice"))
"""The kernel has these within user and nice already."""


class NodePages:
    """Reads pages of node_exporter; keeps the last CPU counters of each server, since busy is a difference."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}
        """By target; the one that was not read for longest goes first."""

    def parse(self, samples: Samples, target: Target, time_s: float) -> Telemetry:
        """Return the server's reading; how busy it is from its second page on."""
        values: dict[str, float] = {}
        power: dict[str, float] = {}
        own_name = ""
        waiting = total = 0.0
        for (name, labels), value in samples:
            if name == CPU:
                mode = labels.get("mode", "")
                if mode not in _COUNTED_TWICE:
                    total += value
                    if mode in _WAITING:
                        waiting += value
            elif name == POWER:
                power[labels.get("chip", "")] = value
            elif name == NAME:
                own_name = labels.get("nodename", "")
            elif (number := measured(value)) is not None:
                values[name] = number
        if not (total or values or power):
            return Telemetry()
        return Telemetry(nodes=(reading(
            node_name({}, target.labels, own_name or target.instance), time_s,
            busy=self._busy(target.url, waiting, total), total=values.get(MEMORY_TOTAL),
            available=values.get(MEMORY_AVAILABLE), power=power),))

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
            power: dict[str, float]) -> NodeReading:
    """Return the reading of a server; memory in bytes, ``power`` in watts by hwmon chip."""
    watts = wall_watts(power)
    return NodeReading(
        node=name, time_s=time_s, power_watts=watts, power_source="" if watts is None else "hwmon",
        cpu_busy_ratio=busy, memory_used_bytes=memory_used(total, available), memory_total_bytes=total)


def wall_watts(power: dict[str, float]) -> float | None:
    """Return the watts of the ACPI power meter; without one, the largest meter, since no part draws more than all."""
    meters = {chip: watts for chip, number in power.items() if (watts := server_watts(number)) is not None}
    acpi = [watts for chip, watts in meters.items() if "acpi000d" in chip.lower() or "power_meter" in chip.lower()]
    return max(acpi or meters.values(), default=None)


def memory_used(total: float | None, available: float | None) -> float | None:
    """Return bytes in use, None where either part is unknown or they contradict each other."""
    if total is None or available is None or available > total:
        return None
    return total - available


@register("node")
class NodeConfig(PageConfig):
    """Pages of node_exporter: CPU, memory, and power where the server has an ACPI power meter."""

    finds = SERVER
    kind: Literal["node"] = "node"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, NodePages().parse, clock)
