"""Which pods may be moved by an eviction: those that are made again, of jobs that do not end of it."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.daemon.advice.kubectl import evict_commands
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS

DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]
IGNORED = {"action": "Ignore", "onPodConditions": DISRUPTED}


def on_exit(*codes, operator="In", action="FailJob"):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}


@pytest.fixture
def movable(store, build):
    """Return the function that puts pods of an owner on a node, and tells whether a move of their job is advised."""
    store.put(NODES, make.node("n1", 8))

    def movable(owner, copies=1, **more):
        for number in range(copies):
            store.put(PODS, make.pod(f"p{number}", owner, on="n1", **{"restartPolicy": "Never", **more}))
        [job] = build().read().jobs
        assert job.steering.movable == bool(evict_commands(job.steering))
        return job.steering.movable

    return movable


@pytest.mark.parametrize(("spec", "failed", "copies", "moves"), [
    ({}, 0, 1, True), ({}, 5, 1, True), ({}, 6, 1, False), ({}, 0, 7, False),
    ({"backoffLimit": 0}, 0, 1, False), ({"backoffLimit": 1}, 0, 1, True), ({"backoffLimit": 1}, 0, 2, False),
    ({"backoffLimit": 2147483647, "backoffLimitPerIndex": 1, "completionMode": "Indexed"}, 0, 8, True),
    ({"backoffLimit": 2147483647, "backoffLimitPerIndex": 1, "completionMode": "Indexed"}, 1, 8, False),
    ({"backoffLimit": 0, "podFailurePolicy": {"rules": [IGNORED]}}, 3, 8, True),
    ({"backoffLimit": 0, "podFailurePolicy": {"rules": [on_exit(42), IGNORED]}}, 0, 1, True),
    ({"backoffLimit": 0, "podFailurePolicy": {"rules": [on_exit(42, 143), IGNORED]}}, 0, 1, False),
    ({"podFailurePolicy": {"rules": [on_exit(0, operator="NotIn")]}}, 0, 1, False),
    ({"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": DISRUPTED}]}}, 0, 1, False),
    ({"podFailurePolicy": {"rules": [on_exit(1, operator="NotIn", action="Count")]}}, 0, 1, True),
], ids=str)
def test_a_job_is_moved_only_where_it_has_failures_left_or_ignores_disruptions(
        store, movable, spec, failed, copies, moves):
    found = make.job("train", startTime=make.moment(START_S), **({"failed": failed} if failed else {}))
    found["spec"] |= spec
    store.put(JOBS, found)
    assert movable(make.owner("Job", "train"), copies) == moves


def test_a_job_of_which_nobody_knows_how_often_it_may_fail_is_not_moved(movable):
    assert not movable(make.owner("Job", "train"))


@pytest.mark.parametrize(("kind", "version", "policy", "moves"), [
    ("ReplicaSet", "apps/v1", "Always", True), ("StatefulSet", "apps/v1", "Always", True),
    ("PyTorchJob", "kubeflow.org/v1", "OnFailure", True), ("PyTorchJob", "kubeflow.org/v1", "Never", False),
    ("RayCluster", "ray.io/v1", "Always", True), ("Workflow", "argoproj.io/v1alpha1", "Never", False),
    ("TaskRun", "tekton.dev/v1", "Never", False), ("Job", "batch.volcano.sh/v1alpha1", "OnFailure", False)])
def test_of_other_kinds_those_are_moved_that_are_known_to_make_their_pods_again(movable, kind, version, policy, moves):
    assert movable(make.owner(kind, "x", version), restartPolicy=policy) == moves


def test_a_ray_job_is_not_moved_though_its_cluster_is_made_again(movable):
    labels = {"ray.io/cluster": "c", "ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "tune"}
    assert not movable(make.owner("RayCluster", "c", "ray.io/v1"), labels=labels, restartPolicy="Always")


@pytest.mark.parametrize(("limit", "moves"), [(0, False), (3, True)])
def test_a_job_set_is_moved_where_its_jobs_have_failures_left(store, movable, limit, moves):
    found = make.job("train", make.owner("JobSet", "set", "jobset.x-k8s.io/v1alpha2"))
    found["spec"]["backoffLimit"] = limit
    store.put(JOBS, found)
    assert movable(make.owner("Job", "train"), labels={"jobset.sigs.k8s.io/jobset-name": "set"}) == moves
