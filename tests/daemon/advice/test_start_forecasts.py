"""When jobs start, foretold as intervals, and whether they came within."""

from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.advice.advisor import AdviceInputs, Advisor, _with_intervals
from idlewatt.daemon.advice.wait_estimate import StartForecast, StartForecasts
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.recommendations import Recommendation
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOW, HOUR = 1e9, 3600.0
FIFO = "fifo+best-fit+easy"
RUNS = Job("1", NOW - HOUR, JobState.RUNNING, "all", Request(8), start_s=NOW - HOUR, limit_s=9 * HOUR,
           allocations=(Allocation("a", 8),))
WAITS = Job("2", NOW - 900, JobState.PENDING, "all", Request(8), limit_s=10 * HOUR)


def foresight(jobs):
    """A quarter of like jobs ran for less than two hours, half for three, a quarter for more than five."""
    forecasts = {"prediction_low": 2 * HOUR, "prediction": 3 * HOUR, "prediction_high": 5 * HOUR}
    return {name: np.full(len(jobs), forecasts.get(name, np.nan)) for name in PREDICTED_COLUMNS}


def snapshot(*jobs, now=NOW):
    return SchedulerSnapshot(now, (Node("a", ("all",), 8, gpus_allocated=8),), jobs=jobs or (RUNS, WAITS))


def state(*jobs, now=NOW):
    return ClusterState.from_snapshot(snapshot(*jobs, now=now), now, predictor=foresight)


def started(after_s):
    return replace(WAITS, state=JobState.RUNNING, start_s=NOW + after_s, allocations=(Allocation("a", 8),))


def test_a_start_is_foretold_as_an_interval_before_the_limit_of_who_runs():
    forecasts = StartForecasts().renewed(state(), named(FIFO), 100)
    low, high = (end - NOW for end in (forecasts[WAITS.key].low_s, forecasts[WAITS.key].high_s))
    assert 0 < low < 1.5 * HOUR
    assert 4 * HOUR < high <= 8 * HOUR


@pytest.mark.parametrize(("after_s", "came"), [(2 * HOUR, "within"), (1.0, "earlier"), (9 * HOUR, "later")])
def test_whether_it_came_so_is_counted_once_by_policy(after_s, came):
    book = StartForecasts()
    book.renewed(state(), named(FIFO), 100)
    for _ in range(2):
        book.renewed(state(started(after_s), now=NOW + after_s + 1), named(FIFO), 100)
    assert book.counts == {(FIFO, came): 1}


def test_an_interval_without_an_end_cannot_be_missed_late_and_a_minute_is_no_miss():
    assert StartForecast(NOW, None).came(NOW + 1e9) == "within"
    forecast = StartForecast(NOW, NOW + 10)
    assert forecast.came(NOW + 70) == forecast.came(NOW - 60) == "within"
    assert (forecast.came(NOW + 70.5), forecast.came(NOW - 60.5)) == ("later", "earlier")


def test_forecasts_are_made_anew_after_a_while_and_the_first_one_counts(monkeypatch):
    made = []
    monkeypatch.setattr("idlewatt.daemon.advice.wait_estimate.start_forecasts",
                        lambda state, policy, draws: made.append(state.now) or {WAITS.key: StartForecast(
                            state.now, state.now + 10)})
    book = StartForecasts()
    for after_s in (0, 30, 299, 301):
        book.renewed(state(now=NOW + after_s), named(FIFO), 20)
    assert made == [NOW, NOW + 301]
    book.renewed(state(started(305), now=NOW + 310), named(FIFO), 20)
    assert book.counts == {(FIFO, "later"): 1}


def test_who_cannot_be_foretold_has_no_interval():
    assert StartForecasts().renewed(state(), named(FIFO), 0) == {}
    assert StartForecasts().renewed(state(RUNS), named(FIFO), 100) == {}


def test_advice_to_hold_says_within_which_time_it_starts():
    inputs = AdviceInputs((), FIFO, foresight, forecasts=StartForecasts())
    advice = Advisor(AdviceSettings(policy=FIFO, shadow=()), inputs).advise(snapshot(), NOW)
    [row] = [row for row in advice.recommendations if not row.shadow]
    low_s, high_s = row.start_interval_s
    assert NOW < low_s < high_s <= row.expected_start_s == NOW + 8 * HOUR


def test_futures_that_are_all_the_same_are_no_interval():
    assert not StartForecast(100.0, 100.0).spread
    assert StartForecast(100.0, 200.0).spread
    assert StartForecast(100.0, None).spread
    held = Recommendation("7", 1.0, "all", 0.0, "priority", "wait", "hold", "", None)
    for forecast, forecasts in ((StartForecast(100.0, 130.0), None), (StartForecast(100.0, 200.0), (100.0, 200.0))):
        (row,) = _with_intervals([held], {("7", 1.0): forecast})
        assert row.start_interval_s == forecasts
