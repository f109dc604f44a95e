"""The weights of the agent: the order of jobs, the division of nodes, and the ratings of node agents.

The order of jobs and the division of nodes are not in MAIFS' abstract; both are small and trained with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...agents.maifs.graph import ITERATIONS, LEVELS, conflicts, edges, repair, settle
from ...replay.arrays import Floats, Longs
from .arena import Round
from .graph import SHAPES, TAKE_PART, Rating, alliances, attend, embed, muster, price, rate
from .observation import PAIR_INPUTS

ORDER_INPUTS = ("log remaining", "log GPUs", "best speed", "log attained", "runs", "log remaining over drain",
                "log use beside", "blocks", "critical", "log GPUs, quiet", "critical, quiet")
ORDER_HIDDEN = 6
ALL_SHAPES: Mapping[str, tuple[int, ...]] = {
    **SHAPES, "order_direct": (len(ORDER_INPUTS),), "order_inner": (len(ORDER_INPUTS) + 1, ORDER_HIDDEN),
    "order_outer": (ORDER_HIDDEN,), "taste": (3,), "ally": (1,)}
NO_EDGES = np.zeros((0, 2), np.int64)
SIZE = sum(int(np.prod(shape)) for shape in ALL_SHAPES.values())

Weights = Mapping[str, Floats]


def unpacked(flat: Floats) -> Weights:
    """Return the arrays of a flat weight vector, by name."""
    ends = np.cumsum([int(np.prod(shape)) for shape in ALL_SHAPES.values()])
    parts = np.split(np.asarray(flat, np.float64), ends[:-1])
    return {name: np.ascontiguousarray(part.reshape(shape))
            for (name, shape), part in zip(ALL_SHAPES.items(), parts, strict=True)}


def initial(seed: int) -> Floats:
    """Return the initial weights of training: Synergy-tune's choice, and a rule of thumb.

    Shortest remaining service goes first; a task goes where the fewest GPUs stay free and the node gains most, at its
    best. A task of several nodes goes where it disturbs the fewest GPUs and finds its nodes at one leaf switch. It
    disturbs other jobs only for what it would lose to a second switch. The weights of the interaction of agents
    beyond that are random but have no effect yet.
    """
    draw = np.random.default_rng(seed)
    arrays = {name: draw.standard_normal(shape) * 0.3 for name, shape in ALL_SHAPES.items()}
    for silent in ("mix", "outer", "factor", "factor_reject", "reject", "order_outer", "taste"):
        arrays[silent] = np.zeros(ALL_SHAPES[silent])
    arrays["direct"] = np.concatenate([[-4.0, 0, 0, 0, 1.0, 3.0], np.zeros(PAIR_INPUTS - 9), [1.0, 0.5, -0.3],
                                       [2.0, 2.0, 2.2]])
    arrays["ally"] = np.log([100.0])
    arrays["order_direct"] = np.array([1.0, 1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    return np.concatenate([arrays[name].ravel() for name in ALL_SHAPES])


def keys(weights: Weights, round: Round) -> Floats:
    """Return the sort key of each live job, lowest first."""
    inputs = order_inputs(round)
    hidden = np.tanh(inputs @ weights["order_inner"][:-1] * 0.3 + weights["order_inner"][-1])
    return np.asarray(inputs @ weights["order_direct"] + hidden @ weights["order_outer"])


def order_inputs(round: Round) -> Floats:
    """Return the inputs of each live job for the order, [job, input]."""
    jobs, site, live = round.jobs, round.site, round.live
    left, gpus, total = jobs.left[live], jobs.gpus[live], site.nodes * site.size
    small = np.minimum(gpus, site.size)
    best = np.where(gpus > site.size, 1.0, site.rates[jobs.model[live], small, -1, -1])
    held = np.where(gpus > site.size, -(-gpus // site.size) * site.size, gpus)
    use, blocked = beside(held, total)
    drain = (left * held).sum() / total + 60.0
    log_left, log_held, calm = np.log(left + 1.0), np.log(held), quiet(round)
    critical = np.maximum(0.0, np.log((left + 60.0) / drain)) * (left / left.max()) ** 4 / (1.0 + blocked)
    return np.stack([
        log_left, log_held, np.log(best), 0.1 * np.log(jobs.attained[live] + 60.0), jobs.node[live] >= 0,
        0.3 * (log_left - np.log(drain)), 4.0 * np.log(use), 0.3 * np.log(1.0 + blocked), 6.0 * critical,
        0.3 * calm * log_held, 6.0 * calm * critical], axis=1)


def beside(held: Longs, total: int) -> tuple[Floats, Longs]:
    """Return for each job the largest share of GPUs in use while it runs, and the number of jobs it excludes."""
    order = np.sort(held)
    fitting = np.searchsorted(order, total - held, side="right")
    itself = 2 * held <= total
    others = np.append(0, np.cumsum(order))[fitting] - np.where(itself, held, 0)
    return np.minimum(held + others, total) / total, len(held) - fitting - ~itself


def quiet(round: Round) -> float:
    """Return the time since the last arrival, as a share of the time so far."""
    submit = round.jobs.submit
    since = round.now - submit[np.searchsorted(submit, round.now, side="right") - 1]
    return float(since / (round.now - submit[0] + round.site.round_s))


def joint(weights: Weights, inputs: Floats, pair: Floats, able: Floats, *, attentive: bool = True,
          coordinated: bool = True) -> Longs:
    """Return the candidate and level for each task, [task, 2], -1 for none; see :mod:`.graph`."""
    utility, factors, attention = _evaluate(weights, inputs, pair, able, attentive)
    joined = edges(attention, able, np.zeros(len(inputs), np.int64)) if coordinated else NO_EDGES
    return np.asarray(repair(settle(utility, joined, conflicts(factors, joined), ITERATIONS), utility, pair.shape[1]))


def together(weights: Weights, inputs: Floats, pair: Floats, leaf: Longs, wanted: int, stake: float, *,
             attentive: bool = True, coordinated: bool = True) -> Longs:
    """Return the candidates that share a task of several nodes, exactly the wanted number.

    ``leaf`` [candidate] is the switch of each; ``stake`` the part of its speed that the task loses to a second one.
    """
    able = np.zeros((len(inputs), 1, LEVELS))
    able[:, 0, -1] = 1.0
    utility, factors, attention = _evaluate(weights, inputs, pair, able, attentive)
    utility[:, TAKE_PART] -= price(utility, wanted)
    joined = edges(attention, able, leaf) if coordinated else NO_EDGES
    reward = float(np.exp(weights["ally"][0])) * stake if (leaf != leaf[0]).any() else 0.0
    payoffs = alliances(factors, joined, reward)
    return np.asarray(muster(settle(utility, joined, payoffs, ITERATIONS), utility, joined, payoffs, wanted))


def _evaluate(weights: Weights, inputs: Floats, pair: Floats, able: Floats, attentive: bool
              ) -> tuple[Floats, Floats, Floats]:
    """Return the agents' own utilities of actions, [agent, action], the payoff factors, and the attention."""
    inner = embed(inputs, weights["embed"])
    context, attention = attend(inner, weights["query"], weights["key"], weights["value"], weights["mix"])
    if not attentive:
        context, attention = inner, np.zeros_like(attention)
    utility, factors = rate(context, pair, able, Rating(*(weights[name] for name in Rating._fields)))
    return utility, factors, attention
