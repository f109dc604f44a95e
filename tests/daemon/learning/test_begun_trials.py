"""Trials that are noted beside the models, and what a database that forgot them is told."""

import pytest

from idlewatt.daemon.learning.begun_trials import BEGUN, note, noted, recall
from idlewatt.daemon.learning.models import ModelError
from idlewatt.daemon.learning.trials import TRIED, YEAR_S, trials
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, active_model, states

NOW = 2 * YEAR_S


@pytest.fixture
def ledger(tmp_path):
    History.open(f"sqlite:///{tmp_path}/idlewatt.db").close()
    with Ledger.open(f"sqlite:///{tmp_path}/idlewatt.db") as opened:
        yield opened


def test_what_was_forgotten_is_over_and_counts_once_and_who_is_active_stays(ledger, tmp_path):
    note(tmp_path, [("scorer@1", NOW - 10.0), ("fifo+best-fit+easy", NOW - 20.0)], NOW)
    ledger.decide(Promotion(NOW - 5.0, "fifo+best-fit+easy", Decision.PROMOTE, "operator", "", {}))
    assert "forgotten 2 trials" in recall(ledger, tmp_path, NOW)
    assert recall(ledger, tmp_path, NOW) == ""
    decisions = ledger.decisions()
    assert {one.name for one in trials(decisions, NOW) if one.over} == {"scorer@1", "fifo+best-fit+easy"}
    assert states(decisions)["scorer@1"].decision is Decision.REFUSE
    assert active_model(states(decisions)) == "fifo+best-fit+easy"


def test_trials_that_the_database_has_are_noted_and_those_of_another_year_dropped(ledger, tmp_path):
    note(tmp_path, [("scorer@0", NOW - YEAR_S - 1.0)], NOW - YEAR_S)
    ledger.decide(Promotion(NOW, "scorer@1", Decision.SHADOW, "nightly", "", {TRIED: NOW - 10.0}))
    assert recall(ledger, tmp_path, NOW) == ""
    assert noted(tmp_path) == (("scorer@1", NOW - 10.0),)
    assert len(ledger.decisions()) == 1


@pytest.mark.parametrize("content", [b"", b"[[1]]", b"\xff", b"null", b'[["scorer@1", NaN]]', b'[["scorer@1", 1e400]]'])
def test_a_damaged_note_is_named_and_nothing_is_decided(ledger, tmp_path, content):
    note(tmp_path, [("scorer@1", NOW)], NOW)
    (tmp_path / BEGUN).write_bytes(content)
    with pytest.raises(ModelError, match=r"trials\.json: which trials have begun cannot be read"):
        recall(ledger, tmp_path, NOW)
    assert ledger.decisions() == ()
