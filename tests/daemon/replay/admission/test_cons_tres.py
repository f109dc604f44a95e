"""Nodes that Slurm 22.05 itself took for jobs that were alone in the queue, as ``sbatch --test-only`` told them."""

from dataclasses import replace

import pytest

from idlewatt.daemon.replay.admission.gate import Gate
from idlewatt.daemon.replay.admission.node_resources import FRESH
from idlewatt.storage.details import Details
from idlewatt.storage.records import Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings

MIB = 1 << 20
NODES = [("a100-1", 8, 128, 10, 5), ("a100-2", 8, 128, 0, 0), ("a100-3", 8, 128, 0, 0), ("cpu-1", 0, 64, 0, 0),
         ("v100-1", 4, 64, 20, 3), ("v100-2", 4, 64, 0, 0)]
"""Name, GPUs, CPUs, and how many of these are in use."""


def cluster():
    known = tuple(Node(name, ("all",), gpus, name.split("-")[0] if gpus else "", cpus, 500_000 * MIB,
                       gpus_allocated=taken, cpus_allocated=used, threads_per_core=2, sockets=2,
                       gpu_indexes_allocated=tuple(range(taken))) for name, gpus, cpus, used, taken in NODES)
    return Gate(SchedulerSnapshot(0.0, known, (Partition("all", tuple(node.name for node in known)),), (),
                                  SchedulerRules(
        site=SchedulerSettings("none", (), enforced=(), memory_counts=True, cores_whole=True, tree=False))), 0.0)


def asks(gpus=0, nodes=1, each=None, model="", cpus=1, **details):
    return Job(f"{gpus}{nodes}{each}{model}{details}", 0.0, JobState.PENDING, "all",
               Request(gpus, nodes, each, cpus, gpu_model=model, details=Details(**details)), limit_s=600.0)


def planned(gate, job):
    """Return the nodes that a job would be planned on."""
    resources = gate.resources.copy()
    resources.as_planned = True
    return ",".join(gate.sought(job, gate.ways(job)[0], resources).nodes)


@pytest.mark.parametrize(("job", "nodes"), [
    (asks(2, 1, 2, cpus=8), "v100-2"),                                     # --gres=gpu:2 -c8
    (asks(3), "v100-2"),                                                   # --gpus=3
    (asks(9), "a100-2,a100-3"),                                            # --gpus=9
    (asks(7, 2, most_nodes=3), "a100-2,a100-3"),                           # --gpus=7 -N2-3
    (asks(4, 2, most_nodes=3), "a100-2,v100-2"),                           # --gpus=4 -N2-3
    (asks(8, 2, model="a100", most_nodes=3), "a100-2,a100-3"),             # --gpus=a100:8 -N2-3
    (asks(4, 2, 2, cpus=2, tasks=2, most_nodes=2), "a100-1,a100-2"),       # --gpus-per-node=2 -N2
    (asks(2, cpus=2, gpus_per_task=2), "v100-2"),                          # --gpus-per-task=2 -n1 -c2
    (asks(4, cpus=8, gpus_per_task=1, tasks=4), "v100-2"),                 # --gpus-per-task=1 -n4 -c2
    (asks(6, cpus=6, gpus_per_task=2, tasks=3), "a100-2"),                 # --gpus-per-task=2 -n3 -c2
    (asks(4, cpus=4, gpus_per_socket=2, tasks=4, most_nodes=1), "a100-2"),  # --gpus-per-socket=2 -N1 -n4
])
def test_nodes_with_more_of_the_wanted_gpus_free_come_first_and_of_these_the_tightest(job, nodes):
    assert planned(cluster(), job) == nodes


def test_of_nodes_alike_the_first_is_taken_where_as_many_whole_tasks_have_room():
    """As for ``--gres=gpu:2 -c8`` with 126 and 122 CPUs free: 120 count on each node."""
    known = tuple(Node(name, ("all",), 8, "a100", 128, 500_000 * MIB, gpus_allocated=4, cpus_allocated=used,
                       threads_per_core=2, sockets=2) for name, used in (("a", 2), ("b", 6)))
    site = SchedulerSettings("none", (), enforced=(), memory_counts=True, cores_whole=True, tree=False)
    snapshot = SchedulerSnapshot(0.0, known, (Partition("all", ("a", "b")),), (), SchedulerRules(site=site))
    assert planned(Gate(snapshot, 0.0), asks(2, 1, 2, cpus=8)) == "a"
    assert planned(Gate(snapshot, 0.0), asks(2, 1, 2, cpus=1)) == "b"
    tight = replace(snapshot, nodes=(replace(known[0], cpus_allocated=124), known[1]))
    assert planned(Gate(tight, 0.0), asks(2, 1, 2, cpus=3)) == "a"  # three CPUs are two whole cores, and these are free


def test_a_job_without_gpus_comes_first_to_nodes_that_nobody_looked_at_or_to_those_the_last_job_left_behind():
    gate = cluster()
    assert planned(gate, asks(2, 2, 1, "a100", 8, tasks=2, most_nodes=2)) == "a100-1,a100-2"
    assert planned(gate, asks(cpus=16, tasks=16)) == "a100-1"
    gate.resources.history = FRESH
    planned(gate, asks(1))  # looks at every node with GPUs
    assert planned(gate, asks(cpus=16, tasks=16)) == "cpu-1"


TREE = [("a100-2", 8, 128, 0, 0, "leaf2"), ("a100-3", 8, 128, 26, 7, "leaf1"), ("h100-1", 4, 96, 0, 0, "leaf1"),
        ("h100-2", 4, 96, 0, 0, "leaf1")]


@pytest.mark.parametrize(("job", "nodes"), [
    (asks(7, 2, model="a100", most_nodes=3), ""),     # --gpus=a100:7 -N2-3: one node counts as enough, and is not
    (asks(7, 2, model="a100", most_nodes=2), "a100-2,a100-3"),              # --gpus=a100:7 -N2
    (asks(4, 2, 2, tasks=2, cpus=2, most_nodes=2), "h100-1,h100-2"),        # --gpus-per-node=2 -N2: the tightest leaf
    (asks(1), "a100-2"),                                                    # --gpus=1: the smallest leaf of those alike
    # --gpus-per-task=a100:1 -n3 -c8 --ntasks-per-node=1: two nodes are too few
    (asks(3, model="a100", cpus=24, gpus_per_task=1, tasks=3, tasks_per_node=1), ""),
])
def test_below_switches_nodes_are_gathered_by_weight_and_taken_leaf_by_leaf(job, nodes):
    """As a real Slurm 22.05 with topology/tree planned them."""
    known = tuple(Node(name, ("all",), gpus, name.split("-")[0], cpus, 500_000 * MIB, gpus_allocated=taken,
                       cpus_allocated=used, threads_per_core=2, sockets=2, leaf=leaf, spine="spine")
                  for name, gpus, cpus, used, taken, leaf in TREE)
    rules = SchedulerRules(
        site=SchedulerSettings("none", (), enforced=(), memory_counts=True, cores_whole=True, tree=True))
    gate = Gate(SchedulerSnapshot(0.0, known, (Partition("all", tuple(node.name for node in known)),), (), rules), 0.0)
    resources = gate.resources.copy()
    resources.as_planned = True
    found = gate.sought(job, gate.ways(job)[0], resources)
    assert (",".join(found.nodes) if found else "") == nodes
