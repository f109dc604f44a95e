"""Intel's Gaudi metric exporter: power in milliwatts, energy in millijoules, use in per cent, of each card.

Its labels are Serial, UUID, device (the serial number again), id, and pod_name with pod_namespace in Kubernetes; it
tells neither the model nor the server. The driver derives the use of a Gaudi from its power.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from pydantic import Field

from ..storage.telemetry import GpuDetail, GpuReading, Telemetry
from .exposition import Samples
from .facts import (
    GpuRow,
    NodeOf,
    Reader,
    TimeOf,
    gather,
    gpu_celsius,
    hertz_of_megahertz,
    joules_of_millijoules,
    judge_use,
    measured,
    node_name,
    of_percent,
    watts_of_milliwatts,
)
from .scrape import PageConfig, PageSource
from .source import GPU, Clock, Source, register
from .targets import Target

POWER, LIMIT, ENERGY = "habanalabs_power_mW", "habanalabs_power_default_limit_mW", "habanalabs_energy"
USE, TEMPERATURE, CLOCK = "habanalabs_utilization", "habanalabs_temperature_onchip", "habanalabs_clock_soc_mhz"
USED, TOTAL = "habanalabs_memory_used_bytes", "habanalabs_memory_total_bytes"
METRICS: dict[str, Reader] = {
    **dict.fromkeys((POWER, LIMIT), watts_of_milliwatts),
    ENERGY: joules_of_millijoules,
    TEMPERATURE: gpu_celsius,
    **dict.fromkeys((USE, USED, TOTAL), measured),
    CLOCK: hertz_of_megahertz,
}
FACTS = {name: (name,) for name in METRICS}
"""All names of each fact."""


def parse(samples: Samples, target: Target, time_s: float, model: str = "") -> Telemetry:
    """Return the cards on one page of the Gaudi metric exporter."""
    return Telemetry(gpus=gpus(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s, model))


def gpus(samples: Samples, node_of: NodeOf, time_of: TimeOf, model: str = "") -> tuple[GpuReading, ...]:
    """Return one reading per card."""
    rows = gather(samples, METRICS, {}, _index, node_of, time_of, _name)
    judge_use(rows, USE, POWER, LIMIT, of_percent)
    return tuple(_reading(row, model) for row in rows)


def _index(_name: str, labels: Mapping[str, str]) -> int | None:
    text = labels.get("id", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None


def _name(labels: Mapping[str, str]) -> str:
    return labels.get("UUID") or labels.get("Serial") or ""


def _reading(row: GpuRow, model: str) -> GpuReading:
    index, use = int(row.labels["id"]), row.values.get(USE)
    return GpuReading(
        uuid=_name(row.labels) or f"{row.node}/gaudi/{index}", node=row.node, index=index, time_s=row.time_s,
        model=model, vendor="intel",
        power_watts=row.values.get(POWER), energy_joules=row.values.get(ENERGY), activity=use,
        activity_source="" if use is None else "power_derived", resident=use,
        memory_used_bytes=row.values.get(USED), memory_total_bytes=row.values.get(TOTAL),
        temperature_celsius=row.values.get(TEMPERATURE), power_limit_watts=row.values.get(LIMIT),
        jobs=tuple(sorted(row.jobs)),
        detail=GpuDetail(sm_clock_hertz=row.values.get(CLOCK), default_limit_watts=row.values.get(LIMIT)))


@register("gaudi")
class GaudiConfig(PageConfig):
    """Pages of Intel's Gaudi metric exporter (port 41611): power, energy, use and memory of each card."""

    finds = GPU
    kind: Literal["gaudi"] = "gaudi"
    model: str = Field(default="", description="What these cards are, e.g. HL-225 or HL-325L: the exporter does not "
                                               "tell it, and floors are known by model.")

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, partial(parse, model=self.model), clock)
