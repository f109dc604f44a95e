"""A choice among candidates by one small network."""

import numpy as np
import pytest

from idlewatt.daemon.agents.choice import Net


@pytest.mark.parametrize(("inputs", "hidden", "rows"), [(21, 16, 129), (3, 1, 1), (5, 8, 0)])
def test_compiled_scores_are_those_of_the_layers(inputs, hidden, rows):
    random, net = np.random.default_rng(inputs), Net(inputs, hidden)
    weights, values = random.normal(size=net.size), random.normal(size=(rows, inputs))
    values[:, 0] = 0.0
    linear, layer = weights[:inputs], weights[inputs:inputs * (1 + hidden)].reshape(inputs, hidden)
    bias, out = weights[inputs * (1 + hidden):-hidden], weights[-hidden:]
    before = values @ layer + bias
    np.testing.assert_allclose(net.scores(weights, values), values @ linear + before / (1 + np.abs(before)) @ out,
                               rtol=1e-12, atol=1e-12)


def test_equal_rows_have_equal_scores_wherever_they_stand():
    net = Net(4)
    rows = np.tile(np.random.default_rng(0).normal(size=4), (37, 1))
    assert len(set(net.scores(np.random.default_rng(1).normal(size=net.size), rows).tolist())) == 1
