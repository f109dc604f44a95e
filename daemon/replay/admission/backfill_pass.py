"""The queue in order, as the scheduler's own backfill walks it: what fits starts, plans keep nodes for waiting jobs.

After Slurm's backfill (``backfill.c``, ``_attempt_backfill``): a job that has to wait is planned where and when it
would fit once enough running jobs have reached their limits. Its nodes are then kept *whole* from that minute until it
would have ended, and no job behind it may use them that would still run then. A job that breaks a limit, lacks licences
or is held otherwise is not planned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from ...settings.priority import BackfillSettings
from .gate import HELD, ROOM, Gate, Hold, PartitionNodes
from .main_pass import (
    chosen_by_slurm,
    counted,
    counted_separately,
    fails_for_reservation,
    first_by_terms,
    found_apart,
    leave_alike,
    leave_weighed,
    may_fail,
    names_out_of_reach,
    out_of_reach,
    own_nodes,
    stops_partition,
    too_few_available,
    tried_by_main,
    tries_again,
    unlimited_by_terms,
    withheld_in_vain,
)
from .node_resources import HISTORIES, Mask, NodeResources
from .node_space import NodeSpace
from .queue_entry import ArrayPlans, Plan, QueueEntry, absent, in_queue, sooner, waits_for
from .releases import Releases
from .resource_demand import choices, counts

MOST_TRIES, MOST_EXACT_TRIES = 50, 1000
"""Moments at which one job is planned again because others have its nodes: in long queues, and in others."""
MOST_PLANS = 200
"""Jobs for which nodes are kept; a job behind them all waits, as behind the last that Slurm looks at."""
MOST_EXACT = 100
"""Jobs in a queue up to which each is looked for from now on, as in Slurm; in longer ones from where its like ended."""
TURN_S = 1.0  # at least; what the backfill starts ends after what the main scheduler started before it
MOST_ROUNDS = 5
"""Times that the queue is walked, as long as somebody starts: plans go otherwise around what runs than what waits."""


class BackfillPass:
    """What starts, and which nodes are kept for which job, as the queue is walked; the gate is booked along."""

    def __init__(self, gate: Gate, planning: bool, pins: Mapping[int, tuple[str, ...]] | None = None, *,
                 by_terms: bool = False) -> None:
        self.gate, self._planning = gate, planning
        self._by_terms = by_terms
        """Whether a job that counts features has nodes kept from now on where each term finds some, as in Slurm."""
        self._pins = pins
        """Nodes that are named for jobs that start, by row; None where each goes where the policy wants it."""
        self._unavailable = set[int]()  # rows of jobs whose named nodes are withheld: the main scheduler skips them
        self._arrays = set[str]()  # of which a task has started: no command names the nodes of the others
        self._settings = BackfillSettings.of(gate.site.parameters)
        self._space = NodeSpace(len(gate.resources.nodes), gate.now_s, self._settings)
        self.separate = set[int]()
        """Rows of jobs that start and may fail to in Slurm, which looks for each of their features by itself."""
        self._plans = 0  # jobs that nodes are kept for in this round
        self._soonest: dict[object, float] = {}  # when jobs of a kind could begin, as found so far in this round
        self._fits: dict[object, Mask] = {}
        self._exact, self._weights_matter = True, False
        """Whether a job is in line whose nodes depend on jobs looked at before: a job without GPUs."""
        self._releases = Releases(gate.resources, gate.snapshot.jobs, gate.now_s)

    def walk(self, line: Sequence[QueueEntry]) -> dict[int, Placement | Hold]:
        """Return by row what starts where, and why the rest does not; round after round while that changes."""
        outcomes = dict[int, Placement | Hold]()
        line = [entry.on((self._pins or {}).get(entry.row), self.gate) for entry in line]
        self._weights_matter = any(self.gate.demand(entry.job).gpus == 0 for entry in line)
        began_s = self.gate.now_s
        for number in range(MOST_ROUNDS):
            again = self._round(line, outcomes)
            if not self._exact or not (again or (self._weights_matter and number == 0)):
                break
        self.gate.now_s = began_s
        return outcomes

    def _round(self, line: Sequence[QueueEntry], outcomes: dict[int, Placement | Hold]) -> bool:
        """Walk the queue once; tell whether somebody has started, so that the next round may find more.

        The main scheduler looks first, and the backfill a ``TURN_S`` later.
        """
        self._plans, self._soonest, self._exact = 0, {}, len(line) <= MOST_EXACT
        before = sum(isinstance(found, Placement) for found in outcomes.values())
        while self._main(line, outcomes):
            pass
        self.gate.now_s += TURN_S
        self._space = NodeSpace(len(self.gate.resources.nodes), self.gate.now_s, self._settings)
        left = [entry for entry in line if not isinstance(outcomes.get(entry.row), Placement)]
        if self._weights_matter:
            jobs = (one.job for one in left
                    if out_of_reach(one.job) or names_out_of_reach(one.job) or not absent(self.gate, one))
            tried_by_main(self.gate, jobs, self._planning)
        arrays = ArrayPlans(left, self._settings.array_plans)
        begins = dict[str, list[tuple[QueueEntry, float | None, Placement | Hold]]]()
        for entry in left:
            if isinstance(outcomes.get(entry.row), Placement):
                continue  # it started in another of its partitions
            if self._plans >= MOST_PLANS or arrays.enough(entry.job):
                outcomes[entry.row] = sooner(outcomes.get(entry.row), Hold(ROOM, ""))
            elif entry.job.group:
                parts = begins.setdefault(entry.job.group, [])
                parts.append(self._component(entry, [begin_s for _, begin_s, _ in parts]))
            else:
                plans, found = self._plans, self._take(entry)
                outcomes[entry.row] = sooner(outcomes.get(entry.row), found)
                arrays.note(entry.job, started=isinstance(found, Placement), planned=self._plans > plans)
        for parts in begins.values():
            outcomes |= self._join(parts)
        self.gate.now_s += TURN_S
        return sum(isinstance(found, Placement) for found in outcomes.values()) > before

    def _main(self, line: Sequence[QueueEntry], outcomes: dict[int, Placement | Hold]) -> bool:
        """Start what the main scheduler starts, which goes before and knows no plans; tell if it will look otherwise.

        A job that finds no room stops all behind it in its partition, and on its partition's nodes; one that names its
        nodes, only on these; one in a reservation, only those in it. Where nothing is planned for jobs that wait, no
        partition is stopped so. Jobs of several components are left to the backfill and stop the others.
        """
        resources, stopped, reserved = self.gate.resources, set[str](), set[str]()
        unavailable, nodes = set(self._unavailable), np.zeros(len(resources.nodes), bool)
        for entry in line:
            job = entry.job
            behind = job.request.reservation in reserved if job.request.reservation else job.partition in stopped
            if behind or isinstance(outcomes.get(entry.row), Placement):
                continue
            if in_queue(entry) and too_few_available(self.gate, job, nodes):
                stopped.add(job.partition)
                nodes = nodes | resources.members(job.partition)
                continue
            if absent(self.gate, entry) or fails_for_reservation(self.gate, job, nodes, self._now):
                nodes = nodes | withheld_in_vain(self.gate, job, nodes) if names_out_of_reach(job) else nodes
                continue
            found, own = self._tried(entry, nodes), own_nodes(self.gate, job)
            if isinstance(found, Placement):
                outcomes[entry.row] = found
            elif own is not None and not job.group and (found.cause == ROOM or counted(found)):
                withheld = bool((own & nodes).any())
                if not withheld or entry.row not in unavailable:
                    nodes = nodes | own  # nobody else has them then, in whatever partition they are
                self._unavailable |= {entry.row} if withheld else set()
            elif found.cause == ROOM and job.request.reservation and not job.group:
                reserved.add(job.request.reservation)
            elif found.cause == ROOM and stops_partition(self.gate, job, nodes, self._planning):
                stopped.add(job.partition)
                nodes = nodes | resources.members(job.partition)
        return self._unavailable != unavailable

    def _tried(self, entry: QueueEntry, avoid: Mask) -> Placement | Hold:
        """Return what comes of a job that the main scheduler tries: it finds limits on amounts after nodes."""
        apart = self._by_terms and found_apart(self.gate, entry.job, avoid) is not None
        if entry.job.group or apart or self._fails_by_terms(entry.job, avoid, by_main=True):
            return Hold(ROOM, "")
        if entry.barred is not None:
            return entry.barred
        found = self._book(entry, avoid, by_main=True)
        # A limit that is broken besides is what Slurm's main scheduler goes by then.
        return (self.gate.limits_bar(entry.job) or found) if found == Hold(ROOM, "") else found

    def _take(self, entry: QueueEntry) -> Placement | Hold:
        """Start the next in line, best where it is wanted, or say why not and plan it.

        Slurm looks at no task of an array of which as many run as may, those included that it has just started.
        """
        if entry.later and self.gate.room_for_tasks(entry.job) == 0:
            return Hold(ROOM, "")
        kept = self._kept_now(entry.job)
        if fails_for_reservation(self.gate, entry.job, kept, self._now):
            return Hold(ROOM, "")
        if self._by_terms and (where := found_apart(self.gate, entry.job, kept)) is not None:
            self._keep(entry, Plan(self.gate.now_s, where, max(way.limit_s for way in self.gate.ways(entry.job))))
            return Hold(ROOM, "")
        later = entry.later or self._fails_by_terms(entry.job, kept)
        found = self._lacks(entry) or Hold(ROOM, "") if later else entry.barred or self._book(entry, kept)
        beyond = isinstance(found, Hold) and counted(found)
        if isinstance(found, Placement) or not (found.cause == ROOM or beyond):
            return found
        lacking, now_s = self._lacks(entry), self.gate.now_s
        # Where nothing is planned, nodes are kept for a job that Slurm finds nodes for now, but fails to start.
        counting = bool(counts(entry.job.request.features))
        limited = beyond or (self._planning and lacking is not None and counted(lacking))
        if (limited and (self._weights_matter or counting)) or (lacking is None and (self._planning or counting)):
            plan = self._begin(entry, now_s)
            if lacking is None and not beyond and (self._planning or plan.begin_s <= now_s):
                self._keep(entry, plan)
            elif plan.begin_s <= now_s:
                # Slurm finds the limit once it starts it.
                leave_alike(self.gate, entry.job, self._kept_now(entry.job), self.gate.resources)
            elif self._planning and unlimited_by_terms(self.gate, entry.job):
                self._keep(entry, plan)
        elif self._weights_matter:
            leave_weighed(self.gate, entry.job, kept, self.gate.resources)
        return found

    def _lacks(self, entry: QueueEntry) -> Hold | None:
        """Return what a job lacks beside nodes, so that nothing is kept for it."""
        return entry.barred or self.gate.license_bars(entry.job) or self.gate.limits_bar(entry.job)

    def _component(self, entry: QueueEntry, others: Sequence[float | None],
                   ) -> tuple[QueueEntry, float | None, Placement | Hold]:
        """Keep nodes whole for a component, from now on if it could start now; return when and where that is.

        Slurm starts heterogeneous jobs at the end of a round only. Until then none of their components shares a node
        with anybody behind it, another component included. It is looked for from when those before it can start, and
        not at all once one of them was found not to start in time. The next round knows nothing of this one.
        """
        now_s, lacking = self.gate.now_s, self._lacks(entry)
        known = [begin_s for begin_s in others if begin_s is not None]
        if entry.barred is not None and entry.barred.cause == HELD:
            return entry, 0.0, entry.barred  # it is not in Slurm's queue, which looks for the others all the same
        beyond = lacking is not None and counted(lacking)
        if (lacking is not None and not beyond) or len(known) < len(others):
            return entry, None, lacking or Hold(ROOM, "")
        plan = self._begin(entry, max((now_s, *known)))
        if plan.earliest_s == np.inf or (plan.begin_s > now_s and not self._planning):
            return entry, None, lacking or Hold(ROOM, "")
        if lacking is not None:
            return entry, plan.earliest_s, lacking  # Slurm finds the limit last, and keeps nothing
        self._keep(entry, plan)
        starts = plan.where if plan.begin_s <= now_s and not entry.later else None
        return entry, plan.earliest_s, starts or Hold(ROOM, "")

    def _join(self, parts: Sequence[tuple[QueueEntry, float | None, Placement | Hold]]) -> dict[int, Placement | Hold]:
        """Start the components of a heterogeneous job if all of them can now."""
        missing = next((entry.job.job_id for entry, _, found in parts if isinstance(found, Hold)), None)
        if missing is None:
            before = self.gate, self._releases.copy()
            self.gate = self.gate.copy()
            found, used = dict[int, Placement | Hold](), np.zeros(len(self.gate.resources.nodes), bool)
            for entry, _, where in parts:
                assert isinstance(where, Placement)  # none is missing
                found[entry.row] = start = self._book(replace(entry, wanted=where), used)
                used = used | self.gate.resources.named(start.nodes if isinstance(start, Placement) else ())
            if all(isinstance(one, Placement) for one in found.values()):
                return found
            self.gate, self._releases = before
            missing = next(entry.job.job_id for entry, _, _ in parts if isinstance(found[entry.row], Hold))
            return {row: one if isinstance(one, Hold) else waits_for(missing) for row, one in found.items()}
        return {entry.row: found if isinstance(found, Hold) else waits_for(missing) for entry, _, found in parts}

    def _keep(self, entry: QueueEntry, plan: Plan) -> None:
        """Keep nodes for a job, if any were found."""
        if plan.where is None:
            return
        nodes = self.gate.resources.named(plan.where.nodes)
        if not self._exact and self.gate.demand(entry.job).gpus == 0:
            nodes = nodes | self._otherwise(entry, plan.begin_s)
        self._space.add(*self._space.whole(plan.begin_s, plan.limit_s), nodes)
        self._plans += 1

    def _otherwise(self, entry: QueueEntry, begin_s: float) -> Mask:
        """Return the nodes that a job without GPUs may have as well; short queues are walked for each past instead."""
        resources, known, past = self.gate.resources, dict(self._soonest), self.gate.resources.history
        nodes = np.zeros(len(resources.nodes), bool)
        try:
            for resources.history in range(HISTORIES):
                self._soonest.clear()
                plan = self._begin(entry, begin_s)
                if plan.where is not None and plan.begin_s <= begin_s:
                    nodes |= resources.named(plan.where.nodes)
        finally:
            resources.history, self._soonest = past, known
        return nodes

    def _fails_by_terms(self, job: Job, avoid: Mask, *, by_main: bool = False) -> bool:
        """Tell whether a job that counts features does not start: if one of them finds no nodes now, it does not.

        The backfill looks for nodes of its own for each of them, also for a job that asks for no GPUs.
        """
        separately = counted_separately(self.gate, job)
        if not separately and (by_main or self.gate.demand(job).gpus or not counts(job.request.features)):
            return False
        ways = (replace(way, usable=way.usable & ~avoid) for way in self.gate.ways(job))
        return (separately and self._by_terms and may_fail(self.gate, job, avoid)) or all(
            first_by_terms(self.gate, job, way, self._now) is None for way in ways)

    def _kept_now(self, job: Job) -> Mask:
        """Return the nodes that are kept for others while a job would run that starts now."""
        limit_s = max((way.limit_s for way in self.gate.ways(job)), default=0.0)
        return self._space.kept(self.gate.now_s, self.gate.now_s + limit_s)

    def _book(self, entry: QueueEntry, avoid: Mask | None, *, by_main: bool = False) -> Placement | Hold:
        """Start a job and note when it gives back what it takes; or return why it does not start."""
        before, job, wanted = self.gate.resources.copy(), entry.job, entry.wanted
        unnamed = entry.row not in (self._pins or {})
        if unnamed and (self._pins is not None or job.array in self._arrays):
            wanted = chosen_by_slurm(self.gate, job, avoid) or wanted
            job = entry.on(wanted.nodes, self.gate).job if wanted and not counts(job.request.features) else job
        ahead = self.gate.copy() if counts(job.request.features) else self.gate
        found = self.gate.admit(job, wanted, avoid)
        if isinstance(found, Placement):
            if counted_separately(ahead, job, ahead.resources.named(found.nodes)):
                self.separate.add(entry.row)
            limit_s = max(way.limit_s for way in self.gate.ways(job))
            if self._weights_matter:
                leave_alike(self.gate, job, None if by_main else self._kept_now(job), before)
            self._releases.add(job, self.gate.now_s + limit_s, before, self.gate.resources)
            self._arrays |= {job.array} - {""}
        return found

    def _begin(self, entry: QueueEntry, from_s: float) -> Plan:
        """Return when and where a job can begin, in the first of its partitions in which it can, and its limit."""
        plan = Plan()
        for way in self.gate.ways(entry.job):
            plan = self._begin_on(entry, way, from_s)
            if plan.where is not None:
                break
        return plan

    def _begin_on(self, entry: QueueEntry, way: PartitionNodes, from_s: float) -> Plan:
        job = entry.job
        if self._exact:
            return self._sought(job, way, from_s)
        # Its like was looked at before, when less was kept and more was free: it cannot begin sooner.
        alike = (*self.gate.kind(job), way.partition, way.limit_s, self.gate.switches(job))
        found = self._sought(job, way, max(from_s, self._soonest.get(alike, from_s)))
        self._soonest[alike] = found.begin_s
        return found

    def _sought(self, job: Job, way: PartitionNodes, from_s: float) -> Plan:
        able, last_s, earliest_s = self._able(job, way), self.gate.now_s + self._settings.window_s, np.inf
        # Slurm keeps a job off nodes that others keep for themselves now, whenever it plans for.
        resources, demand = self.gate.resources, self.gate.demand(job)
        alone, configured = resources.unowned(demand, job.user), resources.configured(job, demand)
        for _ in range(MOST_EXACT_TRIES if self._exact else MOST_TRIES):
            if from_s > last_s:
                break
            usable, end_s = self.gate.usable_from(job, way, from_s) & alone, from_s + way.limit_s
            later_s = tries_again(self.gate, self._space, job, replace(way, usable=usable), (from_s, end_s))
            usable = usable & ~self._space.kept(from_s, end_s) & configured
            found = self._first(job, replace(way, usable=usable)) if able(usable) else None
            begin_s = np.inf if found is None else max(found[0], from_s)
            earliest_s = min(earliest_s, begin_s)
            if later_s is not None and begin_s > later_s:
                from_s = later_s
                continue
            if found is None or begin_s > last_s:
                break
            kept = self._space.overlapped(*self._space.whole(begin_s, way.limit_s))
            if begin_s <= self.gate.now_s or not (kept & self.gate.resources.named(found[1].nodes)).any():
                return Plan(begin_s, found[1], way.limit_s, earliest_s)
            from_s = begin_s
        return Plan(earliest_s=earliest_s if earliest_s <= last_s else np.inf)

    def _able(self, job: Job, way: PartitionNodes) -> Callable[[Mask], bool]:
        """Return what tells whether a job would fit on some nodes if nothing ran there, by a short search."""
        gate, demand = self.gate, self.gate.demand(job)
        if counts(job.request.features):
            return lambda usable: int(usable.sum()) >= demand.least  # any node will do where a feature has none
        key = gate.kind(job)
        if key not in self._fits:
            empty, fits = gate.resources.empty(), np.zeros(len(gate.resources.nodes), bool)
            for features in choices(job.request.features):
                fits |= empty.capacity(demand, gate.resources.suited(job, demand, features), demand.least)[0]
            self._fits[key] = fits
        fits, gpus = self._fits[key], gate.resources.gpus
        return lambda usable: (int((usable & fits).sum()) >= demand.least
                               and int(gpus[usable & fits].sum()) >= demand.gpus)

    def _first(self, job: Job, way: PartitionNodes) -> tuple[float, Placement] | None:
        """Return when a job could start at the earliest on nodes that it may use, and where."""
        if counts(job.request.features):
            return first_by_terms(self.gate, job, way, self._earliest)

        def sought(resources: NodeResources) -> Placement | None:
            found = self.gate.sought(job, way, resources)
            return found if isinstance(found, Placement) else None

        return self._earliest(way, sought)

    def _earliest(self, way: PartitionNodes, sought: Callable[[NodeResources], Placement | None],
                  ) -> tuple[float, Placement] | None:
        """Return when something fits on some nodes, now or, where Slurm plans, once jobs have ended there."""
        now = self._now(way, sought)
        if now is not None:
            return now
        share = self.gate.share(way)
        return self._releases.first_fit(self.gate.resources, way.usable, sought, share) if self._planning else None

    def _now(self, way: PartitionNodes, sought: Callable[[NodeResources], Placement | None],
             ) -> tuple[float, Placement] | None:
        """Return now and where something fits on some nodes, if it does."""
        resources = self.gate.resources_of(way).copy()
        resources.as_planned = True
        return None if (found := sought(resources)) is None else (self.gate.now_s, found)
