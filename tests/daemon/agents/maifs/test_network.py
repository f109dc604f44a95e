"""One network: what serving has compiled rates actions as what is trained does."""

import numpy as np
import pytest

from idlewatt.daemon.agents.maifs.network import (
    ACTION_INPUTS,
    NODE_INPUTS,
    SIZE,
    NodeWeights,
    forward,
    initial,
    rated,
    unpacked,
)


@pytest.mark.parametrize(("agents", "actions"), [(1, 3), (7, 6), (16, 12)])
def test_compiled_ratings_are_those_of_the_network(agents, actions):
    random = np.random.default_rng(agents)
    parts = unpacked(initial(random) + random.normal(size=SIZE))
    node_inputs = random.normal(size=(agents, len(NODE_INPUTS)))
    inputs = random.normal(size=(agents, actions, len(ACTION_INPUTS)))
    able = random.random((agents, actions)) < 0.7
    weights = NodeWeights(*(parts[name] for name in NodeWeights._fields))
    utility, factors, attention = rated(weights, node_inputs, inputs, able)
    refuse, accept, refusing, accepting, expected_attention, _ = forward(parts, node_inputs, inputs, np.ones(agents))
    np.testing.assert_allclose(utility[:, 0], refuse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(utility[:, 1:][able], accept[able], rtol=1e-9, atol=1e-12)
    assert (utility[:, 1:][~able] == -np.inf).all()
    np.testing.assert_allclose(factors[:, 0], refusing, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factors[:, 1:][able], accepting[able], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(attention, expected_attention, rtol=1e-9, atol=1e-12)
