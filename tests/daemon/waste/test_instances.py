"""MIG instances as holders: idle watts by slices, the rest by activity; parts and idle make the GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.instances import parts
from idlewatt.exporters import dcgm
from idlewatt.exporters.dcgm import METRICS
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.telemetry import GpuInstance


def job(name):
    return Job(name, 0.0, JobState.RUNNING, "p", Request(1), start_s=0.0)


HALVES = (GpuInstance("1", 3 / 7, 0.9, ("7",)), GpuInstance("2", 3 / 7, 0.1, ("8",)))


def test_idle_watts_go_by_slices_and_the_rest_by_activity():
    first, second = parts((job("7"), job("8")), HALVES, 300.0, 100.0)
    assert first == pytest.approx((50 + 200 * 0.9) / 300)
    assert second == pytest.approx((50 + 200 * 0.1) / 300)


def test_what_belongs_to_instances_that_nobody_holds_is_nobodys():
    (first,) = parts((job("7"),), HALVES, 300.0, 100.0)
    assert first == pytest.approx(230 / 300)


def test_where_nobody_works_slices_count():
    resting = tuple(GpuInstance(str(number), share, 0.0, (str(number),)) for number, share in ((1, 1 / 7), (2, 3 / 7)))
    assert parts((job("1"), job("2")), resting, 100.0, 90.0) == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize(("jobs", "instances", "watts", "idle"), [
    ("78", (), 300.0, 100.0), ("79", HALVES, 300.0, 100.0), ("78", HALVES, 300.0, None), ("78", HALVES, None, 100.0),
    ("78", (GpuInstance("1", 1.0, 0.5, ("7", "8")),), 300.0, 100.0)])
def test_where_instances_do_not_tell_the_jobs_have_equal_parts(jobs, instances, watts, idle):
    assert parts(tuple(map(job, jobs)), instances, watts, idle) == [0.5, 0.5]


def test_what_shards_hold_divides_idle_watts_and_what_nobody_holds_is_nobodys():
    """A quarter and a half of a GPU that draws 300 W, 100 W of them idle: a quarter of those is nobody's."""
    first, second = parts((job("7"), job("8")), (), 300.0, 100.0, (0.25, 0.5))
    assert first == pytest.approx((25 + 200 / 3) / 300)
    assert second == pytest.approx((50 + 400 / 3) / 300)
    assert 1 - first - second == pytest.approx(25 / 300)


def test_a_job_alone_on_a_part_of_a_gpu_leaves_nobody_the_idle_watts_of_the_rest():
    assert parts((job("7"),), (), 100.0, 100.0, (0.25,)) == pytest.approx([0.25])
    assert parts((job("7"),), (), 300.0, 100.0, (0.25,)) == pytest.approx([225 / 300])


def test_where_one_share_is_not_told_all_parts_are_equal():
    assert parts((job("7"), job("8")), (), 300.0, 100.0, (0.25, None)) == [0.5, 0.5]


def test_more_than_a_gpu_is_handed_out_where_jobs_take_turns():
    assert parts((job("7"), job("8")), (), 300.0, 100.0, (1.0, 0.5)) == pytest.approx([2 / 3, 1 / 3])


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=8), st.none() | st.floats(0, 1000),
       st.none() | st.floats(0, 900))
def test_parts_by_shares_and_what_is_nobodys_make_the_gpu(shares, watts, idle):
    found = parts(tuple(job(str(place)) for place in range(len(shares))), (), watts, idle, shares)
    assert all(part >= 0 for part in found)
    assert sum(found) <= 1 + 1e-9
    if sum(shares) >= 1:
        assert sum(found) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.none() | st.floats(0, 1)), min_size=1, max_size=7),
       st.floats(1, 1000), st.floats(0, 1000))
def test_parts_and_idle_make_the_gpu(told, watts, idle):
    instances = tuple(GpuInstance(str(place), share, activity, (str(place),))
                      for place, (share, activity) in enumerate(told))
    found = parts(tuple(job(one.number) for one in instances), instances, watts, idle)
    assert sum(found) == pytest.approx(1.0)
    assert min(found) >= 0


def test_dcgms_rows_tell_instances_with_slices_activity_and_holders():
    page = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",UUID="GPU-a",GPU_I_ID="{number}",GPU_I_PROFILE="{profile}",'
        f'hpc_job="{holder}"}} {activity}\n' for number, profile, holder, activity in (
            (1, "3g.40gb", "7", 0.8), (2, "1g.10gb", "8", 0.4)))
    samples = Exposition(METRICS).samples(page.encode())
    (gpu,) = dcgm.parse(samples, Target("http://n0:9400/metrics", "n0:9400"), 1.0).gpus
    assert [(one.number, one.slices, one.jobs) for one in gpu.instances] == [
        ("1", 3 / 7, ("7",)), ("2", 1 / 7, ("8",))]
    assert [one.activity for one in gpu.instances] == pytest.approx([0.8, 0.4])
