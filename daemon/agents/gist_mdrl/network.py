"""The Q network, written once: the same lines run on numpy arrays (serving) and on torch tensors (training)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Singles
from ...replay.compiled import compiled_apart
from ..tensors import Array

Weights = dict[str, Singles]


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a Q network."""

    inputs: int
    actions: int
    # [15] The paper tells no network; two layers of 64 hold the 63 situations of its partitions with ease.
    hidden: tuple[int, ...] = (64, 64)
    dueling: bool = False
    """A value and an advantage instead of Q itself (Wang et al. 2016)."""


def initial(shape: Shape, random: np.random.Generator) -> Weights:
    """Return weights as He et al. (2015) draw them, the last layer's 0: "initially, Q values are set to 0" (§5.2)."""
    weights: Weights = {}
    before = shape.inputs
    for index, size in enumerate(shape.hidden):
        bound = np.sqrt(6.0 / before)
        weights[f"hidden{index}.weight"] = random.uniform(-bound, bound, (before, size)).astype(np.float32)
        weights[f"hidden{index}.bias"] = np.zeros(size, np.float32)
        before = size
    for head, size in {"q": shape.actions, **({"value": 1} if shape.dueling else {})}.items():
        weights[f"{head}.weight"] = np.zeros((before, size), np.float32)
        weights[f"{head}.bias"] = np.zeros(size, np.float32)
    return weights


def q_values(weights: Mapping[str, Array], states: Array) -> Array:
    """Return Q of every action, [..., actions], for states [..., inputs]."""
    layer, hidden = 0, states
    while f"hidden{layer}.weight" in weights:
        hidden = (hidden @ weights[f"hidden{layer}.weight"] + weights[f"hidden{layer}.bias"]).clip(min=0)
        layer += 1
    q = hidden @ weights["q.weight"] + weights["q.bias"]
    if "value.weight" in weights:
        q = q - q.mean(-1)[..., None] + hidden @ weights["value.weight"] + weights["value.bias"]
    return q


def advantages(weights: Mapping[str, Singles], state: Singles) -> Singles:
    """Return of one state what ranks its actions as ``q_values`` does, compiled: serving waits for it."""
    layer, hidden = 0, state
    while f"hidden{layer}.weight" in weights:
        hidden = _layer_of(weights, f"hidden{layer}", hidden, bends=True)
        layer += 1
    return _layer_of(weights, "q", hidden, bends=False)


def _layer_of(weights: Mapping[str, Singles], name: str, inputs: Singles, *, bends: bool) -> Singles:
    outputs = weights[f"{name}.bias"].copy()
    _layer(inputs, weights[f"{name}.weight"], outputs, bends)
    return outputs


@compiled_apart
def _layer(inputs: Singles, weights: Singles, outputs: Singles, bends: bool) -> None:
    """Add to the biases what inputs bring, and cut below 0 what ``bends``."""
    for row in range(inputs.size):
        value = inputs[row]
        for column in range(outputs.size):
            outputs[column] += value * weights[row, column]
    if bends:
        for column in range(outputs.size):
            outputs[column] = max(outputs[column], np.float32(0.0))
