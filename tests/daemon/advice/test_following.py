"""The commands by which advice is followed, in the forms that Slurm 22.05 took."""

import pytest

from idlewatt.daemon.advice.following import command_for
from idlewatt.storage.recommendations import Placement
from idlewatt.storage.records import Job, JobState, Request


@pytest.mark.parametrize(("facts", "command"), [
    ({"job_id": "124"}, "scontrol update jobid=124 ReqNodeList=b,c"),
    ({"job_id": "124_3", "raw_id": 130}, "scontrol update jobid=124_3 ReqNodeList=b,c"),
    ({"job_id": "124+0", "raw_id": 124, "group": "124"}, "scontrol update jobid=124 ExcNodeList=a,d"),
    ({"job_id": "124+1", "raw_id": 125, "group": "124"}, "scontrol update jobid=125 ReqNodeList=b,c ExcNodeList="),
    ({"job_id": "9", "request": Request(2, 2, 1, features="[ib*1&dgx*1]")}, "scontrol update jobid=9 ExcNodeList=a,d"),
    ({"job_id": "9", "tasks": 4}, ""),
    ({"job_id": "team/train", "owner": "Job/train"}, ""),
])
def test_each_kind_of_job_is_told_its_nodes_in_words_that_slurm_takes(facts, command):
    job = Job(**{"submit_s": 0.0, "state": JobState.PENDING, "partition": "p", "request": Request(2)} | facts)
    assert command_for(job, Placement(("b", "c"), (1, 1)), "abcd") == command
