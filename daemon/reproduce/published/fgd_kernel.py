"""The compiled part of FGD's simulator: where each of the six policies places the next pod (Weng et al., ATC'23)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled_with_arrays

RANDOM, DOT_PROD, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD = range(6)
WHOLE = 1000
"""A whole GPU, in thousandths."""
MOST_CPU, MOST_GPU = 128_000.0, 8_000.0
"""CPU milli and GPU thousandths of the largest node, by which policies scale."""
INFEASIBLE = -1_000_000_000


class FgdResources(NamedTuple):
    """Free resources of all nodes, changed in place."""

    cpu: Longs
    memory: Longs
    free: Longs
    """(node, GPU) free thousandths; only the first ``gpus`` of a row count."""
    gpus: Longs
    model: Longs
    hosts: Longs
    """Bits of the kinds of GPU pods on the node: 0 for shares, n for n GPUs."""


class Kinds(NamedTuple):
    """Distinct pods."""

    cpu: Longs
    memory: Longs
    gpus: Longs
    """Number of GPUs; 0 for a pod of CPUs only."""
    milli: Longs
    """Thousandths of each GPU."""
    allowed: Masks
    """(kind, GPU model) whether the kind may use the model."""


class Typical(NamedTuple):
    """The pods that FGD expects, by frequency."""

    kinds: Kinds
    frequency: Floats


@compiled_with_arrays
def schedule(policy: int, pods: Longs, kinds: Kinds, nodes: FgdResources, typical: Typical, seed: int) -> Masks:
    """Place pods (indexes of kinds) one by one; return which of them found a node. No pod ever leaves."""
    np.random.seed(seed)
    scores = np.empty((len(kinds.cpu), len(nodes.cpu)), np.int64)
    known = np.zeros(scores.shape, np.bool_)
    placed = np.zeros(len(pods), np.bool_)
    for position in range(len(pods)):
        kind = pods[position]
        for node in range(len(nodes.cpu)):
            if not known[kind, node]:  # only a node that changed since this kind was last seen
                scores[kind, node] = _score(policy, kinds, kind, nodes, node, typical)
                known[kind, node] = True
        # Ties go to the smallest name.
        chosen = _random_of(scores[kind]) if policy == RANDOM else int(np.argmax(scores[kind]))
        if scores[kind, chosen] != INFEASIBLE:
            _bind(policy, kinds, kind, nodes, chosen, typical)
            known[:, chosen] = False
            placed[position] = True
    return placed


@compiled_with_arrays
def _random_of(scores: Longs) -> int:
    feasible = np.flatnonzero(scores != INFEASIBLE)
    return feasible[np.random.randint(len(feasible))] if len(feasible) else 0


@compiled_with_arrays
def _feasible(kinds: Kinds, kind: int, nodes: FgdResources, node: int) -> bool:
    if nodes.cpu[node] < kinds.cpu[kind] or nodes.memory[node] < kinds.memory[kind]:
        return False
    if not kinds.allowed[kind, nodes.model[node]]:
        return False
    fitting = 0
    for gpu in range(nodes.gpus[node]):
        fitting += nodes.free[node, gpu] >= kinds.milli[kind]
    return bool(fitting >= kinds.gpus[kind])


@compiled_with_arrays
def _score(policy: int, kinds: Kinds, kind: int, nodes: FgdResources, node: int, typical: Typical) -> int:
    """Return the integer score of a node for a pod."""
    if not _feasible(kinds, kind, nodes, node):
        return INFEASIBLE
    left = nodes.free[node, :nodes.gpus[node]].sum()
    requested = kinds.gpus[kind] * kinds.milli[kind]
    cpu = nodes.cpu[node]
    if policy == DOT_PROD:
        product = cpu / MOST_CPU * kinds.cpu[kind] / MOST_CPU + left / MOST_GPU * requested / MOST_GPU
        return int(100 * (1 - product / 2))
    if policy == BEST_FIT:
        return int(100 * (1 - 0.5 * (cpu - kinds.cpu[kind]) / MOST_CPU - 0.5 * (left - requested) / MOST_GPU))
    if policy == GPU_CLUSTERING:
        return _clustering(_host_bit(kinds, kind), nodes.hosts[node], left) if requested else 0
    if policy == GPU_PACKING:
        return _packing(nodes.free[node, :nodes.gpus[node]], kinds.gpus[kind], kinds.milli[kind]) if requested else 0
    if policy == FGD:
        return _fragmentation_score(kinds, kind, nodes, node, typical)[0]
    return 0


@compiled_with_arrays
def _host_bit(kinds: Kinds, kind: int) -> int:
    return 1 if kinds.milli[kind] < WHOLE else 1 << kinds.gpus[kind]


@compiled_with_arrays
def _clustering(bit: int, hosts: int, left: int) -> int:
    base = int(25 * (MOST_GPU - left) / MOST_GPU)
    if hosts & bit:
        return base + (75 if hosts == bit else 50)
    return base + (25 if hosts == 0 else 0)


@compiled_with_arrays
def _packing(free: Longs, count: int, milli: int) -> int:
    if np.all(free == WHOLE):
        return max(33 - len(free), len(free))
    picked = np.sort(free[free >= milli])[:count]
    untouched = int(np.count_nonzero(picked == WHOLE))
    if untouched:
        return max(50 - untouched, 33)
    return max(100 - int(np.sum(picked // 10)) // 10, 50)


@compiled_with_arrays
def _fragmentation_score(kinds: Kinds, kind: int, nodes: FgdResources, node: int, typical: Typical) -> tuple[int, int]:
    """Return the best score and, for a share, the GPU that has it (lowest index on a tie)."""
    free = nodes.free[node, :nodes.gpus[node]].copy()
    count, milli, model = kinds.gpus[kind], kinds.milli[kind], nodes.model[node]
    cpu = nodes.cpu[node]
    before = _fragmentation(free, cpu, model, typical)
    cpu -= kinds.cpu[kind]
    if count != 1 or milli == WHOLE:
        _take_whole(free, count)
        return _gradient(before - _fragmentation(free, cpu, model, typical)), -1
    best, best_gpu = INFEASIBLE, -1
    for gpu in range(len(free)):
        if free[gpu] < milli or np.any(free[:gpu] == free[gpu]):
            continue  # an equal GPU was tried already
        free[gpu] -= milli
        score = _gradient(before - _fragmentation(free, cpu, model, typical))
        free[gpu] += milli
        if score > best:
            best, best_gpu = score, gpu
    return best, best_gpu


@compiled_with_arrays
def _gradient(gain: float) -> int:
    return int(100 / (1 + np.exp(-gain / 1000)))


@compiled_with_arrays
def _fragmentation(free: Longs, cpu: int, model: int, typical: Typical) -> float:
    """Return the fragmentation F of a node: the mean GPU thousandths that typical pods cannot use."""
    left = free.sum()
    expected = 0.0
    for pod in range(len(typical.frequency)):
        count, milli = typical.kinds.gpus[pod], typical.kinds.milli[pod]
        waste = left
        if count and typical.kinds.allowed[pod, model] and cpu >= typical.kinds.cpu[pod]:
            fitting, below = 0, 0
            for gpu in range(len(free)):
                if free[gpu] >= milli:
                    fitting += 1
                else:
                    below += free[gpu]
            waste = below if fitting >= count else left
        expected += typical.frequency[pod] * waste
    return expected


@compiled_with_arrays
def _take_whole(free: Longs, count: int) -> None:
    """Take fully free GPUs in the order of their index."""
    for gpu in range(len(free)):
        if count and free[gpu] == WHOLE:
            free[gpu] = 0
            count -= 1


@compiled_with_arrays
def _bind(policy: int, kinds: Kinds, kind: int, nodes: FgdResources, node: int, typical: Typical) -> None:
    """Give the pod its resources."""
    count, milli = kinds.gpus[kind], kinds.milli[kind]
    free = nodes.free[node, :nodes.gpus[node]]
    if count and milli == WHOLE:
        _take_whole(free, count)
    elif count:
        gpu = _share_gpu(policy, free, milli)
        if policy == FGD:
            gpu = _fragmentation_score(kinds, kind, nodes, node, typical)[1]
        free[gpu] -= milli
    if count:
        nodes.hosts[node] |= _host_bit(kinds, kind)
    nodes.cpu[node] -= kinds.cpu[kind]
    nodes.memory[node] -= kinds.memory[kind]


@compiled_with_arrays
def _share_gpu(policy: int, free: Longs, milli: int) -> int:
    """Return the tightest GPU that fits a share; any that fits under Random."""
    fits = np.flatnonzero(free >= milli)
    return fits[np.random.randint(len(fits))] if policy == RANDOM else fits[np.argmin(free[fits])]
