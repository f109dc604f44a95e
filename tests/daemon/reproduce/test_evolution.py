"""One trainer evolves the agents of all papers: the same way each time, never for the worse, on from where it was."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.reproduce.evolution import (
    EvolutionConfig,
    Momentum,
    card_of,
    one_stream,
    stream_of_each,
    train,
)

GOAL = np.array([1.0, -2.0, 3.0])
SHORT = EvolutionConfig(1, rounds=8, pairs=3, at_once=2, chosen_every=2, noise=0.1, rate=0.3, pool=6)
CONFIGS = [SHORT, replace(SHORT, random_streams=stream_of_each),
           replace(SHORT, pool=None, optimiser=Momentum, goes_back=True)]


class Hills:
    """How far weights are from a goal, in another light for each number."""

    described = {"goal": GOAL.tolist()}

    def __init__(self):
        self.asked = []

    def initial(self):
        return np.zeros(3)

    def learned_from(self, numbers):
        self.asked.append(list(numbers))
        return lambda weights: float(((weights - GOAL) ** 2).sum() * (1 + 0.1 * sum(numbers)))

    def chosen_by(self):
        return lambda weights: float(((weights - GOAL) ** 2).sum())


@pytest.mark.parametrize("config", CONFIGS)
def test_a_training_comes_nearer_and_keeps_the_best(config):
    steps = list(train(config, Hills()))
    assert [step.round for step in steps] == [0, 2, 4, 6, 8]
    assert steps[0].score == 14.0
    assert steps[-1].least < 14.0
    assert Hills().chosen_by()(steps[-1].best) == steps[-1].least
    assert np.array_equal(steps[-1].first, np.zeros(3))


@pytest.mark.parametrize("config", CONFIGS)
def test_the_same_seed_gives_the_same_weights_and_another_one_others(config):
    first, again, other = (list(train(each, Hills()))[-1].best for each in (config, config, replace(config, seed=2)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("looks", [1, 2, 4])
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(tmp_path, config, looks):
    whole = list(train(config, Hills()))[-1]
    list(islice(train(config, Hills(), tmp_path), looks))
    resumed = list(train(config, Hills(), tmp_path))[-1]
    assert np.array_equal(resumed.best, whole.best)
    assert resumed.curve == whole.curve
    assert [step.round for step in train(config, Hills(), tmp_path)] == [8]


def test_a_folder_of_another_training_is_refused(tmp_path):
    list(train(SHORT, Hills(), tmp_path))
    with pytest.raises(CheckpointError, match="other settings"):
        next(train(replace(SHORT, pairs=4), Hills(), tmp_path))


def test_replays_are_drawn_from_a_pool_or_new_in_every_round():
    drawn, new = Hills(), Hills()
    list(train(SHORT, drawn))
    list(train(replace(SHORT, pool=None), new))
    assert all(len(set(numbers)) == 2 and max(numbers) < 6 for numbers in drawn.asked)
    assert new.asked == [[2 * number, 2 * number + 1] for number in range(1, 9)]


def test_some_weights_may_be_learned_first():
    config = replace(SHORT, first=np.array([0.0, 1.0, 0.0]), first_rounds=0.5)
    steps = list(train(config, Hills()))
    assert steps[2].best[[0, 2]].tolist() == [0.0, 0.0]
    assert steps[2].best[1] != 0.0
    assert steps[-1].best[0] != 0.0


def test_a_training_that_goes_back_continues_from_the_best_weights_without_momentum():
    far = replace(SHORT, optimiser=Momentum, rate=40.0, chosen_every=1)
    wandering, returning = (list(train(replace(far, goes_back=back), Hills())) for back in (False, True))
    assert returning[-1].curve[:2] == wandering[-1].curve[:2]
    assert returning[1].score > 14.0
    assert returning[2].score < wandering[2].score


def test_a_round_has_its_own_random_stream_or_continues_a_common_one():
    assert len({random.integers(1 << 40) for random in islice(one_stream(1), 3)}) == 3
    later = list(islice(stream_of_each(1), 3))[2]
    assert later.integers(1 << 40) == np.random.default_rng([1, 2]).integers(1 << 40)


def test_a_card_has_the_curve_and_the_best_score():
    step = list(train(SHORT, Hills()))[-1]
    card = card_of("dl2", SHORT, step, "jct_slots", "hills")
    assert card.metrics == {"jct_slots": step.least}
    assert [share for share, _ in card.curve] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert card.seed == 1
