"""The real kubectl vouches for the emulator: it lists, pages and watches the same objects."""

import json

import kube_objects as make
import kubernetes_validate
import pytest

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated import kubernetes
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS
from idlewatt.exporters.simulated.cluster import ClusterShape, SimulatedCluster


@pytest.fixture
def filled(store):
    store.put(NODES, make.node("n1", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}))
    store.put(JOBS, make.job("train"))
    for number in range(7):
        store.put(PODS, make.pod(f"train-{number}", make.owner("Job", "train"), on="n1"))
    return store


def test_it_lists_every_kind_of_object_as_it_was_put_in(filled, kubectl):
    for plural, resource in (("nodes", NODES), ("pods", PODS), ("jobs.batch", JOBS)):
        found = kubectl("get", plural, "--all-namespaces", "--output=json")["items"]
        for item in found:
            item["metadata"].pop("resourceVersion")
        assert found == [filled.get(resource, name).content for name in sorted(filled.names(resource))]


def test_it_reads_a_long_list_in_pages(filled, server, kubectl):
    found = kubectl("get", "pods", "--all-namespaces", "--chunk-size=3", "--output=json")["items"]
    assert [item["metadata"]["name"] for item in found] == [f"train-{number}" for number in range(7)]
    assert sum("/api/v1/pods?" in request and "limit=3" in request for request in server.api.requests) == 3


def test_it_is_told_of_changes_in_their_order(filled, server, kubectl, until):
    child = kubectl("get", "pods", "--all-namespaces", "--watch-only", "--output-watch-events", "--output=json",
                    wait=False)
    until(lambda: any("watch=" in request for request in server.api.requests))
    filled.put(PODS, make.pod("later"))
    filled.put(PODS, make.pod("later", on="n1"))
    filled.delete(PODS, ("team", "later"))
    told, text = [], ""
    while len(told) < 3:
        text += child.stdout.readline().decode()
        try:
            event = json.loads(text)
        except ValueError:
            continue
        told, text = [*told, (event["type"], event["object"]["status"]["phase"])], ""
    child.kill()
    child.communicate()
    assert told == [("ADDED", "Pending"), ("MODIFIED", "Running"), ("DELETED", "Running")]


def test_source_and_kubectl_agree_object_for_object(server, kubectl, until):
    cluster = SimulatedCluster(ClusterShape(start_s=make.START_S, nodes=8))
    cluster.advance(make.START_S + 3600.0)
    kubernetes.sync(cluster, server.api.store)
    source = KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: cluster.now_s)
    source.read()
    for _ in range(2):
        until(lambda: all(int(version) >= server.api.store.version for version in source.versions.values()))
        for name, plural in (("nodes", "nodes"), ("pods", "pods"), ("jobs", "jobs.batch"), ("workloads", "workloads"),
                             ("localqueues", "localqueues"), ("clusterqueues", "clusterqueues")):
            listed = {(item["metadata"].get("namespace", ""), item["metadata"]["name"], item["metadata"].get("uid", ""))
                      for item in kubectl("get", plural, "--all-namespaces", "--output=json")["items"]}
            assert {(*key, uid) for key, (uid, _) in source._reflectors[name]._kept.items()} == listed
            assert listed
        cluster.advance(cluster.now_s + 3600.0)  # the rest comes by watches
        kubernetes.sync(cluster, server.api.store)
    assert all(reflector.lists == 1 for reflector in source._reflectors.values())
    source.close()


@pytest.mark.parametrize("content", [
    make.node("n1", cordoned=True, taints=({"key": "nvidia.com/gpu", "effect": "NoSchedule"},)), make.pod("waits"),
    make.pod("runs", make.owner("Job", "train"), on="n1"), make.ended(make.pod("ran", on="n1")),
    make.job("train", limit_s=60), make.finished_job("done")],
    ids=lambda content: f"{content['kind']}-{content['metadata']['name']}")
def test_objects_are_as_an_api_server_would_take_them(content):
    kubernetes_validate.validate(content, "1.37", strict=True)
