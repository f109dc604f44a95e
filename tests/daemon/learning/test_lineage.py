"""Which days a model has seen, whoever of its ancestors saw them and under whatever name."""

import os

import pytest

from idlewatt.daemon.agents.kinds import TrainingError
from idlewatt.daemon.learning.lineage import LearnedSpan, joined, known_until, undated
from idlewatt.daemon.learning.training import ORDER, TrainingJob

DATED_S = 1_795_219_200.0
HISTORY = LearnedSpan("history", DATED_S, DATED_S + 10.0)
EXPORT = LearnedSpan("export.csv", DATED_S, DATED_S + 20.0)
PUBLIC = LearnedSpan("public.csv", 0.0, 30.0)


def other(name):
    return False


def test_dates_are_the_same_days_under_every_name_and_other_times_are_those_of_one_source_only():
    assert known_until((HISTORY, EXPORT, PUBLIC), other) == DATED_S + 20.0
    assert known_until((PUBLIC,), other) is None
    assert known_until((PUBLIC,), lambda name: name == "public.csv") == 30.0
    assert known_until((), other) is None


def test_a_source_is_one_span_however_many_trainings_it_had():
    later = LearnedSpan("history", DATED_S + 5.0, DATED_S + 50.0)
    unknown = LearnedSpan("history", None, None)
    assert joined((HISTORY, later, PUBLIC, unknown)) == (LearnedSpan("history", DATED_S, DATED_S + 50.0), PUBLIC)


def test_a_source_without_dates_is_told():
    (note,) = undated((HISTORY, EXPORT, PUBLIC), other)
    assert "public.csv" in note
    assert undated((PUBLIC,), lambda name: True) == ()


def test_a_file_that_was_replaced_under_its_name_keeps_its_dated_days():
    before, after = LearnedSpan("jobs.csv", 0.0, 30.0), LearnedSpan("jobs.csv", DATED_S, DATED_S + 10.0)
    for spans in ((before, after), (after, before)):
        assert set(joined(spans)) == {before, after}
        assert known_until(joined(spans), other) == DATED_S + 10.0


def test_a_moment_of_an_order_that_is_no_number_hides_no_days_behind_it(tmp_path):
    TrainingJob("chooser", "history", 1.0, lineage=(HISTORY, EXPORT)).write(tmp_path)
    text = (tmp_path / ORDER).read_text().replace(f"{DATED_S + 10.0}", "NaN")
    (tmp_path / ORDER).write_text(text)
    with pytest.raises(TrainingError, match="is not known any more"):
        TrainingJob.read(tmp_path)


def test_an_order_that_is_a_pipe_is_damaged_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / ORDER)
    with pytest.raises(TrainingError, match="not a plain file"):
        TrainingJob.read(tmp_path)
