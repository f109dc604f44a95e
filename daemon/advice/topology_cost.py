"""How close together GPUs are: which to take, what a placement costs in communication, and what closeness is worth.

Free GPUs of a node go by the scheduler's own indexes. What closeness is worth is a job's speed on one placement against
another, from measured tables by application.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from ...storage.recommendations import Placed, Placement
from ...storage.records import Islands, Node, SchedulerSnapshot
from ..replay import speed_priors
from ..replay.communication import PREDECESSOR, Weights, cost_in_tree, pairs_apart

Indexes = tuple[tuple[int, ...], ...]
"""The indexes of the GPUs on each node of a placement."""


class FreeIndexes:
    """Free GPUs by node; nodes whose GPUs in use the scheduler does not report are missing.

    It reports either those of a node as a whole, or those of every job that runs there.
    """

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        by_jobs = _held(snapshot)
        self._free: dict[str, list[int]] = {}
        self._islands = {node.name: node.islands for node in snapshot.nodes}
        for node in snapshot.nodes:
            reported = node.gpu_indexes_allocated
            held = by_jobs.get(node.name, set()) if reported is None else set(reported)
            if held is not None and len(held) == node.gpus_allocated:
                self._free[node.name] = [index for index in range(node.gpus) if index not in held]

    def hand_out(self, placements: Iterable[Placement]) -> list[Indexes]:
        """Return GPUs for each placement, none of them twice; () where they are not known or too few.

        Those of one island where one has enough, the tightest of them, else of few; on an island the lowest.
        """
        free = dict(self._free)
        return [self._taken(free, placement) for placement in placements]

    def _taken(self, free: dict[str, list[int]], placement: Placement) -> Indexes:
        parts = list(zip(placement.nodes, placement.gpus, strict=True))
        if any(len(free.get(node, ())) < gpus for node, gpus in parts):
            return ()
        taken = tuple(close_together(free.get(node, []), gpus, self._islands[node]) for node, gpus in parts)
        for (node, _), indexes in zip(parts, taken, strict=True):
            free[node] = [index for index in free.get(node, ()) if index not in indexes]
        return taken


def close_together(free: Sequence[int], gpus: int, islands: Islands) -> tuple[int, ...]:
    """Return so many of the free GPUs, as the replay hands them out: see ``replay.slots.occupy_close``."""
    left = [[index for index in free if index in island] for island in islands] or [list(free)]
    taken: list[int] = []
    while len(taken) < gpus:
        wanted = gpus - len(taken)
        best = min(left, key=lambda gpus_left: (len(gpus_left) < wanted,
                                                len(gpus_left) if len(gpus_left) >= wanted else -len(gpus_left)))
        left.remove(best)
        taken += best[:wanted]
    return tuple(sorted(taken))


def _held(snapshot: SchedulerSnapshot) -> dict[str, set[int] | None]:
    """Return what jobs hold by node; None where one of them does not say."""
    held: dict[str, set[int] | None] = {}
    for part in (part for job in snapshot.jobs if job.state.active for part in job.allocations if part.gpus):
        known = held.setdefault(part.node, set())
        if known is None or part.gpu_indexes is None:
            held[part.node] = None
        else:
            known.update(part.gpu_indexes)
    return held


class TopologyCost:
    """The switches above the nodes of a snapshot, their NVLink domains, and the islands inside them."""

    def __init__(self, nodes: Sequence[Node], weights: Weights = PREDECESSOR) -> None:
        paths = {node.name: _switches(node) for node in nodes}
        depth = max((len(path) for path in paths.values()), default=1)
        self._above = {name: path + ("",) * (depth - len(path)) for name, path in paths.items()}
        self._domain = {node.name: node.domain for node in nodes if node.domain}
        self._depth = depth + 1
        """Levels of places: domains, and those of switches."""
        self._islands = {node.name: node.islands for node in nodes}
        self._weights = weights

    def cost(self, placement: Placement | None, indexes: Indexes = ()) -> float | None:
        """Return what a placement costs; None without one, or where a node of it is not known any more.

        ``indexes`` are its GPUs; where they are not known they count as on one island.
        """
        if placement is None or not all(node in self._above for node in placement.nodes):
            return None
        held = dict(zip(placement.nodes, placement.gpus, strict=True))
        named = zip(placement.nodes, indexes, strict=False)
        pairs = sum(pairs_apart(gpu_indexes, self._islands[node]) for node, gpu_indexes in named)
        return cost_in_tree(held, self._above, self._domain, self._weights, apart=pairs)

    def domains(self, names: Iterable[str]) -> int | None:
        """Return in how many NVLink domains these nodes are; None where one of them is in none."""
        domains = {self._domain.get(name) for name in names}
        return None if None in domains else len(domains)

    def domain_of(self, name: str) -> str:
        """Return the NVLink domain of a node, '' where it is in none."""
        return self._domain.get(name, "")

    def closest(self, names: Sequence[str], count: int) -> tuple[str, ...]:
        """Return ``count`` of these nodes that are close together: of the closest level on which one place suffices.

        Much as the placement ``nearest`` does it: of the domains or leaves that have enough the one with least, else of
        the spines, and the switches above them, the one that needs fewest leaves; of nodes equally close the first.
        """
        for level in range(self._depth):
            enough = [group for group in sorted(self._grouped(names, level), key=len) if len(group) >= count]
            if enough:
                return tuple(enough[0][:count]) if level == 0 else min(
                    (self._roomiest_first(group, level, count) for group in enough), key=self._spread)
        return self._roomiest_first(names, self._depth - 1, count)

    def _roomiest_first(self, names: Sequence[str], level: int, count: int) -> tuple[str, ...]:
        """Return the first nodes, those of the place with most of them first, and so on within each place."""
        groups = sorted(self._grouped(names, level), key=len, reverse=True)
        inside = [self._roomiest_first(group, level - 1, len(group)) if level else group for group in groups]
        return tuple([name for group in inside for name in group][:count])

    def _spread(self, names: Sequence[str]) -> list[int]:
        return [len({self._place(name, level) for name in names}) for level in range(self._depth)]

    def _place(self, name: str, level: int) -> tuple[str, ...]:
        """Return where a node is on a level: its domain, which may lie across leaves, or a switch and those above it.

        A node in no domain is as close to its neighbours as its leaf is.
        """
        if level == 0 and name in self._domain:
            return ("domain", self._domain[name])
        return self._above[name][max(0, level - 1):]

    def _grouped(self, names: Sequence[str], level: int) -> list[list[str]]:
        groups: dict[Hashable, list[str]] = {}
        for name in names:
            groups.setdefault(self._place(name, level), []).append(name)
        return list(groups.values())


def _switches(node: Node) -> tuple[str, ...]:
    """Return the switches above a node, the closest first; its domain is none."""
    path = (node.leaf, node.spine, *node.above)
    path = path[1:] if node.domain and node.leaf == node.domain else path
    while len(path) > 1 and not path[-1]:
        path = path[:-1]
    return path


def compared(runs: Iterable[Placed], topology_cost: TopologyCost) -> dict[tuple[str, str], float]:
    """Return what runs cost together by partition, as they are placed (``actual``) and as was ``advised``."""
    total: dict[tuple[str, str], float] = {}
    for run in runs:
        actual, advised = topology_cost.cost(run.actual), topology_cost.cost(run.advised)
        if actual is not None and advised is not None:
            for placement, weight in (("actual", actual), ("advised", advised)):
                total[run.partition, placement] = total.get((run.partition, placement), 0.0) + weight
    return total


APPLICATIONS = speed_priors.APPLICATIONS
"""What was measured: the models of Pollux's artifact, on nodes of four GPUs."""
SOURCE = f"Pollux's tables (OSDI'21, nodes of {speed_priors.NODE_GPUS} GPUs)"
"""The source that stands beside every speed."""

_SLOW = speed_priors.slow()


def application_of(name: str, names: Mapping[str, str]) -> str:
    """Return the application of a job by its name, whatever its case, the first pattern that fits; '' where none does.

    What is not known stays so: a guess would be taken for a measurement.
    """
    return next((application for pattern, application in names.items() if fnmatchcase(name.lower(), pattern.lower())),
                "")


def relative_speed(application: str, placement: Placement, other: Placement) -> float:
    """Return the speed on a placement over that on another with as many GPUs.

    By the number of nodes and the GPUs on the fullest one; more than four of either count as four, which is all that
    was measured. Nobody measured what leaf switches cost.
    """
    return _slow(application, other) / _slow(application, placement)


def _slow(application: str, placement: Placement) -> float:
    nodes = sum(gpus > 0 for gpus in placement.gpus)
    measured = _SLOW[APPLICATIONS.index(application)]
    return float(measured[min(nodes, len(measured)) - 1, min(max(placement.gpus), speed_priors.NODE_GPUS) - 1])
