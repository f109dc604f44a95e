"""The answers have the keys and encodings of the slurmrestd they stand for."""

import json
from pathlib import Path

import pytest

from idlewatt.exporters.simulated import slurm
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster

REAL = json.loads((Path(__file__).parents[2] / "recorded/simulated/slurmrestd_22.05_keys.json").read_text())


@pytest.fixture(scope="module")
def cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(ClusterShape(tick_s=60))
    cluster.advance(cluster.now_s + 24 * 3600)
    return cluster


def opening() -> dict[int, dict]:
    return {job["job_id"]: job for job in slurm.jobs(SimulatedCluster())["jobs"]}


def test_answers_carry_the_keys_of_the_real_ones(cluster):
    jobs = opening()
    assert sorted(slurm.jobs(cluster)) == REAL["top"]
    assert sorted(jobs[1]) == REAL["job_running"]
    assert sorted(jobs[8]) == REAL["job_pending"]
    assert sorted(jobs[1]["job_resources"]) == REAL["job_resources"]
    assert sorted(jobs[1]["job_resources"]["allocated_nodes"][0]) == REAL["allocated_node"]
    assert sorted(slurm.nodes(cluster)["nodes"][0]) == REAL["node"]
    assert sorted(slurm.partitions(cluster)["partitions"][0]) == REAL["partition"]
    accounted = slurm.accounted(cluster)["jobs"][0]
    assert sorted(accounted) == REAL["accounted"]
    assert sorted(accounted["time"]) == REAL["accounted_time"]


def test_encoded_fields_read_as_the_real_ones():
    job, node = opening()[1], slurm.nodes(SimulatedCluster())["nodes"][0]
    assert job["gres_detail"] == REAL["examples"]["gres_detail"]
    assert job["tres_per_node"] == REAL["examples"]["tres_per_node"]
    assert node["gres"] == REAL["examples"]["gres"]
    assert node["gres_used"] == REAL["examples"]["gres_used"]
    assert job["tres_req_str"] == "cpu=128,mem=512G,node=1,billing=128,gres/gpu=4,gres/gpu:a100=4"


def test_an_empty_node_uses_no_index():
    assert slurm.nodes(SimulatedCluster())["nodes"][3]["gres_used"] == "gpu:v100:0(IDX:N/A)"


def test_pending_jobs_hold_nothing_and_say_why():
    job = opening()[8]
    assert (job["job_state"], job["state_reason"], job["nodes"], job["gres_detail"]) == ("PENDING", "Resources", "", [])
    assert job["start_time"] == 0


def test_the_indexes_of_jobs_and_nodes_agree(cluster):
    held = sum(int(detail.split(":")[2].split("(")[0])
               for job in slurm.jobs(cluster)["jobs"] for detail in job["gres_detail"])
    assert held == sum(int(node["gres_used"].split(":")[2].split("(")[0]) for node in slurm.nodes(cluster)["nodes"])


def test_accounting_answers_for_what_ended_in_the_window(cluster):
    everything = slurm.accounted(cluster)["jobs"]
    late = slurm.accounted(cluster, cluster.now_s - 6 * 3600)["jobs"]
    assert 0 < len(late) < len(everything)
    assert all(job["time"]["end"] >= cluster.now_s - 6 * 3600 for job in late)
    assert all(job["time"]["elapsed"] == job["time"]["end"] - job["time"]["start"] for job in everything)


def test_just_finished_jobs_are_still_shown_without_their_gpus(cluster):
    ended = cluster.finished[-1]
    cluster.advance(ended.end_s + 60)
    recent = [job for job in slurm.jobs(cluster)["jobs"] if job["job_id"] == ended.job_id]
    assert [job["gres_detail"] for job in recent] in ([[]], [])


@pytest.mark.parametrize(("names", "text"), [
    ([], ""),
    (["dgx-a100-01"], "dgx-a100-01"),
    (["dgx-a100-02", "dgx-a100-01"], "dgx-a100-[01-02]"),
    (["dgx-a100-01", "dgx-a100-03", "dgx-v100-007"], "dgx-a100-[01,03],dgx-v100-007"),
])
def test_host_lists_are_folded_as_slurm_folds_them(names, text):
    assert slurm.hostlist(names) == text
