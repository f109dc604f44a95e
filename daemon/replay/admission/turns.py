"""The queue in order, as the scheduler's own backfill walks it: who fits starts, and plans keep nodes for who waits.

After Slurm's backfill (``backfill.c``, ``_attempt_backfill``): a job that has to wait is planned where and when it
would fit once enough running jobs have reached their limits. Its nodes are then kept *whole* from that minute until it
would have ended, and no job behind it may use them that would still run then. A job that breaks a limit, lacks licences
or is held otherwise is not planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from .gate import GROUP, ROOM, Gate, Hold, Way
from .ground import Ground, Mask
from .releases import Releases

RESOLUTION_S = 60.0
"""Slurm's ``bf_resolution``: plans begin and end at whole minutes."""
WINDOW_S = 86400.0
"""Slurm's ``bf_window``: nothing is planned beyond a day."""
MOST_TRIES = 50
"""Moments at which one job is planned anew because others have its nodes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes kept for a job that has to wait."""

    begin_s: float
    end_s: float
    nodes: Mask


class Turns:
    """What starts, and what is kept for whom, as the queue is walked; the gate is booked along."""

    def __init__(self, gate: Gate, planning: bool) -> None:
        self.gate = gate
        self._planning = planning
        self._plans: list[Plan] = []
        self._releases = Releases(gate.ground, gate.snapshot.jobs, gate.now_s)

    def take(self, job: Job, wanted: Placement | None) -> Placement | Hold:
        """Start the next in line, best where it is wanted, or say why not and plan it."""
        found = self._start(job, wanted)
        if self._planning and isinstance(found, Hold) and found.cause == ROOM:
            self._plans += self._planned(job)
        return found

    def take_together(self, jobs: Sequence[Job], wanted: Sequence[Placement | None]) -> list[Placement | Hold]:
        """Start the components of a heterogeneous job together, or plan those that could be."""
        before = self.gate, self._releases
        self.gate, self._releases = self.gate.copy(), self._releases.copy()
        found = [self._start(job, where) for job, where in zip(jobs, wanted, strict=True)]
        missing = next((job for job, one in zip(jobs, found, strict=True) if isinstance(one, Hold)), None)
        if missing is None:
            return found
        self.gate, self._releases = before
        plans = [self._planned(job) for job in jobs]
        if all(plans):
            begins = max(plan.begin_s for some in plans for plan in some)
            self._plans += [replace(plan, begin_s=begins, end_s=begins + plan.end_s - plan.begin_s)
                            for some in plans for plan in some[:1]]
        together = Hold(GROUP, f"its component {missing.job_id} cannot start now, and all start together")
        return [one if isinstance(one, Hold) else together for one in found]

    def _start(self, job: Job, wanted: Placement | None) -> Placement | Hold:
        limit_s = max((way.limit_s for way in self.gate.ways(job)), default=0.0)
        before = self.gate.ground.copy()
        found = self.gate.admit(job, wanted, self._kept(self.gate.now_s, self.gate.now_s + limit_s))
        if isinstance(found, Placement):
            self._releases.add(self.gate.now_s + limit_s, before, self.gate.ground)
        return found

    def _kept(self, begin_s: float, end_s: float) -> Mask | None:
        """Return the nodes that plans keep at some time from one moment to another."""
        met = [plan.nodes for plan in self._plans if plan.end_s > begin_s and plan.begin_s <= end_s]
        return np.logical_or.reduce(met) if met else None

    def _planned(self, job: Job) -> list[Plan]:
        """Return when and where a job is planned, in the first of its partitions in which it can be."""
        for way in self.gate.ways(job):
            plan = self._plan(job, way)
            if plan is not None:
                return [plan]
        return []

    def _plan(self, job: Job, way: Way) -> Plan | None:
        now_s, from_s = self.gate.now_s, self.gate.now_s
        for _ in range(MOST_TRIES):
            kept = self._kept(from_s, from_s + way.limit_s)
            usable = way.usable if kept is None else way.usable & ~kept
            later_s = min((moment for plan in self._plans for moment in (plan.begin_s, plan.end_s) if moment > from_s),
                          default=None)
            found = self._first(job, replace(way, usable=usable))
            if found is None or (later_s is not None and max(found[0], from_s) > later_s):
                if later_s is None:
                    return None
                from_s = later_s
                continue
            begin_s, nodes = max(found[0], from_s), self.gate.ground.named(found[1].nodes)
            if begin_s > now_s + WINDOW_S:
                return None
            if not any((plan.nodes & nodes).any() for plan in self._plans
                       if plan.end_s > begin_s and plan.begin_s < begin_s + way.limit_s):
                return Plan(begin_s // RESOLUTION_S * RESOLUTION_S,
                            (begin_s + way.limit_s) // RESOLUTION_S * RESOLUTION_S, nodes)
            from_s = begin_s
        return None

    def _first(self, job: Job, way: Way) -> tuple[float, Placement] | None:
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
