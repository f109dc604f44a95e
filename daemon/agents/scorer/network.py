"""The forward pass, in compiled code: job and node scores of a state, over weights that are data.

*Order head*: inputs of a job -> hidden -> ``TRAITS`` traits, once per job. *Shared state*: what the queue and the nodes
are like at a decision -> hidden -> a factor for each trait and for the wait. A job's score is the product of the two,
so that thousands of waiting jobs are scored again with a few multiplications each. *Place head*: features of a node ->
hidden -> score. Nothing in it knows how many jobs or nodes there are. The lowest score goes first.

Weights may be those of several members, one behind the other; what counts then is the sum of their scores.

All compiled code of the agent, and every constant in it, is in this one file: numba looks for changes in the file of a
function only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...policies.easy import go_through
from ...replay.arrays import NOW, RUNNING_JOBS, Ask, Floats, Longs, PlacementView, State
from ...replay.compiled import compiled, compiled_without_lock
from ...replay.engine import list_waiting, rank_by_key, rank_by_row
from ...replay.moves import fits
from ...replay.node_selection import pick

INPUTS = ("predicted run time", "spread of run times", "run time by limit", "spread of use", "best guess",
          "requested limit", "GPUs", "share of the cluster", "several nodes", "usual limit", "unforeseen")
"""Times are logarithms of hours, spreads logarithms between quartiles, both over 3. *By limit* is the requested limit
times the share of theirs that like jobs used; *usual* how often its user requests that very limit; *unforeseen* 1 for a
job whose like is unknown."""
TRAITS, HIDDEN, FEATURES, STATE_HIDDEN = 4, 16, 10, 8
FACTORS = TRAITS + 2
"""What the shared state decides on: a factor for each trait, for the wait, and for the wait beside that of others."""
BLOCK = FEATURES + FACTORS
LENGTH, MEAN_WAIT, FIRST = 0, 0, 1
"""Places in ``State.traits``, before the traits of all members, of the expected run time in seconds; and in
``State.scratch``, before a block for each member, of the mean wait."""
PLACE_INPUTS, PLACE_HIDDEN = 6, 6
"""The inputs of a node: GPUs left over, none left over, empty before, size of the job, and by how much (logarithms) the
job is expected to end after the last one there, or before it."""
SURROUNDINGS = ("free GPUs", "empty nodes", "waiting GPUs", "waiting work", "mean wait", "waiting jobs",
                *(f"mean trait {number}" for number in range(TRAITS)))
"""What the shared state is made of: shares of the cluster and logarithms, none of them the size of anything."""
ALIKE = len(SURROUNDINGS) - TRAITS
"""The number of surroundings that are the same for all members."""
CANDIDATES = 32
"""Nodes that are scored for one job at most, besides any that is fuller than all of them."""
SHORT_S, HOUR_S = 900.0, 3600.0
FAR = 1 << 60

LAYERS: dict[str, tuple[int, ...]] = {
    "order.hidden": (len(INPUTS), HIDDEN), "order.bias": (HIDDEN,), "order.traits": (HIDDEN, TRAITS),
    "order.linear": (len(INPUTS), TRAITS),
    # Of the shared state; saved models have these names.
    "mood.hidden": (FEATURES, STATE_HIDDEN), "mood.bias": (STATE_HIDDEN,), "mood.factors": (STATE_HIDDEN, FACTORS),
    "mood.base": (FACTORS,),
    "place.hidden": (PLACE_INPUTS, PLACE_HIDDEN), "place.bias": (PLACE_HIDDEN,), "place.score": (PLACE_HIDDEN,),
    "place.linear": (PLACE_INPUTS,),
    "patience": (1,),  # seconds after which a job goes before all younger ones; not learned
}
"""Arrays of the network, which stand one behind the other in one vector."""
_SIZES = {name: int(np.prod(shape)) for name, shape in LAYERS.items()}
_AT = dict(zip(LAYERS, np.cumsum([0, *_SIZES.values()]).tolist(), strict=False))
SIZE = sum(_SIZES.values())
PATIENCE = _AT["patience"]
_STATE, _STATE_BIAS, _FACTORS, _BASE = (_AT[f"mood.{name}"] for name in ("hidden", "bias", "factors", "base"))
_PLACE, _PLACE_BIAS, _PLACE_SCORE, _PLACE_LINEAR = (_AT[f"place.{name}"] for name in ("hidden", "bias", "score",
                                                                                     "linear"))


def layer(weights: Floats, name: str) -> Floats:
    """Return a view of one array of a weight vector, or of several vectors: [..., *shape]."""
    part = weights[..., _AT[name]:_AT[name] + _SIZES[name]]
    return part.reshape(*weights.shape[:-1], *LAYERS[name])


def traits(weights: Floats, inputs: Floats) -> Floats:
    """Return the traits of jobs, [job, trait], from their inputs: those of the first member, then the next one's."""
    by_member = []
    for member in weights.reshape(-1, SIZE):
        before = inputs @ layer(member, "order.hidden") + layer(member, "order.bias")
        hidden = before / (1.0 + np.abs(before))
        by_member.append(hidden @ layer(member, "order.traits") + inputs @ layer(member, "order.linear"))
    return np.concatenate(by_member, axis=1)


def blocks(features: Floats) -> Floats:
    """Return what the shared state is like and the factors that follow, [member, ``BLOCK``]."""
    return features[FIRST:].reshape(-1, BLOCK)


@compiled
def soft(value: float) -> float:
    """Return softsign, a tanh that costs no exponential."""
    return value / (1.0 + abs(value))


@compiled
def look(state: State) -> bool:
    """Fill ``features`` with the state of queue and nodes; False when no job can start anyway."""
    features = state.scratch
    for place in range(features.size):
        features[place] = 0.0
    largest, total = look_at_nodes(state, features)
    smallest = look_at_queue(state, features, total)
    for block in range(FIRST + BLOCK, features.size, BLOCK):
        for place in range(ALIKE):
            features[block + place] = features[FIRST + place]
    return bool(smallest <= largest)


@compiled_without_lock
def score_all(state: State) -> int:
    """List the waiting jobs and write their scores to ``keys``; return how many there are."""
    look(state)
    decide_factors(state.weights, state.scratch)
    count = list_waiting(state)
    for index in range(count):
        state.keys[state.listed[index]] = _score(state, state.listed[index])
    return count


@compiled
def look_at_nodes(state: State, features: Floats) -> tuple[np.int64, float]:
    """Fill in features of the nodes; return the most free GPUs on one, and the GPUs of all."""
    largest, total, free, empty = np.int64(-1), 0.0, 0.0, 0.0
    for node in range(state.nodes.size):
        row = state.nodes[node]
        row.ends = 0.0
        total += row.gpus
        if row.open == 1:
            free += row.free_gpus
            empty += 1.0 if row.free_gpus == row.gpus else 0.0
            largest = max(largest, row.free_gpus)
    features[FIRST], features[FIRST + 1] = free / max(1.0, total), empty / state.nodes.size
    return largest, max(1.0, total)


@compiled
def look_at_queue(state: State, features: Floats, total: float) -> int | np.int64:
    """Fill in features of the queue; return the fewest GPUs that a waiting job needs on a node."""
    smallest: int | np.int64 = FAR
    count, gpus, work, wait = list_waiting(state), 0.0, 0.0, 0.0
    for index in range(count):
        row, job_columns = state.jobs[state.listed[index]], state.traits[state.listed[index]]
        smallest = min(smallest, np.int64(row.chunk))
        gpus += row.gpus
        work += max(1, row.gpus) * job_columns[LENGTH]
        wait += state.clock[NOW] - row.submit
        for trait in range(job_columns.size - 1):
            features[FIRST + trait // TRAITS * BLOCK + ALIKE + trait % TRAITS] += job_columns[1 + trait] / count
    features[FIRST + 2] = np.log1p(gpus / total)
    features[FIRST + 3] = 0.5 * np.log1p(work / total / HOUR_S)
    features[FIRST + 4] = 0.25 * np.log1p(wait / max(1, count) / SHORT_S)
    features[FIRST + 5] = 0.5 * np.log1p(count / state.nodes.size)
    features[MEAN_WAIT] = wait / max(1, count)
    return smallest


@compiled
def look_at_running(state: State) -> None:
    """Set for each node in how many seconds the last of its jobs is expected to end."""
    now = state.clock[NOW]
    for index in range(state.counts[RUNNING_JOBS]):
        job = state.heap[index]
        row, length = state.jobs[job], state.traits[job, LENGTH]
        # A job that has outlived its estimate tends to go on in proportion to its length.
        left = min(max(length - (now - row.since), 0.25 * length), max(0.0, row.estimate - now))
        for part in range(row.held, row.held + row.nodes_held):
            node = state.nodes[state.held[part].node]
            node.ends = max(node.ends, left)


@compiled
def decide_factors(weights: Floats, features: Floats) -> None:
    """Write the factors of each member behind its features."""
    for member in range(weights.size // SIZE):
        block = FIRST + member * BLOCK
        decide_factors_of(weights[member * SIZE:(member + 1) * SIZE], features[block:block + BLOCK])


@compiled
def decide_factors_of(weights: Floats, features: Floats) -> None:
    """Write the factors of one member behind its features."""
    for factor in range(FACTORS):
        features[FEATURES + factor] = weights[_BASE + factor]
    for unit in range(STATE_HIDDEN):
        value = weights[_STATE_BIAS + unit]
        for place in range(FEATURES):
            value += features[place] * weights[_STATE + place * STATE_HIDDEN + unit]
        value = soft(value)
        for factor in range(FACTORS):
            features[FEATURES + factor] += value * weights[_FACTORS + unit * FACTORS + factor]


@compiled
def _score(state: State, job: int) -> float:
    """Return a waiting job's score by the factors in ``features``; beyond the patience, by its age alone."""
    features, job_columns = state.scratch, state.traits[job]
    wait = state.clock[NOW] - state.jobs[job].submit
    if wait > state.weights[PATIENCE]:
        return -1e9 - wait
    value, pull, relative, trait = 0.0, 0.0, 0.0, LENGTH + 1
    for block in range(FIRST, features.size, BLOCK):
        for factor in range(block + FEATURES, block + FEATURES + TRAITS):
            value += features[factor] * job_columns[trait]
            trait += 1
        pull += features[block + FEATURES + TRAITS]
        relative += features[block + FEATURES + TRAITS + 1]
    return value - pull * np.log1p(wait / SHORT_S) - relative * min(8.0, wait / (features[MEAN_WAIT] + SHORT_S))


def score(state: State, job: int) -> float:
    """Return the score of a waiting job as the engine's sort key."""
    return float(_score(state, job))


def walk(state: State, key: Callable[..., float], place: Callable[..., int]) -> None:
    """Score the queue and go through it with EASY backfill."""
    if look(state):
        look_at_running(state)
        decide_factors(state.weights, state.scratch)
        count = rank_by_key(state, _score)
        go_through(state, place)
        rank_by_row(state, count)


@compiled
def rate(weights: Floats, row: np.record, gpus: int, length: float) -> float:
    """Return the score of one node for a job of so many GPUs there and so many seconds."""
    size = max(1.0, np.float64(row.gpus))
    later = np.log1p(length / HOUR_S) - np.log1p(row.ends / HOUR_S) if row.ends > 0.0 else 0.0
    shown = ((row.free_gpus - gpus) / size, 1.0 if row.free_gpus == gpus else 0.0,
             1.0 if row.free_gpus == row.gpus else 0.0, gpus / size, max(0.0, later), max(0.0, -later))
    value = 0.0
    for member in range(0, weights.size, SIZE):
        for place in range(PLACE_INPUTS):
            value += shown[place] * weights[member + _PLACE_LINEAR + place]
        for unit in range(PLACE_HIDDEN):
            before = weights[member + _PLACE_BIAS + unit]
            for place in range(PLACE_INPUTS):
                before += shown[place] * weights[member + _PLACE + place * PLACE_HIDDEN + unit]
            value += soft(before) * weights[member + _PLACE_SCORE + unit]
    return value


@compiled
def best(site: PlacementView, ask: Ask) -> int:
    """Return the candidate of lowest score that holds one chunk, -1 if none: the fast path for one node."""
    lowest: int | np.int64 = FAR
    best_node, least, rated = -1, FAR, 0
    length = site.traits[ask.job, LENGTH]
    for node in range(site.nodes.size):
        free = site.nodes[node].free_gpus
        if free < ask.gpus or (rated >= CANDIDATES and free >= least) or not fits(site, node, ask, ask.gpus):
            continue
        rated += 1
        least = min(least, free)
        score = np.int64(1e6 * rate(site.weights, site.nodes[node], ask.gpus, length))
        if score < lowest:
            best_node, lowest = node, score
    return best_node


def place(site: PlacementView, ask: Ask, chosen: Longs) -> int:
    """Choose the nodes of lowest score among those that fit; ties go to the lowest index."""
    if ask.chunks == 1 and ask.rest == 0:
        chosen[0] = best(site, ask)
        return 1 if chosen[0] >= 0 else 0
    least, rated, part = FAR, 0, ask.gpus if ask.rest == 0 else min(ask.gpus, ask.rest)
    length = site.traits[ask.job, LENGTH]
    for node in range(site.nodes.size):
        row = site.nodes[node]
        row.score = FAR
        if not fits(site, node, ask, part):
            continue
        if rated < CANDIDATES + ask.chunks or row.free_gpus < least:
            rated += 1
            least = min(least, row.free_gpus)
            row.score = np.int64(1e6 * rate(site.weights, row, part, length))
    return pick(site, ask, chosen)
