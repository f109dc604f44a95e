"""What a mean in the accounts says of how much a run needed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.rightsizing.accounts import accounted
from idlewatt.storage.records import Allocation, Job, JobState, Request

RUN = Job("7", 0.0, JobState.COMPLETED, "gpu", Request(2), "ann", name="train_3", start_s=100.0, end_s=1100.0,
          allocations=(Allocation("n1", 2, None, 16, 128),), cpu_seconds=200.0)


def test_a_run_that_hardly_used_its_cpus_needed_no_more_than_twenty_times_its_mean():
    use, = accounted([RUN], 0.8)
    assert (use.cpus_mean, use.cpus_p95, use.at_limit_ratio) == (0.2, 4.0, 0)
    assert (use.run, use.template, use.source, use.memory_peak_bytes) == (
        ("7", 0.0, 100.0), "train_#", "accounts", None)


def test_a_run_that_used_nearly_all_was_at_its_limit():
    use, = accounted([replace(RUN, cpu_seconds=15_200.0)], 0.8)
    assert (use.cpus_p95, use.at_limit_ratio) == (16, pytest.approx(0.75))


def test_what_nearly_all_is_the_site_says():
    busy = replace(RUN, cpu_seconds=15_200.0)
    assert [use.at_limit_ratio for starved in (0.9, 1.0) for use in accounted([busy], starved)] == [
        pytest.approx(0.5), 0]


def test_of_two_nodes_either_may_have_done_all_the_work_or_both_half_of_it():
    both = (Allocation("n1", 2, None, 16, 128), Allocation("n2", 2, None, 16, 128))
    use, = accounted([replace(RUN, allocations=both, cpu_seconds=16_000.0)], 0.8)
    assert (use.cpus_mean, use.cpus_p95, use.at_limit_ratio) == (16, 16, 0)


@pytest.mark.parametrize("changes", [{"cpu_seconds": None}, {"start_s": None}, {"end_s": None}, {"allocations": ()},
                                     {"end_s": 110.0}, {"allocations": (Allocation("n1", 2),)},
                                     {"allocations": (Allocation("n1", 0, None, 16, 128),)}])
def test_of_other_runs_nothing_is_said(changes):
    assert list(accounted([replace(RUN, **changes)], 0.8)) == []


@given(st.lists(st.floats(0, 16), min_size=20, max_size=60))
@settings(max_examples=80, deadline=None)
def test_the_bounds_hold_whatever_a_run_did(cores):
    seconds = 1000.0 * float(np.mean(cores))
    for use in accounted([replace(RUN, cpu_seconds=seconds)], 0.8):
        assert use.cpus_p95 >= np.percentile(cores, 95, method="lower") - 1e-9
        assert use.at_limit_ratio <= np.mean(np.array(cores) >= 0.8 * 16) + 1e-9
