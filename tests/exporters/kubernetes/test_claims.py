"""Devices that are handed out by claims (DRA) are counted once, for those who hold them."""

import kube_objects as make
import pytest

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import CLAIMS, NODES, PODS, SLICES


@pytest.fixture
def read(server, store, until):
    """Return the function that reads a cluster of one node with two GPUs once everything of it was heard."""
    store.put(NODES, make.node("n1", 0))
    store.put(SLICES, {"metadata": {"name": "s"}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}, "uuid": {
            "string": f"GPU-{number}"}}} for number in range(2)]}})
    source = KubernetesConfig.model_validate({"kind": "kubernetes", "url": server.url}).build(lambda: make.START_S)

    def read(*, all_of_it=True):
        source.read()
        until(lambda: not all_of_it
              or all(int(version or 0) >= store.version for version in source.versions.values()))
        return source.read()

    read.source = source
    yield read
    source.close()


def claim(name, *devices, count=1, **more):
    """Return a claim of GPUs, and which it was given."""
    given = [{"request": "r", "driver": "gpu.nvidia.com", "pool": "n1", "device": device, **more} for device in devices]
    return {"metadata": {"name": name, "namespace": "team"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {
                "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count, **more}}]}},
            **({"status": {"allocation": {"devices": {"results": given}}}} if given else {})}


def pod(name, *claims, **more):
    return make.pod(name, gpus=0, resourceClaims=[{"name": f"gpu-{number}", "resourceClaimName": one}
                                                  for number, one in enumerate(claims)], **more)


def held(snapshot):
    return {job.job_id: sum(part.gpus for part in job.allocations) for job in snapshot.jobs}


def test_a_claim_tells_the_gpu_by_its_uuid(store, read):
    store.put(CLAIMS, claim("c", "gpu-1"))
    store.put(PODS, pod("p", "c", on="n1"))
    store.put(CLAIMS, claim("free", count=2))
    store.put(PODS, pod("next", "free"))
    snapshot = read()
    jobs = {job.job_id: job for job in snapshot.jobs}
    [part] = jobs["team/p"].allocations
    assert (part.gpus, part.gpu_uuids, part.members) == (1, ("GPU-1",), ("team/p",))
    assert (jobs["team/next"].request.gpus, jobs["team/next"].request.details.unknown) == (2, ())
    assert (snapshot.nodes[0].gpus, snapshot.nodes[0].gpus_allocated) == (2, 1)


def test_a_gpu_whose_claim_several_pods_share_is_held_once(store, read):
    store.put(CLAIMS, claim("c", "gpu-1"))
    store.put(PODS, make.ended(pod("a-over", "c", on="n1", created_s=make.START_S - 60.0)))
    store.put(PODS, pod("b-later", "c", on="n1", created_s=make.START_S + 1.0))
    store.put(PODS, pod("c-first", "c", "c", on="n1"))
    store.put(PODS, pod("waits", "c"))
    snapshot = read()
    jobs = {job.job_id: job for job in snapshot.jobs}
    assert snapshot.nodes[0].gpus_allocated == 1
    assert held(snapshot) == {"team/c-first": 1, "team/b-later": 0, "team/waits": 0}
    assert {jobs[name].allocations[0].gpu_uuids for name in ("team/c-first", "team/b-later")} == {("GPU-1",)}
    assert "where the claim lets it run that it shares with other pods (DRA)" in \
        jobs["team/waits"].request.details.unknown


def test_who_looks_at_gpus_as_an_administrator_holds_none(store, read):
    store.put(CLAIMS, claim("c", "gpu-1"))
    store.put(PODS, pod("p", "c", on="n1"))
    store.put(CLAIMS, claim("all", "gpu-0", "gpu-1", count=2, adminAccess=True))
    store.put(PODS, pod("monitor", "all", on="n1"))
    store.put(PODS, make.pod("agent", make.owner("DaemonSet", "agent", "apps/v1"), on="n1", gpus=0,
                             resourceClaims=[{"name": "gpu", "resourceClaimName": "all"}]))
    snapshot = read()
    assert held(snapshot) == {"team/p": 1}
    assert snapshot.nodes[0].gpus_allocated == 1


def test_gpus_of_a_pod_whose_claim_is_not_shown_are_not_free(store, server, read):
    server.api.faults.append(Fault("/apis/resource.k8s.io/v1/resourceclaims", 403, times=-1))
    store.put(PODS, pod("p", "c", on="n1"))
    snapshot = read(all_of_it=False)
    assert (snapshot.nodes[0].gpus, snapshot.nodes[0].gpus_allocated) == (2, 2)


def test_a_pod_with_a_claim_of_something_else_holds_no_gpu_of_a_node_that_offers_none_by_name(store, read):
    store.put(NODES, make.node("n2", 8))
    store.put(PODS, pod("p", "nic", on="n2"))
    assert {node.name: node.gpus_allocated for node in read().nodes} == {"n1": 0, "n2": 0}


@pytest.mark.parametrize("status", [503, 403])
def test_claims_that_cannot_be_read_for_long_end_no_job_that_holds_gpus_by_them(store, server, read, until, status):
    store.put(CLAIMS, claim("c", "gpu-1"))
    store.put(PODS, pod("p", "c", on="n1"))
    assert held(read()) == {"team/p": 1}
    server.api.faults += [Fault(f"/apis/resource.k8s.io/v1/{name}", status, times=-1)
                          for name in ("resourceclaims", "resourceslices")]
    server.api.drop_watches()
    lists = [read.source._reflectors[name] for name in ("claims", "slices")]
    until(lambda: all(one.refused or one.error for one in lists))
    for one in lists:
        one.last_answer = float("-inf")
    assert held(read.source.read()) == {"team/p": 1}
    assert read.source.completed(0.0) == []
