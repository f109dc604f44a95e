"""The queue in order, as the scheduler's own backfill walks it: who fits starts, and plans keep nodes for who waits.

After Slurm's backfill (``backfill.c``, ``_attempt_backfill``): a job that has to wait is planned where and when it
would fit once enough running jobs have reached their limits. Its nodes are then kept *whole* from that minute until it
would have ended, and no job behind it may use them that would still run then. A job that breaks a limit, lacks licences
or is held otherwise is not planned.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from .gate import GROUP, ROOM, Gate, Hold, PartitionNodes
from .ground import Ground, Mask
from .releases import Releases
from .wish import choices

RESOLUTION_S = 60.0
"""Slurm's ``bf_resolution``: plans begin and end at whole minutes."""
WINDOW_S = 86400.0
"""Slurm's ``bf_window``: nothing is planned beyond a day."""
MOST_TRIES = 50
"""Moments at which one job is planned anew because others have its nodes."""
MOST_PLANS = 200
"""Jobs for which nodes are kept; whoever stands behind them all waits, as behind the last that Slurm looks at."""
MOST_ROUNDS = 5
"""Times that the queue is walked; more than once only where heterogeneous jobs have started or have been put off."""


@dataclass(frozen=True, slots=True)
class NodesKept:
    """Nodes kept for a job that has to wait."""

    begin_s: float
    end_s: float
    nodes: Mask


@dataclass(frozen=True, slots=True)
class Turn:
    """A job in line, and where the policy would have it."""

    row: int
    job: Job
    wanted: Placement | None = None
    later: bool = False
    """It may not start yet, as too many of its array run, but is planned like the others."""
    barred: Hold | None = None
    """What holds a component whatever is free; the others wait for it."""


class Turns:
    """What starts, and what is kept for whom, as the queue is walked; the gate is booked along."""

    def __init__(self, gate: Gate, planning: bool) -> None:
        self.gate = gate
        self._planning = planning
        self._plans: list[NodesKept] = []
        self._moments: list[float] = []
        """When plans begin or end, and reservations end, in order."""
        self._soonest: dict[object, float] = {}
        """When jobs of a kind could begin, as found so far in this round."""
        self._fits: dict[object, Mask] = {}
        self._together: dict[str, float] = {}
        """When the components of a heterogeneous job can start together, as found a round ago."""
        self._releases = Releases(gate.ground, gate.snapshot.jobs, gate.now_s)

    def walk(self, line: Sequence[Turn]) -> dict[int, Placement | Hold]:
        """Return by row what starts where, and why the rest does not; round after round while that changes."""
        told = dict[int, Placement | Hold]()
        for _ in range(MOST_ROUNDS):
            self._plans, self._soonest, known = [], {}, dict(self._together)
            self._moments = sorted(one.end_s for one in self.gate.reservations.values())
            left = [turn for turn in line if not isinstance(told.get(turn.row), Placement)]
            begins = dict[str, list[tuple[Turn, float | None, Placement | Hold]]]()
            for turn in left:
                if isinstance(told.get(turn.row), Placement):
                    continue  # it started in another of its partitions
                if len(self._plans) >= MOST_PLANS:
                    told[turn.row] = Hold(ROOM, "")
                elif turn.job.group:
                    parts = begins.setdefault(turn.job.group, [])
                    parts.append(self._component(turn, any(begin_s is None for _, begin_s, _ in parts)))
                else:
                    told[turn.row] = _sooner(told.get(turn.row), self._take(turn))
            joined = [self._join(group, parts) for group, parts in begins.items()]
            told |= {row: found for some in joined for row, found in some.items()
                     if isinstance(found, Placement) or not self._put_off(told.get(row))}
            if known == self._together and not any(
                    isinstance(found, Placement) for some in joined for found in some.values()):
                break
        return told

    @staticmethod
    def _put_off(told: Placement | Hold | None) -> bool:
        """Tell whether a component was found to wait for another; that stays the reason when it is planned later."""
        return isinstance(told, Hold) and told.cause == GROUP

    def _take(self, turn: Turn) -> Placement | Hold:
        """Start the next in line, best where it is wanted, or say why not and plan it."""
        found = Hold(ROOM, "") if turn.later else self._start(turn.job, turn.wanted)
        if self._planning and isinstance(found, Hold) and found.cause == ROOM:
            self._keep(turn.job, self._begin(turn.job, self.gate.now_s))
        return found

    def _component(self, turn: Turn, hopeless: bool) -> tuple[Turn, float | None, Placement | Hold]:
        """Keep nodes whole for a component, from now on if it could start now; return when and where that is.

        Slurm starts heterogeneous jobs at the end of a round only. Until then none of their components shares a node
        with anybody behind it, another component included. Once one of them is found not to start within the day none
        of those behind it is looked at.
        """
        job, now_s = turn.job, self.gate.now_s
        lacking = turn.barred or self.gate.license_bars(job) or self.gate.limits_bar(job)
        if lacking is not None or hopeless:
            return turn, None, lacking or Hold(ROOM, "")
        found = self._begin(job, self._together.get(job.group, now_s))
        if found is None or (found[0] > now_s and not self._planning):
            return turn, None, Hold(ROOM, "")
        self._keep(job, found)
        return turn, found[0], found[1] if found[0] <= now_s else Hold(ROOM, "")

    def _join(self, group: str, parts: Sequence[tuple[Turn, float | None, Placement | Hold]],
              ) -> dict[int, Placement | Hold]:
        """Start the components of a heterogeneous job if all of them can now; else note when they could."""
        begins = [begin_s for _, begin_s, _ in parts]
        missing = next((turn.job.job_id for turn, _, found in parts if isinstance(found, Hold)), None)
        if missing is None:
            before = self.gate, self._releases.copy()
            self.gate = self.gate.copy()
            found = {turn.row: self._book(turn.job, where, None) for turn, _, where in parts
                     if isinstance(where, Placement)}
            if all(isinstance(one, Placement) for one in found.values()):
                return found
            self.gate, self._releases = before
            missing = next(turn.job.job_id for turn, _, _ in parts if isinstance(found[turn.row], Hold))
            return {row: one if isinstance(one, Hold) else _waits_for(missing) for row, one in found.items()}
        if self._planning and all(begin_s is not None for begin_s in begins):
            self._together[group] = max(begin_s for begin_s in begins if begin_s is not None)
        return {turn.row: found if isinstance(found, Hold) else _waits_for(missing) for turn, _, found in parts}

    def _keep(self, job: Job, found: tuple[float, Placement, float] | None) -> None:
        """Keep nodes for a job, if any were found."""
        if found is None:
            return
        begin_s, where, limit_s = found
        plan = NodesKept(begin_s // RESOLUTION_S * RESOLUTION_S, (begin_s + limit_s) // RESOLUTION_S * RESOLUTION_S,
                         self.gate.ground.named(where.nodes))
        self._plans.append(plan)
        for moment in (plan.begin_s, plan.end_s):
            insort(self._moments, moment)

    def _start(self, job: Job, wanted: Placement | None) -> Placement | Hold:
        limit_s = max((way.limit_s for way in self.gate.ways(job)), default=0.0)
        return self._book(job, wanted, self._kept(self.gate.now_s, self.gate.now_s + limit_s))

    def _book(self, job: Job, wanted: Placement | None, avoid: Mask | None) -> Placement | Hold:
        """Start a job and note when it gives back what it takes; or return why it does not start."""
        before = self.gate.ground.copy()
        found = self.gate.admit(job, wanted, avoid)
        if isinstance(found, Placement):
            limit_s = max(way.limit_s for way in self.gate.ways(job))
            self._releases.add(self.gate.now_s + limit_s, before, self.gate.ground)
        return found

    def _kept(self, begin_s: float, end_s: float) -> Mask | None:
        """Return the nodes that plans keep at some time from one moment to another."""
        met = [plan.nodes for plan in self._plans if plan.end_s > begin_s and plan.begin_s <= end_s]
        return np.logical_or.reduce(met) if met else None

    def _begin(self, job: Job, from_s: float) -> tuple[float, Placement, float] | None:
        """Return when and where a job can begin, in the first of its partitions in which it can, and its limit."""
        ways = self.gate.ways(job)
        return next((found for way in ways if (found := self._begin_on(job, way, from_s)) is not None), None)

    def _begin_on(self, job: Job, way: PartitionNodes, from_s: float) -> tuple[float, Placement, float] | None:
        # Its like was looked at before, when less was kept and more was free: it cannot begin sooner.
        alike = (*self.gate.kind(job), way.partition, way.limit_s, self.gate.switches(job))
        found = self._sought(job, way, max(from_s, self._soonest.get(alike, from_s)))
        self._soonest[alike] = np.inf if found is None else found[0]
        return found

    def _sought(self, job: Job, way: PartitionNodes, from_s: float) -> tuple[float, Placement, float] | None:
        able = self._able(job, way)
        for _ in range(MOST_TRIES):
            if from_s > self.gate.now_s + WINDOW_S:
                return None
            kept, usable = self._kept(from_s, from_s + way.limit_s), self.gate.usable_from(job, way, from_s)
            usable = usable if kept is None else usable & ~kept
            later_s = self._next_change(from_s)
            found = self._first(job, replace(way, usable=usable)) if able(usable) else None
            if found is None or (later_s is not None and max(found[0], from_s) > later_s):
                if later_s is None:
                    return None
                from_s = later_s
                continue
            begin_s, nodes = max(found[0], from_s), self.gate.ground.named(found[1].nodes)
            if begin_s > self.gate.now_s + WINDOW_S:
                return None
            if not any((plan.nodes & nodes).any() for plan in self._plans
                       if plan.end_s > begin_s and plan.begin_s < begin_s + way.limit_s):
                return begin_s, found[1], way.limit_s
            from_s = begin_s
        return None

    def _able(self, job: Job, way: PartitionNodes) -> Callable[[Mask], bool]:
        """Return what tells whether a job would fit on some nodes if nothing ran there, as far as can be told soon."""
        gate, wish = self.gate, self.gate.wish(job)
        key = gate.kind(job)
        if key not in self._fits:
            empty, fits = gate.ground.empty(), np.zeros(len(gate.ground.nodes), bool)
            for features in choices(job.request.features):
                fits |= empty.capacity(wish, gate.ground.suited(job, wish, features), wish.least)[0]
            self._fits[key] = fits
        fits, gpus = self._fits[key], gate.ground.gpus
        return lambda usable: (int((usable & fits).sum()) >= wish.least
                               and int(gpus[usable & fits].sum()) >= wish.gpus)

    def _next_change(self, after_s: float) -> float | None:
        """Return when a plan begins or ends next, or a reservation ends; None when nothing changes any more."""
        place = bisect_right(self._moments, after_s)
        return self._moments[place] if place < len(self._moments) else None

    def _first(self, job: Job, way: PartitionNodes) -> tuple[float, Placement] | None:
        """Return when a job could start at the earliest on nodes that it may use, and where."""
        ground = self.gate.ground_of(way).copy()
        ground.as_planned = True
        now = self.gate.sought(job, way, ground)
        if isinstance(now, Placement):
            return self.gate.now_s, now

        def sought(ground: Ground) -> Placement | None:
            found = self.gate.sought(job, way, ground)
            return found if isinstance(found, Placement) else None

        return self._releases.first_fit(self.gate.ground, way.usable, sought)


def _sooner(before: Placement | Hold | None, now: Placement | Hold) -> Placement | Hold:
    """Return what is told of a job that was tried in one partition before: a start, else that it waits for room."""
    if before is None or isinstance(now, Placement) or now.cause == ROOM:
        return now
    return before


def _waits_for(component: str) -> Hold:
    return Hold(GROUP, f"its component {component} cannot start now, and all start together")
