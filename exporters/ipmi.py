"""Wall power of servers by their management controllers: pages of ipmi_exporter, Redfish exporters and CEEMS.

ipmi_exporter is read on each server, or once for many controllers (``exporter: host:9290``), as Prometheus does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from pydantic import Field

from ..storage.telemetry import NodeReading, Telemetry
from .exposition import Samples, Series
from .facts import node_name, server_watts
from .scrape import PageConfig, PageSource
from .source import METER, Clock, Source, register
from .targets import Target, page_url

WALL = {
    "ipmi_dcmi_power_consumption_watts": "ipmi",
    "ipmi_dcmi_power_consumption_current_watts": "ipmi",  # the name in ipmi_exporter's documentation
    "redfish_chassis_power_average_consumed_watts": "redfish",
    "idrac_power_control_consumed_watts": "redfish",
    "idrac_power_supply_input_watts": "redfish",
    "ceems_redfish_current_watts": "redfish",
    "kepler_platform_watts": "redfish",
    "ceems_ipmi_dcmi_current_watts": "ceems",
    "ceems_cray_pm_counters_power_watts": "ceems",
    "ceems_host_power_watts": "ceems",
}
"""Metrics that state the wall power of a server, best first, with the source they stand for."""
SUPPLY = "ipmi_power_watts"
CHASSIS = "ipmi_chassis_power_state"
METRICS = (*WALL, SUPPLY, CHASSIS)

KEPLER = "kepler_platform_watts"
_CRAY = "ceems_cray_pm_counters_power_watts"
_NODE_DOMAINS = frozenset(("", "node"))
"""Of Cray's counters, the rows that are the whole node: others are its CPUs, memory and accelerators."""
_PARTS = ("chassis", "chassis_id", "id", "name", "psu", "source_id")
"""Labels that tell the parts of one server apart; rows that differ in others repeat a part."""
_INPUT = re.compile(r".*(Power In|Input Power)")


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the wall power of the server behind one page."""
    return Telemetry(nodes=servers(samples, lambda labels: node_name(labels, target.labels, target.instance),
                                   lambda _labels: time_s))


def servers(samples: Samples, node_of: Callable[[Mapping[str, str]], str],
            time_of: Callable[[Mapping[str, str]], float | None]) -> tuple[NodeReading, ...]:
    """Return the wall power of each server that the samples name."""
    rows: dict[str, Samples] = {}
    for sample in samples:
        labels = sample[0].labels
        node = node_of(labels)
        if time_of(labels) is not None:
            rows.setdefault(node, []).append(sample)
    return tuple(_reading(node, node_rows, time_of) for node, node_rows in rows.items())


def _reading(node: str, samples: Samples, time_of: Callable[[Mapping[str, str]], float | None]) -> NodeReading:
    """Return what the rows tell of a server, as old as the oldest of those that tell it."""
    watts, source, used = _watts(samples)
    times = [time_s for series, _ in used if (time_s := time_of(series.labels)) is not None]
    meter = used[0][0].name if watts is not None else ""
    return NodeReading(node=node, time_s=min(times), power_watts=watts, power_source=source, meter=meter,
                       meters=len({_part(series) for series, _ in used}) if watts else 1)


def _watts(samples: Samples) -> tuple[float | None, str, Samples]:
    """Return watts, their source and their rows, of one metric; 0 W is a measurement only while the chassis is off."""
    for name, source in WALL.items():
        rows = [sample for sample in samples if sample[0].name == name and _is_wall(sample[0])]
        if watts := (_largest_chassis(rows) if name == KEPLER else _sum(rows)):
            return watts, source, rows
    rows = [sample for sample in samples if _is_supply_input(sample[0])]
    if watts := _sum(rows):
        return watts, "ipmi", rows
    off = [sample for sample in samples if sample[0].name == CHASSIS and sample[1] == 0]
    return (0.0, "ipmi", off) if off and not _draws(samples) else (None, "", samples)


def _draws(samples: Samples) -> bool:
    """Tell whether any meter reads more than nothing, be it of a part only."""
    return any(server_watts(value) for series, value in samples
               if series.name in WALL or _is_supply_input(series))


def _is_wall(series: Series) -> bool:
    """Tell whether a row is of the whole server: Kepler's ACPI rows may be of modules, Cray's of parts."""
    if series.name == KEPLER:
        return series.labels.get("source", "redfish") == "redfish"
    return series.name != _CRAY or series.labels.get("domain", "") in _NODE_DOMAINS


def _largest_chassis(rows: Samples) -> float | None:
    """Return the sum over the supplies of the chassis that draws most: baseboards and modules lie within it.

    None where one of the chassis is not measured: that may be the one that draws most.
    """
    chassis: dict[str, Samples] = {}
    for sample in rows:
        chassis.setdefault(sample[0].labels.get("chassis_id", ""), []).append(sample)
    sums = [_sum(chassis_rows) for chassis_rows in chassis.values()]
    return max((watts for watts in sums if watts is not None), default=None) if None not in sums else None


def _is_supply_input(series: Series) -> bool:
    return series.name == SUPPLY and _INPUT.fullmatch(series.labels.get("name", "")) is not None


def _sum(samples: Iterable[tuple[Series, float]]) -> float | None:
    """Return the sum over chassis or power supplies, each once; None where one of them, or all, have no reading."""
    parts: dict[tuple[str, ...], float | None] = {}
    for series, value in samples:
        part = _part(series)
        watts, known = _part_watts(value), parts.get(part)
        parts[part] = known if watts is None else max(watts, known or 0.0)
    measured = [watts for watts in parts.values() if watts is not None]
    return sum(measured) if measured and len(measured) == len(parts) else None


def _part(series: Series) -> tuple[str, ...]:
    """Return which part of a server a row is of."""
    return tuple(series.labels.get(label, "") for label in _PARTS)


def _part_watts(value: float) -> float | None:
    """Return the watts of a part; 0 W is a measurement beside others: a supply in standby feeds nothing."""
    return 0.0 if value == 0 else server_watts(value)


@register("ipmi")
class IpmiConfig(PageConfig):
    """Wall power by BMC: pages of ipmi_exporter (direct or multi-target), Redfish exporters or CEEMS."""

    finds = METER
    kind: Literal["ipmi"] = "ipmi"
    exporter: str = Field(
        default="", description="host:port of one ipmi_exporter that asks all controllers; targets are then their "
                                "addresses. Empty: each target serves its own page.")
    module: str = Field(default="", description="Module of ipmi_exporter to ask with, in multi-target use.")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a target's page, on the shared exporter where there is one."""
        if not self.exporter:
            return super().locate(address, labels)
        path = "/ipmi" if self.metrics_path == "/metrics" else self.metrics_path
        parameters = self.params | {"target": address} | ({"module": self.module} if self.module else {})
        return page_url(self.exporter, labels, self.scheme, path, parameters)

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
