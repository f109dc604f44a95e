"""Which models jobs of traces train, and what neighbours and leaf switches cost these."""

import numpy as np
import pytest

from idlewatt.daemon.replay.speed_priors import TASKS
from idlewatt.daemon.reproduce.maifs import models
from idlewatt.daemon.reproduce.maifs.models import MODELS, SHARES


def test_jobs_are_drawn_by_the_shares_of_their_tasks():
    found = np.array(MODELS)[models.drawn(20_000, np.random.default_rng(0))]
    for task, share in SHARES.items():
        assert np.isin(found, TASKS[task]).mean() == pytest.approx(share, abs=0.01)


def test_unmeasured_neighbours_have_no_effect():
    left = models.interference()
    language, image, speech = (MODELS.index(model) for model in ("gnmt", "alexnet", "m5"))
    assert left[language, language] == 0.65
    assert left[image, language] == 0.85
    assert (left[speech] == 1).all()
    assert (left[:, speech] == 1).all()


def test_a_second_leaf_switch_costs_what_communication_was_measured_to_take_and_never_stops_anybody():
    kept = models.crossing()
    assert (kept[:, 0] == 1).all()
    assert (np.diff(kept, axis=1) < 0).all()
    assert kept.min() > 0.5
    assert kept[MODELS.index("gnmt"), 1] == pytest.approx(1.89 / (1 + 0.89 * 1.2), abs=0.005)  # as BERT
    assert kept[MODELS.index("resnet50"), 1] == pytest.approx(1.12 / (1 + 0.12 * 1.2), abs=0.005)
