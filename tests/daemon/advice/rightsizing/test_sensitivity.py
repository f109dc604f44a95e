"""What more or less would be worth to a job, by what is known of it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.rightsizing import sensitivity
from idlewatt.daemon.advice.rightsizing.sensitivity import SAME, Evidence, NodeShare, matrix, recognized, speed_estimate
from idlewatt.daemon.advice.rightsizing.usage_meter import UsageWindow
from idlewatt.daemon.replay.speed_priors import FAIR_MEMORY, GB, PRIORS
from idlewatt.storage.uses import Use

MARGIN, STARVED = 0.15, 0.8
HAS, FAIR = NodeShare(40, int(256 * GB)), NodeShare(20, int(128 * GB))


def window(cores, memory=None, activity=None, count=20):
    values = np.full(count, float(cores)) if np.isscalar(cores) else np.array(cores, float)
    return UsageWindow(values, 60.0 * len(values), memory, activity, "cgroup")


def use(number=1, *, gpus=2, cpus=20, p95=6.0, at_limit=0.0, activity=None, memory=None):
    return Use("1", 0.0, float(number), "ann", "train", gpus, cpus, 128, 1e6 + number, 3600.0, "cgroup", p95, p95,
               at_limit, memory, activity)


def known(has=HAS, gpus=4, fair=FAIR, **more):
    return speed_estimate(Evidence(has, gpus, fair, **more), MARGIN, STARVED)


def test_what_a_job_measurably_does_not_use_is_beyond_its_95th_percentile_and_a_margin():
    found = known(window=window(22.0, memory=100 * GB))
    assert (found.basis, found.least) == ("measured", NodeShare(math.ceil(22 * 1.15), math.ceil(100 * GB * 1.15)))
    assert found.best == HAS
    assert found.speed(NodeShare(60, HAS.memory_bytes)).estimate == 1


def test_memory_that_nobody_measured_is_not_taken():
    assert known(window=window(22.0)).least.memory_bytes == HAS.memory_bytes


def test_a_like_run_that_used_more_counts_too_scaled_by_its_gpus():
    found = known(window=window(2.0), runs=[use(gpus=2, p95=12.0)])
    assert (found.used, found.least.cpus) == (24, math.ceil(24 * 1.15))


def test_a_starved_job_is_as_fast_as_its_cpus_until_its_gpus_work_all_the_time():
    found = known(window=window(39.0, activity=0.5))
    assert (found.least.cpus, found.best.cpus) == (40, 80)
    assert found.by_cpus(60).estimate == pytest.approx(1.5)
    assert found.by_cpus(400).estimate == pytest.approx(2)
    assert (found.by_cpus(60).low, found.by_cpus(60).high) == (1, pytest.approx(1.5))


def test_like_runs_without_gpus_do_not_hide_how_much_the_gpus_of_others_worked():
    runs = [use(number, gpus=0) for number in range(5)] + [use(9, at_limit=1.0, activity=0.5)]
    found = known(has=NodeShare(20, FAIR.memory_bytes), gpus=2, waits=True, runs=runs)
    assert (found.basis, found.best.cpus) == ("measured", 40)


def test_no_speed_is_nothing_and_none_has_no_bounds():
    assert known(has=NodeShare(1, 10**11), gpus=1, model="image", waits=True).by_cpus(0).low > 0
    runs = [use(number, gpus=1, cpus=1 + number % 2, activity=(1.0, 5e-324)[number % 2]) for number in range(4)]
    assert math.isfinite(known(has=NodeShare(1, 10**11), gpus=1, window=window(1.0), runs=runs).by_cpus(3).high)


def test_more_is_worth_something_only_in_the_time_at_the_limit():
    half = known(window=window([39.0] * 10 + [5.0] * 10, activity=0.5)).by_cpus(80)
    assert half.estimate == pytest.approx(1 / (0.5 / 2 + 0.5))
    assert half.high == pytest.approx(2)


def test_a_job_whose_gpus_nobody_watches_is_promised_nothing():
    found = known(window=window(39.0))
    assert (found.best.cpus, found.by_cpus(60).estimate) == (40, 1)


def test_like_runs_with_different_cpus_make_a_measured_curve():
    points = [(10, 0.2), (10, 0.22), (20, 0.3), (20, 0.34), (40, 0.4), (40, 0.38)] * 2
    runs = [use(number, cpus=cpus, p95=cpus / 2, at_limit=1.0, activity=activity)
            for number, (cpus, activity) in enumerate(points)]
    found = known(has=NodeShare(20, FAIR.memory_bytes), gpus=2, window=window(19.0, activity=0.32), runs=runs)
    speed = found.by_cpus(40)
    assert speed.estimate == pytest.approx(0.39 / 0.32)
    assert 1 < speed.low < speed.estimate < speed.high < 2
    assert found.by_cpus(400).estimate == speed.estimate, "beyond what was tried nothing is gained"


def test_the_interval_of_a_measured_curve_holds_the_truth_mostly():
    draw, held = np.random.default_rng(7), 0
    for _ in range(40):
        runs = [use(number, cpus=cpus, at_limit=1.0, activity=float(draw.normal(truth, 0.03)))
                for number, (cpus, truth) in enumerate([(10, 0.3), (30, 0.6)] * 6)]
        found = known(has=NodeShare(10, FAIR.memory_bytes), gpus=2, window=window(9.9, activity=0.3), runs=runs)
        held += found.by_cpus(30).low <= 2 <= found.by_cpus(30).high
    assert held >= 33


def test_fewer_cpus_cost_what_the_window_says_they_would_have_cost():
    found = known(window=window([10.0] * 19 + [20.0]))
    assert found.by_cpus(12).estimate == pytest.approx((19 + 12 / 20) / 20)
    assert found.by_cpus(12).low < found.by_cpus(12).estimate <= found.by_cpus(12).high <= 1
    assert found.by_cpus(20).estimate == 1, "it never used more"


def test_a_model_that_was_not_measured_goes_by_synergys_matrix_and_gives_nothing():
    found = known(has=NodeShare(12, int(250 * GB)), model="resnet18")
    assert (found.basis, found.least) == ("prior", NodeShare(12, int(250 * GB)))
    assert found.best.cpus == 36
    speed = found.by_cpus(36)
    assert speed.estimate == pytest.approx(2.4)
    assert speed.low == pytest.approx(1.15), "resnet50 gains least of all image models"
    assert speed.high >= 2.4


def test_a_language_model_needs_no_more_than_it_has():
    found = known(has=NodeShare(12, int(250 * GB)), model="transformer")
    assert (found.basis, found.best) == ("prior", NodeShare(12, int(250 * GB)))


def test_a_measured_job_whose_memory_is_full_goes_by_its_model_for_memory():
    has = NodeShare(12, int(4 * FAIR_MEMORY / 3))
    found = known(has=has, window=window(2.0, memory=0.99 * has.memory_bytes), model="resnet50")
    assert found.best.memory_bytes == pytest.approx(4 * FAIR_MEMORY)
    assert found.by_memory(int(4 * FAIR_MEMORY)).estimate == pytest.approx(10)
    assert known(has=has, window=window(2.0, memory=0.5 * has.memory_bytes), model="resnet50").best == has


def test_the_unknown_keeps_what_it_has_and_is_started_at_its_fair_share():
    running, waiting = known(), known(waits=True)
    assert (running.basis, running.least, running.speed(NodeShare(1, 1))) == ("fair-share", HAS, SAME)
    assert waiting.least == FAIR
    assert known(has=NodeShare(8, 5), waits=True).least == NodeShare(8, 5), "nobody is told to ask for more"


def test_a_job_that_waits_needs_what_like_runs_used():
    found = known(waits=True, runs=[use(gpus=2, p95=6.0, memory=10 * GB)])
    assert (found.basis, found.least) == ("measured", NodeShare(14, math.ceil(20 * GB * 1.15)))
    starved = known(waits=True, runs=[use(at_limit=0.9)])
    assert starved.least.cpus == HAS.cpus


def test_names_tell_models_by_the_sites_patterns_first_then_by_their_words():
    assert recognized("resnet50_lr0.1", {}) == "resnet50"
    assert recognized("train-ResNet50", {"train-*": "language"}) == "language"
    assert recognized("my_m500_job", {}) == ""
    assert matrix("image").at(3, FAIR_MEMORY) == pytest.approx(1)
    with pytest.raises(KeyError):
        matrix("nothing")


amounts = st.floats(0, 1e3)


@given(cores=st.lists(amounts, min_size=1, max_size=8), memory=st.none() | st.floats(0, 1e12),
       activity=st.none() | st.floats(0, 1), cpus=st.integers(0, 300), gpus=st.integers(0, 8),
       model=st.sampled_from(["", "image", "language", *PRIORS]), asked=st.integers(0, 600), waits=st.booleans(),
       past=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 64), amounts, st.floats(0, 1),
                               st.none() | st.floats(0, 1)), max_size=4))
@settings(max_examples=120, deadline=None)
def test_intervals_hold_their_estimates_more_is_never_slower_and_nobody_falls_below_his_use(
        cores, memory, activity, cpus, gpus, model, asked, waits, past):
    runs = [use(n, gpus=g, cpus=c, p95=p, at_limit=a, activity=w) for n, (g, c, p, a, w) in enumerate(past)]
    seen = None if waits else window(cores, memory, activity)
    found = known(has=NodeShare(cpus, 10**11), gpus=gpus, window=seen, runs=runs, model=model, waits=waits)
    speed = found.speed(NodeShare(asked, 10**11))
    assert 0 < speed.low <= speed.estimate * (1 + 1e-9)
    assert speed.estimate <= speed.high * (1 + 1e-9)
    assert math.isfinite(speed.high)
    if asked >= cpus:
        assert speed.estimate >= 1 - 1e-9
    assert 0 <= found.least.cpus <= cpus
    assert found.best.cpus >= cpus
    if seen is not None:
        assert found.least.cpus >= min(cpus, seen.p95)
        assert found.least.memory_bytes >= min(10**11, memory if memory is not None else 10**11)


def test_runs_that_tell_no_curve_are_not_kept_in_memory():
    before = sensitivity._curve_of.cache_info().currsize
    for activity in np.linspace(0.1, 0.9, 50):
        assert sensitivity._curve(np.array([(16.0, activity)] * 10)) is None
    assert sensitivity._curve(np.array([])) is None
    assert sensitivity._curve_of.cache_info().currsize == before
    assert sensitivity._curve(np.array([(8.0, 0.3), (16.0, 0.6)])).whole.cpus.tolist() == [8.0, 16.0]
