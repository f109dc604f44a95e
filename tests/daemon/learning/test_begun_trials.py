"""Trials that are noted beside the models, and what a database that forgot them is told."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from idlewatt.daemon.learning.begun_trials import BEGUN, note, noted, noted_as_begun, recall
from idlewatt.daemon.learning.models import ModelError
from idlewatt.daemon.learning.trials import TRIED, YEAR_S, trials
from idlewatt.storage.errors import StoreUnavailable
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
    note(tmp_path, [("scorer@0", NOW - YEAR_S - 20.0)], NOW - YEAR_S)
    ledger.decide(Promotion(NOW, "scorer@1", Decision.SHADOW, "nightly", "", {TRIED: NOW - 10.0}))
    assert recall(ledger, tmp_path, NOW) == ""
    assert noted(tmp_path) == (("scorer@1", NOW - 10.0),)
    assert len(ledger.decisions()) == 1


@pytest.mark.parametrize("content", [b"", b"[[1]]", b"\xff", b"null", b'[["scorer@1", NaN]]', b'[["scorer@1", 1e400]]',
                                     b'[["scorer@1", 1e300]]', b"[" * 100_000, b"[" + b" " * (2 << 20) + b"]"])
def test_a_damaged_note_is_named_and_nothing_is_decided(ledger, tmp_path, content):
    note(tmp_path, [("scorer@1", NOW)], NOW)
    (tmp_path / BEGUN).write_bytes(content)
    with pytest.raises(ModelError, match=r"trials\.json: which trials have begun cannot be read"):
        recall(ledger, tmp_path, NOW)
    assert ledger.decisions() == ()


def test_a_night_whose_clock_is_years_ahead_drops_no_trial_from_the_note(ledger, tmp_path):
    note(tmp_path, [("scorer@1", NOW - 10.0), ("scorer@2", NOW)], NOW)
    assert recall(ledger, tmp_path, NOW + 2 * YEAR_S) == ""
    assert "forgotten 2 trials" in recall(ledger, tmp_path, NOW + 60.0)


@pytest.mark.parametrize("made", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
def test_what_is_no_plain_file_is_a_damaged_note_and_nobody_waits_for_it(ledger, tmp_path, made):
    (tmp_path / BEGUN).parent.mkdir()
    made(tmp_path / BEGUN)
    with pytest.raises(ModelError, match=r"trials\.json: which trials have begun cannot be read"):
        recall(ledger, tmp_path, NOW)


def test_every_trial_of_a_name_that_was_forgotten_counts_at_once(ledger, tmp_path):
    begun = [("fifo+best-fit+easy", NOW - number * 80 * 86400.0) for number in range(4)]
    note(tmp_path, begun, NOW)
    assert "forgotten 4 trials" in recall(ledger, tmp_path, NOW)
    assert {(one.name, one.since_s) for one in trials(ledger.decisions(), NOW)} == set(begun)
    assert recall(ledger, tmp_path, NOW + 60) == "", "and is not forgotten the next night"


def test_who_is_active_keeps_all_that_its_place_rests_on(ledger, tmp_path):
    ledger.decide(Promotion(NOW - 5.0, "scorer@1", Decision.PROMOTE, "operator", "watched it", {"incumbent": "fifo"}))
    note(tmp_path, [("scorer@1", NOW - 10.0)], NOW)
    recall(ledger, tmp_path, NOW)
    last = states(ledger.decisions())["scorer@1"]
    assert (last.decision, last.by, last.time_s) == (Decision.PROMOTE, "operator", NOW - 5.0)
    assert last.figures == {"incumbent": "fifo", TRIED: NOW - 10.0}


@pytest.mark.parametrize(("fault", "kept"), [(StoreUnavailable("full"), False), (KeyboardInterrupt(), True)])
def test_a_first_look_that_the_database_refuses_was_none_and_any_other_end_of_a_night_counts(tmp_path, fault, kept):
    known, trial = ("scorer@1", NOW - 10.0), ("scorer@2", NOW)

    def looked_at(one):
        with noted_as_begun(tmp_path, [one], NOW):
            assert one in noted(tmp_path)
            raise fault

    note(tmp_path, [known], NOW)
    for one in (known, trial):
        with pytest.raises(type(fault)):
            looked_at(one)
    assert noted(tmp_path) == ((known, trial) if kept else (known,))


def test_the_documented_restore_keeps_the_newer_note_and_brings_back_models_that_are_gone(tmp_path):
    backup, lived = tmp_path / "backup/models", tmp_path / "lived/models"
    for models in (backup, lived):
        note(models, [("scorer@1", NOW - 10.0)], NOW)
    (backup / "scorer/1").mkdir(parents=True)
    note(lived, [("scorer@2", NOW)], NOW)
    page = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    (command,) = re.findall(r"^test ! -d /backup/models .*$", page, re.MULTILINE)
    command = command.replace("/backup", str(backup.parent)).replace("/var/lib/idlewatt", str(lived.parent))
    subprocess.run(["sh", "-c", command], check=True)
    assert [name for name, _ in noted(lived)] == ["scorer@1", "scorer@2"]
    assert (lived / "scorer/1").is_dir()
