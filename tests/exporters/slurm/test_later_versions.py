"""Slurm 23.11 (v0.0.40) and 25.05 (v0.0.43) in their own words, written by hand: of neither there is a recording."""

import json

import pytest

from idlewatt.exporters.slurm.parse_json import load, parse_job, parse_list
from idlewatt.exporters.slurm.parse_node import parse_node
from idlewatt.exporters.slurm.parse_rules import (
    parse_association,
    parse_license,
    parse_partition,
    parse_qos,
    parse_reservation,
)
from idlewatt.storage.records import Allocation, JobState, NodeState
from idlewatt.storage.rules import License
from idlewatt.storage.waiting import WaitReason

GIB = 1 << 30


@pytest.fixture
def read(recorded):
    """Return the function that reads a list of a version; no record may be left out."""
    def read(version, name, parse):
        parsed = parse_list(load(recorded(f"slurm/later/hand_written_{version}_{name}.json")), name, parse)
        assert not parsed.skipped
        return parsed.records

    return read


def test_a_running_job_of_23_11_holds_the_gpus_that_its_details_name(read):
    job, _ = read("23.11", "jobs", parse_job)
    assert (job.state, job.start_s, job.limit_s, job.priority) == (JobState.RUNNING, 1735000060.0, 3600.0, 4294)
    assert job.allocations == (Allocation("n1", 4, (0, 1, 2, 3), 16, 64 * GIB),
                               Allocation("n2", 4, (4, 5, 6, 7), 16, 64 * GIB))
    assert (job.request.gpus, job.request.nodes, job.request.gpu_model) == (8, 2, "a100")


def test_a_waiting_array_of_23_11_is_read_with_all_that_it_asks_for(read):
    _, job = read("23.11", "jobs", parse_job)
    asked, details = job.request, job.request.details
    assert (job.array, job.tasks, job.array_limit, job.limit_s) == ("502", 6, 2, None)
    assert (job.reason, job.start_s, job.allocations) == (WaitReason.ARRAY_LIMIT, None, ())
    assert (asked.gpus, asked.features, asked.required_nodes, asked.excluded_nodes) == (2, "ib&a100", ("n1", "n3"),
                                                                                      ("n2",))
    assert (details.cpus_per_gpu, details.licenses, details.exclusive_user, asked.exclusive) == (4, "matlab:2", True,
                                                                                             False)
    assert (details.memory_per_node_bytes, details.memory_said, details.unknown) == (64 * GIB, True, ())


def test_nodes_and_partitions_of_23_11_are_read(read):
    (node,), (partition,) = read("23.11", "nodes", parse_node), read("23.11", "partitions", parse_partition)
    assert (node.state, node.gpus, node.gpu_indexes_allocated, node.cpus) == (NodeState.DRAINING, 8, (0, 1, 2, 3), 252)
    assert (node.reservation, node.reason, node.threads_per_core, node.sockets) == ("exam", "dimm", 2, 2)
    assert (partition.nodes, partition.up, partition.priority_tier, partition.priority_factor) == (
        ("n1", "n2", "n3", "n4"), True, 5, 10)
    assert (partition.max_time_s, partition.most_nodes, partition.most_cpus_per_node) == (172_800.0, 2, None)
    assert (partition.accounts, partition.qos_denied, partition.qos) == (("lab", "chem"), ("low",), "partq")


def test_a_partition_without_shares_gives_whole_nodes(recorded):
    page = json.loads(recorded("slurm/later/hand_written_23.11_partitions.json"))
    for shares, exclusive in ((1, False), (0, True)):
        page["partitions"][0]["maximums"]["shares"] = shares
        (partition,) = parse_list(load(json.dumps(page)), "partitions", parse_partition).records
        assert partition.exclusive is exclusive


def test_jobs_of_25_05_are_read(read):
    running, waiting, ended = read("25.05", "jobs", parse_job)
    assert running.allocations == (Allocation("h1", 2, (1, 3), 24, 80 * GIB),)
    details = running.request.details
    assert (details.cpus_per_gpu, details.memory_per_gpu_bytes, details.licenses) == (12, 40 * GIB, "ansys:1")
    assert (running.request.gpus, running.request.gpu_model, running.restarts) == (2, "h100", 1)
    assert (ended.state, ended.end_s, ended.exit_code) == (JobState.TIMEOUT, 1735003660.0, -15)
    assert (waiting.job_id, waiting.group, waiting.reason) == ("902+0", "902", WaitReason.PRIORITY)


def test_a_waiting_job_of_25_05_is_read_with_all_that_it_asks_for(read):
    _, job, _ = read("25.05", "jobs", parse_job)
    asked, details = job.request, job.request.details
    assert (asked.gpus, asked.nodes, asked.exclusive, asked.reservation) == (4, 2, True, "exam")
    assert (details.gpus_per_task, details.tasks, details.tasks_per_node, details.most_nodes) == (1, 4, 2, 2)
    assert (details.contiguous, details.switches, details.switches_until_s) == (True, 1, job.submit_s + 300)
    assert (job.deadline_s, job.least_limit_s, details.unknown) == (1735090000.0, 1800.0, ())
    assert (job.expected_start_s, job.scheduled_nodes) == (1735009000.0, ("h1", "h2"))


def test_nodes_and_partitions_of_25_05_are_read(read):
    (busy, asleep), (partition,) = read("25.05", "nodes", parse_node), read("25.05", "partitions", parse_partition)
    assert (busy.state, busy.gpus, busy.gpu_indexes_allocated, busy.features) == (NodeState.UP, 4, (1, 3),
                                                                                 ("h100", "ndr"))
    assert (asleep.state, asleep.wakes, asleep.gpus_allocated) == (NodeState.POWERED_DOWN, True, 0)
    assert (partition.nodes, partition.up, partition.draining, partition.most_nodes) == (("h1", "h2"), True, True, None)


def test_reservations_and_licences_of_25_05_are_read(read):
    exam, service = read("25.05", "reservations", parse_reservation)
    assert (exam.nodes, exam.start_s, exam.end_s, exam.maintenance) == (("h1",), 1735010000.0, 1735020000.0, False)
    assert (exam.accounts, exam.users, exam.flags, exam.whole) == (("lab", "chem"), (), ("SPEC_NODES", "FLEX"), True)
    assert (service.maintenance, service.users, service.whole) == (True, ("root",), False)
    assert read("25.05", "licenses", parse_license) == (License("ansys", 4, 1, 2),)


def test_the_limits_of_a_qos_of_25_05_are_read(read):
    (qos,) = read("25.05", "qos", parse_qos)
    assert (qos.name, qos.priority, qos.preempts, qos.usage_factor) == ("high", 1000, ("normal",), 2.0)
    limits = qos.ceilings
    assert (limits.group, limits.user, limits.account) == (
        (("gpu", 16.0), ("jobs", 20.0)), (("gpu:h100", 4.0), ("jobs", 2.0)), (("jobs", 9.0),))
    assert (limits.job, limits.least, limits.wall_s) == ((("cpu", 64.0), ("mem", 2.0 * GIB)), (("gpu", 1.0),), 86400.0)


def test_what_the_jobs_of_a_qos_of_25_05_may_use_in_all_is_read(recorded):
    answer = json.loads(recorded("slurm/later/hand_written_25.05_qos.json"))
    minutes = answer["qos"][0]["limits"]["max"]["tres"]["minutes"]
    minutes["total"] = [{"type": "gres", "name": "gpu", "id": 1001, "count": 600}]
    (qos,) = parse_list(load(json.dumps(answer)), "qos", parse_qos).records
    assert dict(qos.ceilings.group) == {"gpu": 16.0, "jobs": 20.0, "gpu seconds used": 36_000.0}
    assert qos.ceilings.on_the_past
    assert qos.ceilings.unreported == ()


def test_the_limits_of_associations_of_25_05_are_read(read):
    lab, alice = read("25.05", "associations", parse_association)
    assert (lab.account, lab.user, lab.parent, lab.shares) == ("lab", "", "root", 5)
    limits = lab.ceilings
    assert (dict(limits.group), limits.user, limits.job, limits.wall_s) == (
        {"gpu": 30, "cpu": 100, "jobs": 7}, (("jobs", 3.0),), (("gpu", 8.0),), 86400.0)
    assert (alice.user, alice.shares) == ("alice", None)
