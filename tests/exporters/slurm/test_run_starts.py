"""A job that is put back into the queue keeps its former run's start while that run ends."""

from dataclasses import replace

import pytest

from idlewatt.exporters.slurm.run_starts import RunStarts
from idlewatt.storage.records import Job, JobState, Request

RAN = Job("7", 50.0, JobState.RUNNING, "gpu", Request(1), start_s=100.0)
ENDS = replace(RAN, state=JobState.COMPLETING)


def looks(*jobs):
    """Return the start that each look tells; the looks are 10 s apart, the first at 200."""
    starts = RunStarts()
    return [starts.completed([job], 200.0 + 10 * place)[0].start_s for place, job in enumerate(jobs)]


def test_the_time_of_a_requeue_is_no_start_however_long_the_former_run_takes_to_end():
    put_back = replace(ENDS, start_s=210.0, restarts=1)
    assert looks(RAN, put_back, put_back, put_back) == [100.0] * 4


def test_a_second_requeue_is_told_from_the_first():
    again = replace(RAN, start_s=205.0, restarts=1)
    assert looks(again, replace(ENDS, start_s=210.0, restarts=2)) == [205.0, 205.0]


def test_a_start_to_come_is_that_of_the_next_run():
    assert looks(RAN, replace(ENDS, start_s=330.0)) == [100.0, 100.0]


def test_a_run_that_ends_by_itself_keeps_its_start():
    second = replace(RAN, start_s=205.0, restarts=1)
    assert looks(second, replace(second, state=JobState.COMPLETING)) == [205.0, 205.0]
    assert looks(ENDS) == [100.0]


def test_of_a_job_that_ran_before_and_is_seen_first_as_it_ends_no_start_is_known():
    put_back = replace(ENDS, start_s=200.0, restarts=1)
    assert looks(put_back, put_back) == [None, None]


@pytest.mark.parametrize("between", [replace(RAN, state=JobState.PENDING, start_s=None), replace(RAN, job_id="8")])
def test_what_is_gone_for_a_look_is_forgotten(between):
    assert looks(RAN, between, replace(ENDS, start_s=210.0, restarts=1))[-1] is None


def test_jobs_that_are_not_changed_stay_the_same_objects():
    assert RunStarts().completed([RAN], 200.0)[0] is RAN
