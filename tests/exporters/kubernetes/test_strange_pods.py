"""What a pod holds that cannot be understood is not free, as far as that can be told part by part."""

import json

import kube_objects as make
import pytest

from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import NODES, PODS


def odd(change, **more):
    """Return a pod on a node that cannot be understood, for what is changed of a part of it."""
    pod = make.pod("odd", on="n1", **more)
    for part, fields in change.items():
        pod[part] = {**pod[part], **fields} if isinstance(fields, dict) else fields
    return pod


UNREADABLE = {"status": {"containerStatuses": [
    {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 1e40}]}}


@pytest.mark.parametrize(("pod", "held"), [
    (odd(UNREADABLE, gpus=4), 4), (odd({"metadata": {"labels": ["a"]}}, gpus=4), 4), (odd({"status": 7}, gpus=4), 4),
    (odd({"spec": {"priority": "high"}}, gpus=4), 4),
    (odd({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}}, gpus=4), 4), (odd(UNREADABLE, gpus=0), 0),
    (odd(UNREADABLE, containers=[make.container(4, memory="1Zi")]), 4),
    (odd(UNREADABLE, containers=[make.container(2)], initContainers=[make.container(3)]), 3),
    # It cannot be told how many: it may be all.
    (odd({"spec": {"containers": "none"}}), 8), (odd(UNREADABLE, containers=[make.container("many")]), 8),
    (odd(UNREADABLE, containers=[make.container(-1)]), 8),
    (odd(UNREADABLE, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), 8),
    # It holds nothing.
    (odd({"status": {**UNREADABLE["status"], "phase": "Succeeded"}}, gpus=4), 0),
    (odd({**UNREADABLE, "spec": {"nodeName": ""}}, gpus=4), 0)])
def test_gpus_of_a_pod_that_was_strange_from_the_first_are_not_free(server, build, until, pod, held):
    for name in ("n1", "n2"):
        server.api.store.put(NODES, make.node(name, 8))
    server.api.store.put(PODS, pod)
    server.api.store.put(PODS, make.pod("waits"))
    source = build()
    snapshot = source.read()
    assert [node.gpus_allocated for node in snapshot.nodes] == [held, 0]
    assert [(job.job_id, job.request.details.unknown) for job in snapshot.jobs] == [("team/waits", ())]
    server.api.store.delete(PODS, ("team", "odd"))
    until(lambda: source.read().nodes[0].gpus_allocated == 0)


GIB = 2**30
ALL_CPUS, ALL_MEMORY = 256, 1056763060 * 2**10


@pytest.mark.parametrize(("pod", "cpus", "memory"), [
    (odd(UNREADABLE, gpus=4), 8, 64 * GIB),
    # GPUs cannot be told, the rest can.
    (odd(UNREADABLE, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), 8, 64 * GIB),
    (odd(UNREADABLE, containers=[make.container(0, cpu="4"), make.container("many", "side")]), 12, 128 * GIB),
    (odd(UNREADABLE, containers=[{"name": "main", "resources": {
        "claims": [{"name": "gpu"}], "requests": {"cpu": "3", "memory": "1Gi"}}}]), 3, GIB),
    # It may be all.
    (odd({"spec": {"containers": "none"}}), ALL_CPUS, ALL_MEMORY),
    (odd(UNREADABLE, containers=[make.container(4, memory="1Zi")]), 8, ALL_MEMORY),
    (odd(UNREADABLE, overhead={"cpu": "-1"}), ALL_CPUS, 64 * GIB),
    (odd(UNREADABLE, initContainers=[make.container(0, "first", cpu="lots")]), ALL_CPUS, 64 * GIB)])
def test_cpus_and_memory_of_a_pod_that_was_strange_from_the_first_are_not_free(server, build, pod, cpus, memory):
    server.api.store.put(NODES, make.node("n1", 8))
    server.api.store.put(PODS, pod)
    [node] = build().read().nodes
    assert (node.cpus_allocated, node.memory_allocated_bytes) == (cpus, memory)
    server.api.store.delete(PODS, ("team", "odd"))


def test_a_part_of_a_gpu_that_a_strange_pod_may_hold_is_not_free(server, build):
    server.api.store.put(NODES, make.node("n1", 0, {"nvidia.com/gpu.count": "2"}, **{"nvidia.com/mig-3g.20gb": "4"}))
    server.api.store.put(PODS, odd(UNREADABLE, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
    assert build().read().nodes[0].slices == (("nvidia.com/mig-3g.20gb", 4, 4),)


@pytest.mark.parametrize("change", [{"spec": {"nodeName": 7}}, {"spec": "none"}, {"metadata": {"name": 5}}])
def test_nobody_is_advised_to_start_while_a_pod_is_nobody_knows_where(server, build, until, change):
    server.api.store.put(NODES, make.node("n1", 8))
    server.api.store.put(PODS, make.pod("waits"))
    source = build()
    server.api.faults.append(Fault("/api/v1/pods", 200, watches=False, body=json.dumps({
        "kind": "PodList", "metadata": {"resourceVersion": str(server.api.store.version)},
        "items": [make.pod("waits"), odd(change)]}).encode()))
    [waits] = source.read().jobs
    assert waits.request.details.unknown == ("where a pod is that cannot be understood",)


def test_a_pod_that_becomes_strange_when_it_is_scheduled_holds_its_gpus(filled, build, until):
    filled.put(PODS, make.pod("q"))
    source = build()
    assert source.read().nodes[0].gpus_allocated == 1
    filled.put(PODS, {**make.pod("q", on="n1", gpus=2), "status": UNREADABLE["status"]})
    until(lambda: source.read().nodes[0].gpus_allocated == 3)
    filled.delete(PODS, ("team", "q"))
    until(lambda: source.read().nodes[0].gpus_allocated == 1)
