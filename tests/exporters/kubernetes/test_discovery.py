"""Exporters that run as pods become targets, named by their nodes."""

import kube_objects as make
import pytest

from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import PODS
from idlewatt.exporters.targets import Discovery, TargetOptions, page_url

LABELS = {"app.kubernetes.io/name": "dcgm-exporter"}


def exporter(name, node, address, **changes):
    pod = make.pod(name, on=node, namespace="gpu-operator", gpus=0, labels=LABELS, **changes)
    return {**pod, "status": {**pod["status"], "podIP": address, "podIPs": [{"ip": address}]}}


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def discovery(server, clock):
    options = TargetOptions.model_validate({"pod_sd_configs": [{
        "url": server.url, "label_selector": "app.kubernetes.io/name=dcgm-exporter", "port": 9400}]})
    made = Discovery(options, lambda address, labels: page_url(address, labels, "http", "/metrics", {}), clock)
    yield made
    made.close()


def found(discovery):
    return {target.labels["node"]: target.url for target in discovery.targets()}


def test_each_pod_that_runs_is_a_target_named_by_its_node(store, discovery):
    store.put(PODS, exporter("a", "n1", "10.0.0.1"))
    store.put(PODS, exporter("b", "n2", "fd00::2"))
    store.put(PODS, exporter("c", "n3", "10.0.0.3", phase="Pending"))
    store.put(PODS, make.pod("other", on="n4"))
    assert found(discovery) == {"n1": "http://10.0.0.1:9400/metrics", "n2": "http://[fd00::2]:9400/metrics"}


def test_pods_are_asked_for_again_and_of_a_server_that_fails_the_last_stay(store, server, discovery, clock):
    store.put(PODS, exporter("a", "n1", "10.0.0.1"))
    assert set(found(discovery)) == {"n1"}
    store.put(PODS, exporter("b", "n2", "10.0.0.2"))
    clock.now_s += 61.0
    assert set(found(discovery)) == {"n1", "n2"}
    server.api.faults.append(Fault("/api/v1/pods", 403))
    clock.now_s += 61.0
    assert set(found(discovery)) == {"n1", "n2"}
    [fault] = discovery.faults()
    assert "targets cannot be discovered: HTTP 403" in fault.error
    clock.now_s += 61.0
    assert set(found(discovery)) == {"n1", "n2"}
    assert discovery.faults() == ()


def test_a_long_list_of_pods_is_read_in_pages(store, server, discovery):
    for number in range(501):
        store.put(PODS, exporter(f"p{number}", f"n{number}", f"10.0.{number // 200}.{number % 200}"))
    assert len(found(discovery)) == 501
    assert sum("limit=500" in request for request in server.api.requests) == 2


def test_the_objects_are_as_an_api_server_would_take_them():
    import kubernetes_validate  # a large library of schemas

    kubernetes_validate.validate(exporter("a", "n1", "10.0.0.1"), "1.37", strict=True)
