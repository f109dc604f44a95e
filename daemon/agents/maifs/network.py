"""The network of node agents, written once.

A node agent embeds its inputs, attends to the others, and rates each action: to take none, or one of the jobs at one
level of CPUs and memory. The value of a joint action is the sum of these utilities and of payoffs on the edges of a
coordination graph, products of low rank. ``forward`` runs on torch tensors (training) and numpy arrays alike; serving
uses ``rated``, the same in compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Masks
from ...replay.compiled import compiled, compiled_with_arrays
from ..tensors import Array
from .levels import LEVELS

TASKS, NOMINATED = 4, 4
"""Jobs of one joint decision, and nodes that are nominated for each."""
HIDDEN, HEADS, RANK = 8, 2, 4
NODE_INPUTS = ("free GPUs", "free CPUs", "free memory", "jobs", "empty", "reserved")
"""The inputs of a node: shares of its GPUs and CPUs, and of the site's largest free memory; whether a job awaits it."""
ACTION_INPUTS = ("run", "GPUs", "waited", "CPUs over use", "GPUs left over", "fills", "opens", "CPUs left over",
                 "memory left over", "strands", "beside", "beside it", "speed", "CPUs saved", *LEVELS)
"""The inputs of taking a job at a level: its guessed run time, its GPUs, its wait, by how many more CPUs it asks for
than it uses; what stays free of the node, if anything, whether the node was empty; GPUs that stay without CPUs or
memory; what its neighbours cost it and it costs them; its speed beside that with what it requested; the CPUs that it
leaves to others; the level."""
OF_JOB = ACTION_INPUTS.index("GPUs left over")
"""Inputs before this one are those of the job alone."""
ORDER = ("run", "GPUs", "waited")
"""What the order of the queue goes by: logarithms of the run time as guessed and of the GPUs, and the wait in hours."""
MOST_SCORE = 10.0
"""Bound of attention scores."""
SHAPES: Mapping[str, tuple[int, ...]] = {
    "order": (len(ORDER),), "embed": (len(NODE_INPUTS), HIDDEN), "embed_bias": (HIDDEN,),
    "query": (HEADS, HIDDEN, HIDDEN // HEADS), "key": (HEADS, HIDDEN, HIDDEN // HEADS),
    "value": (HEADS, HIDDEN, HIDDEN), "reject": (HIDDEN,), "reject_bias": (1,), "from_agent": (HIDDEN, HIDDEN),
    "from_action": (len(ACTION_INPUTS), HIDDEN), "action_bias": (HIDDEN,), "direct": (len(ACTION_INPUTS),),
    "outer": (HIDDEN,), "factor": (HIDDEN, RANK), "factor_reject": (HIDDEN, RANK), "critic": (HIDDEN,),
    "critic_bias": (1,)}
"""The shapes of the weights, by name."""
SIZE = sum(math.prod(shape) for shape in SHAPES.values())
SILENT = frozenset({"order", "embed_bias", "value", "reject", "reject_bias", "action_bias", "direct", "outer", "factor",
                    "factor_reject", "critic", "critic_bias"})
"""Weights that start at 0, so that random weights have no effect yet."""
_ENDS = tuple(np.cumsum([math.prod(shape) for shape in SHAPES.values()]).tolist())


def unpacked(flat: Array) -> dict[str, Array]:
    """Return the arrays by name that a flat vector holds, as views."""
    begins = (0, *_ENDS[:-1])
    return {name: flat[begin:end].reshape(shape)
            for (name, shape), begin, end in zip(SHAPES.items(), begins, _ENDS, strict=True)}


def initial(random: np.random.Generator) -> Floats:
    """Return weights whose random hidden layers have no effect yet."""
    drawn = [np.zeros(shape) if name in SILENT else random.standard_normal(shape) / math.sqrt(shape[-2])
             for name, shape in SHAPES.items()]
    return np.concatenate([array.ravel() for array in drawn])


def forward(weights: Mapping[str, Array], node_inputs: Array, actions: Array, present: Array,
             ) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return the outputs of the network for node agents; any number of leading axes.

    ``node_inputs`` is [agent, input], ``actions`` [agent, action, input], ``present`` [agent] 0.0 for padding, or 1.0.
    Returned are the utilities of taking none [agent] and of each action [agent, action], the factors of both, attention
    [agent, other], and embeddings [agent, hidden].
    """
    inner = _bent(node_inputs @ weights["embed"] + weights["embed_bias"])
    context, attention = inner, present[..., None, :] * 0.0
    for head in range(HEADS):
        query, key = inner @ weights["query"][head], inner @ weights["key"][head]
        scores = MOST_SCORE * _bent(query @ key.swapaxes(-1, -2) / (MOST_SCORE * math.sqrt(HIDDEN // HEADS)))
        share = math.e ** scores * present[..., None, :]
        share = share / share.sum(-1)[..., None]
        context = context + share @ (inner @ weights["value"][head])
        attention = attention + share / HEADS
    hidden = _bent((context @ weights["from_agent"])[..., None, :] + actions @ weights["from_action"]
                   + weights["action_bias"])
    accept = actions @ weights["direct"] + hidden @ weights["outer"]
    return (context @ weights["reject"] + weights["reject_bias"], accept, context @ weights["factor_reject"],
            hidden @ weights["factor"], attention, context)


def _bent(values: Array) -> Array:
    return values / (1.0 + abs(values))


class NodeWeights(NamedTuple):
    """The weights for serving, as compiled code takes them."""

    embed: Floats
    embed_bias: Floats
    query: Floats
    key: Floats
    value: Floats
    reject: Floats
    reject_bias: Floats
    from_agent: Floats
    from_action: Floats
    action_bias: Floats
    direct: Floats
    outer: Floats
    factor: Floats
    factor_reject: Floats


@compiled_with_arrays
def rated(weights: NodeWeights, node_inputs: Floats, actions: Floats, able: Masks) -> tuple[Floats, Floats, Floats]:
    """Return utilities, factors and attention as ``forward`` does; action 0 is to take none.

    The utility of what cannot be is -inf, its factors are 0.
    """
    count, wide = able.shape
    inner, context = np.zeros((count, HIDDEN)), np.zeros((count, HIDDEN))
    for agent in range(count):
        _layer(node_inputs[agent], weights.embed, weights.embed_bias, inner[agent])
        context[agent] = inner[agent]
    attention = _attended(weights, inner, context)
    utility, factors = np.full((count, wide + 1), -np.inf), np.zeros((count, wide + 1, RANK))
    agent_term, hidden = np.zeros(HIDDEN), np.zeros(HIDDEN)
    for agent in range(count):
        utility[agent, 0] = _product(context[agent], weights.reject) + weights.reject_bias[0]
        _add(context[agent], weights.factor_reject, factors[agent, 0])
        agent_term[:] = weights.action_bias
        _add(context[agent], weights.from_agent, agent_term)
        for action in range(wide):
            if able[agent, action]:
                _layer(actions[agent, action], weights.from_action, agent_term, hidden)
                utility[agent, action + 1] = _product(actions[agent, action], weights.direct) + _product(
                    hidden, weights.outer)
                _add(hidden, weights.factor, factors[agent, action + 1])
    return utility, factors, attention


@compiled_with_arrays
def _attended(weights: NodeWeights, inner: Floats, context: Floats) -> Floats:
    """Return attention, [agent, other], and add the attended values to ``context``."""
    count, wide = inner.shape[0], HIDDEN // HEADS
    attention, share, total = np.zeros((count, count)), np.zeros(count), np.zeros(HIDDEN)
    for head in range(HEADS):
        query, key = np.zeros((count, wide)), np.zeros((count, wide))
        for agent in range(count):
            _add(inner[agent], weights.query[head], query[agent])
            _add(inner[agent], weights.key[head], key[agent])
        for agent in range(count):
            for other in range(count):
                score = _product(query[agent], key[other]) / (MOST_SCORE * math.sqrt(wide))
                share[other] = math.exp(MOST_SCORE * score / (1.0 + abs(score)))
            share /= share.sum()
            total[:] = 0.0
            for other in range(count):
                attention[agent, other] += share[other] / HEADS
                for unit in range(HIDDEN):
                    total[unit] += share[other] * inner[other, unit]
            _add(total, weights.value[head], context[agent])
    return attention


@compiled
def _add(inputs: Floats, weights: Floats, outputs: Floats) -> None:
    """Add the product of inputs and weights, [input, output], to the outputs."""
    for place in range(inputs.size):
        for unit in range(outputs.size):
            outputs[unit] += inputs[place] * weights[place, unit]


@compiled
def _layer(inputs: Floats, weights: Floats, bias: Floats, outputs: Floats) -> None:
    """Fill in the outputs of a layer with softsign activation."""
    for unit in range(outputs.size):
        outputs[unit] = bias[unit]
    _add(inputs, weights, outputs)
    for unit in range(outputs.size):
        outputs[unit] /= 1.0 + abs(outputs[unit])


@compiled
def _product(one: Floats, other: Floats) -> float:
    total = 0.0
    for place in range(one.size):
        total += one[place] * other[place]
    return total
