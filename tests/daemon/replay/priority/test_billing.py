"""What jobs are charged is what a Slurm 22.05 tells as ``billing=`` of them.

Its nodes have 32 CPUs and four GPUs; its partition ``all`` has TRESBillingWeights=CPU=1.0,Mem=0.5G,GRES/gpu=3.5,node=2,
its partition ``fast`` none.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from idlewatt.daemon.recorded_scheduling import used
from idlewatt.daemon.replay.arrays import JOB, SHARE
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.priority.billing import (
    Bill,
    billed,
    charged_of_jobs,
    charged_of_runs,
    requested_and_available,
)
from idlewatt.daemon.replay.priority.factors import Claims, resource_sum
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.settings.priority import PrioritySettings
from idlewatt.storage.charges import Charge
from idlewatt.storage.records import Node, Partition
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings

MIB, GIB = 2**20, 2**30
WEIGHTS = (("cpu", 1.0), ("mem", 0.5 / GIB), ("gpu", 3.5), ("node", 2.0))
NODES = tuple(Node(f"n{row}", ("all", "fast"), 4, "a100", cpus=32, memory_bytes=128_000 * MIB) for row in range(4))
NAMES = tuple(node.name for node in NODES)
PARTITIONS = (Partition("all", NAMES, default=True, billing_weights=WEIGHTS),
              Partition("fast", NAMES, billing_weights=()))
EXPECTED = [5.146484375, 13.953125, 13.09765625, 49.5625]
"""``billable_tres`` of the jobs below, as squeue's JSON has them."""


def scheduling(*flags, partitions=PARTITIONS):
    lines = (("PriorityFlags", ",".join(flags)),)
    return Scheduling.of(SchedulerRules(site=SchedulerSettings(priority=lines)), partitions)


def site(*flags, partition="all", partitions=PARTITIONS):
    """Return the cluster, and jobs of one CPU and more, the last alone on its node."""
    cluster = replace(Cluster.from_records(NODES, PARTITIONS), scheduling=scheduling(*flags, partitions=partitions))
    workload = Workload.of(np.arange(4.0), [9.0] * 4, [0, 2, 2, 0], cpus=[3, 3, 2, 2],
                           memory=np.array([300, 4000, 200, 3200]) * MIB, exclusive=[0, 0, 0, 1],
                           partition=[partition] * 4)
    claims = Claims(workload.submit, np.zeros(4), np.array([1.0, 1.0, 2.0, 1.0]), workload.cpus.astype(float),
                    np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4))
    return cluster, workload, claims


def test_jobs_are_charged_the_weighted_sum_of_what_they_hold():
    assert charged_of_jobs(*site()).tolist() == pytest.approx(EXPECTED)


def test_with_max_tres_the_largest_of_it_counts():
    assert charged_of_jobs(*site("MAX_TRES")).tolist() == [3.0, 7.0, 7.0, 32.0]


def test_with_max_tres_gres_gpus_count_beside_the_largest_of_the_rest():
    assert charged_of_jobs(*site("MAX_TRES_GRES")).tolist() == [3.0, 10.0, 11.0, 46.0]


def test_without_weights_or_where_nobody_tells_them_cpus_are_charged():
    unweighted = tuple(replace(one, billing_weights=None) for one in PARTITIONS)
    for one in (site(partition="fast"), site(partitions=unweighted)):
        assert charged_of_jobs(*one).tolist() == [3.0, 3.0, 2.0, 32.0]


def test_a_job_of_several_partitions_is_charged_as_the_first_of_them_does():
    assert charged_of_jobs(*site(partition="all,fast")).tolist() == pytest.approx(EXPECTED)


def test_gpus_of_a_model_are_charged_where_that_is_asked_for():
    held = {"cpu": np.ones(2), "gpu": np.array([2.0, 2.0]), "gpu:a100": np.array([2.0, 0.0])}
    assert billed({"gpu:a100": 3.0, "license/matlab": 99.0}, held).tolist() == [6.0, 0.0]
    assert billed({"gpu": 1.0, "gpu:a100": 3.0}, held).tolist() == [8.0, 2.0]


@pytest.mark.parametrize(("held", "expected"), [
    ({0: [(0, 2)], 1: [(1, 2)], 2: [(0, 1), (1, 1)]}, [7.0, 1.0, 4.0]), ({0: [(2, 2)], 3: [(0, 0)]}, [7.0, 32.0])])
def test_gpus_that_were_asked_for_by_no_model_are_charged_as_those_that_were_given(held, expected):
    nodes = [Node(f"n{row}", ("p",), 8, model, cpus=8) for row, model in enumerate(("a100", "v100", "A100"))]
    partitions = (Partition("p", ("n0", "n1", "n2"), billing_weights=(("cpu", 1.0), ("gpu:a100", 3.0))),)
    cluster = replace(Cluster.from_records(nodes), scheduling=scheduling(partitions=partitions))
    workload = Workload.of(np.arange(4.0), [9.0] * 4, [2, 2, 2, 0], cpus=[1] * 4, exclusive=[0, 0, 0, 1],
                           partition=["p"] * 4)
    claims = Claims(workload.submit, np.zeros(4), np.ones(4), np.ones(4), *[np.zeros(4)] * 4)
    jobs, parts = np.zeros(4, JOB), [part for some in held.values() for part in some]
    for row, some in held.items():
        jobs[row]["held"], jobs[row]["nodes_held"] = parts.index(some[0]), len(some)
    arrays = SimpleNamespace(jobs=jobs, held=np.array(parts, SHARE))
    rows, bill = np.array(list(held)), Bill.of(cluster, workload, claims, 1.0)
    assert bill.where_held(arrays, rows).tolist() == expected
    assert Bill.of(cluster, workload, claims, 0.5).where_held(arrays, rows[:1]).tolist() == [3.5]


def test_gpus_of_a_node_with_several_types_are_charged_by_weights_of_all_gpus_only():
    nodes = [Node("n0", ("p",), 8, "a100", cpus=8, gpu_models=("a100", "v100")), Node("n1", ("p",), 8, "a100", cpus=8)]
    weights = (("cpu", 1.0), ("gpu", 0.5), ("gpu:a100", 3.0), ("gpu:v100", 1.0))
    cluster = replace(Cluster.from_records(nodes), scheduling=scheduling(
        partitions=(Partition("p", ("n0", "n1"), billing_weights=weights),)))
    workload = Workload.of(np.arange(2.0), [9.0] * 2, [2, 2], cpus=[1] * 2, partition=["p"] * 2)
    jobs = np.zeros(2, JOB)
    jobs["held"], jobs["nodes_held"] = [0, 1], 1
    arrays = SimpleNamespace(jobs=jobs, held=np.array([(0, 2), (1, 2)], SHARE))
    claims = Claims(workload.submit, np.zeros(2), np.ones(2), np.ones(2), *[np.zeros(2)] * 4)
    assert Bill.of(cluster, workload, claims, 1.0).where_held(arrays, np.arange(2)).tolist() == [2.0, 8.0]


def test_recorded_runs_are_charged_as_jobs_are():
    runs = [Charge("lab", "ann", "", 3, 0.0, 10.0, "all", 1, 2, "", 4000 * MIB),
            Charge("lab", "ann", "", 3, 0.0, 10.0, "fast", 1, 2, "a100", 4000 * MIB),
            Charge("lab", "bob", "", 3, 0.0, 10.0, "gone", 1, 2, "", 4000 * MIB)]
    rules = scheduling()
    assert charged_of_runs(rules, runs).tolist() == pytest.approx([13.953125, 3.0, 3.0])
    never = replace(rules, priority=replace(rules.priority, half_life_s=0.0))
    assert used(runs, 10.0, never) == {("lab", "ann"): pytest.approx(169.53125), ("lab", "bob"): 30.0}
    assert charged_of_runs(rules, []).tolist() == []


@pytest.mark.parametrize(("flags", "expected"), [
    ((), ({"billing": 10, "node": 275}, {"billing": 26, "node": 275}, {"billing": 26, "node": 550})),
    (("MAX_TRES", "NO_NORMAL_TRES"), ({"billing": 2700, "node": 1100, "mem": 150_000},
                                      {"billing": 6300, "node": 1100, "mem": 2_000_000},
                                      {"billing": 6300, "node": 2200, "mem": 100_000}))])
def test_weighted_resources_are_those_of_sprio(flags, expected):
    cluster, workload, claims = site(*flags)
    claims = replace(claims, resources=requested_and_available(cluster, workload, claims))
    for name, weight in (("billing", 900), ("node", 1100), ("mem", 500)):
        settings = PrioritySettings(resources={name: weight}, flags=frozenset(flags))
        for job, amounts in enumerate(expected):
            if name in amounts:
                assert resource_sum(settings, claims)[job] == pytest.approx(amounts[name], abs=0.5)


def test_gpus_of_a_model_are_weighed_by_how_many_the_partition_has_of_it():
    cluster = Cluster.from_records([Node("n0", ("p",), 4, "A100"), Node("n1", ("p",), 8, "v100")])
    workload = Workload.of([0.0, 1.0, 2.0], [9.0] * 3, [2, 2, 2], model=["a100", "v100", ""], partition=["p"] * 3)
    claims = Claims(workload.submit, *[np.ones(3)] * 7)
    claims = replace(claims, resources=requested_and_available(cluster, workload, claims))
    settings = PrioritySettings(resources={"gres/gpu:a100": 100.0})
    assert resource_sum(settings, claims).tolist() == [50.0, 0.0, 0.0]


def test_jobs_that_ask_for_a_model_in_different_spellings_are_charged_and_weighed_alike():
    cluster = Cluster.from_records([Node("n0", ("p",), 8, "a100", cpus=8)])
    partitions = (Partition("p", ("n0",), billing_weights=(("cpu", 1.0), ("gpu:a100", 3.0))),)
    cluster = replace(cluster, scheduling=scheduling(partitions=partitions))
    workload = Workload.of(np.arange(3.0), [9.0] * 3, [2, 2, 2], cpus=[1] * 3, partition=["p"] * 3,
                           model=["A100", "a100", ""])
    claims = Claims(workload.submit, *[np.ones(3)] * 7)
    assert charged_of_jobs(cluster, workload, claims).tolist() == [7.0, 7.0, 1.0]
    claims = replace(claims, resources=requested_and_available(cluster, workload, claims))
    settings = PrioritySettings(resources={"gres/gpu:a100": 100.0})
    assert resource_sum(settings, claims).tolist() == [25.0, 25.0, 0.0]


def test_what_is_there_for_a_job_of_several_partitions_are_the_nodes_of_any_of_them():
    nodes = [Node(name, partitions, 4) for name, partitions in (("n0", ("p", "q")), ("n1", ("q",)), ("n2", ("r",)))]
    workload = Workload.of(np.arange(5.0), [9.0] * 5, [2] * 5, partition=["p", "p,q", "p,gone", "q,r", "gone"])
    resources = requested_and_available(Cluster.from_records(nodes), workload,
                                        Claims(workload.submit, *[np.ones(5)] * 7))
    assert resources["gres/gpu"][1].tolist() == [4.0, 8.0, 4.0, 12.0, 12.0]
