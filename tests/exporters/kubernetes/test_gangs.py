"""Why a gang waits, as the group of KAI, Volcano or Kubernetes itself says it."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_store import KAI_GROUPS, NATIVE_GROUPS, NODES, POD_GROUPS, PODS
from idlewatt.storage.waiting import WaitReason

KAI, VOLCANO = "pod-group-name", "scheduling.k8s.io/group-name"


@pytest.fixture
def waiting(store, server, until):
    """Return the function that reads the one job of two pods, which wait and say nothing themselves."""
    made = []

    def waiting(**more):
        store.put(NODES, make.node("n1"))
        for number in range(2):
            pod = make.pod(f"train-{number}", gpus=8, **more)
            pod["status"] = {"phase": "Pending"}
            store.put(PODS, pod)
        made.append(KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: START_S + 60.0))
        made[-1].read()
        until(lambda: all(int(version or 0) >= store.version for version in made[-1].versions.values()))
        [job] = made[-1].read().jobs
        return job

    yield waiting
    for source in made:
        source.close()


def on_pool(*reasons, message="", status="True"):
    return {"type": "UnschedulableOnNodePool", "status": status, "nodePool": "default", "reason": "Unschedulable",
            "message": message, "transitionID": "1", "lastTransitionTime": make.moment(START_S),
            "reasons": [{"reason": reason, "message": words} for reason, words in reasons]}


@pytest.mark.parametrize(("said", "reason", "text"), [
    (on_pool(("NonPreemptibleOverQuota", "Non-preemptible workload is over quota. Workload requested 16 GPUs, but "
              "research quota is 8 GPUs")), WaitReason.QUOTA, "NonPreemptibleOverQuota: Non-preemptible workload is"),
    (on_pool(("OverLimit", "research quota has reached the allowable limit of GPUs")), WaitReason.QUOTA, "OverLimit: "),
    (on_pool(("QueueDoesNotExist", "Queue reserach does not exist")), WaitReason.INVALID, "QueueDoesNotExist: "),
    (on_pool(message="Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods "
                     "cannot be scheduled due to: 1 node(s) didn't have enough resources: GPUs"),
     WaitReason.RESOURCES, "Unschedulable: Resources were found for 1 pods"),
    (on_pool(("OverLimit", "of an earlier look"), status="False"), WaitReason.NONE, "")])
def test_kai_says_on_its_group_what_it_says_on_no_pod(store, waiting, said, reason, text):
    store.put(KAI_GROUPS, {"metadata": {"name": "gang", "namespace": "team"},
                           "spec": {"minMember": 2, "queue": "research"}, "status": {"schedulingConditions": [said]}})
    job = waiting(annotations={KAI: "gang"})
    assert (job.partition, job.reason) == ("research", reason)
    assert job.reason_text.startswith(text)
    assert job.reason.bars == (reason in (WaitReason.QUOTA, WaitReason.INVALID))


@pytest.mark.parametrize(("told", "reason"), [
    ([("Unschedulable", "NotEnoughResources", "2/2 tasks in gang unschedulable: pod group is not ready", 5.0)],
     WaitReason.RESOURCES),
    ([("Unschedulable", "NotEnoughResources", "queue resource quota insufficient: gpu", 5.0)], WaitReason.QUOTA),
    ([("Unschedulable", "NotEnoughResources", "", 5.0)], WaitReason.RESOURCES),
    ([("Unschedulable", "NotEnoughTasks", "", 5.0)], WaitReason.PREPARING),
    ([("Unschedulable", "NotEnoughResources", "", 5.0), ("Scheduled", "tasks in gang are ready", "", 9.0)],
     WaitReason.NONE)])
def test_the_last_word_of_volcano_on_its_group_counts(store, waiting, told, reason):
    store.put(POD_GROUPS, {"metadata": {"name": "gang", "namespace": "team"}, "spec": {"minMember": 2}, "status": {
        "phase": "Pending", "conditions": [
            {"type": kind, "status": "True", "reason": why, "message": message,
             "lastTransitionTime": make.moment(START_S + since_s)} for kind, why, message, since_s in told]}})
    assert waiting(annotations={VOLCANO: "gang"}).reason is reason


@pytest.mark.parametrize(("holds", "reason"), [("False", WaitReason.RESOURCES), ("True", WaitReason.NONE)])
def test_a_gang_of_kubernetes_itself_says_why_it_waits(store, waiting, holds, reason):
    store.put(NATIVE_GROUPS, {
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": [{
            "type": "PodGroupInitiallyScheduled", "status": holds, "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            "lastTransitionTime": make.moment(START_S)}]}})
    job = waiting(schedulingGroup={"podGroupName": "gang"})
    assert (job.job_id, job.reason) == ("team/gang", reason)
