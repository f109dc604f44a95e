"""Which GPUs of a node are free, by the scheduler's own indexes, and which of them to take: those close together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...storage.recommendations import Placement
from ...storage.records import Islands, SchedulerSnapshot

Indexes = tuple[tuple[int, ...], ...]
"""On each node of a placement."""


class FreeIndexes:
    """Free GPUs by node; nodes of which the scheduler does not tell are missing.

    It tells either of a node as a whole, or of every job that runs there.
    """

    def __init__(self, snapshot: SchedulerSnapshot) -> None:
        by_jobs = _held(snapshot)
        self._free: dict[str, list[int]] = {}
        self._islands = {node.name: node.islands for node in snapshot.nodes}
        for node in snapshot.nodes:
            told = node.gpu_indexes_allocated
            held = by_jobs.get(node.name, set()) if told is None else set(told)
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
        best = min(left, key=lambda some: (len(some) < wanted, len(some) if len(some) >= wanted else -len(some)))
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
