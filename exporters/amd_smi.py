"""AMD's older amd_smi_exporter: power, limit and use of each GPU; it tells neither memory nor names of servers.

It prints what the driver's library returns, in whatever unit that is: microwatts by most versions, watts by others.
Which of them is seen from the size of the number: no GPU draws less than 5 W or more than 5 kW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..storage.telemetry import GpuReading, Telemetry
from .exposition import Samples
from .facts import (
    GpuRow,
    NodeOf,
    Reader,
    TimeOf,
    gather,
    gpu_celsius,
    gpu_watts,
    judge_use,
    measured,
    node_name,
    of_percent,
)
from .scrape import PageConfig, PageSource
from .source import GPU, Clock, Source, register
from .targets import Target

_MILLI, _MICRO = 5e3, 5e6
"""Up to where a number of watts, then of milliwatts, is one of a GPU."""
_MOST_CELSIUS = 1e3


def watts(value: float) -> float | None:
    """Return watts from watts, milliwatts or microwatts."""
    number = measured(value)
    if number is None:
        return None
    return gpu_watts(number if number <= _MILLI else number / 1e3 if number < _MICRO else number / 1e6)


def celsius(value: float) -> float | None:
    """Return degrees Celsius from degrees or thousandths of them."""
    number = gpu_celsius(value)
    return None if number is None else number if number < _MOST_CELSIUS else number / 1e3


POWER, LIMIT = "amd_gpu_power", "amd_gpu_power_cap"
USE, TEMPERATURE = "amd_gpu_use_percent", "amd_gpu_current_temperature"
FACTS = {POWER: (POWER, "amd_gpu_power_avg"), LIMIT: (LIMIT,), USE: (USE,), TEMPERATURE: (TEMPERATURE,)}
"""All names of each fact."""
_READERS: dict[str, Reader] = {POWER: watts, LIMIT: watts, USE: measured, TEMPERATURE: celsius}
METRICS: dict[str, Reader] = {name: _READERS[fact] for fact, names in FACTS.items() for name in names}
_NAMES = {name: fact for fact, names in FACTS.items() for name in names}


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the GPUs on one page of amd_smi_exporter."""
    return Telemetry(gpus=gpus(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s))


def gpus(samples: Samples, node_of: NodeOf, time_of: TimeOf) -> tuple[GpuReading, ...]:
    """Return one reading per GPU."""
    rows = gather(samples, METRICS, _NAMES, _index, node_of, time_of)
    judge_use(rows, USE, POWER, LIMIT, of_percent)
    return tuple(_reading(row, row.key) for row in rows if isinstance(row.key, int))


def _index(name: str, labels: Mapping[str, str]) -> int | None:
    """Return the GPU's number, which stands in a label that is called like the metric."""
    names = FACTS[_NAMES[name]] if name in _NAMES else ()
    text = next((labels[label] for label in (each.removeprefix("amd_") for each in names) if label in labels), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None


def _reading(row: GpuRow, index: int) -> GpuReading:
    activity = row.values.get(USE)
    return GpuReading(
        uuid=f"{row.node}/amd/{index}", node=row.node, index=index, time_s=row.time_s, vendor="amd",
        model=row.labels.get("productname", ""), power_watts=row.values.get(POWER), activity=activity,
        activity_source="" if activity is None else "gfx_activity", resident=activity,
        temperature_celsius=row.values.get(TEMPERATURE), power_limit_watts=row.values.get(LIMIT))


@register("amd_smi")
class AmdSmiConfig(PageConfig):
    """Pages of AMD's older amd_smi_exporter (port 2021): power and use of each GPU."""

    finds = GPU
    kind: Literal["amd_smi"] = "amd_smi"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
