"""Which running jobs, moved where, would make room for one that waits: the fewest GPUs moved that are found.

Looked for within bounds, since it is to take milliseconds. For one node it is the least that there is, as far as a few
moves do; a job of several nodes gets them one after the other. Jobs of one node are moved, to a node with the same GPUs
on which they might have started; a job of several nodes stays, and so does one that shares no node. A node kept for
an earlier job is used only by a job that ends before it starts, as in EASY backfilling (Lifka, JSSPP'95).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from ...storage.recommendations import Placement
from ...storage.records import Job, JobState, Node, NodeState, SchedulerSnapshot
from ..waste.stranded import PLENTY, Need, need, owners_of, satisfies
from .node_sharing import NodeSharing, lone_users

Masks = NDArray[np.bool_]
Amounts = tuple[int, int, int]
"""GPUs, CPUs, bytes."""

BETWEEN = "\N{INFORMATION SEPARATOR ONE}"
"""Stands between the names of a path: a switch's own name may have a slash."""
MOST_NODES = 64
"""Nodes that are looked at for a part of a job, those that lack least first."""
MOST_PLACES = 32
"""NVLink domains, then places of the levels above, that are looked at one by one for a job of several nodes."""
MOST_BESIDE = 12
"""Jobs of a node that are considered, the smallest of them."""
MOST_MOVES = 4
"""The most moves for one job."""
MOST = PLENTY >> 2
"""The most CPUs or bytes that a job is taken to ask for: what it leaves on a node with plenty still fits an array."""


@dataclass(frozen=True, slots=True)
class MovableJob:
    """A job that may be moved, and what it holds."""

    job: Job
    wanted: Need
    node: int
    holds: Amounts
    ran_s: float


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Where a job would start, and which jobs move where for it."""

    placement: Placement
    moves: tuple[tuple[MovableJob, str], ...]


class MigrationPlanner:
    """The nodes that may run jobs, what is free on them and which jobs could leave them."""

    def __init__(self, snapshot: SchedulerSnapshot, now_s: float) -> None:
        self._now_s = now_s
        self.nodes = [node for node in {node.name: node for node in snapshot.nodes}.values()
                      if node.gpus > 0 and (node.state.schedulable or node.state is NodeState.RESERVED)]
        self.row = {node.name: row for row, node in enumerate(self.nodes)}
        self.owners = owners_of(self.nodes) | lone_users(snapshot.jobs)
        self._sharing = NodeSharing(self.row, snapshot.jobs, self.owners)
        self.free = np.array([_free(node) for node in self.nodes], np.int64).reshape(-1, 3)
        self._levels = _levels(self.nodes)
        self._models = np.array([node.gpu_model.lower() for node in self.nodes])
        self._mixed = np.array([bool(node.gpu_models) for node in self.nodes], bool)
        self._down = {partition.name for partition in snapshot.partitions if not partition.up}
        self._allowed: dict[tuple[object, ...], Masks] = {}
        self._beside: list[list[Job]] = [[] for _ in self.nodes]
        for job in snapshot.jobs:
            if _may_move(job) and job.allocations[0].node in self.row:
                self._beside[self.row[job.allocations[0].node]].append(job)
        self.movable = np.array([sum(job.allocations[0].gpus for job in jobs) for jobs in self._beside], np.int64)
        self._moved: set[tuple[str, float]] = set()
        self._disrupted: Counter[str] = Counter()
        """Pods that moves take away, by disruption budget."""
        self._roomy: dict[tuple[Need, Amounts, str, float | None], list[int]] = {}
        self._kept_from_s = np.full(len(self.nodes), np.inf)

    def take(self, placement: Placement, wanted: Need) -> None:
        """Take a job's GPUs, CPUs and memory off what is free."""
        for name, gpus in zip(placement.nodes, placement.gpus, strict=True):
            if name in self.row:
                self.free[self.row[name]] -= _amounts(wanted, gpus)
                self._sharing.join(self.row[name], wanted)

    def open_to(self, wanted: Need) -> Masks:
        """Return the nodes that a job may share with the jobs that are on them."""
        return self._sharing.open_to(wanted)

    def keep(self, nodes: Iterable[str], from_s: float) -> None:
        """Keep nodes for a job that is expected to start there: no job that is planned later delays it."""
        for name in nodes:
            if name in self.row:
                self._kept_from_s[self.row[name]] = min(from_s, self._kept_from_s[self.row[name]])

    def unkept(self, limit_s: float | None) -> Masks:
        """Return the nodes on which a job of such a time limit, started now, delays nobody they are kept for."""
        return self._kept_from_s >= (np.inf if limit_s is None else self._now_s + limit_s)

    def make_room(self, wanted: Need, most: int, limit_s: float | None = None) -> MigrationPlan | None:
        """Return what at most so many moves can do for a job, carried out; None when it has room or they cannot.

        A job of several nodes gets them within one place of the lowest level where moves can do that: an NVLink
        domain, a switch, one above it; else wherever they are. One that must stay within so many places of the closest
        level gets no others. One of several partitions gets them all in one, where that is cheapest.
        """
        ways = [replace(wanted, partitions=(name,)) for name in dict.fromkeys(wanted.partitions)]
        found = [(*reached, way) for way in ways if (reached := self._reached(way, most, limit_s)) is not None]
        if not found or any(not plan.moves for plan, _, _ in found):
            return None
        _, place, way = min(found, key=lambda reached: _cost(reached[0]))
        return self._planned(way, place, most)

    def _reached(self, wanted: Need, most: int, limit_s: float | None) -> tuple[MigrationPlan, Masks] | None:
        """Return a plan within a partition and the nodes it is made on; no moves in it where the job has room."""
        usable = self.allowed(wanted) & self.unkept(limit_s)
        anywhere = self._tried(wanted, usable, most)
        if anywhere is None:
            return None
        if not (anywhere.moves or wanted.switches):
            return anywhere, usable
        for closest_nodes in self._together(wanted, usable):
            if (at_once := self._tried(wanted, closest_nodes, 0)) is not None:
                return at_once, closest_nodes
        plan, place = self._closest(wanted, usable, most) or (anywhere, usable)
        return (plan, place) if not wanted.switches or self._suits(plan, wanted) else None

    def _suits(self, plan: MigrationPlan, wanted: Need) -> bool:
        """Tell whether a plan keeps a job within as many places as it may have."""
        return len({self._levels[0][self.row[name]] for name in plan.placement.nodes}) <= wanted.switches

    def _closest(self, wanted: Need, usable: Masks, most: int) -> tuple[MigrationPlan, Masks] | None:
        """Return the plan in the lowest place in which moves make room, the cheapest of its level, and its nodes."""
        for places in self._places(wanted, usable):
            inside = [(plan, place) for place in places if (plan := self._tried(wanted, place, most)) is not None]
            if inside:
                return min(inside, key=lambda pair: _cost(pair[0]))
        return None

    def _together(self, wanted: Need, usable: Masks) -> list[Masks]:
        """Return the usable nodes of as many closest places as a job may have, where several, the roomiest first."""
        parts = self._parts(wanted)
        if wanted.switches < 2 or not parts:
            return []
        names, fits = self._levels[0], usable & (self.free >= _amounts(wanted, parts[0])).all(axis=1)
        room = {name: int((fits & (names == name)).sum()) for name in names[usable & (names != "")].tolist()}
        places = sorted(room, key=lambda name: -room[name])
        place_sets = combinations(places, min(wanted.switches, len(places)))
        return [usable & np.isin(names, place_set) for place_set in islice(place_sets, MOST_PLACES)]

    def _tried(self, wanted: Need, usable: Masks, most: int) -> MigrationPlan | None:
        """Return a plan that is not carried out."""
        before = self.free.copy(), self._sharing.copy(), set(self._moved), Counter(self._disrupted)
        plan = self._planned(wanted, usable, most)
        self.free, self._sharing, self._moved, self._disrupted = before
        return plan

    def _places(self, wanted: Need, usable: Masks) -> Iterator[list[Masks]]:
        """Yield the usable nodes of each place that could hold a job of several nodes, the closest level first."""
        parts, left = len(self._parts(wanted)), MOST_PLACES
        for names in self._levels if parts > 1 else ():
            domains, counts = np.unique(names[usable & (names != "")], return_counts=True)
            domain_nodes = [usable & (names == name)
                            for name, count in zip(domains, counts, strict=True) if count >= parts]
            yield domain_nodes[:left]
            left -= len(domain_nodes[:left])
            if names is self._levels[0]:
                yield self._together(wanted, usable)

    def _planned(self, wanted: Need, usable: Masks, most: int) -> MigrationPlan | None:
        closed = np.zeros(len(self.nodes), bool)
        nodes, moves = list[int](), list[tuple[MovableJob, str]]()
        parts = self._parts(wanted)
        if not (parts and self.has_indispensable(usable, wanted)):
            return None
        named = [self.row[name] for name in wanted.indispensable]
        needed = usable if np.count_nonzero(usable) == len(parts) else self._only(named)  # nobody moves to one
        for number, gpus in enumerate(parts):
            open_nodes = self._only(named[number:number + 1]) if number < len(named) else usable & ~closed
            cleared = self._cleared(wanted, gpus, open_nodes, closed | needed, most - len(moves))
            if cleared is None:
                return None
            node, made = cleared
            moves += [(movable, self.nodes[home].name) for movable, home in made]
            self._carry_out(made)
            self.free[node] -= _amounts(wanted, gpus)
            self._sharing.join(node, wanted)
            closed[node] = True
            nodes.append(node)
        return MigrationPlan(Placement(tuple(self.nodes[node].name for node in nodes), tuple(parts)), tuple(moves))

    def _only(self, rows: Sequence[int]) -> Masks:
        return np.isin(np.arange(len(self.nodes)), rows)

    def _parts(self, wanted: Need) -> list[int]:
        """Return the GPUs on each node, the most first, as the replay splits a job; nothing when it cannot fit."""
        if wanted.exclusive or wanted.total_gpus > self.free[:, 0].clip(0).sum():
            return []
        allowed = self.allowed(wanted)
        if not allowed.any():
            return []
        if not wanted.splits:
            return [wanted.gpus] * wanted.sets if wanted.sets <= len(self.nodes) else []
        chunk = min(wanted.total_gpus, max(self.nodes[row].gpus for row in np.flatnonzero(allowed)))
        full, remainder = divmod(wanted.total_gpus, chunk)
        return [chunk] * full + [remainder] * (remainder > 0)

    def _cleared(self, wanted: Need, gpus: int, usable: Masks, closed: Masks, most: int,
                 ) -> tuple[int, list[tuple[MovableJob, int]]] | None:
        """Return a node for a part of a job and which jobs have to leave it for where; None when there is none."""
        needs = _amounts(wanted, gpus)
        fits = np.flatnonzero(usable & self.open_to(wanted) & (self.free >= needs).all(axis=1))
        if len(fits):
            return int(fits[np.argmin(self.free[fits, 0])]), []
        lacks = np.maximum(needs[0] - self.free[:, 0], 1)
        able = np.flatnonzero(usable & (self.movable >= lacks))
        best, price = None, (PLENTY, 0.0)
        self._roomy.clear()
        for node in able[np.argsort(lacks[able], kind="stable")][:MOST_NODES].tolist():
            if lacks[node] > price[0]:
                break
            leaving = self._emptied(node, wanted, gpus, closed, most, price)
            if leaving is not None:
                best, price = (node, leaving), _price([movable for movable, _ in leaving])
        return best

    def _emptied(self, node: int, wanted: Need, gpus: int, closed: Masks, most: int, below: tuple[int, float],
                 ) -> list[tuple[MovableJob, int]] | None:
        """Return which jobs leave a node for where, so that a part fits, for less than a price; None when none can."""
        lacks = [wants - free for wants, free in zip(_amounts(wanted, gpus), self.free[node].tolist(), strict=True)]
        for leaving in self._groups(node, closed, most):
            if _price(leaving) >= below:
                return None
            enough = all(sum(movable.holds[kind] for movable in leaving) >= lack for kind, lack in enumerate(lacks))
            if enough and self._sharing.opened(node, wanted, [movable.wanted for movable in leaving]):
                homes = self._homes(leaving, closed)
                if homes is not None:
                    return list(zip(leaving, homes, strict=True))
        return None

    def _groups(self, node: int, closed: Masks, most: int) -> list[tuple[MovableJob, ...]]:
        """Return jobs of a node that could leave together, at most so many, the cheapest first; the largest first."""
        held = (self._movable_job(job, node) for job in self._beside[node] if job.key not in self._moved)
        able = sorted((movable for movable in held if self._candidates(movable, closed)),
                      key=lambda movable: _price([movable]))
        considered = sorted(able[:MOST_BESIDE], key=lambda movable: -movable.holds[0])
        return sorted((group for size in range(1, most + 1) for group in combinations(considered, size)
                       if self._within_budgets(group)), key=_price)

    def _within_budgets(self, jobs_to_move: Sequence[MovableJob]) -> bool:
        """Tell whether so many pods may be taken away, beside those of earlier moves."""
        steered = [movable.job.steering for movable in jobs_to_move if movable.job.steering]
        budgets = [budget for steering in steered for budget in steering.budgets]
        taken = self._disrupted + Counter({budget.name: 0 for budget in budgets})
        for budget in budgets:
            taken[budget.name] += budget.pods
        return all(taken[budget.name] <= budget.allowed for budget in budgets)

    def _movable_job(self, job: Job, node: int) -> MovableJob:
        wanted, held = need(job, self.owners), job.allocations[0]
        assert wanted is not None  # it holds GPUs: see _may_move
        share = _amounts(wanted, held.gpus)
        holds = held.gpus, min(MOST, max(held.cpus, share[1])), min(MOST, max(held.memory_bytes, share[2]))
        return MovableJob(job, wanted, node, holds, 0.0 if job.start_s is None else max(0.0, self._now_s - job.start_s))

    def _homes(self, jobs_to_move: Sequence[MovableJob], closed: Masks) -> list[int] | None:
        """Return another node for each job, all of them at once; None when there are none."""
        if not jobs_to_move:
            return []
        movable = jobs_to_move[0]
        for home in self._candidates(movable, closed):
            if (self.free[home] < movable.holds).any() or not self._sharing.opened(home, movable.wanted, ()):
                continue  # one that was moved before it has taken the room
            self.free[home] -= movable.holds
            self._sharing.join(home, movable.wanted)
            others = self._homes(jobs_to_move[1:], closed)
            self._sharing.leave(home, movable.wanted)
            self.free[home] += movable.holds
            if others is not None:
                return [home, *others]
        return None

    def _candidates(self, movable: MovableJob, closed: Masks) -> list[int]:
        """Return other nodes with room for a job, the fullest first.

        As many as there are moves suffice: a job with so many to choose from finds one that no other has taken.
        """
        limit_s = movable.job.limit_s  # from its new start it has it whole
        model = self._held_model(movable)
        if model is None:
            return []
        key = movable.wanted, movable.holds, model, limit_s
        if key not in self._roomy:
            usable = self.allowed(movable.wanted) & self.unkept(limit_s) & (self._models == model) & ~self._mixed
            usable &= self.open_to(movable.wanted) & ~closed
            fits = np.flatnonzero(usable & (self.free >= movable.holds).all(axis=1))
            fullest_first = fits[np.argsort(self.free[fits, 0], kind="stable")]
            self._roomy[key] = fullest_first[:MOST_MOVES + 1].tolist()
        return [home for home in self._roomy[key] if home != movable.node][:MOST_MOVES]

    def _held_model(self, movable: MovableJob) -> str | None:
        """Return the type of a job's GPUs, which it is to have again; None where nobody tells which of several."""
        if self._mixed[movable.node]:
            return movable.wanted.model or None
        return self.nodes[movable.node].gpu_model.lower()

    def allowed(self, wanted: Need) -> Masks:
        """Return which nodes a job may use, whatever is free on them."""
        key = (wanted.partitions, wanted.model, wanted.features, wanted.required_nodes, wanted.excluded_nodes,
               wanted.reservation, wanted.exclusive, wanted.splits, wanted.user,
               wanted.sets if wanted.features or wanted.required_nodes else 0)
        if key not in self._allowed:
            partitions = set(wanted.partitions) - self._down
            # How many of each type are free on a node of several types nobody tells.
            self._allowed[key] = np.array([not partitions.isdisjoint(node.partitions) and satisfies(node, wanted)
                                           and not (wanted.model and node.gpu_models) for node in self.nodes], bool)
        return self._allowed[key]

    def has_indispensable(self, nodes: Masks, wanted: Need) -> bool:
        """Tell whether all nodes that a job cannot do without are among some."""
        return all(name in self.row and nodes[self.row[name]] for name in wanted.indispensable)

    def _carry_out(self, made: Iterable[tuple[MovableJob, int]]) -> None:
        for movable, home in made:
            self.free[movable.node] += movable.holds
            self.free[home] -= movable.holds
            self._sharing.leave(movable.node, movable.wanted)
            self._sharing.join(home, movable.wanted)
            self._moved.add(movable.job.key)
            for budget in movable.job.steering.budgets if movable.job.steering else ():
                self._disrupted[budget.name] += budget.pods


def _levels(nodes: Sequence[Node]) -> list[NDArray[np.str_]]:
    """Return the place of each node by level, the closest first: a path upwards; '' where it is in none."""
    paths = [(node.leaf, node.spine, *node.above) for node in nodes]
    return [np.array([BETWEEN.join(path[level:]) if any(path[level:level + 1]) else "" for path in paths])
            for level in range(max(map(len, paths), default=0))]


def _free(node: Node) -> Amounts:
    """Return what a node has left; an amount that the scheduler does not report is unlimited."""
    return (node.gpus - node.gpus_allocated,
            node.cpus - node.cpus_allocated if node.cpus else PLENTY,
            node.memory_bytes - node.memory_allocated_bytes if node.memory_bytes else PLENTY)


def _amounts(wanted: Need, gpus: int) -> Amounts:
    """Return what so many GPUs of a job take of a node."""
    return (gpus, min(MOST, -(-wanted.cpus * gpus // wanted.gpus)),
            min(MOST, -(-wanted.memory_bytes * gpus // wanted.gpus)))


def _may_move(job: Job) -> bool:
    if job.steering is not None and not job.steering.movable:
        return False
    return (job.state is JobState.RUNNING and len(job.allocations) == 1 and job.allocations[0].gpus > 0
            and not job.request.exclusive and not job.request.details.unknown
            and max(job.request.gpus, job.request.gpus_per_node or 0) > 0)


def _cost(plan: MigrationPlan) -> tuple[int, float]:
    return _price([movable for movable, _ in plan.moves]) if plan.moves else (0, 0.0)


def _price(jobs_to_move: Iterable[MovableJob]) -> tuple[int, float]:
    """Return GPUs moved and GPU-seconds at stake."""
    gpus, stake = zip(*((movable.holds[0], movable.holds[0] * movable.ran_s) for movable in jobs_to_move), strict=True)
    return sum(gpus), sum(stake)
