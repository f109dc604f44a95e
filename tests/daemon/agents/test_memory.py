"""What an agent remembers, and returns over several steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.agents.memory import ReplayMemory, Returns, Step, Transition
from idlewatt.daemon.agents.schedules import Linear


def step(number, reward=1.0):
    return Step(np.array([number], np.float32), np.array([True, False]), number, reward)


def transition(number):
    state = np.array([number], np.float32)
    return Transition(state, number % 2, float(number), 0.9, state + 1, np.array([True, False]))


def test_the_oldest_makes_room():
    memory = ReplayMemory(3, inputs=1, actions=2)
    for number in range(5):
        memory.add(transition(number))
    batch = memory.sample(100, np.random.default_rng(0))
    assert set(batch.reward.tolist()) == {2.0, 3.0, 4.0}
    assert (batch.next_state == batch.state + 1).all()


def test_a_restored_memory_goes_on_as_the_saved_one():
    one, other = ReplayMemory(3, 1, 2), ReplayMemory(3, 1, 2)
    for number in range(4):
        one.add(transition(number))
    other.restore(one.state())
    for memory in (one, other):
        memory.add(transition(9))
    assert all((mine == yours).all() for mine, yours in zip(
        one.sample(20, np.random.default_rng(1)), other.sample(20, np.random.default_rng(1)), strict=True))


def test_an_empty_memory_gives_nothing():
    with pytest.raises(ValueError):
        ReplayMemory(3, 1, 2).sample(1, np.random.default_rng(0))


def test_three_step_returns_sum_and_discount():
    returns = Returns(3, 0.5)
    made = [done for number in range(5) for done in returns.add(step(number))] + list(returns.end())
    assert [done.action for done in made] == [0, 1, 2, 3, 4]
    assert [done.reward for done in made] == [1.75, 1.75, 1.75, 1.5, 1.0]
    assert [done.discount for done in made] == [0.125, 0.125, 0.0, 0.0, 0.0]
    assert made[0].next_state[0] == 3


@given(steps=st.integers(1, 6), length=st.integers(1, 9))
def test_every_step_becomes_one_transition_and_no_episode_leaks_into_the_next(steps, length):
    returns = Returns(steps, 0.9)
    for _ in range(2):
        made = [done for number in range(length) for done in returns.add(step(number))] + list(returns.end())
        assert [done.action for done in made] == list(range(length))
        assert made[-1].discount == 0.0


def test_a_linear_schedule_stays_at_its_end():
    schedule = Linear(1.0, 0.0, 4)
    assert [schedule(number) for number in (0, 1, 4, 99)] == [1.0, 0.75, 0.0, 0.0]
    assert Linear(1.0, 0.2, 0)(0) == 0.2
