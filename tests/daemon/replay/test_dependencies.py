"""Which of the jobs that a dependency names is waited for, as squeue prints dependencies."""

import pytest

from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Job, JobState, Request

NOW = 1_000_000.0
SIZES = {"1": 600.0, "2": 3600.0, "5_0": 900.0, "5_1": 7200.0, "5_2": 60.0, "7+0": 60.0, "7+1": 90.0,
         "team/a-job": 60.0}


def waiting(job_id, limit_s, dependency="", after_s=0.0):
    array, group = (job_id.split(mark)[0] if mark in job_id else "" for mark in "_+")
    return Job(job_id, NOW + after_s, JobState.PENDING, "p", Request(1, 1), limit_s=limit_s, dependency=dependency,
               array=array, group=group)


def waited_for(dependency, job_id="9"):
    """Return the id of the job that another one waits for."""
    jobs = [waiting(name, limit_s) for name, limit_s in SIZES.items()] + [waiting(job_id, 60.0, dependency, 1.0)]
    workload = Workload.from_records(jobs)
    row = workload.dependency[workload.ids.index(job_id)]
    return workload.ids[row] if row >= 0 else None


@pytest.mark.parametrize(("dependency", "expected"), [
    ("afterok:1", "1"), ("afterok:1:2", "2"), ("afterok:2:1", "2"),
    ("afterok:1(unfulfilled),afterany:2(unfulfilled)", "2"), ("afterok:2(unfulfilled),afterok:1(unfulfilled)", "2"),
    ("after:1+5:2+3(unfulfilled)", "2"), ("singleton,afternotok:1", "1"), ("singleton", None), ("", None)])
def test_of_several_jobs_that_which_ends_last_is_waited_for(dependency, expected):
    assert waited_for(dependency) == expected


@pytest.mark.parametrize("dependency", ["afterok:77:2", "afterok:77(failed),afterok:2", "afterok:2:77"])
def test_a_job_that_is_not_known_hides_none_that_is(dependency):
    assert waited_for(dependency) == "2"


def test_where_one_of_several_is_enough_that_which_ends_first_is_waited_for():
    assert waited_for("afterok:2(unfulfilled)?afterok:1(unfulfilled)") == "1"


@pytest.mark.parametrize(("dependency", "expected"), [
    ("afterok:5", "5_1"), ("afterok:5_*(unfulfilled)", "5_1"), ("afterok:5_0(unfulfilled)", "5_0"),
    ("afterok:1:5_*", "5_1"), ("afterok:7", "7+1"), ("afterany:7+0", "7+0"), ("afterany:team/a-job", "team/a-job")])
def test_a_whole_array_has_ended_with_the_last_of_its_tasks(dependency, expected):
    assert waited_for(dependency) == expected


def test_a_task_waits_for_the_task_of_its_number_where_they_correspond():
    assert waited_for("aftercorr:5_*(unfulfilled)", "9_2") == "5_2"


def test_what_ran_ends_when_it_ended_and_what_runs_at_its_limit():
    runs = Job("1", NOW - 600, JobState.RUNNING, "p", Request(1, 1), limit_s=3600.0, start_s=NOW)
    ended = Job("2", NOW - 600, JobState.COMPLETED, "p", Request(1, 1), limit_s=9e9, start_s=NOW, end_s=NOW + 60)
    workload = Workload.from_records([runs, ended, waiting("3", 60.0, "afterany:2:1")])
    assert workload.dependency.tolist() == [-1, -1, 0]


def test_of_an_id_the_last_submission_before_a_jobs_own_is_waited_for():
    jobs = [waiting("1", 9000.0), waiting("1", 60.0, "afterany:1", 10.0), waiting("1", 60.0, "afterany:1", 20.0)]
    assert Workload.from_records(jobs).dependency.tolist() == [-1, 0, 1]
