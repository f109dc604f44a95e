"""Demotions that are noted beside the models, and what a database that forgot them is told."""

import os

import pytest

from idlewatt.daemon.learning.models import ModelError
from idlewatt.daemon.learning.noted_demotions import DEMOTED, noted, recall
from idlewatt.storage.promotions import Decision, Promotion

PROMOTED = Promotion(10.0, "scorer@1", Decision.PROMOTE, "nightly", "better")
DEMOTED_ONCE = Promotion(20.0, "scorer@1", Decision.DEMOTE, "daemon", "it has become worse")


def after(decisions, models, database="ours"):
    """Return the decisions after a recall."""
    found = list(decisions)
    recall(found.append, tuple(decisions), models, database)
    return found


def test_a_demotion_that_the_database_has_forgotten_is_decided_once_more(tmp_path):
    assert after([PROMOTED, DEMOTED_ONCE], tmp_path) == [PROMOTED, DEMOTED_ONCE]
    *_, again = after([PROMOTED], tmp_path)
    assert (again.model, again.time_s, again.decision, again.by) == ("scorer@1", 20.0, Decision.DEMOTE, "daemon")
    assert again.reason.startswith("it has become worse (decided once more: ")
    assert after([PROMOTED, again], tmp_path) == [PROMOTED, again], "and only once"


def test_another_database_that_shares_the_folder_demotes_nothing_here_and_forgets_nothing_of_ours(tmp_path):
    after([PROMOTED, DEMOTED_ONCE], tmp_path)
    assert after([PROMOTED], tmp_path, "theirs") == [PROMOTED]
    assert len(after([PROMOTED], tmp_path)) == 2


@pytest.mark.parametrize("restored", [
    [], [Promotion(5.0, "scorer@1", Decision.SHADOW, "nightly", "")],
    [PROMOTED, Promotion(30.0, "scorer@1", Decision.PROMOTE, "operator", "I have seen why")]])
def test_what_is_not_active_or_was_made_active_afterwards_stays(tmp_path, restored):
    after([PROMOTED, DEMOTED_ONCE], tmp_path)
    assert after(restored, tmp_path) == restored


def test_what_an_operator_made_active_again_is_noted_no_more(tmp_path):
    after([PROMOTED, DEMOTED_ONCE], tmp_path)
    assert [one.model for one in noted(tmp_path)] == ["scorer@1"]
    after([PROMOTED, DEMOTED_ONCE, Promotion(30.0, "scorer@1", Decision.PROMOTE, "operator", "")], tmp_path)
    assert noted(tmp_path) == ()


@pytest.mark.parametrize("content", [
    None, b"", b"[[1]]", b'[{"time_s": 1e300, "model": "a@1", "database": "ours", "by": "", "reason": ""}]'])
def test_a_damaged_note_is_named_and_decides_nothing(tmp_path, content):
    (tmp_path / DEMOTED).parent.mkdir()
    if content is None:
        os.mkfifo(tmp_path / DEMOTED)
    else:
        (tmp_path / DEMOTED).write_bytes(content)
    with pytest.raises(ModelError, match=r"demotions\.json: which policies were demoted cannot be read"):
        after([PROMOTED], tmp_path)
