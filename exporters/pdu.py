"""Power of racks by their PDUs, as snmp_exporter shows them: the sum over the PDUs that one enclosure's targets name.

What a metric of a vendor's MIB counts in stands here or in the configuration; nothing is guessed from a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    torn = ""
    for name, scale in scales.items():
        rows = {tuple(sorted(series.labels.items())): _row_watts(value, scale) for series, value in samples
                if series.name == name and not value < 0}
        watts = _all_watts(rows.values())
        if watts:
            reading = EnclosureReading(rack, time_s, sum(watts), "snmp", len(watts), target.instance)
            return Telemetry(enclosures=(reading,))
        torn = torn or (name if rows else "")
    if torn:
        raise SourceError(f"{torn} has a row without a reading: the sum of the others is not what the PDU feeds")
    raise SourceError(f"none of {', '.join(scales)} on the page: name the metric of this PDU (metrics)")


def _row_watts(value: float, scale: float) -> float | None:
    """Return the watts of a row, None where it has no reading; PDUs write -1 for rows that they do not have."""
    watts = measured(value)
    return None if watts is None or watts * scale > _MOST_RACK_WATTS else watts * scale


def _all_watts(rows: Iterable[float | None]) -> list[float]:
    """Return the watts of all rows; nothing where one of them has no reading."""
    values = list(rows)
    measured = [watts for watts in values if watts is not None]
    return measured if len(measured) == len(values) else []


def racks(samples: Mapping[str, Samples], time_of: TimeOf) -> tuple[EnclosureReading, ...]:
    """Return the racks of query answers by metric; a PDU whose series names no ``enclosure`` is left out.

    A PDU that two jobs of a Prometheus scrape is one: what the fuller of them reports counts.
    """
    places: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    times: dict[tuple[str, str], float] = {}
    for name, scale in KNOWN.items():
        for series, value in samples[name]:
            time_s, labels = time_of(series.labels), series.labels
            place = labels.get("enclosure", ""), labels.get("instance", "")
            if place[0] and time_s is not None and not value < 0:
                places.setdefault(place, {}).setdefault(labels.get("job", ""), []).append(_row_watts(value, scale))
                times[place] = max(time_s, times.get(place, time_s))
    fullest = {place: max(map(_all_watts, by_job.values()), key=lambda watts: (len(watts), sum(watts)))
               for place, by_job in places.items()}
    return tuple(EnclosureReading(rack, times[rack, meter], sum(watts), "snmp", len(watts), meter)
                 for (rack, meter), watts in fullest.items() if watts)


@register("pdu")
class PduConfig(PageConfig):
    """Racks by their PDUs: pages of snmp_exporter. Each target's label ``enclosure`` names the rack."""

    meters: ClassVar[str] = "snmp"
    kind: Literal["pdu"] = "pdu"
    exporter: str = Field(default="", description="host:port of the snmp_exporter that reads all PDUs; targets are "
                                                  "then their addresses. Empty: each target serves its own page.")
    module: str = Field(default="", description="Module of snmp_exporter to read them with.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Watts of one count by metric, before those "
                                                                        "that are known (rPDU2DeviceStatusPower: 10).")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a PDU's page, on the shared exporter where there is one."""
        if not self.exporter:
            return super().locate(address, labels)
        parameters = self.params | {"target": address} | ({"module": self.module} if self.module else {})
        return page_url(self.exporter, labels, self.scheme, "/snmp", parameters)

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        scales = self.metrics | {name: scale for name, scale in KNOWN.items() if name not in self.metrics}
        return PageSource(self, scales, lambda samples, target, now: parse(samples, target, now, scales), clock)
