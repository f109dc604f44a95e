"""Power of racks by their PDUs, as snmp_exporter shows them: the sum over the PDUs that one enclosure's targets name.

What a metric of a vendor's MIB counts in is told here or in the configuration; nothing is guessed from a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from ..storage.telemetry import EnclosureReading, Telemetry
from .exposition import Samples
from .facts import TimeOf, measured
from .scrape import PageConfig, PageSource
from .source import Clock, Source, SourceError, register
from .targets import Target, page_url

KNOWN: Mapping[str, float] = {"rPDU2DeviceStatusPower": 10.0}
"""Watts of one count: APC's MIB counts hundredths of a kilowatt."""
_MOST_RACK_WATTS = 1_000_000.0


def parse(samples: Samples, target: Target, time_s: float, scales: Mapping[str, float]) -> Telemetry:
    """Return the power behind one PDU's page; the first metric that measures counts, its rows are added up."""
    rack = target.labels.get("enclosure", "")
    if not rack:
        raise SourceError("this PDU has no label `enclosure`: nothing says which rack it feeds", permanent=True)
    for name, scale in scales.items():
        rows: dict[tuple[tuple[str, str], ...], float] = {}
        for series, value in samples:
            watts = measured(value) if series.name == name else None
            if watts is not None and watts * scale <= _MOST_RACK_WATTS:
                rows[tuple(sorted(series.labels.items()))] = watts * scale
        if rows:
            reading = EnclosureReading(rack, time_s, sum(rows.values()), "snmp", len(rows), target.instance)
            return Telemetry(enclosures=(reading,))
    raise SourceError(f"none of {', '.join(scales)} on the page: name the metric of this PDU (metrics)")


def racks(samples: Mapping[str, Samples], time_of: TimeOf) -> tuple[EnclosureReading, ...]:
    """Return the racks of query answers by metric; a PDU whose series names no ``enclosure`` is left out.

    A PDU that two jobs of a Prometheus scrape is one: what the fuller of them tells counts.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    times: dict[tuple[str, str], float] = {}
    for name, scale in KNOWN.items():
        for series, value in samples[name]:
            time_s, watts, labels = time_of(series.labels), measured(value), series.labels
            place = labels.get("enclosure", ""), labels.get("instance", "")
            if place[0] and time_s is not None and watts is not None and watts * scale <= _MOST_RACK_WATTS:
                found.setdefault(place, {}).setdefault(labels.get("job", ""), []).append(watts * scale)
                times[place] = max(time_s, times.get(place, time_s))
    told = {place: max(by_job.values(), key=lambda watts: (len(watts), sum(watts))) for place, by_job in found.items()}
    return tuple(EnclosureReading(rack, times[rack, meter], sum(watts), "snmp", len(watts), meter)
                 for (rack, meter), watts in told.items())


@register("pdu")
class PduConfig(PageConfig):
    """Racks by their PDUs: pages of snmp_exporter. Each target's label ``enclosure`` names the rack."""

    meters: ClassVar[str] = "snmp"
    kind: Literal["pdu"] = "pdu"
    exporter: str = Field(default="", description="host:port of the snmp_exporter that asks all PDUs; targets are then "
                                                  "their addresses. Empty: each target serves its own page.")
    module: str = Field(default="", description="Module of snmp_exporter to ask with.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Watts of one count by metric, before those "
                                                                        "that are known (rPDU2DeviceStatusPower: 10).")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a PDU's page, on the shared exporter where there is one."""
        if not self.exporter:
            return super().locate(address, labels)
        asked = self.params | {"target": address} | ({"module": self.module} if self.module else {})
        return page_url(self.exporter, labels, self.scheme, "/snmp", asked)

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        scales = self.metrics | {name: scale for name, scale in KNOWN.items() if name not in self.metrics}
        return PageSource(self, scales, lambda samples, target, now: parse(samples, target, now, scales), clock)
