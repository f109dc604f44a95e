import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.waste import Utilization, WasteSettings
from idlewatt.daemon.waste.utilization import RecordedRun, UtilizationWindow, run_time
from idlewatt.storage.records import JobState, NodeState

HOUR = 3600.0


def test_a_completed_job_counts_with_its_limit_or_with_what_it_ran():
    """Eq. (2): tau is the limit of a completed job; here it is cut at now."""
    run = RecordedRun("gpu", 4, 0.0, 72 * HOUR, 10 * HOUR, 0.0)
    assert run_time(run, 100 * HOUR, 0.0, basis="limit") == 72 * HOUR
    assert run_time(run, 40 * HOUR, 0.0, basis="limit") == 40 * HOUR
    assert run_time(run, 100 * HOUR, 0.0, basis="actual") == 10 * HOUR
    assert run_time(run, 100 * HOUR, 5 * HOUR, basis="actual") == 5 * HOUR


def observe(site, window, now, jobs, **changes):
    return window.observe(site.snapshot([site.node(**changes)], jobs, time_s=now), now)["gpu"]


def test_the_first_moment_is_what_is_held_now(site):
    found = observe(site, UtilizationWindow(WasteSettings()), 1000.0, [site.running(indexes=range(2))])
    assert (found.limit, found.actual) == (0.25, 0.25)


def test_utilization_is_held_gpu_time_over_usable_gpu_time(site):
    window = UtilizationWindow(WasteSettings())
    observe(site, window, 0.0, [])
    job = site.running(indexes=range(4), start_s=0.0, limit_s=4 * HOUR)
    observe(site, window, HOUR, [job])
    done = site.running(indexes=range(4), start_s=0.0, limit_s=4 * HOUR, state=JobState.COMPLETED, end_s=HOUR)
    found = observe(site, window, 2 * HOUR, [done])
    assert found.actual == pytest.approx(4 * 1 / (8 * 2))
    assert found.limit == pytest.approx(4 * 2 / (8 * 2))


def test_drained_nodes_shrink_what_could_be_used(site):
    window, job = UtilizationWindow(WasteSettings()), site.running("1", "dgx-0", range(8))
    for now in (0.0, HOUR, 2 * HOUR):
        nodes = [site.node(), site.node("dgx-1", state=NodeState.DRAINED)]
        found = window.observe(site.snapshot(nodes, [job], time_s=now), now)["gpu"]
    assert found.actual == pytest.approx(1.0)
    assert found.rated_watts == 6500.0


def test_who_went_without_a_word_is_kept_as_a_row_after_an_hour_and_counts_the_same(site):
    window = UtilizationWindow(WasteSettings(utilization_window="1d"))
    observe(site, window, 0.0, [])
    observe(site, window, HOUR, [site.running(indexes=range(8), start_s=0.0)])
    before = observe(site, window, 1.5 * HOUR, []).actual
    assert window._runs
    after = observe(site, window, 3 * HOUR, []).actual
    assert (before, after, window._runs) == (pytest.approx(2 / 3), pytest.approx(1 / 3), {})


def test_the_window_slides_and_forgets(site):
    window = UtilizationWindow(WasteSettings(utilization_window="1d"))
    job = site.running(indexes=range(8))
    for hour in range(24):
        observe(site, window, hour * HOUR, [job])
    assert observe(site, window, 24 * HOUR, []).actual == pytest.approx(23 / 24)
    for hour in range(25, 60):
        found = observe(site, window, hour * HOUR, [])
    assert found.actual == 0.0
    assert not window._runs
    assert not window._past


def test_what_ended_long_ago_counts_as_before_and_takes_a_row(site):
    window, day = UtilizationWindow(WasteSettings(utilization_window="1d")), 24 * HOUR
    runs = [(HOUR * number, HOUR * (number + 2), HOUR * (1 + number % 5)) for number in range(40)]
    for now in [HOUR * number / 2 for number in range(84)]:
        listed = [site.running(str(number), indexes=[number % 8], start_s=start, limit_s=limit,
                               **({} if now < end else {"state": JobState.COMPLETED, "end_s": end}))
                  for number, (start, end, limit) in enumerate(runs) if start <= now < end + HOUR / 2]
        found = observe(site, window, now, listed)
    known = [RecordedRun("gpu", 1, start, limit, end if end <= now else None, now) for start, end, limit in runs
             if end > now - day]
    for basis in ("limit", "actual"):
        held = sum(run_time(run, now, now - day, basis=basis) for run in known)
        assert getattr(found, basis) == pytest.approx(held / (8 * day))
    assert len(window._runs) <= 5
    assert sum(map(len, window._past.values())) >= 20


def test_a_job_that_vanishes_ended_when_it_was_last_seen(site):
    window = UtilizationWindow(WasteSettings())
    observe(site, window, 0.0, [site.running(indexes=range(8))])
    observe(site, window, HOUR, [site.running(indexes=range(8))])
    assert observe(site, window, 4 * HOUR, []).actual == pytest.approx(0.25)


def test_utilisation_by_limit_shows_what_the_equation_gives_where_limits_overrun(site):
    """Eight GPUs, two jobs of two hours one after the other, each with a limit of ten: Eq. (2) counts both on."""
    window = UtilizationWindow(WasteSettings())
    first = {"indexes": range(8), "start_s": 0.0, "limit_s": 10 * HOUR}
    second = {"indexes": range(8), "start_s": 2 * HOUR, "limit_s": 10 * HOUR}
    ended = {"state": JobState.COMPLETED}
    observe(site, window, 0.0, [site.running("1", **first)])
    observe(site, window, 2 * HOUR, [site.running("1", **first, **ended, end_s=2 * HOUR), site.running("2", **second)])
    found = observe(site, window, 4 * HOUR, [site.running("2", **second, **ended, end_s=4 * HOUR)])
    assert (found.actual, found.limit) == (pytest.approx(1.0), pytest.approx(1.5))
    assert found.inefficient_watts("limit") == pytest.approx(-0.5 * 6500)


def test_the_rated_power_is_configured_or_that_of_a_dgx_or_unknown(site):
    def rated(model="a100", **known):
        return observe(site, UtilizationWindow(WasteSettings(**known)), 0.0, [], gpu_model=model).rated_watts

    assert (rated(), rated("v100"), rated("mi300")) == (6500.0, 3500.0, None)
    assert rated("mi300", rated_node_watts={"dgx-*": 9000}) == 9000.0


def test_inefficient_power_is_rated_power_times_the_share_nobody_holds():
    found = Utilization(limit=0.62, actual=0.5, rated_watts=13_000.0)
    assert (found.inefficient_watts("limit"), found.inefficient_watts("actual")) == (pytest.approx(4940), 6500)
    assert Utilization(0.5, 0.5, None).inefficient_watts("limit") is None


def grown(site, gpus, **times):
    """Return one job that holds so many GPUs now."""
    return site.running(indexes=range(gpus), start_s=0.0, limit_s=4 * HOUR, **times)


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1)])
def test_a_job_whose_pods_come_and_go_counts_with_the_gpus_that_it_holds_at_each_time(site, before, after):
    window = UtilizationWindow(WasteSettings())
    observe(site, window, 0.0, [grown(site, before)])
    observe(site, window, HOUR, [grown(site, after)])
    found = observe(site, window, 3 * HOUR, [grown(site, after)])
    assert (found.actual, found.limit) == (pytest.approx((before + 2 * after) / 24),) * 2


def test_of_a_job_that_was_resized_only_the_gpus_that_it_held_last_count_on_by_its_limit(site):
    window = UtilizationWindow(WasteSettings())
    for time_s, gpus in ((0.0, 8), (HOUR, 2)):
        observe(site, window, time_s, [grown(site, gpus)])
    done = grown(site, 0, state=JobState.COMPLETED, end_s=2 * HOUR)
    assert observe(site, window, 2 * HOUR, [done]).actual == pytest.approx(10 / 16), "its end says nothing of GPUs"
    found = observe(site, window, 8 * HOUR, [])
    assert (found.actual, found.limit) == (pytest.approx(10 / 64), pytest.approx(14 / 64))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_however_a_job_is_resized_what_it_held_is_the_sum_over_its_parts(site, sizes):
    window = UtilizationWindow(WasteSettings())
    for number, gpus in enumerate([*sizes, sizes[-1]]):
        found = observe(site, window, 61.0 * number, [grown(site, gpus)])
    assert found.actual == pytest.approx(sum(sizes) / (8 * len(sizes)), rel=1e-4)


@given(st.lists(st.tuples(st.floats(0, 5 * HOUR), st.integers(0, 8), st.sampled_from(list(NodeState))), min_size=1,
                max_size=15))
@settings(max_examples=40, deadline=None)
def test_what_was_really_held_is_a_ratio_whatever_happens(site, steps):
    window, now = UtilizationWindow(WasteSettings()), 0.0
    for number, (step, gpus, state) in enumerate(steps):
        now += step
        jobs = [site.running(str(number), indexes=range(gpus), start_s=now - step)] if gpus else []
        found = observe(site, window, now, jobs, state=state)
        assert 0.0 <= found.actual <= 1.0
        assert found.limit >= 0.0
