"""How the jobs of the last day and week fared, as the database adds them up."""

from dataclasses import replace

import pytest

from idlewatt.storage.records import Allocation, Job, JobState, Request

NOW, HOUR, DAY = 1_795_219_200.0, 3600.0, 86400.0


def job(number, ended_ago, wait, run, **more):
    start = NOW - ended_ago - run
    made = Job(str(number), start - wait, JobState.COMPLETED, "a100", Request(4), user="u", start_s=start,
               end_s=start + run, flavour="4-gpu", allocations=(Allocation("n", 4),))
    return replace(made, **more)


@pytest.fixture
def fared(history):
    def of(*jobs, since_s=NOW - DAY):
        history.record_finished(jobs)
        return history.finished(since_s, NOW)
    return of


def test_means_and_makespan_are_those_of_the_jobs_that_ended_within_the_time(fared):
    (found,) = fared(job(1, HOUR, 600, HOUR), job(2, 2 * HOUR, 0, 3 * HOUR), job(3, 2 * DAY, 9 * HOUR, 1.0))
    assert (found.partition, found.flavour, found.jobs) == ("a100", "4-gpu", 2)
    assert (found.wait_mean_s, found.run_mean_s, found.completion_mean_s) == (300.0, 2 * HOUR, 2 * HOUR + 300)
    assert found.slowdown_mean == pytest.approx((1 + 600 / HOUR + 1) / 2)
    assert found.makespan_s == 4 * HOUR


def test_short_jobs_count_as_ten_seconds_and_waits_begin_when_a_job_might(fared):
    (found,) = fared(job(1, HOUR, 100, 1.0, eligible_s=NOW - HOUR - 1 - 19))
    assert (found.wait_mean_s, found.slowdown_mean) == (19.0, 2.0)


def test_each_partition_and_flavour_is_told_apart_and_who_has_none_is_of_none(fared):
    found = fared(job(1, HOUR, 0, HOUR), job(2, HOUR, 0, HOUR, flavour=""), job(3, HOUR, 0, HOUR, partition="v100"),
                  job(4, HOUR, 0, HOUR, restarts=1), job(5, HOUR, 0, HOUR, start_s=None))
    assert {(one.partition, one.flavour): one.jobs for one in found} == {
        ("a100", "4-gpu"): 1, ("a100", ""): 1, ("v100", "4-gpu"): 1}


def test_a_job_that_was_submitted_before_the_time_does_not_stretch_its_makespan(fared):
    (found,) = fared(job(1, HOUR, 5 * DAY, HOUR))
    assert found.makespan_s == DAY - HOUR
