"""Nearest: GPUs as close together as they can be: one node, else one leaf switch, else one spine, else few of both.

Best fit at every level, so that big holes survive: the node, leaf or spines with the least room that still suffices; of
spines first those that need the fewest switches. Where there are levels above the spines, those below the lowest place
that suffices are taken. A placement costs (``replay.communication``) no more than any other as long as the job has no
more than one smaller part, and where no spine suffices no more than ``FEW`` of them are there, without such levels.
"""

from __future__ import annotations

from ..replay.arrays import Ask, Longs, PlacementView, Records
from ..replay.compiled import compiled, compiled_apart
from ..replay.moves import fits
from ..replay.node_selection import least, pick
from .registry import placement

FULL, ANY = 1 << 40, 1 << 20
"""Room of a switch in one number: nodes that fit a full chunk of the job, any part of it, and for a leaf its spine."""
FEW = 6
"""Spines of which every set is looked at, 63 of them; of more, one by one and then all."""
SPINE = 2
"""What a further spine costs in further leaves: an edge to the centre weighs as much as two to a spine."""


@placement("nearest")
def nearest(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes that are closest together; O(nodes) beside the choice among them."""
    if ask.chunks + ask.rests == 1:
        prefer_fullest(site.nodes)
    else:
        prefer_close(site, ask, chosen)
    return pick(site, ask, chosen)


@compiled
def prefer_fullest(nodes: Records) -> None:
    """Score nodes by free GPUs."""
    for node in range(nodes.size):
        nodes[node].score = nodes[node].free_gpus


@compiled_apart
def prefer_close(site: PlacementView, ask: Ask, room: Longs) -> None:
    """Score nodes leaf after leaf, those with most room first, where none suffices; ``room`` is scratch."""
    leaves, spines = count_room(site, ask, room)
    only = tightest_leaf(ask, room, leaves)
    first, last, among = 0, spines, 0
    if only < 0:
        first, last = lowest_part(site.nodes, ask, spines)
        first, last, among = tightest_spines(site.nodes, ask, room, leaves, first, last)
    size = site.nodes.size + 1
    for node in range(site.nodes.size):
        row = site.nodes[node]
        near = row.leaf == only if only >= 0 else below(room[row.leaf], first, last, among)
        rank = (room[row.leaf] // FULL * size + room[row.leaf] % FULL // ANY + 1) * size - row.leaf if near else 0
        row.score = row.free_gpus - 1024 * rank


@compiled
def count_room(site: PlacementView, ask: Ask, room: Longs) -> tuple[int, int]:
    """Count the nodes that fit, by leaf in ``room``, by spine in the scores; return how many of both there are."""
    leaves, spines = 0, 0
    for switch in range(site.nodes.size):
        room[switch] = 0
        site.nodes[switch].score = 0
    for node in range(site.nodes.size):
        row = site.nodes[node]
        leaves, spines = max(leaves, row.leaf + 1), max(spines, row.spine + 1)
        room[row.leaf] = room[row.leaf] // ANY * ANY + row.spine
        if fits(site, node, ask, least(ask)):
            more = ANY + (FULL if ask.rests == 0 or fits(site, node, ask, ask.gpus) else 0)
            room[row.leaf] += more
            site.nodes[row.spine].score += more
    return leaves, spines


@compiled
def suffices(room: int, ask: Ask) -> bool:
    """Tell whether there is room for all parts of the job."""
    return room // FULL >= ask.chunks and room % FULL // ANY >= ask.chunks + ask.rests


@compiled
def tightest_leaf(ask: Ask, room: Longs, leaves: int) -> int:
    """Return the leaf with the least room that suffices, -1 if none."""
    best = -1
    for leaf in range(leaves):
        if suffices(room[leaf], ask) and (best < 0 or room[leaf] // ANY < room[best] // ANY):
            best = leaf
    return best


@compiled
def lowest_part(nodes: Records, ask: Ask, spines: int) -> tuple[int, int]:
    """Return the spines, from the first to before the last, of the lowest place above spines that suffices.

    Of several places on that level it is the one with the least room; where none suffices, all spines are returned.
    """
    level, highest, least, first, last = 1, 1, 1 << 62, 0, spines
    while least == 1 << 62 and level <= highest:
        begin, have = 0, 0
        for spine in range(spines):
            have += nodes[spine].score
            highest = max(highest, nodes[spine].joined)
            if spine + 1 == spines or nodes[spine + 1].joined > level:
                if suffices(have, ask) and have < least:
                    least, first, last = have, begin, spine + 1
                begin, have = spine + 1, 0
        level += 1
    return first, last


@compiled
def below(leaf: int, first: int, last: int, among: int) -> bool:
    """Tell whether a leaf, by its room, is below a spine from ``first`` to before ``last``.

    Bits of ``among`` stand for those of them that count, from ``first`` on; 0 is all.
    """
    place = leaf % ANY - first
    return 0 <= place < last - first and (among == 0 or (among >> place) % 2 == 1)


@compiled
def tightest_spines(nodes: Records, ask: Ask, room: Longs, leaves: int, begin: int, end: int) -> tuple[int, int, int]:
    """Return those of some spines on which the job costs least, of those the ones with the least room; for `below`."""
    best, first, last, among = (1 << 62, 1 << 62), begin, end, 0
    fewest = leaves_needed(ask, room, leaves, begin, end, 0)
    sets = (1 << end - begin) - 1 if end - begin <= FEW else end - begin
    for number in range(sets):
        start, bits = (begin, number + 1) if end - begin <= FEW else (begin + number, 1)
        have, count = 0, 0
        for place in range(FEW):
            if (bits >> place) % 2 == 1:
                have, count = have + nodes[start + place].score, count + 1
        if suffices(have, ask) and (SPINE * count + fewest, have) < best:
            price = SPINE * count + leaves_needed(ask, room, leaves, start, start + FEW, bits)
            if (price, have) < best:
                best, first, last, among = (price, have), start, start + FEW, bits
    return first, last, among


@compiled
def leaves_needed(ask: Ask, room: Longs, leaves: int, first: int, last: int, among: int) -> int:
    """Return how many leaves below some spines the job needs, those with most room for full chunks first."""
    count, full, fit, least = 0, 0, 0, 1 << 62
    while least > 0 and (full < ask.chunks or fit < ask.chunks + ask.rests):
        most = 0
        for leaf in range(leaves):
            if most < room[leaf] // ANY < least and below(room[leaf], first, last, among):
                most = room[leaf] // ANY
        for leaf in range(leaves):
            if room[leaf] // ANY == most and below(room[leaf], first, last, among) and (
                    full < ask.chunks or fit < ask.chunks + ask.rests):
                full, fit, count = full + most // (FULL // ANY), fit + most % (FULL // ANY), count + 1
        least = most
    return count
