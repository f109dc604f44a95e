"""Nodes are scored by the advice in force, else by what a pod would leave over."""

import time
from dataclasses import replace

from idlewatt.daemon.advice.node_scores import NodeScores
from idlewatt.exporters.kubernetes.extender import PodQuestion
from idlewatt.storage.recommendations import Alternative, Placement, Recommendation
from idlewatt.storage.records import Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.steering import Steering

GIB = 2**30


def node(name, held=0, cpus_held=0, gpus=8):
    return Node(name, ("p",), gpus, cpus=64, memory_bytes=512 * GIB, gpus_allocated=held, cpus_allocated=cpus_held)


def advised(action="start", **more):
    return Recommendation("team/train", 1.0, "p", 2.0, "fcfs", "wait", action, "why", Placement(("n2",), (4,)), 2.0,
                          (Alternative(Placement(("n3",), (4,)), "as well"),), **more)


def question(gpus=4, nodes=("n1", "n2", "n3"), cpus=8.0, slices=0, job_id="team/train"):
    return PodQuestion(job_id, gpus, slices, cpus, 16.0 * GIB, nodes)


CLUSTER = SchedulerSnapshot(2.0, (node("n1"), node("n2", 2, 16), node("n3", 4, 32), node("cpu", gpus=0)))


def test_whoever_is_advised_to_start_is_sent_there():
    assert NodeScores(CLUSTER, [advised()]).of(question()) == {"n1": 0, "n2": 10, "n3": 5}


def test_a_pod_of_a_cron_jobs_batch_job_is_sent_where_its_job_is_advised():
    nightly = Job("team/nightly", 1.0, JobState.PENDING, "p", Request(4),
                  steering=Steering("team", "cronjob.batch/nightly", batches=("nightly-2893",)))
    cluster = replace(CLUSTER, jobs=(nightly,))
    scores = NodeScores(cluster, [replace(advised(), job_id="team/nightly")])
    assert scores.of(question(job_id="team/nightly-2893")) == {"n1": 0, "n2": 10, "n3": 5}
    assert scores.of(question(job_id="other/nightly-2893"))["n3"] == 10, "what is left over decides"


def test_of_those_who_are_held_and_of_nodes_that_are_ruled_out_nothing_is_said():
    assert NodeScores(CLUSTER, [advised("hold")]).of(question()) == {}
    assert NodeScores(CLUSTER, [advised()]).of(question(nodes=("n1", "n3"))) == {}


def test_without_advice_the_node_that_is_filled_comes_first():
    scores = NodeScores(CLUSTER, [advised(shadow=True)]).of(question())
    assert scores["n3"] == 10 > scores["n2"] > scores["n1"]


def test_a_pod_that_would_strand_gpus_goes_elsewhere():
    scores = NodeScores(CLUSTER, ()).of(question(0, ("n1", "n2", "cpu"), cpus=40.0))
    assert scores == {"n1": 0, "n2": 0, "cpu": 10}


def test_of_parts_of_gpus_and_of_nodes_that_nobody_knows_nothing_is_said():
    assert NodeScores(CLUSTER, ()).of(question(0, slices=1)) == {}
    assert NodeScores(CLUSTER, ()).of(question(nodes=("elsewhere",))) == {}


def test_a_thousand_nodes_are_scored_in_five_milliseconds():
    names = tuple(f"n{number}" for number in range(1000))
    scores = NodeScores(SchedulerSnapshot(2.0, tuple(node(name, int(name[1:]) % 8) for name in names)), ())
    took = []
    for _ in range(20):
        began = time.thread_time()
        assert len(scores.of(question(nodes=names))) == 1000
        took.append(time.thread_time() - began)
    assert min(took) < 0.005
