"""AMD's device-metrics-exporter: one reading per socket, however many partitions a GPU is split into.

In CPX, DPX and QPX mode each partition has a gpu_id of its own. The socket's power, energy, temperature and activity
stand with partition 0 alone (others show 0 or nothing); memory is each partition's own, and is added up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from ..storage.telemetry import GpuDetail, GpuReading, Telemetry
from .exposition import Samples
from .facts import (
    GpuRow,
    NodeOf,
    Reader,
    TimeOf,
    bytes_of_mebibytes,
    gather,
    gpu_celsius,
    gpu_watts,
    hertz_of_megahertz,
    joules_of_microjoules,
    judge_use,
    measured,
    node_name,
    of_percent,
    ratio_of_percent,
)
from .scrape import PageConfig, PageSource
from .source import GPU, Clock, Source, register
from .targets import Target

POWER = ("gpu_package_power", "gpu_average_package_power", "gpu_power_usage")
"""MI3xx, MI2xx, and what both have."""
ENERGY, ACTIVITY, MEMORY_ACTIVITY = "gpu_energy_consumed", "gpu_gfx_activity", "gpu_umc_activity"
USED, TOTAL = "gpu_used_vram", "gpu_total_vram"
TEMPERATURE = ("gpu_junction_temperature", "gpu_edge_temperature")
MEMORY_TEMPERATURE, CLOCK = "gpu_memory_temperature", "gpu_clock"
TENSOR, OCCUPANCY = "gpu_prof_tensor_active_percent", "gpu_prof_occupancy_percent"
_HELD_BACK = {"gpu_violation_ppt_residency_percentage": "power",
              "gpu_violation_processor_hot_residency_percentage": "slowdown",
              "gpu_violation_socket_thermal_residency_percentage": "heat",
              "gpu_violation_vr_thermal_residency_percentage": "heat",
              "gpu_violation_hbm_thermal_residency_percentage": "heat"}
_PLAIN: dict[str, Reader] = {
    **dict.fromkeys(POWER, gpu_watts),
    ENERGY: joules_of_microjoules,
    ACTIVITY: measured,  # percent or not is judged by the whole page
    **dict.fromkeys((MEMORY_ACTIVITY, TENSOR, OCCUPANCY), ratio_of_percent),
    # It says MB and means MiB: an MI300X with 192 GiB shows 196592.
    **dict.fromkeys((USED, TOTAL), bytes_of_mebibytes),
    **dict.fromkeys((*TEMPERATURE, MEMORY_TEMPERATURE), gpu_celsius),
    **dict.fromkeys(_HELD_BACK, measured),
    CLOCK: hertz_of_megahertz,
}
_PREFIX = "amd_"
"""What the GPU operator and many sites put before each name."""
FACTS = {name: (name, _PREFIX + name) for name in _PLAIN}
"""All names of each fact."""
METRICS: dict[str, Reader] = _PLAIN | {_PREFIX + name: read for name, read in _PLAIN.items()}
_NAMES = {_PREFIX + name: name for name in _PLAIN}
_CLOCKS = {"system": "sm_clock", "memory": "memory_clock"}
_UNREPORTED = frozenset(("", "N/A", "n/a", "unknown"))

Id = tuple[int, int, str]
"""Of a partition: its gpu_id, its number within the GPU, and the clock that a row tells of, '' for every other row."""


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the GPUs on one page of device-metrics-exporter."""
    return Telemetry(gpus=gpus(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s))


def gpus(samples: Samples, node_of: NodeOf, time_of: TimeOf) -> tuple[GpuReading, ...]:
    """Return one reading per socket."""
    rows = gather(samples, METRICS, _NAMES, _partition, node_of, time_of, _serial)
    # Other partitions show no activity of their own, or 0.
    judge_use((row for row in rows if _part(row) == 0), ACTIVITY, POWER[0], "", of_percent)
    servers: dict[str, list[GpuRow]] = {}
    for row in rows:
        servers.setdefault(row.node, []).append(row)
    return tuple(_reading(index, parts, _serials(rows))
                 for rows in servers.values() for index, parts in enumerate(_sockets(rows)))


def _serials(rows: list[GpuRow]) -> Counter[str]:
    """Return how many GPUs of a server bear each serial number: in a virtual machine all may show the same."""
    return Counter(serial for _, serial in {_socket(row) for row in rows if _part(row) == 0})


def _partition(name: str, labels: Mapping[str, str]) -> Id | None:
    """Return which partition a row is of; None for rows of no GPU, or of another exporter."""
    number, part = labels.get("gpu_id", ""), labels.get("gpu_partition_id") or "0"
    if not (_is_number(number) and _is_number(part)) or not labels.keys() & {"card_model", "serial_number",
                                                                            "gpu_partition_id"}:
        return None
    clock = ""
    if name.removeprefix(_PREFIX) == CLOCK:
        kind = labels.get("clock_type", "").lower().rpartition("_")[2]
        if kind not in _CLOCKS:
            return None
        clock = _CLOCKS[kind]
    return int(number), int(part), clock


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _sockets(rows: list[GpuRow]) -> list[list[GpuRow]]:
    """Return the rows of each socket, in the order of their numbers: partition 0 first, its parts after it.

    Parts belong to the partition 0 of the same serial number; where that does not tell it apart, to the last one before
    them, as the driver counts. Two exporters of one server may count alike: their sockets differ in the serial number.
    """
    rows.sort(key=lambda row: (int(row.labels["gpu_id"]), _part(row)))
    first = [_socket(row) for row in rows if _part(row) == 0]
    places = sorted(set(first)) or [(int(rows[0].labels["gpu_id"]), "")]
    serials: dict[str, set[tuple[int, str]]] = {}
    for place in first:
        serials.setdefault(place[1], set()).add(place)
    sockets: dict[tuple[int, str], list[GpuRow]] = {place: [] for place in places}
    for row in rows:
        place = _socket(row)
        same = serials.get(place[1], set()) if place[1] else set()
        if _part(row) and len(same) == 1:
            place = min(same)
        elif place not in sockets:
            place = places[max(bisect_right(places, place) - 1, 0)]
        sockets[place].append(row)
    return [sockets[place] for place in places if sockets[place]]


def _socket(row: GpuRow) -> tuple[int, str]:
    return int(row.labels["gpu_id"]), _serial(row.labels)


def _part(row: GpuRow) -> int:
    return int(row.labels.get("gpu_partition_id") or 0)


def _serial(labels: Mapping[str, str]) -> str:
    serial = labels.get("serial_number", "")
    return "" if serial in _UNREPORTED else serial


def _reading(position: int, rows: list[GpuRow], serials: Counter[str]) -> GpuReading:
    clocks = {row.labels.get("clock_type", "").lower().rpartition("_")[2]: row for row in rows if CLOCK in row.values}
    parts = [row for row in rows if CLOCK not in row.values]
    # What only partition 0 measures, the others show as 0.
    socket = next((row for row in parts if _part(row) == 0), GpuRow(rows[0].node, rows[0].time_s, rows[0].labels))
    number, serial = int(socket.labels["gpu_id"]), _serial(socket.labels)
    split = any(_part(row) for row in rows)
    activity = socket.values.get(ACTIVITY)
    return GpuReading(
        uuid=f"AMD-{serial}" if serial and serials[serial] == 1 else f"{socket.node}/amd/{number}",
        node=socket.node, index=position if split else number, time_s=min(row.time_s for row in rows), vendor="amd",
        model=_model(socket), power_watts=socket.first(POWER), energy_joules=socket.values.get(ENERGY),
        activity=activity, activity_source="" if activity is None else "gfx_activity", resident=activity,
        memory_used_bytes=_sum(parts, USED), memory_total_bytes=_sum(parts, TOTAL),
        temperature_celsius=socket.first(TEMPERATURE),
        jobs=tuple(sorted(set().union(*(row.jobs for row in rows)))),
        detail=GpuDetail(
            tensor_active=socket.values.get(TENSOR), dram_active=socket.values.get(MEMORY_ACTIVITY),
            sm_occupancy=socket.values.get(OCCUPANCY),
            sm_clock_hertz=clocks["system"].values[CLOCK] if "system" in clocks else None,
            memory_clock_hertz=clocks["memory"].values[CLOCK] if "memory" in clocks else None,
            memory_temperature_celsius=socket.values.get(MEMORY_TEMPERATURE), throttled_by=_throttled(socket)))


def _model(row: GpuRow) -> str:
    model = row.labels.get("card_model", "")
    return "" if model in _UNREPORTED else model


def _sum(rows: list[GpuRow], name: str) -> float | None:
    """Return the sum over the partitions of a socket; None where one of them does not report it."""
    reported = [row.values[name] for row in rows if name in row.values]
    return sum(reported) if reported and len(reported) == len(rows) else None


def _throttled(row: GpuRow) -> tuple[str, ...] | None:
    shares = {word: 0.0 for name, word in _HELD_BACK.items() if name in row.values}
    for name, word in _HELD_BACK.items():
        if name in row.values:
            shares[word] = max(shares[word], row.values[name])
    return tuple(sorted(word for word, share in shares.items() if share > 0)) if shares else None


@register("amd")
class AmdConfig(PageConfig):
    """Pages of AMD's device-metrics-exporter (port 5000): power, energy, activity and memory of Instinct GPUs."""

    finds = GPU
    kind: Literal["amd"] = "amd"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
