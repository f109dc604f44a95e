"""What a training leaves: a model with all that it knows on its card, and room for the next one."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from sites import site

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import save
from idlewatt.daemon.agents.histories import split
from idlewatt.daemon.agents.kinds import AgentKind, Progress
from idlewatt.daemon.learning.learning_curve import CURVE
from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.training import (
    SHADOWS,
    ModelLimit,
    TrainingDirectory,
    TrainingJob,
    TrainingRun,
    make_room,
)
from idlewatt.daemon.learning.trials import TRIED, agent_on_trial, trials
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, states
from idlewatt.storage.records import ModelCard

TENTHS = [tenth / 10 for tenth in range(1, 11)]


@pytest.fixture(scope="module")
def parts():
    return split(site(days=10.0, jobs=400), seed=3)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A training that was begun, of a kind that takes ten steps and goes on where it was."""
    def train(config):
        for tenth in range(len(list(tmp_path.glob("step-*"))) + 1, 11):
            (tmp_path / f"step-{tenth}").touch()
            save(config.folder / "best", ModelCard("toy", "0", 0.0, 0, "", "", "", kind="toy"),
                 {"weights": np.ones(3, np.float32)}, {})
            yield Progress(tenth / config.budget_s, 1.0 - tenth / 100, saved=True)

    monkeypatch.setitem(kinds._KINDS, "toy", AgentKind("toy", train, lambda folder: None))
    directory = TrainingDirectory(ModelStore(tmp_path / "models"), "toy")
    directory.begin(TrainingJob("toy", "history", 10.0))
    return directory


def curve(directory, parts, **changes):
    """Train to the end, and return the curve that is on the card."""
    training_run = TrainingRun(replace(directory.interrupted(), **changes), parts, directory)
    list(training_run)
    return training_run.keep(ModelStore(directory.folder.parent.parent), 1.8e9).card.curve


def through(directory, parts, steps):
    for _ in islice(iter(TrainingRun(directory.interrupted(), parts, directory)), steps):
        pass


def test_a_training_that_was_interrupted_has_its_whole_curve(begun, parts):
    through(begun, parts, 3)
    through(begun, parts, 4)
    assert curve(begun, parts) == tuple((tenth, pytest.approx(1.0 - tenth / 10)) for tenth in TENTHS)


def test_one_that_was_killed_between_its_end_and_the_store_has_it_too(begun, parts):
    through(begun, parts, None)
    assert [share for share, _ in curve(begun, parts)] == TENTHS


def test_shares_of_a_budget_that_is_changed_are_those_of_the_new_one(begun, parts):
    through(begun, parts, 4)
    assert [share for share, _ in curve(begun, parts, budget_s=20.0)] == pytest.approx([share / 2 for share in TENTHS])


def test_shares_of_time_are_none_of_steps(begun, parts):
    through(begun, parts, 4)
    assert [share for share, _ in curve(begun, parts, steps=10)] == TENTHS[4:]


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b'{"budget": {"time_s": 10.0}, "points": [[NaN, 1.0]]}'])
def test_a_curve_that_is_damaged_ends_no_training(begun, parts, content):
    through(begun, parts, 3)
    (begun.folder / CURVE).write_bytes(content)
    assert [share for share, _ in curve(begun, parts)] == TENTHS[3:]


def test_where_a_curve_cannot_be_written_the_training_goes_on(begun, parts):
    (begun.folder / CURVE).mkdir()
    assert [share for share, _ in curve(begun, parts)] == TENTHS


def test_a_training_that_is_begun_anew_has_a_curve_of_its_own(begun, parts):
    through(begun, parts, 3)
    begun.begin(TrainingJob("toy", "history", 10.0))
    assert [share for share, _ in curve(begun, parts)] == TENTHS[3:]


def test_trainings_by_hand_do_not_end_the_trial_of_an_agent_of_their_kind(tmp_path):
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    History.open(url).close()
    with Ledger.open(url) as ledger:
        ledger.decide(Promotion(1.0, "chooser@1", Decision.SHADOW, "nightly", "", {TRIED: 0.0}))
        for number in range(2, 5):
            ledger.decide(Promotion(float(number), f"chooser@{number}", Decision.SHADOW, "operator", ""))
            make_room(ledger, ModelStore(tmp_path), ModelLimit("chooser", 1), "operator", float(number))
        decisions = ledger.decisions()
    assert agent_on_trial(trials(decisions, 5.0), "chooser").name == "chooser@1"
    left = [name for name, last in states(decisions).items() if last.decision is Decision.SHADOW]
    assert left == ["chooser@1", "chooser@3", "chooser@4"]
    assert len(left) == 1 + SHADOWS
