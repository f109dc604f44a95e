"""Predictions come from the past alone, from the most alike jobs, and their quantiles mean what they say."""

import runpy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.replay import runtime_prediction
from idlewatt.daemon.replay.last_runs import MEMORY
from idlewatt.daemon.replay.runtime_prediction import LEVELS, JobFeatures, template, template_codes


def predicted_by(function, *, gpus, user=None, template=None, image=None, **columns):
    return function(features=JobFeatures(gpus, user, template, image), **columns)


predict, predicted = (partial(predicted_by, function) for function in (runtime_prediction.predict,
                                                                       runtime_prediction.predicted_columns))


def history(runs, ended=None, **columns):
    """Return the prediction of jobs submitted a second apart on one GPU by one user, each ended when it was done."""
    submit = np.arange(len(runs), dtype=float) * 1000
    made = {"submit_s": submit, "run_s": runs, "ended_s": submit + 500 if ended is None else ended,
            "gpus": np.ones(len(runs)), "user": np.zeros(len(runs), int)} | columns
    return predict(**made)


def test_the_first_job_is_unknown_and_its_limit_stands_in():
    assert np.isnan(history([50.0]).median_s[0])
    first = history([50.0], limit_s=[3600.0])
    assert (first.median_s[0], first.level[0], first.evidence[0]) == (3600, -1, 0)


def test_the_median_is_that_of_the_last_runs():
    runs = [10.0] * 40 + [90.0] * MEMORY + [1.0]
    prediction = history(runs)
    assert (prediction.median_s[40], prediction.median_s[-1]) == pytest.approx((10, 90))
    assert prediction.evidence[-1] == MEMORY


def test_a_job_is_compared_with_the_most_alike_that_are_enough():
    runs = [10.0, 10, 10, 500, 500, 500, 0, 0, 0]
    names = np.array([0, 0, 0, 1, 1, 1, 0, 1, 2])
    prediction = history(runs, template=names)
    like_first, like_second = prediction.median_s[6:8]
    assert 10 <= like_first < 50 < 150 < like_second <= 500
    assert [LEVELS[level] for level in prediction.level[6:8]] == [("user", "template", "gpus")] * 2
    assert LEVELS[prediction.level[8]] == ("user", "gpus")


def test_how_far_it_has_come_is_told_and_changes_no_prediction(monkeypatch):
    made = {"submit_s": np.arange(50.0) * 1000, "run_s": np.geomspace(1, 1e4, 50), "ended_s": np.arange(50.0) * 1100,
            "gpus": np.ones(50), "user": np.arange(50) % 3, "limit_s": np.full(50, 2e4)}
    at_once, reports = predicted(**made), []
    monkeypatch.setattr(runtime_prediction, "STRIDE", 7)
    by_sevens = predicted(**made, progress=lambda done, total: reports.append((done, total)))
    for name, column in at_once.items():
        np.testing.assert_array_equal(by_sevens[name], column)
    assert (reports[0], reports[-1], len(reports)) == ((7, 100), (100, 100), 16)


def test_an_unknown_user_is_nobodys_friend():
    prediction = history([10.0, 10, 10, 10, 10], user=np.array([-1, -1, -1, -1, -1]))
    assert LEVELS[prediction.level[4]] == ("gpus",)


def test_no_prediction_exceeds_the_limit():
    assert history([100.0, 100, 100, 100], limit_s=[np.nan, np.nan, np.nan, 60]).median_s[3] == 60


def test_a_job_that_has_not_ended_teaches_nothing():
    assert np.isnan(history([50.0, 50, 50], ended=[np.nan, np.inf, 9e9]).median_s).all()


@pytest.mark.parametrize(("name", "stem"), [
    ("train_lr0.1_7", "train_lr#_#"), ("bert-ft", "bert-ft"), ("run-4fa9c31e77", "run-#"), ("x1e-5", "x#")])
def test_names_lose_what_varies(name, stem):
    assert template(name) == stem


def test_template_codes_join_names_that_differ_in_numbers():
    assert template_codes(np.array([0, 1, 2, -1]), ["a_1", "a_2", "b"]).tolist() == [0, 0, 1, -1]


JOBS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(0, 60), st.integers(-1, 2),
                          st.integers(-1, 2), st.sampled_from([1, 2])), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(JOBS, st.integers(0, 60), st.randoms(use_true_random=False))
def test_what_ends_later_changes_nothing(jobs, now, random):
    submit, run, wait, user, name, gpus = (np.array(column) for column in zip(*jobs, strict=True))
    ended = submit + wait + run
    changed_run, changed_end = run.copy(), ended.copy()
    for index in np.flatnonzero(ended > now):
        changed_run[index] = random.randint(1, 10_000)
        changed_end[index] = now + random.randint(1, 100)
    made = {"submit_s": submit, "gpus": gpus, "user": user, "template": name, "started_s": submit + wait}
    truth = predict(run_s=run, ended_s=ended, **made)
    altered = predict(run_s=changed_run, ended_s=changed_end, **made)
    past = submit <= now
    assert np.array_equal(truth.quantiles[past], altered.quantiles[past], equal_nan=True)
    assert np.array_equal(truth.level[past], altered.level[past])


@settings(max_examples=30, deadline=None)
@given(JOBS)
def test_an_estimate_lies_among_the_runs_that_were_known(jobs):
    submit, run, wait, user, name, gpus = (np.array(column) for column in zip(*jobs, strict=True))
    ended = submit + wait + run
    prediction = predict(submit_s=submit, run_s=run, ended_s=ended, gpus=gpus, user=user, template=name)
    columns = {"user": user, "template": name, "gpus": gpus}
    for job in np.flatnonzero(prediction.level >= 0):
        known = ended <= submit[job]
        assert run[known].min() * 0.999 <= prediction.median_s[job] <= run[known].max() * 1.001
        for column in LEVELS[prediction.level[job]]:
            known &= columns[column] == columns[column][job]
        assert prediction.evidence[job] == known.sum()
        assert (np.diff(prediction.quantiles[job]) >= 0).all()


def test_a_user_who_changes_his_mind_is_believed_and_a_fickle_one_is_averaged():
    steady = [60.0] * 30 + [6000.0] * 30
    assert history(steady).median_s[35] > 3000  # the last runs count, once they have been right
    random = np.random.default_rng(3)
    fickle = np.exp(random.normal(6.0, 1.5, 400))
    estimates = history(fickle).median_s[100:]
    assert np.log(estimates).std() < 0.5 < np.log(fickle).std()


def test_jobs_that_still_run_are_known_to_be_long():
    quick, slow = np.full(60, 60.0), np.full(60, 1e6)
    run = np.ravel(np.column_stack([quick, slow]))
    submit = np.arange(len(run)) * 1000.0
    blind = predict(submit_s=submit, run_s=run, ended_s=submit + run, gpus=np.ones(len(run)))
    seeing = predict(submit_s=submit, run_s=run, ended_s=submit + run, gpus=np.ones(len(run)), started_s=submit)
    assert blind.quantiles[-1, 2] == pytest.approx(60)
    assert seeing.quantiles[-1, 2] > 10_000


TRACES = Path(__file__).parents[2] / "traces"
BENCHMARK = SimpleNamespace(**runpy.run_path(str(TRACES.parent / "benchmarks" / "runtimes.py")))


LONG = {"Philly 7f04ca", "Philly 11cb48", "Philly, first 20,000"}
"""Seconds each, for a trace of which one cluster is always tried."""


@pytest.mark.parametrize(("file", "partition", "most"), [
    pytest.param(*trace[1:], id=trace[0], marks=[pytest.mark.long] * (trace[0] in LONG)) for trace in BENCHMARK.TRACES])
def test_on_every_packaged_trace_intervals_hold_and_are_no_wider_than_they_need_be(file, partition, most):
    work = BENCHMARK.jobs_of(TRACES / file, partition, most)
    before, ours = BENCHMARK.before(work), BENCHMARK.ours(work)
    assert np.isfinite(ours).all(axis=1).sum() >= np.isfinite(before).all(axis=1).sum()
    order_before, _, _, loss_before = BENCHMARK.scored(work.run, before)
    order, half, most_of, loss = BENCHMARK.scored(work.run, ours)
    assert half == pytest.approx(0.5, abs=0.05)
    assert most_of == pytest.approx(0.9, abs=0.03)
    assert loss <= loss_before
    assert order >= order_before - 0.002


def test_a_run_as_long_as_its_quantile_is_not_beyond_it_by_rounding():
    prediction = history([9.0] * 20)
    assert (prediction.quantiles[-1] == 9.0).all()


def test_nine_in_ten_jobs_end_within_the_upper_quantile():
    random = np.random.default_rng(1)
    users = random.integers(0, 5, 5_000)
    runs = np.exp(random.normal(4 + users, 0.7))
    prediction = history(runs, user=users)
    steady = prediction.evidence == MEMORY
    assert np.mean(runs[steady] <= prediction.quantiles[steady, 2]) == pytest.approx(0.9, abs=0.03)
    assert np.mean(runs[steady] <= prediction.median_s[steady]) == pytest.approx(0.5, abs=0.03)


def test_where_names_tell_nothing_the_last_runs_with_the_same_image_do():
    run = np.array([100.0, 5000.0, 110.0, 5100.0, 90.0, 4900.0, 105.0, 5050.0])
    image = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    submit = np.arange(8) * 10_000.0
    known = {"submit_s": submit, "run_s": run, "ended_s": submit + run, "gpus": np.ones(8), "user": np.zeros(8),
             "template": np.arange(8)}
    by_image, blind = predicted(**known, image=image)["prediction"], predicted(**known)["prediction"]
    assert 90 < by_image[6] < 200
    assert 3000 < by_image[7] < 5100
    assert blind[6] not in (by_image[6], by_image[7])
    unknown = predicted(**known, image=np.full(8, -1))["prediction"]
    np.testing.assert_array_equal(unknown, blind)
