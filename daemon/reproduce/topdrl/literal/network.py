"""The multi-branch network; the same code runs on numpy arrays (acting) and torch tensors (training).

Each convolution steps by as much as it sees, GPUs of a node, nodes of a leaf, one job of the queue, so that it is a
product with a matrix. The paper tells no layer; sizes and order are ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ....agents.tensors import Array
from .kernel import PAINTS, QUEUE, ROWS, SUMMARY

Weights = dict[str, NDArray[np.float32]]

GPUS, NODES, PER_NODE, PER_LEAF = 64, 16, 4, 4
"""Size of the only cluster that this network can act on."""
ACTIONS = ROWS + 1
"""Number of actions: one for each job of the queue, and one for waiting."""
_SHAPES = {
    "node": (len(PAINTS) * PER_NODE, 16), "leaf": (16 * PER_LEAF, 16),
    "job": (len(QUEUE), 24), "job2": (24, 12),
    "summary": (len(SUMMARY), 16),
    "all": (16 * NODES // PER_LEAF + 12 * ROWS + 16, 64),
    "row": (24 + 64, 32), "choice": (32, 1), "wait": (64, 1), "value": (64, 1)}


def initial(seed: int) -> Weights:
    """Return initial weights after He et al. (2015); those of the last layers are 0."""
    draw, weights = np.random.default_rng(seed), {}
    for name, (before, size) in _SHAPES.items():
        bound = 0.0 if name in ("choice", "wait", "value") else np.sqrt(6.0 / before)
        weights[f"{name}.weight"] = draw.uniform(-bound, bound, (before, size)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(size, np.float32)
    return weights


def forward(weights: Mapping[str, Array], canvas: Array, queue: Array, summary: Array) -> tuple[Array, Array, Array]:
    """Return logits of jobs [batch, row] and of waiting [batch, 1], and values [batch].

    The inputs are the canvas [batch, node, paint x GPU], the queue [batch, row, input] and the summary [batch, input].
    """
    def layer(name: str, inputs: Array) -> Array:
        return (inputs @ weights[f"{name}.weight"] + weights[f"{name}.bias"]).clip(min=0)

    count = len(canvas)
    nodes = layer("node", canvas)
    leaves = layer("leaf", nodes.reshape(count, NODES // PER_LEAF, -1)).reshape(count, -1)
    jobs = layer("job", queue)
    waiting = layer("job2", jobs).reshape(count, -1)
    # The three branches side by side; a sum of products is the same in numpy and torch, a concatenation is not.
    joined, first, second = weights["all.weight"], leaves.shape[1], leaves.shape[1] + waiting.shape[1]
    total = leaves @ joined[:first] + waiting @ joined[first:second] + layer("summary", summary) @ joined[second:]
    hidden = (total + weights["all.bias"]).clip(min=0)
    # Each job once more, in the light of all: the last convolution over the queue.
    job_weights, light = weights["row.weight"][:jobs.shape[2]], weights["row.weight"][jobs.shape[2]:]
    rows = (jobs @ job_weights + (hidden @ light)[:, None] + weights["row.bias"]).clip(min=0)
    chosen = (rows @ weights["choice.weight"] + weights["choice.bias"])[:, :, 0]
    return (chosen, hidden @ weights["wait.weight"] + weights["wait.bias"],
            (hidden @ weights["value.weight"] + weights["value.bias"])[:, 0])
