import numpy as np
import pytest

from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload, WorkloadError
from idlewatt.storage.records import Job, JobState, Request


def test_rows_are_sorted_by_submission_and_ties_keep_their_order():
    workload = Workload.of([5, 0, 5], [1, 2, 3], [1, 1, 1], ids=["late", "early", "later"], dependency=[1, -1, 0])
    assert workload.ids == ("early", "late", "later")
    assert workload.dependency.tolist() == [-1, 0, 1]


def test_texts_become_codes_with_names():
    workload = Workload.of([0, 1], [1, 1], [1, 1], user=["ann", "bob"], partition=["b", "a"], model=["", "a100"])
    assert workload.partition_names == ("b", "a")
    assert workload.user_names == ("ann", "bob")
    assert workload.model.tolist() == [-1, 0]


def test_unknown_and_ragged_columns_are_refused():
    with pytest.raises(WorkloadError, match="colour"):
        Workload.of([0], [1], [1], colour=[1])
    with pytest.raises(WorkloadError, match="length"):
        Workload.of([0, 1], [1], [1])


def test_a_missing_limit_is_unlimited_and_never_the_true_run_time():
    assert np.isinf(Workload.of([0], [7], [1]).limit).all()


def test_records_are_sorted_by_submission_and_number():
    jobs = [Job("10", 5.0, JobState.COMPLETED, "p", Request(2), start_s=6.0, end_s=9.0, limit_s=60.0),
            Job("9", 5.0, JobState.COMPLETED, "p", Request(4, nodes=2), start_s=6.0, end_s=7.0,
                dependency="afterok:10")]
    workload = Workload.from_records(jobs)
    assert workload.ids == ("9", "10")
    assert workload.run.tolist() == [1.0, 3.0]
    assert workload.nodes.tolist() == [2, 0]
    assert workload.dependency.tolist() == [1, -1]


@pytest.mark.parametrize(("gpus", "nodes", "shape"), [(4, 0, (4, 1, 0)), (16, 0, (8, 2, 0)), (20, 0, (8, 2, 4)),
                                                      (8, 2, (4, 2, 0)), (9, 2, (5, 1, 4)), (0, 0, (0, 1, 0))])
def test_a_job_gets_one_node_if_one_can_hold_it_else_full_nodes_and_a_rest(gpus, nodes, shape):
    state = ClusterState.of(Cluster.from_spec("4x8"), Workload.of([0], [1], [gpus], nodes=[nodes], cpus=[40]))
    job = state.arrays.jobs[0]
    assert (job.chunk, job.chunks, job.rest) == shape


@pytest.mark.parametrize(("columns", "reason"), [
    ({"gpus": 33}, "larger"), ({"gpus": 5, "nodes": 5}, "larger"), ({"gpus": 1, "run": -1}, "negative run"),
    ({"gpus": -1}, "negative number"), ({"gpus": 1, "submit": np.nan}, "submit"), ({"gpus": 1, "limit": -5}, "limit"),
    ({"gpus": 1, "partition": "ghost"}, "partition"),
    ({"gpus": 1, "dependency": 0}, "circle"), ({"gpus": 1, "run": np.nan}, "run")])
def test_a_job_that_can_never_run_is_rejected_with_its_reason(columns, reason):
    made = {"submit": 0.0, "run": 1.0, "gpus": 1, "partition": "default"} | columns
    columns = {name: [value] for name, value in made.items()}
    workload = Workload.of(columns.pop("submit"), columns.pop("run"), columns.pop("gpus"), **columns)
    [rejection] = ClusterState.of(Cluster.from_spec("4x8"), workload).rejected
    assert reason in rejection.reason


def test_whoever_depends_on_a_rejected_job_or_on_a_circle_is_rejected_too():
    workload = Workload.of([0, 1, 2, 3, 4], [1] * 5, [99, 1, 1, 1, 1], dependency=[-1, 0, 3, 2, 1])
    state = ClusterState.of(Cluster.from_spec("1x8"), workload)
    assert [(r.job, r.reason.split()[0]) for r in state.rejected] == [
        (0, "larger"), (1, "depends"), (2, "its"), (3, "its"), (4, "depends")]


def test_a_job_that_names_a_model_runs_on_nodes_of_it_or_on_such_that_name_none():
    workload = Workload.of([0.0], [1.0], [1], model=["H900"])
    assert ClusterState.of(Cluster.from_spec("1x8:a100"), workload).rejected
    for spec in ("1x8:h900", "1x8"):
        assert not ClusterState.of(Cluster.from_spec(spec), workload).rejected
