"""The policy and the value network: the same lines run on numpy arrays and on torch tensors (training)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...agents.tensors import Array
from .flat_kernel import PER_JOB, DecisionScratch, PolicyNetwork

Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """Size of the networks, which are flat and therefore tied to their window of jobs."""

    window: int = 20
    """Number of jobs in the window, J (§6.2, for 48 nodes)."""
    hidden: int = 128
    """Units of each of the two hidden layers; the paper has 256, which takes three times as long."""

    @property
    def inputs(self) -> int:
        """Return the number of inputs in a state."""
        return self.window * PER_JOB

    @property
    def actions(self) -> int:
        """Return the number of actions, 3J + 1: worker, server or bundle for each job, or the end of the slot."""
        return 3 * self.window + 1


def initial(shape: NetworkSize, outputs: int, random: np.random.Generator) -> Weights:
    """Return initial weights after He et al. (2015); the last layer is 0, so all actions are equally likely."""
    weights: Weights = {}
    before = shape.inputs
    for name in ("first", "second"):
        bound = np.sqrt(6.0 / before)
        weights[f"{name}.weight"] = random.uniform(-bound, bound, (before, shape.hidden)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape.hidden, np.float32)
        before = shape.hidden
    weights["out.weight"] = np.zeros((before, outputs), np.float32)
    weights["out.bias"] = np.zeros(outputs, np.float32)
    return weights


def outputs(weights: Mapping[str, Array], states: Array) -> Array:
    """Return the last layer, [..., outputs], for states [..., inputs]: scores of actions, or the value."""
    hidden = states
    for name in ("first", "second"):
        hidden = (hidden @ weights[f"{name}.weight"] + weights[f"{name}.bias"]).clip(min=0)
    return hidden @ weights["out.weight"] + weights["out.bias"]


def compiled_form(weights: Weights) -> PolicyNetwork:
    """Return the weights in the form that compiled code reads; the arrays are shared, not copied."""
    return PolicyNetwork(weights["first.weight"], weights["first.bias"], weights["second.weight"],
                         weights["second.bias"], weights["out.weight"], weights["out.bias"])


def desk(shape: NetworkSize) -> DecisionScratch:
    """Return scratch arrays for one decision."""
    return DecisionScratch(np.empty(shape.window, np.int64), np.empty(shape.inputs, np.float32),
                           np.empty(shape.actions, np.bool_), np.empty(shape.hidden, np.float32),
                           np.empty(shape.hidden, np.float32), np.empty(shape.actions, np.float32),
                           np.empty(shape.actions))
