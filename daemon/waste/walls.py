"""The wall power of servers and racks by their meters, and what of it belongs to no GPU: CPUs, fans, switches, losses.

A meter that falls silent switches no server off: for a while the node is taken to draw what it drew last beside its
GPUs.

The meter of an enclosure (power shelves, PDUs) is what its trays draw by their own meters, what its NVLink switch trays
draw as configured, and the loss of converting, which is the rest. Where the meter tells less than that the switches are
believed less, and then the meter: the parts always add up to the larger of the meter and the trays. What is no tray's
is split among the trays by their own draw. Where a tray is not measured the rest is not known to be loss.

Meters of one kind stand side by side and are added up. Where PDUs and power shelves both measure a rack, the current
passes one after the other: the larger sum, which is further out, counts, and the other is in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...storage.telemetry import EnclosureReading, NodeReading
from ..settings.waste import EnclosureSettings


@dataclass(frozen=True, slots=True)
class Wall:
    """Watts of a whole node and where they come from."""

    watts: float | None
    source: str
    disagreement_watts: float = 0.0
    silent: bool = False
    """The meter has fallen silent: what the node draws beside its GPUs is what it drew then."""


def wall(reading: NodeReading | None, gpus_watts: float | None, overhead_watts: float | None,
         lost_watts: float | None = None) -> Wall:
    """Return ``P* = max(P, sum of gpus)`` of a node.

    Args:
        reading: the wall meter, None when there is none fresh.
        gpus_watts: sum over measured GPUs, None when none is measured.
        overhead_watts: configured draw beside the GPUs, for nodes without a meter.
        lost_watts: last draw beside the GPUs of a meter that has fallen silent, None once that is too long ago.
    """
    metered = reading.power_watts if reading is not None else None
    if reading is not None and metered is not None and not (metered == 0.0 and gpus_watts):
        # A service processor that says 0 W while GPUs draw power is not measuring.
        gpus = gpus_watts or 0.0
        return Wall(max(metered, gpus), reading.power_source, max(0.0, gpus - metered))
    if lost_watts is not None:
        return Wall((gpus_watts or 0.0) + lost_watts, "estimated", silent=True)
    if gpus_watts is None:
        return Wall(None, "")
    if overhead_watts is None:
        return Wall(gpus_watts, "gpus")
    return Wall(gpus_watts + overhead_watts, "estimated")


@dataclass(frozen=True, slots=True)
class _Last:
    time_s: float
    watts: float
    gpus: Mapping[str, float]
    """Watts of the measured GPUs at that time, by uuid."""


class LastWalls:
    """Remember the last metered wall watts of every node, for a bounded time."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._nodes: dict[str, _Last] = {}

    def note(self, node: str, time_s: float, watts: float, gpus: Mapping[str, float]) -> None:
        """Remember what a meter said at ``time_s`` and what the measured GPUs drew when it was first seen."""
        last = self._nodes.get(node)
        if last is None or time_s > last.time_s:
            self._nodes[node] = _Last(time_s, watts, gpus)

    def beside(self, node: str, gpus: Mapping[str, float]) -> float | None:
        """Return what the node drew last beside the GPUs that are measured now, None where nobody remembers.

        A GPU that is measured now and was not then takes its present watts out of what was left then.
        """
        last = self._nodes.get(node)
        if last is None:
            return None
        return max(0.0, last.watts - sum(last.gpus.get(uuid, watts) for uuid, watts in gpus.items()))

    def forget(self, now_s: float, early_s: float) -> None:
        """Drop what is too old, or more than ``early_s`` in the future: a clock that was set back."""
        self._nodes = {node: last for node, last in self._nodes.items()
                       if -early_s <= now_s - last.time_s <= self._longest_s}

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that are remembered."""
        return frozenset(self._nodes)


_LEAST_WATTS = 1.0
"""Of all trays together, below which nothing is split by their draw."""
PARTS = ("trays", "switches", "loss", "unmeasured")


@dataclass(frozen=True, slots=True)
class EnclosureVerdict:
    """One enclosure at one moment, in watts."""

    name: str
    meter_watts: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """By ``PARTS``; they add up to the meter, or to the trays where these are more."""
    nodes: Mapping[str, float] = field(default_factory=dict)
    """Each tray with its share of switches and loss; empty where one of them is not measured."""
    disagreement_watts: float = 0.0
    """By how much the trays exceed the meter."""


class Enclosures:
    """The enclosures that are configured, with the last readings of their meters."""

    def __init__(self, configured: Mapping[str, EnclosureSettings], max_age_s: float) -> None:
        self._configured, self._max_age_s = configured, max_age_s
        self._meters: dict[tuple[str, str], EnclosureReading] = {}
        self.rejected = 0
        """Readings above what the enclosure is rated for."""

    def absorb(self, readings: Iterable[EnclosureReading], now_s: float) -> None:
        """Take in readings; what is from the future, no number, or above the rating is left out."""
        for reading in readings:
            known = self._meters.get((reading.enclosure, reading.meter))
            wanted = self._configured.get(reading.enclosure)
            if wanted is None or reading.time_s > now_s + self._max_age_s or (
                    known is not None and reading.time_s <= known.time_s):
                continue
            if not _plausible(reading.power_watts, wanted.rated_watts):
                self.rejected += 1
                continue
            self._meters[reading.enclosure, reading.meter] = reading

    def judge(self, walls: Mapping[str, float | None], now_s: float) -> tuple[EnclosureVerdict, ...]:
        """Return the enclosures whose meters are fresh; ``walls`` are the watts of all nodes, None unmeasured."""
        found = []
        for name, wanted in self._configured.items():
            total = self._metered(name, now_s)
            if total is not None and _plausible(total, wanted.rated_watts):
                trays = {node: watts for node, watts in walls.items() if wanted.holds(node)}
                found.append(rack_parts(name, total, trays, wanted.switch_watts))
        return tuple(found)

    def _metered(self, name: str, now_s: float) -> float | None:
        """Return the watts of the outermost meters; None where of no kind all are fresh."""
        kinds: dict[str, list[EnclosureReading]] = {}
        for (rack, _), one in self._meters.items():
            if rack == name:
                kinds.setdefault(one.power_source, []).append(one)
        return max((sum(one.power_watts for one in meters) for meters in kinds.values()
                    if all(0 <= now_s - one.time_s <= self._max_age_s for one in meters)), default=None)


def rack_parts(name: str, meter: float, trays: Mapping[str, float | None], switches: float) -> EnclosureVerdict:
    """Return the parts of an enclosure."""
    known = {node: watts for node, watts in trays.items() if watts is not None}
    drawn = sum(known.values())
    whole = max(meter, drawn)
    switched = min(switches, whole - drawn)
    rest = whole - drawn - switched
    dark = len(known) < len(trays)
    parts = {"trays": drawn, "switches": switched, "loss": 0.0 if dark else rest, "unmeasured": rest if dark else 0.0}
    shared = whole / drawn if drawn >= _LEAST_WATTS and not dark else 0.0
    nodes = {node: watts * shared for node, watts in known.items()} if shared else {}
    return EnclosureVerdict(name, meter, parts, nodes, max(0.0, drawn - meter))


def _plausible(watts: float, rated: float | None) -> bool:
    return math.isfinite(watts) and watts >= 0 and (rated is None or watts <= rated)
