"""What servers read and send, from node_exporter's counters: how busy disks and RDMA ports are, who waits for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .exposition import Samples
from .facts import measured

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
