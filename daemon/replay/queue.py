"""Ordered sets for the hot path: waiting jobs by rank (a tree of bits) and running jobs by end (an indexed heap)."""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Ints, Queue, Running, Words
from .compiled import compiled

NONE = -1
_ONE = np.uint64(1)
_BITS = np.uint64(63)
_SHIFT = np.uint64(6)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOW_BIT = np.zeros(64, np.int64)
"""Number of the only set bit, found by the top six bits of its product with the de Bruijn word."""
for _bit in range(64):
    _LOW_BIT[((0x03F79D71B4CB0A89 << _bit) & (2**64 - 1)) >> 58] = _bit


@compiled
def _lowest(word: np.uint64) -> int:
    isolated = word & (~word + _ONE)
    return _LOW_BIT[np.int64((isolated * _DE_BRUIJN) >> np.uint64(58))]


@compiled
def _from(words: Words, index: int) -> int:
    """Return the first set bit of ``words`` at or after ``index`` within its word, else NONE."""
    word = words[index >> 6] & (~np.uint64(0) << (np.uint64(index) & _BITS))
    if word == np.uint64(0):
        return NONE
    return (index >> 6 << 6) + _lowest(word)


@compiled
def insert(queue: Queue, partition: int, rank: int) -> None:
    """Put a rank into a partition's set."""
    queue.leaves[partition, rank >> 6] |= _ONE << (np.uint64(rank) & _BITS)
    queue.branches[partition, rank >> 12] |= _ONE << (np.uint64(rank >> 6) & _BITS)
    queue.roots[partition, rank >> 18] |= _ONE << (np.uint64(rank >> 12) & _BITS)


@compiled
def remove(queue: Queue, partition: int, rank: int) -> None:
    """Take a rank out of a partition's set."""
    queue.leaves[partition, rank >> 6] &= ~(_ONE << (np.uint64(rank) & _BITS))
    if queue.leaves[partition, rank >> 6] == np.uint64(0):
        queue.branches[partition, rank >> 12] &= ~(_ONE << (np.uint64(rank >> 6) & _BITS))
        if queue.branches[partition, rank >> 12] == np.uint64(0):
            queue.roots[partition, rank >> 18] &= ~(_ONE << (np.uint64(rank >> 12) & _BITS))


@compiled
def following(queue: Queue, partition: int, rank: int) -> int:
    """Return the lowest rank of the partition that is at least ``rank``, else NONE."""
    leaves, branches, roots = queue.leaves[partition], queue.branches[partition], queue.roots[partition]
    if rank >> 6 >= leaves.size:
        return NONE
    found = _from(leaves, rank)
    if found != NONE:
        return found
    leaf = (rank >> 6) + 1
    if leaf >> 6 >= branches.size:
        return NONE
    leaf = _from(branches, leaf)
    if leaf == NONE:
        branch = _next_branch(roots, (rank >> 12) + 1)
        if branch == NONE:
            return NONE
        leaf = _from(branches, branch << 6)
    return _from(leaves, leaf << 6)


@compiled
def _next_branch(roots: Words, branch: int) -> int:
    while branch >> 6 < roots.size:
        found = _from(roots, branch)
        if found != NONE:
            return found
        branch = ((branch >> 6) + 1) << 6
    return NONE


@compiled
def _before(end: Floats, one: int, other: int) -> bool:
    return end[one] < end[other] or (end[one] == end[other] and one < other)


@compiled
def _settle(heap: Ints, place: Ints, job: int, hole: int) -> None:
    heap[hole] = job
    place[job] = hole


@compiled
def _rise(running: Running, end: Floats, job: int, hole: int) -> None:
    heap, place = running.heap, running.place
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _before(end, job, heap[parent]):
            break
        _settle(heap, place, heap[parent], hole)
        hole = parent
    _settle(heap, place, job, hole)


@compiled
def _sink(running: Running, end: Floats, job: int, hole: int, size: int) -> None:
    heap, place = running.heap, running.place
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and _before(end, heap[child + 1], heap[child]):
            child += 1
        if not _before(end, heap[child], job):
            break
        _settle(heap, place, heap[child], hole)
        hole = child
    _settle(heap, place, job, hole)


@compiled
def push(running: Running, end: Floats, job: int, size: int) -> None:
    """Add a job to a heap of ``size`` jobs, ordered by (end, job)."""
    _rise(running, end, job, size)


@compiled
def drop(running: Running, end: Floats, job: int, size: int) -> None:
    """Take a job from anywhere in a heap of ``size`` jobs."""
    hole, last = running.place[job], running.heap[size - 1]
    running.place[job] = NONE
    if last == job:
        return
    if hole > 0 and _before(end, last, running.heap[(hole - 1) >> 1]):
        _rise(running, end, last, hole)
    else:
        _sink(running, end, last, hole, size - 1)


@compiled
def position(order: Ints, size: int, key: Floats, job: int) -> int:
    """Return where ``job`` stands, or would stand, in ``order``, sorted by (key, job)."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if _before(key, order[middle], job):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert_sorted(order: Ints, size: int, key: Floats, job: int) -> None:
    """Insert ``job`` into ``order`` of ``size`` jobs."""
    place = position(order, size, key, job)
    for index in range(size, place, -1):
        order[index] = order[index - 1]
    order[place] = job


@compiled
def remove_sorted(order: Ints, size: int, key: Floats, job: int) -> None:
    """Remove ``job`` from ``order`` of ``size`` jobs."""
    for index in range(position(order, size, key, job), size - 1):
        order[index] = order[index + 1]
