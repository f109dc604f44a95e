"""Which days a model has seen, whoever of its ancestors saw them and under whatever name."""

from idlewatt.daemon.learning.lineage import LearnedSpan, joined, known_until, undated

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
