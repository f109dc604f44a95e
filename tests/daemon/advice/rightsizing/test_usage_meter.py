"""What running jobs use, from counters that restart, lie and vanish."""

import math
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.rightsizing.usage_meter import UsageMeter
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, JobReading, NodeReading, Telemetry
from idlewatt.storage.uses import Use

NODE = Node("n1", ("gpu",), 8, cpus=64, memory_bytes=512)
STEP_S = 60.0


def job(job_id="7", *parts, state=JobState.RUNNING, **more):
    return Job(job_id, 0.0, state, "gpu", Request(2), "ann", name="train_1", start_s=10.0,
               allocations=parts or (Allocation("n1", 2, (0, 1), 16, 128),), **more)


class Site:
    """A meter over ten minutes, and what it is shown, a minute apart."""

    def __init__(self, *jobs, nodes=(NODE,)):
        self.meter, self.jobs, self.nodes, self.now = UsageMeter(600.0, 0.8), jobs or (job(),), nodes, 1000.0

    def show(self, *readings, gpus=(), nodes=(), seconds=STEP_S):
        self.now += seconds
        jobs = tuple(JobReading(job_id, node, self.now, cpu, memory) for job_id, node, cpu, memory in readings)
        self.meter.observe(SchedulerSnapshot(self.now, self.nodes, (), self.jobs), Telemetry(gpus, nodes, jobs))

    def run(self, cores, count=12, memory=64.0):
        """Show a job that uses so many cores all the time."""
        for minute in range(count):
            self.show(("7", "n1", minute * STEP_S * cores, memory))

    @property
    def window(self):
        windows = self.meter.windows()
        assert len(windows) <= 1
        return windows.get(("7", 0.0, 10.0))


def test_cores_in_use_are_what_a_counter_gains_by_the_second():
    site = Site()
    site.run(4.0)
    assert site.window.p95 == pytest.approx(4)
    assert (site.window.memory_peak_bytes, site.window.source, site.window.activity) == (64, "cgroup", None)


def test_nothing_is_said_before_most_of_a_window_was_measured():
    site = Site()
    site.run(4.0, count=8)
    assert site.window is None


def test_rare_peaks_are_not_what_it_needs_nearly_always_but_the_busiest_window_is_remembered():
    site = Site()
    site.run(14.0)
    start = 11 * STEP_S * 14
    for minute in range(1, 30):
        site.show(("7", "n1", start + minute * STEP_S, 1.0))
    assert site.window.p95 == pytest.approx(1)
    use, = site.meter.unrecorded()
    assert use.cpus_p95 == pytest.approx(14)
    assert use.memory_peak_bytes == 64
    assert (use.user, use.template, use.gpus, use.cpus, use.memory_bytes) == ("ann", "train_#", 2, 16, 128)
    assert site.meter.unrecorded() == []


@pytest.mark.parametrize("lie", [None, -1.0, math.nan, math.inf, 1e12])
def test_a_counter_that_restarts_or_lies_is_unmeasured_for_that_minute(lie):
    site = Site()
    site.run(4.0, count=4)
    site.show(("7", "n1", lie, math.inf if lie == math.inf else 10.0))
    for minute in range(12):
        site.show(("7", "n1", minute * STEP_S * 4, 10.0))
    assert site.window.p95 == pytest.approx(4)
    assert site.window.memory_peak_bytes == 64


def test_the_same_page_again_says_nothing_new():
    site = Site()
    site.run(4.0)
    before = site.window.seconds
    readings = Telemetry(jobs=(JobReading("7", "n1", site.now, 11 * STEP_S * 4),))
    for _ in range(5):
        site.meter.observe(SchedulerSnapshot(site.now + 500, site.nodes, (), site.jobs), readings)
    assert site.window.seconds == before


def test_over_a_long_gap_a_mean_says_nothing_of_peaks():
    site = Site()
    site.show(("7", "n1", 0.0, None))
    site.show(("7", "n1", 10.0, None), seconds=901.0)
    assert site.window is None
    assert site.meter.unrecorded() == []


def test_use_above_the_allocation_is_believed_up_to_the_node():
    site = Site()
    site.run(40.0)
    assert site.window.p95 == pytest.approx(40)
    assert site.window.at_limit(0.8 * 16) == 1
    assert Site(nodes=()).window is None


def test_a_job_that_is_gone_is_recorded_once_and_forgotten():
    site = Site()
    site.run(4.0, count=4)
    site.jobs = ()
    site.show()
    use, = site.meter.unrecorded()
    assert (use.run, use.measured_s) == (("7", 0.0, 10.0), 180)
    assert use.cpus_mean == pytest.approx(4)
    site.show(("7", "n1", 1e6, 1.0))
    assert site.meter.unrecorded() == []


def test_a_run_goes_on_from_what_was_recorded_before_a_restart():
    before = Site()
    before.run(14.0, memory=100.0)
    use, = before.meter.unrecorded()
    again = Site()
    again.show(("7", "n1", 0.0, 8.0))
    again.meter.resume([use])
    again.run(2.0, count=13, memory=8.0)
    assert again.window.memory_peak_bytes == 100
    after, = again.meter.unrecorded()
    assert (after.run, after.cpus_p95, after.memory_peak_bytes) == (use.run, pytest.approx(14), 100)
    assert after.measured_s == use.measured_s + 780
    assert after.cpus_mean == pytest.approx((14 * use.measured_s + 2 * 720) / after.measured_s)


def test_a_peak_of_its_first_minutes_counts_after_a_restart_only_until_a_window_was_measured():
    before = Site()
    before.run(14.0, count=3)
    use, = before.meter.unrecorded()
    assert use.cpus_p95 == pytest.approx(14)
    again = Site()
    again.show(("7", "n1", 0.0, 8.0))
    again.meter.resume([use])
    again.run(2.0, count=4)
    assert again.meter.unrecorded()[0].cpus_p95 == pytest.approx(14)
    again.run(2.0, count=14)
    assert again.meter.unrecorded()[0].cpus_p95 == pytest.approx(2)


def test_its_own_records_and_what_accounts_tell_add_nothing():
    site = Site()
    site.run(4.0)
    told = Use("7", 0.0, 10.0, "ann", "train_#", 2, 16, 128, 900.0, 890.0, "accounts", 1.0, 16.0, 0.0)
    site.meter.resume([told])
    use, = site.meter.unrecorded()
    site.meter.resume([use])
    site.show(("7", "n1", 12 * STEP_S * 4, 64.0))
    again, = site.meter.unrecorded()
    assert (use.measured_s, again.measured_s) == (660, 720)


def test_a_job_that_the_scheduler_left_out_once_does_not_begin_anew():
    site = Site()
    site.run(4.0)
    jobs, site.jobs = site.jobs, ()
    site.show()
    site.jobs = jobs
    site.show(("7", "n1", 13 * STEP_S * 4, 64.0))
    use, = site.meter.unrecorded()
    assert use.measured_s == 660 + 120


def test_jobs_without_gpus_are_watched_beside_gpus_only_and_never_recorded():
    site = Site(job("7", Allocation("n1", 0, (), 16, 128)))
    site.run(4.0)
    assert site.window.p95 == pytest.approx(4)
    assert site.meter.unrecorded() == []
    far = Site(job("7", Allocation("n1", 0, (), 16, 128)), nodes=(replace(NODE, gpus=0),))
    far.run(4.0)
    assert far.window is None


def test_a_suspended_job_is_not_watched_and_goes_on_where_it_was():
    site = Site()
    site.run(4.0)
    site.jobs = (job(state=JobState.SUSPENDED),)
    for _ in range(20):
        site.show(("7", "n1", 11 * STEP_S * 4, 1.0))
    assert site.window.p95 == pytest.approx(4)


def test_a_job_on_two_nodes_counts_where_it_uses_most_and_only_when_both_are_measured():
    parts = (Allocation("n1", 2, (0, 1), 16, 128), Allocation("n2", 2, (0, 1), 16, 128))
    site = Site(job("7", *parts), nodes=(NODE, Node("n2", ("gpu",), 8, cpus=64)))
    for minute in range(12):
        site.show(("7", "n1", minute * STEP_S, None), ("7", "n2", minute * STEP_S * 9, None))
    assert site.window.p95 == pytest.approx(9)
    alone = Site(job("7", *parts))
    alone.run(4.0)
    assert alone.window is None


def test_an_array_task_is_found_by_slurms_own_number():
    site = Site(job("40_2", raw_id=7))
    for minute in range(12):
        site.show(("7", "n1", minute * STEP_S * 3, None))
    window, = site.meter.windows().values()
    assert window.p95 == pytest.approx(3)


def test_all_that_a_node_uses_bounds_the_one_job_that_has_it_alone():
    site = Site()
    for minute in range(12):
        site.show(nodes=(NodeReading("n1", 1060.0 + minute * STEP_S, cpu_busy_ratio=0.25, memory_used_bytes=9.0),))
    assert (site.window.p95, site.window.source, site.window.memory_peak_bytes) == (16, "node", None)
    shared = Site(job("7"), job("8"))
    for minute in range(12):
        shared.show(nodes=(NodeReading("n1", 1060.0 + minute * STEP_S, cpu_busy_ratio=0.25),))
    assert shared.meter.windows() == {}


def test_the_activity_of_a_job_is_that_of_its_own_gpus():
    site = Site()
    for minute in range(12):
        gpus = [GpuReading(f"G{index}", "n1", index, 1060.0 + minute * STEP_S, activity=activity)
                  for index, activity in ((0, 0.2), (1, 0.4), (2, 1.0))]
        site.show(("7", "n1", minute * STEP_S, None), gpus=tuple(gpus))
    assert site.window.activity == pytest.approx(0.3)
    use, = site.meter.unrecorded()
    assert use.activity == pytest.approx(0.3)


def test_activity_is_unmeasured_where_a_gpu_is_missing_or_nobody_names_them():
    for part in (Allocation("n1", 2, (0, 5), 16, 128), Allocation("n1", 2, None, 16, 128)):
        site = Site(job("7", part))
        for minute in range(12):
            gpus = [GpuReading(f"G{index}", "n1", index, 1060.0 + minute * STEP_S, activity=0.5)
                      for index in range(3)]
            site.show(("7", "n1", minute * STEP_S, None), gpus=tuple(gpus))
        assert site.window.activity is None


def test_gpus_behind_one_that_is_lost_are_not_taken_for_those_before():
    site = Site(job("7", Allocation("n1", 2, (1, 2), 16, 128)))
    for minute in range(12):
        gpus = [GpuReading(f"G{index}", "n1", index, 1060.0 + minute * STEP_S, activity=activity)
                  for index, activity in ((1, 0.2), (2, 0.4), (3, 1.0))]
        site.show(("7", "n1", minute * STEP_S, None), gpus=tuple(gpus))
    assert site.window.activity == pytest.approx(0.3)


number = st.one_of(st.none(), st.floats(), st.floats(0, 1e6))


@given(st.lists(st.tuples(st.floats(0, 400), number, number, number), max_size=25))
@settings(max_examples=80, deadline=None)
def test_whatever_is_shown_what_is_recorded_is_possible(rounds):
    site = Site()
    for seconds, cpu, memory, activity in rounds:
        gpus = tuple(GpuReading(f"G{index}", "n1", index, site.now + seconds, activity=activity)
                       for index in range(2))
        site.show(("7", "n1", cpu, memory), gpus=gpus, seconds=seconds)
    for use in site.meter.unrecorded():
        assert 0 <= use.cpus_mean <= 1.1 * NODE.cpus
        assert 0 <= use.cpus_p95 <= 1.1 * NODE.cpus
        assert 0 <= use.at_limit_ratio <= 1
        assert 0 < use.measured_s <= sum(seconds for seconds, *_ in rounds) + 1e-6
        assert use.memory_peak_bytes is None or 0 <= use.memory_peak_bytes <= 1.1 * NODE.memory_bytes


def test_a_sample_takes_few_bytes():
    site = Site()
    site.meter = UsageMeter(1e6, 0.8)
    site.run(4.0, count=100)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for minute in range(2000):
            site.show(("7", "n1", (100 + minute) * STEP_S * 4.1, 64.0))
        assert tracemalloc.get_traced_memory()[0] - before < 100 * 2000
    finally:
        tracemalloc.stop()
