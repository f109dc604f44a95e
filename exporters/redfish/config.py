"""The source ``redfish``: what is configured, and how each BMC is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import Field

from ...storage.durations import Duration
from ...storage.telemetry import EnclosureReading, NodeReading, Telemetry
from ..exposition import Look
from ..facts import node_name
from ..fetch import Client
from ..scrape import PageConfig, PageSource
from ..source import Clock, Source, SourceError, register
from ..targets import Target
from .chassis import ChassisInUse, choose
from .client import Bmc, Resource
from .power import ChassisPower, Reader, equipment, read

_CHOSEN_S = 3600.0
"""How long the choice of a chassis holds: firmware is updated."""
_ALIKE = 1.1
"""How much larger the sum of the other kind of a rack's equipment may be without being preferred."""
_LAST_S = 0.5
"""What the end of sessions may take: neither a stop nor a round waits for BMCs."""


@register("redfish")
class RedfishConfig(PageConfig):
    """Wall power straight from BMCs by Redfish, and that of racks from the controllers of power shelves and PDUs."""

    meters: ClassVar[str] = "redfish"
    kind: Literal["redfish"] = "redfish"
    scheme: Literal["http", "https"] = Field(default="https", description="Scheme for targets given as host:port.")
    metrics_path: str = Field(default="", description="Not used: Redfish begins at /redfish/v1/.")
    auth: Literal["session", "basic"] = Field(
        default="session", description="How basic_auth is used: to open a session, or with each request.")
    chassis: str = Field(default="", description="Pattern of the id of the chassis that counts; empty: the one that is "
                                                 "a whole server by its type and lies in no other.")
    walk: Duration = Field(default=60.0, description="Longest time for all requests of one look at a BMC together; the "
                                                     "first look, which chooses the chassis, makes dozens of them.")
    refresh: Duration = Field(default=30.0, description="How often each BMC is read: an answer may take it seconds.")

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these controllers."""
        return RedfishSource(self, clock)


@dataclass(slots=True)
class _Known:
    """What is remembered of one BMC."""

    bmc: Bmc
    in_use: ChassisInUse
    lock: threading.Lock = field(default_factory=threading.Lock)
    chosen: tuple[Resource, Reader] | None = None
    chosen_s: float = 0.0
    reported: ChassisPower | None = None
    reported_s: float = 0.0
    """When it was first reported so: a BMC that repeats its own old measurement does not make it younger."""
    shelves: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The same of the shelves or PDUs of a rack: when each says that it measured, and when it first said so."""
    outermost: int | None = None
    """Which of the kinds of a rack's equipment was added up last."""


class RedfishSource(PageSource):
    """Reads BMCs as pages are read: side by side, each with one request in flight, each backed off by itself."""

    def __init__(self, config: RedfishConfig, clock: Clock) -> None:
        super().__init__(config, (), lambda samples, target, time_s: Telemetry(), clock)
        self._redfish = config
        session = config.basic_auth is not None and config.auth == "session"
        options = config.model_copy(update={"basic_auth": None}) if session else config
        self._client = Client(options, accept="application/json")
        self._ending = Client(options.model_copy(update={"timeout": _LAST_S, "connect_timeout": _LAST_S}))
        self._login = config.basic_auth if session else None
        self._bmcs: dict[str, _Known] = {}

    def close(self) -> None:
        """End sessions, as far as that goes quickly, and connections."""
        self._lanes.close()
        until = time.monotonic() + _LAST_S
        for url in tuple(self._bmcs):
            if time.monotonic() < until:
                self._end(url)
        self._ending.close()
        super().close()

    def _renew(self, targets: list[Target]) -> None:
        super()._renew(targets)
        until = time.monotonic() + _LAST_S
        for url in tuple(self._bmcs):
            if url not in self._records and time.monotonic() < until:  # the others have their turn at the next round
                self._end(url)

    def _end(self, url: str) -> None:
        """End the session at a BMC and forget it, unless it is being read."""
        known = self._bmcs.get(url)  # none where a stop and a round meet
        if known is not None and known.lock.acquire(blocking=False):
            self._bmcs.pop(url, None)
            known.bmc.close(self._ending)
            known.lock.release()
            self._ending.forget(url)

    def pause_s(self) -> float:
        """Return how long a BMC that answered is left alone."""
        return self._redfish.refresh

    def fetch(self, target: Target, look: Look) -> Telemetry:
        """Return what one BMC reports."""
        known = self._bmcs.setdefault(target.url, _Known(Bmc(target.url, self._client, self._login),
                                                           ChassisInUse(target.instance)))
        with known.lock:
            look.check()
            known.bmc.allow(self._redfish.walk)
            if rack := target.labels.get("enclosure"):
                return Telemetry(enclosures=_shelves(known, rack, target.instance, look.read_s))
            return self._server(known, target, look.read_s)

    def _server(self, known: _Known, target: Target, now_s: float) -> Telemetry:
        node = node_name({}, target.labels, target.instance)
        power = self._power(known, now_s)
        if known.reported is None or power.measured_at == "" or power.measured_at != known.reported.measured_at:
            known.reported_s = now_s
        known.reported = power
        return Telemetry(nodes=(NodeReading(node, known.reported_s, power.watts, "redfish", power.supplies,
                                            power.place),))

    def _power(self, known: _Known, now_s: float) -> ChassisPower:
        if known.chosen is not None and 0 <= now_s - known.chosen_s < _CHOSEN_S:
            power = read(known.chosen[1], known.bmc, known.chosen[0])
            if power is not None:
                known.in_use.silent_s = None
                return power
        chassis, reader, power = choose(known.bmc, self._redfish.chassis, known.in_use, now_s)
        known.chosen, known.chosen_s = (chassis, reader), now_s
        return power


def _shelves(known: _Known, rack: str, meter: str, now_s: float) -> tuple[EnclosureReading, ...]:
    """Return the power of a rack: the sum of the shelves behind its controller, or of the PDUs where that is larger.

    The current passes one after the other. The sum is as old as the oldest of what is added up.
    """
    kinds = list(equipment(known.bmc))
    if not any(kinds):
        raise SourceError("no power shelf and no PDU reports its power: is this a rack's controller?")
    known.outermost = _outermost([sum(power.watts for power in kind.values()) for kind in kinds], kinds,
                                 known.outermost)
    counted, before = kinds[known.outermost], known.shelves
    known.shelves = {path: (power.measured_at, _first_reported_s(power, before.get(path), now_s))
                     for kind in kinds for path, power in kind.items()}
    return (EnclosureReading(rack, min(known.shelves[path][1] for path in counted),
                             sum(power.watts for power in counted.values()), "redfish", len(counted), meter),)


def _outermost(watts: Sequence[float], kinds: Sequence[Mapping[str, ChassisPower]], before: int | None) -> int:
    """Return the kind whose sum is the largest; the one of before while another is not clearly larger.

    The two differ by what is lost between them, and are not read in one moment: a rack that went from one to the other
    would seem to have lost meters.
    """
    best = max((place for place, kind in enumerate(kinds) if kind), key=watts.__getitem__)
    stays = before is not None and kinds[before] and watts[best] <= watts[before] * _ALIKE
    return before if before is not None and stays else best


def _first_reported_s(power: ChassisPower, before: tuple[str, float] | None, now_s: float) -> float:
    return before[1] if before is not None and power.measured_at and power.measured_at == before[0] else now_s
