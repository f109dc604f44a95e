"""The model that a night's training goes on from."""

import json
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import CARD, read_card, save
from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.start_models import newest
from idlewatt.daemon.learning.training import TrainingJob
from idlewatt.storage.records import ModelCard

CARD_1 = ModelCard("site", "", 1e9, 7, "0.1.0", "", "", 9e8, 1e9, kind="plain")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store that knows the kind ``plain``, whose models are their cards."""
    plain = kinds.AgentKind("plain", lambda config: iter(()), lambda folder: read_card(folder / CARD))
    monkeypatch.setattr(kinds, "_KINDS", {"plain": plain})
    return ModelStore(tmp_path / "models")


def kept(store, tmp_path, trained_s, source="history"):
    card = replace(CARD_1, trained_s=trained_s, history_until_s=trained_s)
    save(tmp_path / "best", card, {"weights": np.ones(3, np.float32)}, {})
    TrainingJob("plain", source, 1.0).write(tmp_path / "best")
    return store.keep(tmp_path / "best", read_card(tmp_path / "best" / CARD))


def test_it_is_the_newest_that_learned_here_and_knows_nothing_of_the_days_that_judge(store, tmp_path):
    assert newest(store, "plain", 2e9) is None
    older = kept(store, tmp_path, 1e9)
    kept(store, tmp_path, 1.1e9, source="jobs.csv")
    newer = kept(store, tmp_path, 1.2e9)
    assert newest(store, "plain", 2e9) == newer.folder
    assert newest(store, "plain", 1.15e9) == older.folder
    assert newest(store, "other", 2e9) is None


def test_one_whose_card_was_changed_to_know_less_is_no_start(store, tmp_path):
    older, newer = kept(store, tmp_path, 1e9), kept(store, tmp_path, 1.2e9)
    card = json.loads((newer.folder / CARD).read_text())
    (newer.folder / CARD).write_text(json.dumps(card | {"history_until_s": 1.1e9}))
    assert newest(store, "plain", 1.15e9) == older.folder
