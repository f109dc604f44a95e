"""nvidia_gpu_exporter: NVIDIA's GPUs where there is no DCGM, as on workstations and DGX Spark.

Each series has but the label ``uuid``; index and model stand with the same uuid on ``nvidia_smi_gpu_info``. A GPU in
MIG mode tells its power and no use of its engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Literal

from ..storage.telemetry import GpuDetail, GpuReading, Telemetry
from .dcgm import reasons
from .exposition import Samples
from .facts import (
    GpuRow,
    NodeOf,
    Reader,
    TimeOf,
    gather,
    gpu_celsius,
    gpu_memory,
    gpu_watts,
    judge_use,
    measured,
    node_name,
    of_shares,
)
from .scrape import PageConfig, PageSource
from .source import GPU, Clock, Source, register
from .targets import Target

POWER = ("nvidia_smi_power_draw_instant_watts", "nvidia_smi_power_draw_watts", "nvidia_smi_power_draw_average_watts")
ENERGY, USE, INFO = "nvidia_smi_energy_joules_total", "nvidia_smi_utilization_gpu_ratio", "nvidia_smi_gpu_info"
USED, TOTAL = "nvidia_smi_memory_used_bytes", "nvidia_smi_memory_total_bytes"
TEMPERATURE, MEMORY_TEMPERATURE = "nvidia_smi_temperature_gpu", "nvidia_smi_temperature_memory"
LIMIT = ("nvidia_smi_enforced_power_limit_watts", "nvidia_smi_power_limit_watts")
LIMIT_DEFAULT, LIMIT_MIN = "nvidia_smi_power_default_limit_watts", "nvidia_smi_power_min_limit_watts"
CLOCK, MEMORY_CLOCK = "nvidia_smi_clocks_current_sm_clock_hz", "nvidia_smi_clocks_current_memory_clock_hz"
REASONS = "nvidia_smi_clocks_event_reasons_active"
_OLD_REASONS = "nvidia_smi_clocks_throttle_reasons_active"
_SLOWED = "nvidia_smi_clocks_event_reasons_counters_"
BY_POWER = (f"{_SLOWED}sw_power_cap_seconds", f"{_SLOWED}hw_power_brake_slowdown_seconds")
BY_HEAT = (f"{_SLOWED}sw_thermal_slowdown_seconds", f"{_SLOWED}hw_thermal_slowdown_seconds")
METRICS: dict[str, Reader] = {
    **dict.fromkeys((*POWER, *LIMIT, LIMIT_DEFAULT, LIMIT_MIN), gpu_watts),
    **dict.fromkeys((TEMPERATURE, MEMORY_TEMPERATURE), gpu_celsius),
    **dict.fromkeys((ENERGY, USE, INFO, USED, TOTAL, CLOCK, MEMORY_CLOCK, REASONS, _OLD_REASONS, *BY_POWER, *BY_HEAT),
                    measured),
}
FACTS = {name: (name, _OLD_REASONS) if name == REASONS else (name,) for name in METRICS if name != _OLD_REASONS}
"""All names of each fact."""


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the GPUs on one page of nvidia_gpu_exporter."""
    return Telemetry(gpus=gpus(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s))


def gpus(samples: Samples, node_of: NodeOf, time_of: TimeOf) -> tuple[GpuReading, ...]:
    """Return one reading per GPU; what has an index and nothing measured is none."""
    rows = gather(samples, METRICS, {_OLD_REASONS: REASONS}, _uuid, node_of, time_of, lambda labels: labels["uuid"])
    judge_use(rows, USE, POWER[1], LIMIT[0], of_shares)
    servers: dict[str, list[GpuRow]] = {}
    for row in rows:
        servers.setdefault(row.node, []).append(row)
    return tuple(_reading(row, index) for rows in servers.values()
                 for row, index in zip(rows, _indexes(rows), strict=True) if row.values.keys() - {INFO})


def _indexes(rows: list[GpuRow]) -> list[int]:
    """Return the numbers of the GPUs of a server; those that bear none have the first that no other bears."""
    reported = [int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None
                for text in (row.labels.get("index", "") for row in rows)]
    taken = set(reported)
    free = (number for number in count() if number not in taken)
    return [next(free) if number is None else number for number in reported]


def _uuid(_name: str, labels: Mapping[str, str]) -> str | None:
    return labels.get("uuid") or None


def _reading(row: GpuRow, index: int) -> GpuReading:
    uuid, values, use = row.labels["uuid"], row.values, row.values.get(USE)
    used, total = gpu_memory(values.get(USED), values.get(TOTAL))
    return GpuReading(
        uuid=uuid if uuid.startswith("GPU-") else f"GPU-{uuid}", node=row.node, vendor="nvidia",
        index=index, time_s=row.time_s,
        model=row.labels.get("name", ""), power_watts=row.first(POWER), energy_joules=values.get(ENERGY),
        activity=use, activity_source="" if use is None else "gpu_util", resident=use,
        memory_used_bytes=used, memory_total_bytes=total,
        temperature_celsius=values.get(TEMPERATURE), power_limit_watts=row.first(LIMIT), jobs=tuple(sorted(row.jobs)),
        detail=GpuDetail(
            sm_clock_hertz=values.get(CLOCK), memory_clock_hertz=values.get(MEMORY_CLOCK),
            memory_temperature_celsius=values.get(MEMORY_TEMPERATURE), throttled_by=reasons(values.get(REASONS)),
            throttled_by_power_s=_sum(values, BY_POWER), throttled_by_heat_s=_sum(values, BY_HEAT),
            default_limit_watts=values.get(LIMIT_DEFAULT), least_limit_watts=values.get(LIMIT_MIN)))


def _sum(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    """Return the sum of these values; None unless all of them were measured."""
    measured = [values[name] for name in names if name in values]
    return sum(measured) if len(measured) == len(names) else None


@register("nvidia_smi")
class NvidiaSmiConfig(PageConfig):
    """Pages of nvidia_gpu_exporter (port 9835): power, activity and memory of NVIDIA's GPUs without DCGM."""

    finds = GPU
    kind: Literal["nvidia_smi"] = "nvidia_smi"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
