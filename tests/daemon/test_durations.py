"""Lengths of time in words."""

import pytest

from idlewatt.daemon.durations import ago, span


@pytest.mark.parametrize(("seconds", "words"), [
    (None, "-"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3600, "1h 0m"), (11_100, "3h 5m"), (187_200, "2d 4h"),
    (-720, "-12m")])
def test_a_column_tells_the_two_largest_units(seconds, words):
    assert ago(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 min"), (5399, "90 min"), (5400, "1.5 h"), (180_000, "50.0 h")])
def test_a_sentence_tells_minutes_and_from_an_hour_and_a_half_on_hours(seconds, words):
    assert span(seconds) == words
