"""Quantiles that are mixed and moved hold as often as they say, where runs drift, still go on or come in bursts."""

import numpy as np
import pytest

from idlewatt.daemon.replay.quantile_mixture import KINDS, ROOM, STEP, Mixture, await_outcome, learn_outcomes, mix

NINE_TENTHS = np.array([0.9])


class History:
    """Jobs that are forecast one after the other."""

    def __init__(self, values, ways, quantiles=NINE_TENTHS, every_s=1e9, kinds=None):
        self.value, self.quantiles = np.asarray(values, float), quantiles
        self.started = np.arange(len(values)) * every_s
        self.ended, self.unit = self.started + np.exp(self.value), np.ones(len(values))
        self.mixture = Mixture.of(len(values), len(ways), len(quantiles))
        self.mixture.ways[:] = np.asarray(ways, float)[None, :, None]
        self.mixture.middle[:] = ways[0]
        self.mixture.seen[:] = -100.0, 100.0
        if kinds is not None:
            self.mixture.kind[:] = kinds

    def learn(self, now):
        learn_outcomes(now, self.started, self.ended, self.value, self.unit, self.quantiles, self.mixture)

    def submit(self, job):
        self.learn(self.started[job])
        mix(job, self.quantiles, self.mixture)
        await_outcome(job, self.started, self.ended, self.unit, self.mixture)

    def forecast(self):
        for job in range(len(self.value)):
            self.submit(job)
        return self.mixture.forecast


def test_the_way_that_loses_least_is_followed():
    values = np.random.default_rng(1).normal(6.0, 1.0, 500)
    right = 6.0 + 1.2816
    for ways in ([right, right + 6.0], [right + 6.0, right]):
        forecast = History(values, ways).forecast()[200:, 0]
        assert forecast.mean() == pytest.approx(right, abs=0.3)


def test_as_many_jobs_as_should_outlast_a_quantile_though_their_runs_grow_and_no_way_knows():
    random, quantiles = np.random.default_rng(2), np.array([0.05, 0.25, 0.75, 0.95])
    values = 3.0 + np.linspace(0.0, 12.0, 3000) + random.normal(0.0, 0.5, 3000)
    forecast = History(values, [3.0], quantiles, every_s=1e8).forecast()
    assert np.mean(values[:, None] <= forecast, axis=0) == pytest.approx(quantiles, abs=0.02)
    assert np.mean(values <= 3.0 + 0.5 * 1.645) < 0.2  # what the way alone would have told


def test_a_job_that_outlasts_its_quantile_teaches_so_before_it_ends_and_only_once():
    history = History([5.0, 5.0], [2.0])
    history.submit(0)
    history.learn(history.started[0] + np.exp(1.9))
    assert history.mixture.offset.sum() == 0
    history.learn(history.started[0] + np.exp(2.1))
    moved = history.mixture.offset.copy()
    assert moved.sum() > 0
    history.learn(history.ended[0])
    np.testing.assert_array_equal(history.mixture.offset, moved)
    assert history.mixture.open_count[0] == 0


def test_a_job_of_which_nothing_will_be_known_is_not_awaited():
    history = History([5.0], [2.0])
    history.started[:], history.ended[:] = np.nan, np.nan
    history.mixture.forecast[0] = 2.0
    await_outcome(0, history.started, history.ended, history.unit, history.mixture)
    assert history.mixture.open_count[0] == 0


def moved_by(missed):
    """Return how far so many jobs move their quantile that are submitted at once and all outlast it."""
    history = History(np.full(missed, 5.0), [2.0], every_s=0.0)
    history.forecast()
    history.learn(1e9)
    return history.mixture.offset[0, 0] + history.mixture.offset[KINDS, 0]


def test_forecasts_that_share_an_error_do_not_move_a_quantile_as_many_times():
    one, hundred = moved_by(1), moved_by(100)
    assert one == pytest.approx(STEP * 3.0 * 0.9)
    assert 4 * one < hundred < 20 * one


def test_what_jobs_of_one_kind_do_moves_quantiles_of_the_other_by_half():
    history = History(np.full(2, 5.0), [2.0], kinds=[1, 0])
    forecast = history.forecast()[:, 0]
    assert forecast[1] - 2.0 == pytest.approx(STEP * 3.0 * 0.9 / 2)


def test_no_quantile_is_further_than_twice_from_what_was_ever_seen():
    history = History([3.0, 3.0], [50.0, 50.0])
    history.mixture.seen[:] = 2.0, 3.0
    assert history.forecast()[0, 0] == pytest.approx(3.0 + ROOM)
    low = History([3.0], [-50.0])
    low.mixture.seen[:] = 2.0, 3.0
    assert low.forecast()[0, 0] == pytest.approx(2.0 - ROOM)
