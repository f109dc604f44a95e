"""Lengths of time in words."""

import pytest

from idlewatt.daemon.durations import ago, sooner, span


@pytest.mark.parametrize(("seconds", "words"), [
    (None, "-"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3600, "1h 0m"), (11_100, "3h 5m"), (187_200, "2d 4h"),
    (-720, "-12m")])
def test_a_column_tells_the_two_largest_units(seconds, words):
    assert ago(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 min"), (5399, "90 min"), (5400, "1.5 h"), (180_000, "50.0 h")])
def test_a_sentence_tells_minutes_and_from_an_hour_and_a_half_on_hours(seconds, words):
    assert span(seconds) == words


@pytest.mark.parametrize(("ratio", "interval", "said"), [
    (-0.43, (-0.52, -0.31), "43 % sooner (31 to 52)"), (0.79, (0.6, 0.9), "79 % later (60 to 90)"),
    (0.3, (-0.001, 0.6), "30 % later (0 to 60)"), (-0.3, (-0.6, 0.001), "30 % sooner (0 to 60)"),
    (0.001, (-0.001, 0.004), "no change (0 to 0 % later)"), (-0.004, (-0.02, 0.03), "no change (-2 to 3 % later)")])
def test_a_change_in_time_is_told_with_its_interval(ratio, interval, said):
    assert sooner(ratio, interval) == said
