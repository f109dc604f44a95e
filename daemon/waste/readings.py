"""What is believed of GPUs and wall meters: fresh, plausible, in order, one value per physical GPU.

From one reading of a GPU to the next it is remembered for how long it was quiet, looked hung, or worked unheld.
``umax <= epsilon over the window`` is the same as *no busy sample within the window*, so one running length answers
it in constant time and memory, exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Set

from ...storage.telemetry import GpuReading, NodeReading, Telemetry
from ..settings.waste import WasteSettings
from . import hardware
from .hardware import MOST_MODELS, configured_model
from .identities import gone
from .wall_meters import FORGET_AFTER_S, MODULES, MOST_METERS, REMOVED_AFTER_S, LastWalls, PartCount

SEEN = 0.9
"""Share of the time for which a GPU counts as idle that must have been observed."""


class SampleStreak:
    """How long, in observed seconds, the last samples of one GPU agree.

    A gap in the samples neither resets nor counts: only time that was really observed fills the window. Another holder
    restarts it.
    """

    __slots__ = ("_holder", "_seen_s", "_time_s", "hung_s", "quiet_s", "since_s", "worked")

    def __init__(self) -> None:
        self._holder: Hashable = None
        self._time_s: float | None = None
        self.quiet_s: float | None = None
        """None: the last sample was busy."""
        self.hung_s: float | None = None
        self.worked = False
        """A sample of this holder was busy."""
        self.since_s: float | None = None
        """Since when it is quiet or looks hung; of that time ``SEEN`` at least was observed."""
        self._seen_s = 0.0

    def observe(self, time_s: float, holder: Hashable, *, quiet: bool, hung: bool, longest_s: float,
                worked: bool = False) -> None:
        """Add one sample; a step longer than ``longest_s`` counts as that long."""
        if holder != self._holder:
            self._holder, self.quiet_s, self.hung_s, self._time_s = holder, None, None, None
            self.worked, self.since_s = False, None
        self.worked = self.worked or worked
        step = 0.0 if self._time_s is None else min(max(time_s - self._time_s, 0.0), longest_s)
        same = (self.quiet_s if quiet else self.hung_s) is not None
        self._last(time_s, step, still=quiet or hung, same=same)
        self.quiet_s = (0.0 if self.quiet_s is None else self.quiet_s + step) if quiet else None
        self.hung_s = (0.0 if self.hung_s is None else self.hung_s + step) if hung else None
        self._time_s = time_s

    def _last(self, time_s: float, step: float, *, still: bool, same: bool) -> None:
        """Note since when it is still in the same way, quiet or hung.

        It begins anew after time that nobody observed, for it may have worked then.
        """
        self._seen_s += step
        if not still:
            self.since_s = None
        elif self.since_s is None or not same or self._seen_s < SEEN * (time_s - self.since_s):
            self.since_s, self._seen_s = time_s, 0.0

    def quiet_for(self, window_s: float) -> bool:
        """Tell whether every sample of the last ``window_s`` observed seconds was quiet."""
        return self.quiet_s is not None and self.quiet_s >= window_s

    def hung_for(self, window_s: float) -> bool:
        """Tell whether every sample of the last ``window_s`` observed seconds looked hung."""
        return self.hung_s is not None and self.hung_s >= window_s


class Unheld:
    """Since when one GPU has been busy without a holder: for seconds a race, for minutes a finding.

    Telemetry and scheduler are read at different times. A job that has just started is busy before its allocation is
    read, one that has just ended was busy when its GPU was read last: neither is work outside the scheduler.
    """

    __slots__ = ("_busy_s", "since_s")

    def __init__(self) -> None:
        self.since_s: float | None = None
        self._busy_s = 0.0

    def observe(self, time_s: float, scheduler_read_s: float, *, busy: bool, patience_s: float) -> None:
        """Add one sample of a GPU that nobody holds; ``patience_s`` without work end it.

        It begins no earlier than ``scheduler_read_s``: only the scheduler's answer says that nobody holds the GPU.
        """
        if self.since_s is not None and not 0.0 <= time_s - self._busy_s <= patience_s:
            self.end()
        if busy:
            self.since_s = max(time_s, scheduler_read_s) if self.since_s is None else self.since_s
            self._busy_s = time_s

    def end(self) -> None:
        """End the busy time: somebody holds the GPU."""
        self.since_s = None

    def lasts(self, scheduler_read_s: float, seconds: float) -> bool:
        """Tell whether the GPU worked over ``seconds``, and the scheduler was read again that long afterwards."""
        return self.since_s is not None and min(self._busy_s, scheduler_read_s) - self.since_s >= seconds


ABSURD = 3.0
"""Times the power limit above which a reading is a lie of the sensor."""
GPU_CEILING_WATTS = 3000.0
"""Watts above which a reading is a lie of the sensor where nobody knows the GPU's limit."""
SPREAD = 50.0
"""Times the mean that a moment's power may be: from idle to full it grows tenfold, in a wrong unit a thousandfold."""
LEAST_SHARE = 1 / 200
"""Share of its power limit below which no GPU draws: even small ones idle at a seventieth."""
NODE_CEILING_WATTS = 50_000.0  # no server draws more: a larger reading has another unit, or is a rack's
WALL_SOURCES = ("ipmi", "redfish", "hwmon", "ceems", MODULES, "estimated")
"""The first that is fresh wins; an unknown source comes last."""

_OF_WORK = frozenset(("epsilon", "hung_margin", "hung_activity", "models", "context_extra_watts"))
"""Settings that tell work, and a GPU that looks hung, from idling."""

RENEWED_WITHIN = 2.0
"""Times the longest time between two looks after which a counter that moves again tells of too long a time."""


class WatchedGpu:
    """One physical GPU: its last believed reading and what follows from the readings before."""

    __slots__ = ("activity", "busy", "counted", "held_by", "new", "power_source", "reading", "trail", "unheld",
                 "watts", "wrong_unit")

    def __init__(self, reading: GpuReading) -> None:
        self.reading = reading
        self.new = True
        """Not yet judged: a sample counts once, however often cycles look at it."""
        self.watts: float | None = None
        self.power_source = ""
        self.activity: float | None = None
        self.busy: float | None = None
        self.counted = (reading.time_s, reading.energy_joules)
        """When its energy counter was first seen at what it shows: exporters may renew it less often than we look."""
        self.wrong_unit = False
        """Whether its energy counter contradicts its power by orders of magnitude."""
        self.trail = SampleStreak()
        self.unheld = Unheld()
        self.held_by: tuple[str, float] | None = None
        """The job that the GPU was last guessed to be held by: a guess must not wander."""

    def take(self, reading: GpuReading, limit_watts: float | None, longest_s: float) -> bool:
        """Believe a newer reading; return False when it carries watts and none are plausible.

        The rate of the GPU's energy counter comes first: the power field samples a quarter of the time on A100 and
        H100 (arXiv 2312.02741). A counter that fell, stood still or was last seen too long ago gives no rate; after it
        stood still its joules are those of all the time since it moved last.
        """
        ceiling = ABSURD * limit_watts if limit_watts else GPU_CEILING_WATTS
        rate = self._rate(reading, longest_s)
        self.wrong_unit = _in_wrong_unit(rate, reading.power_watts, limit_watts)
        candidates = (("energy_counter", None if self.wrong_unit else rate), ("power", reading.power_watts))
        offered = [(source, watts) for source, watts in candidates if watts is not None]
        self.power_source, self.watts = next(
            ((source, watts) for source, watts in offered if 0.0 <= watts <= ceiling), ("", None))
        self.activity = _ratio(reading.activity)
        self.busy = _ratio(reading.resident)
        if self.busy is None:
            self.busy = self.activity
        if reading.energy_joules != self.counted[1]:
            self.counted = reading.time_s, reading.energy_joules
        self.reading, self.new = reading, True
        return not offered or self.watts is not None

    def _rate(self, reading: GpuReading, longest_s: float) -> float | None:
        last_s, joules = self.counted
        looked_s, elapsed = reading.time_s - self.reading.time_s, reading.time_s - last_s
        if joules is None or reading.energy_joules is None or not 0.0 < looked_s <= longest_s \
                or elapsed > RENEWED_WITHIN * longest_s:
            return None
        rate = (reading.energy_joules - joules) / elapsed
        return rate if rate > 0.0 else None


def _in_wrong_unit(rate: float | None, watts: float | None, limit_watts: float | None) -> bool:
    """Tell whether an energy counter counts in a unit a thousand times too large; one too small exceeds any limit."""
    if rate is None:
        return False
    return rate * SPREAD < (watts or 0.0) or rate < LEAST_SHARE * (limit_watts or 0.0)


class Fleet:
    """Every GPU and wall meter that was reported within the last hour."""

    def __init__(self, settings: WasteSettings) -> None:
        self._settings = settings
        self._limits: dict[str, float | None] = {}
        self.gpus: dict[str, WatchedGpu] = {}
        self.walls: dict[tuple[str, str], NodeReading] = {}
        self.last_walls = LastWalls(settings.wall_estimate_max_age)
        self._parts: dict[tuple[str, str, str], PartCount] = {}
        """By server, source and meter."""
        self.rejected: Counter[str] = Counter()
        self._forgot_s = self._absorbed_s = -math.inf

    def renew(self, settings: WasteSettings, changed: Set[str]) -> None:
        """Go on with other settings; samples that those which changed would have judged otherwise are forgotten."""
        self._settings = settings
        self._limits.clear()
        self.last_walls.renew(settings.wall_estimate_max_age)
        for gpu in self.gpus.values() if changed & _OF_WORK else ():
            gpu.unheld.end()
            gpu.trail.hung_s = None
            if "epsilon" in changed:
                gpu.trail = SampleStreak()

    def absorb(self, telemetry: Telemetry, now_s: float, longest_s: float) -> None:
        """Take in what a cycle read; what is late, early or implausible is counted and left out."""
        for parts in self._parts.values() if now_s < self._absorbed_s else ():
            parts.move(now_s - self._absorbed_s)
        if now_s < self._absorbed_s or now_s - self._forgot_s > FORGET_AFTER_S / 6:
            self._forget(now_s, longest_s)
        self._absorbed_s = now_s
        self.last_walls.forget(now_s, longest_s)
        readings = self._settled([reading for reading in _one_per_gpu(telemetry.gpus)
                                  if self._in_time(reading.time_s, now_s, longest_s)], now_s - longest_s)
        for reading in readings:
            self._take_gpu(reading, longest_s)
        self._drop_gone([reading for reading in readings if now_s - reading.time_s <= longest_s])
        self._drop_renamed(telemetry)
        if len(self.walls) >= MOST_METERS:
            self._forget_walls(now_s, longest_s, self._settings.wall_max_age)
        for node in telemetry.nodes:
            if self._in_time(node.time_s, now_s, longest_s):
                self._take_wall(node, now_s)

    def _in_time(self, time_s: float, now_s: float, longest_s: float) -> bool:
        if time_s <= now_s + longest_s:
            return True
        self.rejected["future"] += 1  # NaN too
        return False

    def _settled(self, readings: list[GpuReading], since_s: float) -> list[GpuReading]:
        """Keep a GPU that several nodes show on the node that has it, else on the first; fresh readings win."""
        if len({reading.uuid for reading in readings}) == len(readings):  # as in nearly every cycle
            return readings
        claims: dict[str, list[GpuReading]] = {}
        for reading in readings:
            claims.setdefault(reading.uuid, []).append(reading)
        self.rejected["other_node"] += len(readings) - len(claims)
        return [max(gpus, key=lambda gpu: (gpu.time_s >= since_s, self._has(gpu))) for gpus in claims.values()]

    def _has(self, reading: GpuReading) -> bool:
        known = self.gpus.get(reading.uuid)
        return known is not None and known.reading.node == reading.node

    def _take_gpu(self, reading: GpuReading, longest_s: float) -> None:
        gpu = self.gpus.get(reading.uuid)
        if gpu is not None and reading.time_s <= gpu.reading.time_s:
            self.rejected["late"] += reading.time_s < gpu.reading.time_s
            return
        if gpu is None or gpu.reading.node != reading.node:  # how long it was quiet in another server says nothing
            gpu = self.gpus[reading.uuid] = WatchedGpu(reading)
        if not gpu.take(reading, self.limit(reading), longest_s):
            self.rejected["implausible_power"] += 1
        if gpu.wrong_unit:
            self.rejected["wrong_unit"] += 1

    def _drop_gone(self, readings: list[GpuReading]) -> None:
        """Forget at once the GPUs in whose place others are reported."""
        uuids = {reading.uuid for reading in readings}
        silent = [gpu.reading for uuid, gpu in self.gpus.items() if uuid not in uuids]
        for uuid in gone(silent, readings) if silent else ():
            del self.gpus[uuid]

    def _drop_renamed(self, telemetry: Telemetry) -> None:
        """Forget at once the servers that are called otherwise now, unless some source still reports them."""
        if not telemetry.left:
            return
        left = set(telemetry.left) - {gpu.node for gpu in telemetry.gpus} - {node.node for node in telemetry.nodes}
        self.gpus = {uuid: gpu for uuid, gpu in self.gpus.items() if gpu.reading.node not in left}
        self.walls = {key: wall for key, wall in self.walls.items() if key[0] not in left}
        self.last_walls.drop(left)
        self._parts = {key: parts for key, parts in self._parts.items() if key[0] not in left}

    def _take_wall(self, reading: NodeReading, now_s: float) -> None:
        if reading.power_watts is None:
            return
        if not 0.0 <= reading.power_watts <= NODE_CEILING_WATTS:
            self.rejected["implausible_wall"] += 1
            return
        if not self._is_whole(reading, now_s):
            self.rejected["part_of_wall"] += 1
            return
        known = self.walls.get((reading.node, reading.power_source))
        if known is None and len(self.walls) >= MOST_METERS:
            self.rejected["too_many_meters"] += 1
        elif known is None or reading.time_s > known.time_s:
            self.walls[reading.node, reading.power_source] = reading
        elif reading.time_s < known.time_s:
            self.rejected["late"] += 1

    def _is_whole(self, reading: NodeReading, now_s: float) -> bool:
        """Tell whether a reading adds up all power supplies, or other parts, that its meter has added up before."""
        key = reading.node, reading.power_source, reading.meter
        known = self._parts.get(key)
        if known is None:
            # Of one part there is nothing to fall short of.
            if reading.meters <= 1 or len(self._parts) >= MOST_METERS:
                return True
            known = self._parts[key] = PartCount()
        return known.is_whole(reading.meters, now_s, f"the power meter of {reading.node} ({reading.power_source})",
                              "power supplies or chassis")

    def _forget(self, now_s: float, longest_s: float) -> None:
        """Drop what was last reported an hour ago, or in the future: a clock that was set back must not blind us."""
        self._forgot_s = now_s
        self.gpus = {uuid: gpu for uuid, gpu in self.gpus.items()
                       if -longest_s <= now_s - gpu.reading.time_s <= FORGET_AFTER_S}
        self._forget_walls(now_s, longest_s, FORGET_AFTER_S)
        self._parts = {key: parts for key, parts in self._parts.items() if now_s - parts.reported_s <= REMOVED_AFTER_S}

    def _forget_walls(self, now_s: float, early_s: float, late_s: float) -> None:
        self.walls = {key: wall for key, wall in self.walls.items() if -early_s <= now_s - wall.time_s <= late_s}

    def limit(self, reading: GpuReading) -> float | None:
        """Return the power limit of a GPU in watts: as read, configured, or usual for its model."""
        if reading.power_limit_watts is not None and 0.0 < reading.power_limit_watts < GPU_CEILING_WATTS:
            return reading.power_limit_watts
        if reading.model not in self._limits:
            if len(self._limits) >= MOST_MODELS:
                self._limits.clear()
            configured = configured_model(reading.model, self._settings).limit_watts
            self._limits[reading.model] = configured or hardware.gpu(reading.model).limit_watts
        return self._limits[reading.model]

    def gpus_by_node(self) -> dict[str, list[WatchedGpu]]:
        """Return the GPUs of every node in order of their index."""
        nodes: dict[str, list[WatchedGpu]] = {}
        for gpu in self.gpus.values():
            nodes.setdefault(gpu.reading.node, []).append(gpu)
        for gpus in nodes.values():
            gpus.sort(key=lambda gpu: (gpu.reading.index, gpu.reading.uuid))
        return nodes

    def walls_by_node(self, now_s: float) -> dict[str, NodeReading]:
        """Return the best fresh wall reading of every node; what its modules draw, only where no wall is known."""
        best: dict[str, NodeReading] = {}
        for (node, source), reading in self.walls.items():
            if source == MODULES and self.last_walls.has_wall(node):
                continue
            fresh = now_s - reading.time_s <= self._settings.wall_max_age
            if fresh and (node not in best or _rank(source) < _rank(best[node].power_source)):
                best[node] = reading
        return best


def _one_per_gpu(readings: Iterable[GpuReading]) -> Iterable[GpuReading]:
    """Reduce what a node repeats of a GPU to the latest, and that of one moment to the largest power."""
    best: dict[tuple[str, str], GpuReading] = {}
    for reading in readings:
        known = best.setdefault((reading.uuid, reading.node), reading)
        if _recency(reading) > _recency(known):
            best[reading.uuid, reading.node] = reading
    return best.values()


def _recency(reading: GpuReading) -> tuple[float, float]:
    return reading.time_s, reading.power_watts or 0.0


def _rank(source: str) -> int:
    return WALL_SOURCES.index(source) if source in WALL_SOURCES else len(WALL_SOURCES)


def _ratio(value: float | None) -> float | None:
    """Return a ratio that is one, else None: not a number, negative and above 1 are no measurement."""
    return value if value is not None and 0.0 <= value <= 1.0 else None
