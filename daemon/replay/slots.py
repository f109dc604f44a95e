"""Which GPUs of a node a job gets: the occupants of its slots."""

from __future__ import annotations

from .arrays import Ints
from .compiled import compiled, compiled_apart


@compiled
def occupy(occupant: Ints, node: int, gpus: int, before: int, after: int) -> None:
    """Hand ``gpus`` slots of the node from one occupant to another, lowest index first."""
    for slot in range(occupant.shape[1]):
        if gpus == 0:
            return
        if occupant[node, slot] == before:
            occupant[node, slot] = after
            gpus -= 1


@compiled_apart
def occupy_close(occupant: Ints, islands: Ints, node: int, gpus: int, job: int) -> None:
    """Give a job free slots close together: of the tightest island that suffices, else of the emptiest ones."""
    while gpus > 0:
        best, room = -1, 0
        for island in range(occupant.shape[1]):
            free = _room_on(occupant, islands, node, island)
            if (free > room) if room < gpus else (gpus <= free < room):
                best, room = island, free
        if best < 0:
            return
        for slot in range(occupant.shape[1]):
            if gpus > 0 and occupant[node, slot] == -1 and islands[node, slot] == best:
                occupant[node, slot] = job
                gpus -= 1


@compiled
def _room_on(occupant: Ints, islands: Ints, node: int, island: int) -> int:
    """Return the free GPUs of an island."""
    free = 0
    for slot in range(occupant.shape[1]):
        if occupant[node, slot] == -1 and islands[node, slot] == island:
            free += 1
    return free


@compiled_apart
def on_one_island(occupant: Ints, islands: Ints, node: int, job: int) -> bool:
    """Tell whether all GPUs that a job holds on a node are on the same island."""
    island = -1
    for slot in range(occupant.shape[1]):
        if occupant[node, slot] == job:
            if island >= 0 and islands[node, slot] != island:
                return False
            island = islands[node, slot]
    return True
