"""What pods use, laid over the jobs that they are of."""

from idlewatt.storage.pod_readings import by_job
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.steering import Steering
from idlewatt.storage.telemetry import JobReading


def job(name, *pods):
    return Job(f"team/{name}", 0.0, JobState.RUNNING, "gpu", Request(gpus=1), steering=Steering("team", pods=pods))


def test_pods_of_a_job_on_one_server_add_up_and_those_of_other_servers_stand_apart():
    readings = [JobReading("team/a-0", "n1", 10.0, 5.0, 100.0), JobReading("team/a-1", "n1", 9.0, 7.0, None),
                JobReading("team/a-2", "n2", 10.0, 1.0, 10.0), JobReading("12", "n3", 10.0, 2.0)]
    found = by_job(readings, [job("a", "a-0", "a-1", "a-2")])
    assert found["team/a", "n1"] == JobReading("team/a", "n1", 9.0, 12.0, None)
    assert found["team/a", "n2"] == JobReading("team/a", "n2", 10.0, 1.0, 10.0)
    assert found["12", "n3"] is readings[3]


def test_of_a_job_of_which_a_pod_was_not_read_nothing_is_told():
    found = by_job([JobReading("team/a-0", "n1", 10.0, 5.0, 100.0)], [job("a", "a-0", "a-1")])
    assert ("team/a", "n1") not in found
