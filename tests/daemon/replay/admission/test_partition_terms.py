"""What a partition asks of jobs, and what the quality of service of a job lifts of it."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.gate import Gate, Hold
from idlewatt.daemon.replay.admission.resource_demand import special
from idlewatt.exporters.slurm.fields import Fields
from idlewatt.exporters.slurm.parse_rules import parse_qos
from idlewatt.exporters.slurm.parse_settings import QOS_FIELDS, parse_qos_table
from idlewatt.storage.details import Details
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import Qos, SchedulerRules, SchedulerSettings

NOW = 1_000_000.0
SITE = SchedulerSettings("none", (), enforced=("limits",), memory_counts=True, cores_whole=True, tree=True)
BOTH = ("a", "b")


def asks(gpus, nodes=1, each=None, most_nodes=0, limit_s=3600.0, **facts):
    """Return a waiting job."""
    request = Request(gpus, nodes, each, cpus=1, details=Details(most_nodes=most_nodes))
    return Job("1", NOW - 60, JobState.PENDING, request=request,
               **{"partition": "p", "limit_s": limit_s, "user": "alice", "account": "proj", "qos": "normal"} | facts)


def gate_of(partitions, *qos):
    """Return the gate of two free nodes, both in all partitions."""
    names = tuple(one.name for one in partitions)
    nodes = tuple(Node(name, names, 8, cpus=64, memory_bytes=1 << 39, threads_per_core=2, sockets=2,
                       gpu_indexes_allocated=()) for name in BOTH)
    return Gate(SchedulerSnapshot(NOW, nodes, tuple(partitions), (), SchedulerRules(site=SITE, qos=qos)), NOW)


def judged(partition, job, *flags):
    """Return what becomes of a job whose QOS has some flags, on two free nodes."""
    judge = gate_of([partition], Qos("normal", flags=flags))
    found = judge.bars(job) or judge.find(job)
    return found.cause if isinstance(found, Hold) else str(found)


DAY = Partition("p", BOTH, 86400.0)
WEEK = asks(1, 1, 1, limit_s=7 * 86400.0)
TWO = asks(2, 2, 1, most_nodes=2)


@pytest.mark.parametrize(("partition", "job", "flags", "placed"), [
    (DAY, WEEK, (), "partition"),
    (DAY, WEEK, ("PARTITIONTIMELIMIT",), "a:1"),
    (DAY, WEEK, ("PARTITION_TIME_LIMIT",), "a:1"),
    (DAY, WEEK, ("PARTITIONMAXNODES", "DENYONLIMIT"), "partition"),
    (Partition("p", BOTH, most_nodes=1), TWO, (), "partition"),
    (Partition("p", BOTH, most_nodes=1), TWO, ("PARTITIONMAXNODES",), "a:1,b:1"),
    (Partition("p", BOTH, most_nodes=1), TWO, ("PARTITION_MAXIMUM_NODE",), "a:1,b:1"),
    (Partition("p", BOTH, most_nodes=1), asks(3, 3, 1, most_nodes=3), ("PARTITIONMAXNODES",), "partition"),
    (Partition("p", BOTH, least_nodes=2), asks(1, 1, 1, most_nodes=1), (), "partition"),
    (Partition("p", BOTH, least_nodes=2), asks(1, 1, 1, most_nodes=1), ("PARTITIONMINNODES",), "a:1"),
    (Partition("p", BOTH, least_nodes=2), asks(1, 1, 1, most_nodes=1), ("PARTITION_MINIMUM_NODE",), "a:1"),
])
def test_the_flags_of_a_qos_lift_the_limits_of_a_partition(partition, job, flags, placed):
    assert judged(partition, job, *flags) == placed


def test_a_job_without_a_limit_of_its_own_gets_that_of_its_partition_whatever_its_qos_lifts():
    judge = gate_of([DAY], Qos("normal", flags=("PARTITIONTIMELIMIT",)))
    assert [way.limit_s for job in (asks(1, limit_s=None), WEEK) for way in judge.ways(job)] == [86400.0, 604800.0]


def test_both_spellings_of_the_flags_are_read_as_slurm_writes_them():
    cells = dict.fromkeys(QOS_FIELDS, "") | {"Name": "normal", "Priority": "0", "UsageFactor": "1.000000",
                                             "Flags": "PartitionTimeLimit,PartitionMaxNodes"}
    (listed,) = parse_qos_table("|".join(cells[name] for name in QOS_FIELDS)).records
    json = parse_qos(Fields({"name": "normal", "flags": ["PARTITION_TIME_LIMIT", "PARTITION_MAXIMUM_NODE"]}))
    for qos in (listed, json):
        judge = gate_of([Partition("p", BOTH, 86400.0, most_nodes=1)], Qos(qos.name, flags=qos.flags))
        assert judge.bars(asks(2, 2, 1, most_nodes=2, limit_s=7 * 86400.0)) is None


WIDE, NARROW = Partition("p", BOTH, least_nodes=2), Partition("p", BOTH, most_nodes=1)


@pytest.mark.parametrize(("partition", "job", "flags", "placed"), [
    (WIDE, asks(4, 1, 4), (), "a:4,b:4"),
    (WIDE, asks(4), (), "a:3,b:1"),
    (WIDE, asks(4, 1, 4), ("PARTITIONMINNODES",), "a:4"),
    (NARROW, asks(12), (), "room"),
    (NARROW, asks(8), (), "a:8"),
    (NARROW, asks(12), ("PARTITIONMAXNODES",), "room"),
    (NARROW, asks(12, most_nodes=2), ("PARTITIONMAXNODES",), "a:8,b:4"),
    (Partition("p", BOTH, most_nodes=2), asks(12), (), "a:8,b:4"),
])
def test_a_job_takes_as_many_nodes_as_its_partition_gives_at_least_and_at_most(partition, job, flags, placed):
    assert judged(partition, job, *flags) == placed


def test_each_partition_of_a_job_gives_it_the_number_of_nodes_that_is_its_own():
    wide, narrow = Partition("wide", BOTH, least_nodes=3, priority_tier=2), Partition("narrow", BOTH, most_nodes=1)
    for listed in ("wide,narrow", "narrow,wide"):
        judge, job = gate_of([wide, narrow]), asks(4, 1, 4, partition=listed)
        assert (judge.bars(job), str(judge.find(job))) == (None, "a:4")


@pytest.mark.parametrize(("least", "nodes"), [(2, 2), (0, 1)])
def test_a_start_is_advised_on_as_many_nodes_as_a_partition_gives_at_least(least, nodes):
    judge, job = gate_of([replace(WIDE, least_nodes=least)]), asks(4, 1, 4, most_nodes=2)
    assert special(job, judge.demand(job)) or least == 0
    assert len(judge.admit(job, None).nodes) == nodes
    assert int(judge.resources.free_gpus.sum()) == 16 - 4 * nodes
