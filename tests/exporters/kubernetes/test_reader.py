"""The role that is shipped grants what the source reads, and nothing else."""

from importlib import resources

import kubernetes_validate
import yaml

from idlewatt.exporters.kubernetes import KubernetesConfig, KubernetesTopologyConfig
from idlewatt.exporters.simulated.api_store import ALL, NODES

from kube_objects import node  # isort: skip

PARTS = list(yaml.safe_load_all(resources.files("idlewatt.exporters.kubernetes").joinpath("reader.yaml").read_text()))


def test_it_is_as_an_api_server_would_take_it():
    for part in PARTS:
        kubernetes_validate.validate(part, "1.37", strict=True)


def test_it_reads_and_nothing_else():
    [role] = [part for part in PARTS if part["kind"] == "ClusterRole"]
    assert all(rule["verbs"] == ["get", "list", "watch"] for rule in role["rules"])
    assert "secrets" not in {name for rule in role["rules"] for name in rule["resources"]}


def test_it_grants_exactly_what_is_asked_for(server, store):
    [role] = [part for part in PARTS if part["kind"] == "ClusterRole"]
    granted = {(group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    store.put(NODES, node("n1"))
    source = KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: 1.8e9)
    source.read()
    source.close()
    topology = KubernetesTopologyConfig(url=server.url).build(lambda: 1.8e9)
    topology.read()
    topology.close()
    paths = {request.partition("?")[0] for request in server.api.requests} - {"/apis"}
    asked = {(resource.group, resource.plural) for resource in ALL for path in paths
             if path == f"/{'apis' if resource.group else 'api'}/{resource.api_version}/{resource.plural}"}
    assert len(asked) == len(paths)
    assert asked | {("scheduling.run.ai", "podgroups")} == granted  # KAI is not emulated
