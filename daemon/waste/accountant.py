"""The accounting of every watt: scheduler x telemetry -> one class each, cycle after cycle.

No I/O and no clock: what is read and when it is comes from outside, so that a live cluster, a simulated one and a
recorded one are judged alike.
"""

from __future__ import annotations

from ...storage.records import SchedulerSnapshot
from ...storage.telemetry import Telemetry
from ..settings.waste import WasteSettings
from .assessment import Assessment, ClassWatts
from .cycle import NodesAssessment
from .demand import DemandMix
from .enclosures import Enclosures
from .energy import Closed, Counters, Windows
from .floors import FloorBook
from .readings import Fleet
from .stranded import fragmentation
from .utilization import UtilizationWindow


class WasteAccountant:
    """Judge every cycle and keep what must outlive it: windows, floors, counters.

    ``interval_s`` is the sampling interval of telemetry; readings older than ``gap_factor`` times it are unmeasured.
    """

    def __init__(self, settings: WasteSettings, interval_s: float = 15.0) -> None:
        self._settings = settings
        self._longest_s = settings.gap_factor * interval_s
        self._fleet = Fleet(settings)
        self._mix = DemandMix()
        self._utilization = UtilizationWindow(settings)
        self._windows = Windows()
        self._enclosures = Enclosures(settings.enclosures, settings.wall_max_age)
        self._last_s: float | None = None
        self.floors = FloorBook(settings)
        """Learned idle floors: ``learned()`` before a stop, ``restore()`` after a start."""
        self.counters = Counters()

    def assess(self, snapshot: SchedulerSnapshot, telemetry: Telemetry, now_s: float) -> Assessment:
        """Judge the cluster at ``now_s`` and book the energy since the last call.

        A scheduler's answer older than ``scheduler_max_age`` is not believed: everything is then unmeasured.
        """
        if now_s - snapshot.time_s > self._settings.scheduler_max_age:
            snapshot = SchedulerSnapshot(snapshot.time_s, partitions=snapshot.partitions)
        self._fleet.absorb(telemetry, now_s, self._longest_s)
        self._enclosures.absorb(telemetry.enclosures, now_s)
        self._mix.observe(snapshot.jobs, now_s)
        cycle = NodesAssessment(snapshot, self._settings, now_s, self._longest_s)
        cycle.judge(self._fleet, self.floors)
        totals = cycle.totals()
        self._book(cycle, totals, now_s)
        walls = sum(node.wall_watts or 0.0 for node in cycle.nodes)
        return Assessment(
            time_s=now_s, gpu_verdicts=tuple(cycle.gpu_verdicts), nodes=tuple(cycle.nodes), totals=totals,
            gpus=cycle.gpus(), stranded=cycle.stranded(), fragmentation=self._fragmentation(cycle),
            utilization=self._utilization.observe(snapshot, now_s),
            unaccounted_watts=walls - sum(sum(watts.values()) for watts in totals.values()),
            disagreement_watts=sum(node.disagreement_watts for node in cycle.nodes),
            floors=self.floors.by_model(),
            rejected=dict(self._fleet.rejected) | {"above_rack_rating": self._enclosures.rejected},
            enclosures=self._enclosures.judge({node.node: node.wall_watts for node in cycle.nodes}, now_s))

    def _fragmentation(self, cycle: NodesAssessment) -> dict[str, float]:
        shares = {name: fragmentation(cycle.queue.free, name, self._mix.mix(name)) for name in cycle.partitions}
        return {name: share for name, share in shares.items() if share is not None}

    def _book(self, cycle: NodesAssessment, totals: dict[str, ClassWatts], now_s: float) -> None:
        """Integrate over the time since the last cycle: no more than the sampling allows, never backwards."""
        passed = max(0.0, now_s - self._last_s) if self._last_s is not None else 0.0
        seconds = min(passed, self._longest_s)
        self._last_s = now_s
        self.counters.add(totals, seconds)
        self.counters.add_gpus(cycle.gpu_verdicts, seconds, passed - seconds)
        self._windows.add(now_s, seconds, cycle.gpu_verdicts, cycle.watts, cycle.shares)

    def drain_closed(self) -> Closed:
        """Return the five-minute windows closed since the last call, by GPU, by class and by run."""
        return self._windows.drain()

    def drain_all(self) -> Closed:
        """Return what is left, the open window cut short: the last thing before a stop."""
        self._windows.close(self._last_s or 0.0)
        return self._windows.drain()
