"""Windows of what the units of a GPU and its server do: sums over time, and means where enough was measured."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ...storage.telemetry import GpuReading, NodeReading
from ..waste import hardware

ENOUGH = 0.7
"""Share of a window that a mean must be of."""
LONGEST_GAP_S = 180.0
"""Over a longer gap between two readings nothing is added."""
MOST_MODELS = 64


NAMES = ("engine", "sm", "occupancy", "tensor", "dram", "fp32", "fp64", "clock", "nvlink", "pcie", "heat", "power",
         "brake", "limit", "disk", "waiting", "fabric", "cpus")
"""What is measured of GPUs, and of servers."""
_PLACES = {name: 2 * number for number, name in enumerate(NAMES)}


class Sums:
    """Time integrals by name, in 0.4 kB: every GPU at work has some, and dictionaries of them would take 2.5 kB."""

    __slots__ = ("_sums", "seconds")

    def __init__(self) -> None:
        self._sums = array("d", bytes(16 * len(NAMES)))
        """Of each name the integral, and the seconds that it is over."""
        self.seconds = 0.0

    def add(self, values: Iterator[tuple[str, float | None]], seconds: float) -> None:
        """Add what was measured over the last so many seconds."""
        self.seconds += seconds
        for name, value in values:
            if value is not None and math.isfinite(value):
                place = _PLACES[name]
                self._sums[place] += value * seconds
                self._sums[place + 1] += seconds

    def means(self) -> dict[str, float]:
        """Return the means of what was measured for most of the time."""
        return {name: self._sums[place] / seconds for name, place in _PLACES.items()
                if (seconds := self._sums[place + 1]) > 0 and seconds >= ENOUGH * self.seconds}


_RENEWED_S = 120.0
"""How late an exporter may renew a counter: it then gains what belongs to the time before."""


class Throttled(NamedTuple):
    """What a reading is compared with by the next one: a whole reading of each GPU would be kept for that, 0.7 kB."""

    time_s: float
    heat_s: float | None
    power_s: float | None


def throttled(gpu: GpuReading) -> Throttled:
    """Return when a GPU was read, and for how long it had been held down by then."""
    return Throttled(gpu.time_s, gpu.detail.throttled_by_heat_s, gpu.detail.throttled_by_power_s)


class HighestClocks:
    """The highest clock that was seen of each GPU model."""

    def __init__(self) -> None:
        self._highest: dict[str, float] = {}

    def share(self, gpu: GpuReading) -> float | None:
        """Return a GPU's clock as a share of the highest of its model, and remember it."""
        clock = gpu.detail.sm_clock_hertz
        if clock is None or clock <= 0 or (gpu.model not in self._highest and len(self._highest) >= MOST_MODELS):
            return None
        self._highest[gpu.model] = max(clock, self._highest.get(gpu.model, 0.0))
        return clock / self._highest[gpu.model]


def of_gpu(gpu: GpuReading, before: Throttled, clock: float | None) -> Iterator[tuple[str, float | None]]:
    """Yield what a reading tells of the time since the one before."""
    detail, known = gpu.detail, hardware.gpu(gpu.model)
    seconds = gpu.time_s - before.time_s
    flags = detail.throttled_by
    yield "engine", detail.engine_active if detail.engine_active is not None else gpu.resident
    yield "sm", gpu.activity if gpu.activity_source == "sm_active" else None
    yield from (("occupancy", detail.sm_occupancy), ("tensor", detail.tensor_active), ("dram", detail.dram_active),
                ("fp32", detail.fp32_active), ("fp64", detail.fp64_active), ("clock", clock))
    yield "nvlink", _of_capacity(detail.nvlink_bytes_per_s, known.nvlink)
    yield "pcie", _of_capacity(detail.pcie_bytes_per_s, known.pcie)
    heat = _gained(detail.throttled_by_heat_s, before.heat_s, seconds)
    power = _gained(detail.throttled_by_power_s, before.power_s, seconds)
    yield "heat", heat if heat is not None else _flag(flags, "heat", "slowdown")
    yield "power", power if power is not None else _flag(flags, "power")
    yield "brake", _flag(flags, "power_brake")
    limit, default = gpu.power_limit_watts, detail.default_limit_watts
    yield "limit", limit / default if limit and default else None


def of_node(node: NodeReading) -> Iterator[tuple[str, float | None]]:
    """Yield what a server's reading tells of its files and its network."""
    yield from (("disk", node.disk_busy_ratio), ("waiting", node.io_wait_ratio), ("fabric", node.fabric_ratio))


def _of_capacity(rate: float | None, capacity: hardware.PublishedRate | None) -> float | None:
    return None if rate is None or capacity is None else min(rate / capacity.bytes_per_s, 1.0)


def _gained(now: float | None, before: float | None, seconds: float) -> float | None:
    """Return the share of time that a counter of seconds gained; None where it restarted, or gained what cannot be."""
    if now is None or before is None or not 0 <= now - before <= seconds + _RENEWED_S or seconds <= 0:
        return None
    return min((now - before) / seconds, 1.0)


def _flag(flags: tuple[str, ...] | None, *wanted: str) -> float | None:
    return None if flags is None else float(any(flag in flags for flag in wanted))
