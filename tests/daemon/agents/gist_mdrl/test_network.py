"""One network, on numpy and on torch."""

import numpy as np
import pytest
import torch

from idlewatt.daemon.agents.gist_mdrl.network import Shape, advantages, initial, q_values


@pytest.mark.parametrize("dueling", [False, True])
def test_numpy_and_torch_agree(dueling):
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=array.shape).astype(np.float32)
               for name, array in initial(Shape(6, 9, (64, 64), dueling), random).items()}
    states = random.random((50, 6)).astype(np.float32)
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    np.testing.assert_allclose(q_values(weights, states), q_values(tensors, torch.from_numpy(states)).numpy(),
                               rtol=1e-5, atol=1e-4)


def test_initially_every_q_is_0():
    weights = initial(Shape(6, 9), np.random.default_rng(0))
    assert not q_values(weights, np.ones((3, 6), np.float32)).any()


def test_a_dueling_network_splits_value_and_advantage():
    weights = initial(Shape(2, 3, (4,), dueling=True), np.random.default_rng(0))
    weights["value.bias"][:] = 5.0
    weights["q.bias"][:] = (1.0, 2.0, 3.0)
    assert q_values(weights, np.zeros(2, np.float32)).tolist() == [4.0, 5.0, 6.0]


@pytest.mark.parametrize("dueling", [False, True])
def test_compiled_advantages_rank_actions_as_their_values_do(dueling):
    random = np.random.default_rng(1)
    weights = {name: random.normal(size=array.shape).astype(np.float32)
               for name, array in initial(Shape(6, 9, (64, 64), dueling), random).items()}
    for state in random.random((50, 6)).astype(np.float32):
        q = q_values(weights, state)
        np.testing.assert_allclose(advantages(weights, state) - advantages(weights, state).max(), q - q.max(),
                                   rtol=1e-4, atol=1e-3)
