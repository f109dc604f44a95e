"""Which pods and workloads are one job: plain pods that Kueue queues together own their workload, not the reverse."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.simulated.api_store import NODES, PODS, WORKLOADS
from idlewatt.storage.records import JobState
from idlewatt.storage.waiting import WaitReason

GROUP = {"kueue.x-k8s.io/pod-group-name": "g"}
HELD = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}


@pytest.fixture
def jobs(store, build):
    """Return the function that reads all jobs of two pods, each with what it is made with, and of their workload."""
    store.put(NODES, make.node("n1", 8))

    def jobs(name, *owners, conditions=(), workload_owners=None, **more):
        for number in range(2):
            store.put(PODS, make.pod(f"g-{number}", *owners, **more))
        pods = [{**make.owner("Pod", f"g-{number}", "v1"), "uid": f"uid-team-g-{number}", "controller": False}
                for number in range(2)] if workload_owners is None else workload_owners
        store.put(WORKLOADS, {
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": make.moment(START_S),
                         "ownerReferences": pods},
            "spec": {"queueName": "lq", "podSets": [
                {"name": "main", "count": 2, "template": {"spec": {"containers": [make.container(1)]}}}]},
            "status": {"conditions": [{"type": kind, "status": status, "reason": reason, "message": "",
                                       "lastTransitionTime": make.moment(START_S)}
                                      for kind, status, reason in conditions]}})
        return [(job.job_id, job.owner, job.state, job.request.gpus, job.reason) for job in build().read().jobs]

    return jobs


def test_plain_pods_that_kueue_queues_together_are_one_job_that_waits_for_its_queue(jobs):
    assert jobs("g", labels=GROUP, conditions=[("QuotaReserved", "False", "Inactive")], **HELD) == [
        ("team/g", "PodGroup/g", JobState.PENDING, 2, WaitReason.PRIORITY)]


def test_plain_pods_that_kueue_has_let_in_together_are_one_job_that_runs(jobs):
    admitted = [("QuotaReserved", "True", "QuotaReserved"), ("Admitted", "True", "Admitted")]
    assert jobs("g", labels=GROUP, conditions=admitted, on="n1") == [
        ("team/g", "PodGroup/g", JobState.RUNNING, 2, WaitReason.NONE)]


def test_a_workload_that_nobody_owns_is_of_the_gang_with_its_name(jobs):
    [job] = jobs("g", labels=GROUP, workload_owners=[], on="n1")
    assert job[:3] == ("team/g", "PodGroup/g", JobState.RUNNING)


def test_a_workload_of_a_pod_of_a_deployment_is_no_job_beside_it(jobs):
    pod = {**make.owner("Pod", "g-0", "v1"), "uid": "uid-team-g-0"}
    [job] = jobs("pod-g-0-1234", make.owner("ReplicaSet", "llm-5d9", "apps/v1"), workload_owners=[pod], on="n1",
                 labels={"pod-template-hash": "5d9"})
    assert job[:3] == ("team/llm", "Deployment/llm", JobState.RUNNING)


def test_a_workload_that_nobody_owns_and_no_gang_is_named_after_is_a_job_of_its_own(jobs):
    assert ("team/own", "Workload/own") in [job[:2] for job in jobs("own", labels=GROUP, workload_owners=[], on="n1")]
