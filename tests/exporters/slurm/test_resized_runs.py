"""A job that is resized while it runs has several records in the accounts, and is one run."""

from dataclasses import replace

import pytest

from idlewatt.exporters.slurm.parse_json import load, parse_accounted, parse_list
from idlewatt.exporters.slurm.parse_text import parse_sacct
from idlewatt.exporters.slurm.resized_runs import ResizedRuns
from idlewatt.storage.records import Allocation, JobState

SUBMITTED, STARTED, RESIZED, ENDED = (1795919598.0 + step for step in (0, 1, 6, 26))


@pytest.fixture(params=["sacct", "slurmrestd"])
def records(request, recorded):
    """The two records of a real Slurm 22.05, whose job of two nodes ran on with one."""
    if request.param == "sacct":
        return parse_sacct(recorded("slurm/resized/sacct.txt").decode()).records
    return parse_list(load(recorded("slurm/resized/rest_slurmdb_jobs.json")), "jobs", parse_accounted).records


def test_the_accounts_submit_the_second_record_when_the_job_is_resized(records):
    """What a new record looks like: this is why it can be told from another job."""
    assert [(one.submit_s, one.start_s, one.end_s, one.state) for one in records] == [
        (SUBMITTED, STARTED, RESIZED, JobState.RUNNING), (RESIZED, STARTED, ENDED, JobState.COMPLETED)]


def test_a_job_that_was_resized_is_one_run_with_its_own_submission_and_its_last_size(records):
    (run,) = ResizedRuns().joined(records)
    assert (run.submit_s, run.eligible_s, run.start_s, run.end_s) == (SUBMITTED, SUBMITTED, STARTED, ENDED)
    assert run.state is JobState.COMPLETED
    assert run.allocations == (Allocation("dgx-a100-01", 4, None, 16, 16000 << 20),)


def test_the_first_record_is_remembered_where_the_accounts_do_not_report_it_again(records):
    resized = ResizedRuns()
    resized.joined(records[:1])
    assert [run.submit_s for run in resized.joined(records[1:])] == [SUBMITTED]
    assert [run.submit_s for run in ResizedRuns().joined(records[1:])] == [RESIZED]
    assert ResizedRuns().lacks(records[1])


@pytest.mark.parametrize("order", [1, -1])
def test_a_job_that_was_resized_twice_is_one_run_whatever_comes_first(records, order):
    first, last = records
    second = replace(first, submit_s=RESIZED, end_s=RESIZED + 5)
    third = replace(last, submit_s=RESIZED + 5, cpu_seconds=9.0)
    (run,) = ResizedRuns().joined([first, second, third][::order])
    assert (run.submit_s, run.end_s, run.cpu_seconds) == (SUBMITTED, ENDED, None)


def test_another_run_of_the_same_job_is_another_run(records):
    again = replace(records[1], submit_s=ENDED, start_s=ENDED + 60, end_s=ENDED + 90)
    assert len(ResizedRuns().joined([*records, again])) == 2


def test_a_job_that_was_resized_in_the_second_of_its_start_keeps_its_submission(records):
    first, last = replace(records[0], end_s=STARTED), replace(records[1], submit_s=STARTED, eligible_s=STARTED)
    assert [run.submit_s for run in ResizedRuns().joined([first, last])] == [SUBMITTED]


def test_a_run_with_fewer_gpus_than_requested_that_began_with_its_submission_seems_resized(records):
    last = replace(records[1], submit_s=STARTED)
    assert ResizedRuns().lacks(last)
    assert not ResizedRuns().lacks(replace(last, allocations=records[0].allocations))
