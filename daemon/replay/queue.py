"""Ordered sets for the hot path: waiting jobs by rank (a tree of bits) and running jobs by end (an indexed heap)."""

from __future__ import annotations

import numpy as np

from .arrays import RESIZING, RETURNING, WAITING, WAITING_JOBS, Floats, Ints, Longs, Records, State, Words
from .compiled import compiled

NONE = -1
_ONE = np.uint64(1)
_BITS = np.uint64(63)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOW_BIT = np.zeros(64, np.int64)
"""Number of the only set bit, found by the top six bits of its product with the de Bruijn word."""
for _bit in range(64):
    _LOW_BIT[((0x03F79D71B4CB0A89 << _bit) & (2**64 - 1)) >> 58] = _bit


@compiled
def lowest_bit(word: np.uint64) -> int:
    """Return the number of the lowest set bit of a word that has one."""
    isolated = word & (~word + _ONE)
    return _LOW_BIT[np.int64((isolated * _DE_BRUIJN) >> np.uint64(58))]


@compiled
def _from(words: Words, index: int) -> int:
    """Return the first set bit of ``words`` at or after ``index`` within its word, else NONE."""
    word = words[index >> 6] & (~np.uint64(0) << (np.uint64(index) & _BITS))
    if word == np.uint64(0):
        return NONE
    return (index >> 6 << 6) + lowest_bit(word)


@compiled
def decisions_due(state: State) -> int:
    """Return how many decisions may be due; 0 for none."""
    return int(state.counts[WAITING_JOBS] + state.counts[RESIZING] + state.counts[RETURNING])


@compiled
def insert(state: State, partition: int, rank: int) -> None:
    """Put a rank into a partition's set."""
    _put((state.leaves, state.branches, state.roots), partition, rank)


@compiled
def _put(trees: tuple[Words, Words, Words], line: int, rank: int) -> None:
    leaves, branches, roots = trees
    leaves[line, rank >> 6] |= _ONE << (np.uint64(rank) & _BITS)
    branches[line, rank >> 12] |= _ONE << (np.uint64(rank >> 6) & _BITS)
    roots[line, rank >> 18] |= _ONE << (np.uint64(rank >> 12) & _BITS)


@compiled
def remove(state: State, partition: int, rank: int) -> None:
    """Take a rank out of a partition's set."""
    state.leaves[partition, rank >> 6] &= ~(_ONE << (np.uint64(rank) & _BITS))
    if state.leaves[partition, rank >> 6] == np.uint64(0):
        state.branches[partition, rank >> 12] &= ~(_ONE << (np.uint64(rank >> 6) & _BITS))
        if state.branches[partition, rank >> 12] == np.uint64(0):
            state.roots[partition, rank >> 18] &= ~(_ONE << (np.uint64(rank >> 12) & _BITS))


@compiled
def queue_up(jobs: Records, order: Ints, trees: tuple[Words, Words, Words], ordered: Longs) -> None:
    """Give these jobs the first ranks, in this order; those of them that wait, and no others, then stand in line."""
    for tree in trees:
        tree[:, :] = 0
    for rank in range(ordered.size):
        row = jobs[ordered[rank]]
        order[rank], row.rank = ordered[rank], rank
        if row.status == WAITING:
            _put(trees, row.queue, rank)


@compiled
def following(state: State, partition: int, rank: int) -> int:
    """Return the lowest rank of the partition that is at least ``rank``, else NONE."""
    return _search(state.leaves[partition], state.branches[partition], state.roots[partition], rank)


@compiled
def _search(leaves: Words, branches: Words, roots: Words, rank: int) -> int:
    if rank >> 6 >= leaves.size:
        return NONE
    next_rank = _from(leaves, rank)
    if next_rank != NONE:
        return next_rank
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
        next_branch = _from(roots, branch)
        if next_branch != NONE:
            return next_branch
        branch = ((branch >> 6) + 1) << 6
    return NONE


@compiled
def _ends_before(jobs: Records, one: int, other: int) -> bool:
    return jobs[one].end < jobs[other].end or (jobs[one].end == jobs[other].end and one < other)


@compiled
def _settle(heap: Ints, jobs: Records, job: int, hole: int) -> None:
    heap[hole] = job
    jobs[job].place = hole


@compiled
def _rise(heap: Ints, jobs: Records, job: int, hole: int) -> None:
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _ends_before(jobs, job, heap[parent]):
            break
        _settle(heap, jobs, heap[parent], hole)
        hole = parent
    _settle(heap, jobs, job, hole)


@compiled
def _sink(heap: Ints, jobs: Records, job: int, hole: int, size: int) -> None:
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and _ends_before(jobs, heap[child + 1], heap[child]):
            child += 1
        if not _ends_before(jobs, heap[child], job):
            break
        _settle(heap, jobs, heap[child], hole)
        hole = child
    _settle(heap, jobs, job, hole)


@compiled
def push(heap: Ints, jobs: Records, job: int, size: int) -> None:
    """Add a job to a heap of ``size`` jobs, ordered by (end, job)."""
    _rise(heap, jobs, job, size)


@compiled
def drop(heap: Ints, jobs: Records, job: int, size: int) -> None:
    """Take a job from anywhere in a heap of ``size`` jobs."""
    hole, last = jobs[job].place, heap[size - 1]
    jobs[job].place = NONE
    if last == job:
        return
    if hole > 0 and _ends_before(jobs, last, heap[(hole - 1) >> 1]):
        _rise(heap, jobs, last, hole)
    else:
        _sink(heap, jobs, last, hole, size - 1)


@compiled
def seat_again(heap: Ints, jobs: Records, job: int, size: int) -> None:
    """Put one job of a heap where it belongs after its end changed."""
    hole = jobs[job].place
    if hole > 0 and _ends_before(jobs, job, heap[(hole - 1) >> 1]):
        _rise(heap, jobs, job, hole)
    else:
        _sink(heap, jobs, job, hole, size)


@compiled
def order_again(heap: Ints, jobs: Records, size: int) -> None:
    """Put a heap of ``size`` jobs in order after their ends changed."""
    for hole in range(size // 2 - 1, -1, -1):
        _sink(heap, jobs, heap[hole], hole, size)


@compiled
def _position(order: Ints, size: int, jobs: Records, job: int) -> int:
    """Return where ``job`` stands, or would stand, in ``order``, sorted by (estimate, job)."""
    low, high, key = 0, size, jobs[job].estimate
    while low < high:
        middle = (low + high) >> 1
        other = order[middle]
        if jobs[other].estimate < key or (jobs[other].estimate == key and other < job):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert_sorted(order: Ints, size: int, jobs: Records, job: int) -> None:
    """Insert ``job`` into ``order`` of ``size`` jobs, sorted by (estimate, job)."""
    place = _position(order, size, jobs, job)
    for index in range(size, place, -1):
        order[index] = order[index - 1]
    order[place] = job


@compiled
def remove_sorted(order: Ints, size: int, jobs: Records, job: int) -> None:
    """Remove ``job`` from ``order`` of ``size`` jobs."""
    for index in range(_position(order, size, jobs, job), size - 1):
        order[index] = order[index + 1]


@compiled
def _before(key: Floats, one: int, other: int) -> bool:
    return key[one] < key[other] or (key[one] == key[other] and one < other)


@compiled
def sort_jobs(jobs: Ints, size: int, key: Floats) -> None:
    """Sort the first ``size`` jobs by (key, job), in place; a heap sort, since compiled code makes no arrays."""
    for root in range(size // 2 - 1, -1, -1):
        _sift_down(jobs, root, size, key)
    for last in range(size - 1, 0, -1):
        jobs[0], jobs[last] = jobs[last], jobs[0]
        _sift_down(jobs, 0, last, key)


@compiled
def _sift_down(jobs: Ints, root: int, size: int, key: Floats) -> None:
    job = jobs[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and _before(key, jobs[child], jobs[child + 1]):
            child += 1
        if not _before(key, job, jobs[child]):
            break
        jobs[root] = jobs[child]
        root = child
    jobs[root] = job
