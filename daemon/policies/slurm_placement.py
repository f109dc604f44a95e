"""Nodes as Slurm's select/cons_tres chooses them: from the run of neighbours that just suffices.

Nodes that fit and stand side by side, in the order of the configuration, make a run. Of the runs that hold the whole
job the one with the fewest free CPUs is taken, and a job of one node gets the node of it with the fewest; where no run
holds the job, the largest is taken first and the next one after it. A job that wants GPUs and says how many tasks a
node runs can use no more CPUs than those, on any node, and gets the first. All nodes weigh the same: no source tells
weights.
"""

from __future__ import annotations

from ..replay.arrays import Ask, Longs, PlacementView
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import fits
from ..replay.node_selection import enough, least, pick
from .registry import placement

TAKEN, ENDLESS = 1 << 50, 1 << 60


@placement("slurm-placement")
def slurm_placement(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose nodes run by run; 0 when they do not fit."""
    return by_runs(site, ask, chosen)


@compiled_apart
def by_runs(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Score nodes by the run that they stand in, and pick; beside other rules this is long and seldom called."""
    if ask.chunks + ask.rests == 1:
        chosen[0] = only_node(site, ask)
        return 1 if chosen[0] >= 0 else 0
    if not enough(site, ask):
        return 0
    parts = ask.chunks + ask.rests
    for node in range(site.nodes.size):
        site.nodes[node].score = ENDLESS
    placed, turn = 0, 0
    while placed < parts:
        first, size = best_run(site, ask, parts - placed)
        if size == 0:
            return 0
        for node in range(first, first + size):
            site.nodes[node].score = turn * TAKEN + node
        placed, turn = placed + size, turn + 1
    return pick(site, ask, chosen)


@compiled
def only_node(site: PlacementView, ask: Ask) -> int:
    """Return the node with the least room of the run with the least, for a job of one node; -1 if none has any."""
    best, least_room, here, node_here, room_here = -1, ENDLESS, 0, -1, ENDLESS
    for node in range(site.nodes.size + 1):
        if node < site.nodes.size and fits(site, node, ask, least(ask)):
            room = free_room(site, node, ask)
            if room < room_here:
                node_here, room_here = node, room
            here += room
        elif node_here >= 0:
            if here < least_room:
                best, least_room = node_here, here
            here, node_here, room_here = 0, -1, ENDLESS
    return best


@compiled
def free_room(site: PlacementView, node: int, ask: Ask) -> int:
    """Return the free CPUs of a node that a job could use; its GPUs where its number of CPUs is unknown."""
    row = site.nodes[node]
    if ask.tasked == 1:
        return ask.cpus
    return row.free_cpus if row.cpus < 1 << 40 else row.free_gpus


@compiled
def best_run(site: PlacementView, ask: Ask, wanted: int) -> tuple[int, int]:
    """Return first node and length of the run to take next among those without a score."""
    best, length, room, begin, size, here = 0, 0, 0, 0, 0, 0
    for node in range(site.nodes.size + 1):
        inside = node < site.nodes.size and site.nodes[node].score == ENDLESS and fits(site, node, ask, least(ask))
        if inside:
            if size == 0:
                begin, here = node, 0
            size, here = size + 1, here + free_room(site, node, ask)
            continue
        if size > 0 and better(size >= wanted, here, length >= wanted, room, length == 0):
            best, length, room = begin, size, here
        size = 0
    return best, length


@compiled
def better(suffices: bool, room: int, best_suffices: bool, best_room: int, none_yet: bool) -> bool:
    """Tell whether a run is to be preferred: one that suffices, of those the least, else the largest."""
    if none_yet or suffices != best_suffices:
        return none_yet or suffices
    return room < best_room if suffices else room > best_room
