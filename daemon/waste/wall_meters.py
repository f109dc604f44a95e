"""Wall meters: how many parts each adds up, the last watts of servers whose meter is silent, and racks.

A part that vanishes from a page makes the sum smaller, and nothing else tells it from one that draws less. A rack is
known by the meters of its power shelves or PDUs: trays, switches, and the loss of converting.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from ...storage.telemetry import EnclosureMeter, EnclosureReading, NodeReading
from ..settings.waste import EnclosureSettings
from .assessment import EnclosureVerdict

log = logging.getLogger(__name__)

REMOVED_AFTER_S = 86400.0
"""How long a meter adds up fewer parts than before until the others are taken as removed."""
FORGET_AFTER_S = 3600.0
"""For how long a meter may be silent until nobody knows what was there meanwhile."""


@dataclass(slots=True)
class _Shortfall:
    """How long a meter has added up fewer parts than before, and how many it did at most meanwhile."""

    since_s: float
    reported_s: float
    parts: int

    def lasts(self, parts: int, now_s: float) -> bool:
        """Note how many are added up now; tell whether fewer than before have been for so long that they are gone."""
        if now_s - self.reported_s > FORGET_AFTER_S:
            self.since_s, self.parts = now_s, parts
        self.reported_s, self.parts = now_s, max(parts, self.parts)
        return now_s - self.since_s >= REMOVED_AFTER_S


@dataclass(slots=True)
class PartCount:
    """How many parts a meter has to add up: as many as it ever did, without those that were removed."""

    most: int = 1
    reported_s: float = 0.0
    """When it reported last, by our own clock."""
    _short: _Shortfall | None = field(default=None)

    def is_whole(self, parts: int, now_s: float, meter: str, kind: str) -> bool:
        """Tell whether a reading adds up all parts; ``meter`` and ``kind`` are the words of the log."""
        self.reported_s = now_s
        if parts < self.most:
            self._note_removed(parts, now_s, meter, kind)
        if parts < self.most:
            return False
        self.most, self._short = parts, None
        return True

    def move(self, seconds: float) -> None:
        """Move along when it reported, with a clock that was set."""
        self.reported_s += seconds
        if self._short is not None:
            self._short.since_s += seconds
            self._short.reported_s += seconds

    def _note_removed(self, parts: int, now_s: float, meter: str, kind: str) -> None:
        """Lower how many there have to be, once there have been fewer for so long that the others are gone."""
        self._short = self._short or _Shortfall(now_s, now_s, parts)
        if self._short.lasts(parts, now_s):
            log.warning("%s adds up %d %s for a day, %d before: the others are taken as removed", meter,
                        self._short.parts, kind, self.most)
            self.most, self._short = self._short.parts, None


MOST_METERS = 65_536
"""Wall meters that are remembered, far more than any site has: a page may name what servers it likes."""


MODULES = "modules"
"""The source of power that is no wall: the superchips of a tray without the rest of it."""


@dataclass(frozen=True, slots=True)
class _LastWall:
    is_wall: bool
    """Not of the modules alone."""
    time_s: float
    watts: float
    gpus: Mapping[str, float]
    """Watts of the measured GPUs at that time, by uuid."""


class LastWalls:
    """Remember the last metered wall watts of every node, for a bounded time.

    A meter that falls silent switches no server off: for a while the node is taken to draw what it drew last beside
    its GPUs.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._nodes: dict[str, _LastWall] = {}

    def renew(self, longest_s: float) -> None:
        """Remember for another time from now on."""
        self._longest_s = longest_s

    def note(self, reading: NodeReading, watts: float, gpus: Mapping[str, float]) -> None:
        """Remember the watts of a meter's reading and what the measured GPUs drew when it was first seen.

        What modules draw takes the place of no wall.
        """
        last, is_wall = self._nodes.get(reading.node), reading.power_source != MODULES
        if last is None and len(self._nodes) >= MOST_METERS:
            return
        if last is None or (is_wall, reading.time_s) > (last.is_wall, last.time_s):
            self._nodes[reading.node] = _LastWall(is_wall, reading.time_s, watts, gpus)

    def has_wall(self, node: str) -> bool:
        """Tell whether the watts of a whole node are remembered, not those of its modules alone."""
        last = self._nodes.get(node)
        return last is not None and last.is_wall

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

    def drop(self, nodes: Set[str]) -> None:
        """Drop nodes that are not there any more."""
        for node in nodes & self._nodes.keys():
            del self._nodes[node]

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that are remembered."""
        return frozenset(self._nodes)


_LEAST_WATTS = 1.0
"""The least draw of all trays together by which an enclosure's watts are split."""


@dataclass(slots=True)
class _Meter:
    """The last reading of a meter, and when by our own clock it reported for the first and the last time."""

    reading: EnclosureReading
    since_s: float
    reported_s: float
    is_target: bool = False
    """It is a target of a source that says so: once it is none any more it is gone."""
    parts: PartCount = field(default_factory=PartCount)
    """The shelves or PDUs that it has to add up."""

    def move(self, seconds: float) -> None:
        """Move along when it reported, with a clock that was set."""
        self.since_s += seconds
        self.reported_s += seconds
        self.parts.move(seconds)

    @property
    def kind(self) -> tuple[str, str]:
        """Return the enclosure and the source of power, whose meters' watts are added up."""
        return self.reading.enclosure, self.reading.power_source

    @property
    def identity(self) -> EnclosureMeter:
        """Return which meter it is."""
        return EnclosureMeter(*self.kind, self.reading.meter)


class Enclosures:
    """The enclosures that are configured, with the last readings of their meters.

    The meter of an enclosure (power shelves, PDUs) is what its trays draw by their own meters, what its NVLink switch
    trays draw as configured, and the loss of converting, which is the rest. Where the meter reports less than that the
    switches are believed less, and then the meter: the parts always add up to the larger of the meter and the trays.
    What is no tray's is split among the trays by their own draw. Where a tray is not measured the rest is not known to
    be loss.

    Meters of one kind stand side by side and are added up. Where PDUs and power shelves both measure a rack, the
    current passes one after the other: the larger sum, which is further out, counts, and the other is in it.

    A meter that falls silent, that adds up fewer meters than before, or that is a target and has never reported, leaves
    its kind unmeasured: without it the sum is not the rack's. One that is a target no more is gone. Else, an hour
    later, one that first reported since then, under another name, has taken its place. What a meter has not added up
    for a day was removed.

    Whoever reads a meter may have a clock that is up to ``early_s`` seconds ahead.
    """

    def __init__(self, configured: Mapping[str, EnclosureSettings], max_age_s: float, early_s: float = 0.0) -> None:
        self._configured, self._max_age_s, self._early_s = configured, max_age_s, early_s
        self._meters: dict[tuple[str, str], _Meter] = {}
        self._absorbed_s = -math.inf
        self.rejected = 0
        """Readings above what the enclosure is rated for."""
        self.partial = 0
        """Readings that add up fewer meters than before."""
        self.future = 0
        """Readings that are further ahead than the clock of who reads a meter may be."""
        self._awaited = frozenset[tuple[str, str]]()
        """Kinds of meters of racks of which a target has never reported."""

    def renew(self, configured: Mapping[str, EnclosureSettings], max_age_s: float, early_s: float) -> None:
        """Go on with other settings: what is known of the meters of racks that are configured still stays."""
        self._configured, self._max_age_s, self._early_s = configured, max_age_s, early_s
        self._meters = {key: meter for key, meter in self._meters.items() if key[0] in configured}

    def absorb(self, readings: Iterable[EnclosureReading], now_s: float,
               targets: Iterable[EnclosureMeter] = ()) -> None:
        """Take in readings; what is from the future, no number, a part, or above the rating is left out.

        Args:
            readings: what meters report.
            now_s: the time.
            targets: meters that are targets, as far as that is known.
        """
        self._follow_clock(now_s)
        current = frozenset(targets)
        self._forget_removed(current)
        for reading in readings:
            wanted = self._configured.get(reading.enclosure)
            if wanted is None:
                continue
            if not reading.time_s <= now_s + self._early_s:  # NaN too
                self.future += 1
                continue
            if not self._is_new(reading, now_s):
                continue
            if not _plausible(reading.power_watts, wanted.rated_watts):
                self.rejected += 1
                continue
            self._take(reading, now_s)
        self._note_targets(current)
        self._forget_replaced(now_s)

    def _forget_removed(self, targets: Set[EnclosureMeter]) -> None:
        """Drop meters that were targets and are none any more."""
        self._meters = {key: meter for key, meter in self._meters.items()
                        if not meter.is_target or meter.identity in targets}

    def _note_targets(self, targets: Set[EnclosureMeter]) -> None:
        """Note which meters are targets, and of which kinds one has never reported."""
        known = {meter.identity: meter for meter in self._meters.values()}
        for target in targets & known.keys():
            known[target].is_target = True
        self._awaited = frozenset((target.enclosure, target.power_source) for target in targets - known.keys())

    def _follow_clock(self, now_s: float) -> None:
        """Move along, when the clock was set back, when meters reported."""
        back = max(0.0, self._absorbed_s - now_s)
        self._absorbed_s = now_s
        for meter in self._meters.values() if back else ():
            meter.move(-back)

    def _is_new(self, reading: EnclosureReading, now_s: float) -> bool:
        """Tell whether a reading is newer than the last one, which gives way if the clock has been set back since."""
        meter = self._meters.get((reading.enclosure, reading.meter))
        if meter is None:
            return True
        known_s = meter.reading.time_s
        return reading.time_s > known_s or reading.time_s < known_s and known_s > now_s

    def _take(self, reading: EnclosureReading, now_s: float) -> None:
        meter = self._meters.setdefault((reading.enclosure, reading.meter), _Meter(reading, now_s, now_s))
        if not meter.parts.is_whole(reading.meters, now_s, f"a meter of rack {reading.enclosure} ({reading.meter})",
                                    "power shelves or PDUs"):
            self.partial += 1
            return
        meter.reading, meter.reported_s = reading, now_s

    def _forget_replaced(self, now_s: float) -> None:
        """Drop meters silent for an hour for which another of their kind has come: PDUs are renamed and exchanged."""
        for key, silent in tuple(self._meters.items()):
            if now_s - silent.reported_s <= FORGET_AFTER_S:
                continue
            heir = next((meter for meter in self._meters.values()
                         if meter.kind == silent.kind and meter.since_s > silent.reported_s), None)
            if heir is not None:
                heir.since_s = silent.since_s  # it takes the place of one, not of all
                del self._meters[key]

    def judge(self, walls: Mapping[str, float | None], now_s: float) -> tuple[EnclosureVerdict, ...]:
        """Return the enclosures whose meters are fresh; ``walls`` are the watts of all nodes, None unmeasured."""
        readings = []
        for name, wanted in self._configured.items():
            total = self._metered(name, now_s)
            if total is not None and _plausible(total, wanted.rated_watts):
                trays = {node: watts for node, watts in walls.items() if wanted.holds(node)}
                readings.append(rack_parts(name, total, trays, wanted.switch_watts))
        return tuple(readings)

    def _metered(self, name: str, now_s: float) -> float | None:
        """Return the watts of the outermost meters; None where of no kind all are fresh."""
        kinds: dict[str, list[EnclosureReading]] = {}
        for meter in self._meters.values():
            rack, kind = meter.kind
            if rack == name:
                kinds.setdefault(kind, []).append(meter.reading)
        return max((sum(meter.power_watts for meter in meters) for kind, meters in kinds.items()
                    if (name, kind) not in self._awaited
                    and all(-self._early_s <= now_s - meter.time_s <= self._max_age_s for meter in meters)),
                   default=None)


def rack_parts(name: str, meter: float, trays: Mapping[str, float | None], switches: float) -> EnclosureVerdict:
    """Return the parts of an enclosure."""
    known = {node: watts for node, watts in trays.items() if watts is not None}
    drawn = sum(known.values())
    total = max(meter, drawn)
    switched = min(switches, total - drawn)
    remainder = total - drawn - switched
    dark = len(known) < len(trays)
    parts = {"trays": drawn, "switches": switched, "loss": 0.0 if dark else remainder,
             "unmeasured": remainder if dark else 0.0}
    shared = total / drawn if drawn >= _LEAST_WATTS and not dark else 0.0
    nodes = {node: watts * shared for node, watts in known.items()} if shared else {}
    return EnclosureVerdict(name, meter, parts, nodes, max(0.0, drawn - meter))


def _plausible(watts: float, rated: float | None) -> bool:
    return math.isfinite(watts) and watts >= 0 and (rated is None or watts <= rated)
