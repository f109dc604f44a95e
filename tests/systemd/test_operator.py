"""What is given to Prometheus' operator is as it takes it, and does in Prometheus what it is there for."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from operator_schemas import SCHEMAS

FOLDER = Path(__file__).parents[2] / "systemd/kubernetes"
OBJECTS = [one for path in sorted(FOLDER.rglob("*.yaml")) if "chart" not in path.parts
           for one in yaml.safe_load_all(path.read_text()) if one and "monitoring.coreos.com" in one["apiVersion"]]
MONITORS = [one for one in OBJECTS if one["kind"] != "PrometheusRule"]
ENDPOINTS = [endpoint for one in MONITORS for kind in ("endpoints", "podMetricsEndpoints")
             for endpoint in one["spec"].get(kind, ())]
META = {"__meta_kubernetes_namespace": "idlewatt", "__meta_kubernetes_service_name": "watts",
        "__meta_kubernetes_pod_name": "watts-7d9f-x2x"}


def faults(one):
    return [f"{'.'.join(map(str, fault.path))}: {fault.message}"
            for fault in jsonschema.Draft202012Validator(SCHEMAS[one["kind"]]).iter_errors(one)]


def named(one):
    return one["kind"]


@pytest.mark.parametrize("one", OBJECTS, ids=named)
def test_every_field_is_one_that_the_operator_knows_and_of_its_type(one):
    assert one["apiVersion"] == "monitoring.coreos.com/v1"
    assert faults(one) == []


def test_there_is_a_monitor_and_there_are_rules():
    assert {one["kind"] for one in OBJECTS} >= {"ServiceMonitor", "PrometheusRule"}


@pytest.mark.parametrize("change", [
    {"source_labels": ["a"]}, {"sourceLabels": "a"}, {"sourceLabels": ["a-b"]}, {"action": "rename"},
    {"targetLabel": ["instance"]}, {"regex": 7}])
def test_a_relabelling_that_the_operator_refuses_or_drops_is_found(change):
    [monitor] = [copy.deepcopy(one) for one in MONITORS if one["kind"] == "ServiceMonitor"]
    monitor["spec"]["endpoints"][0]["relabelings"][0] |= change
    assert len(faults(monitor)) == 1


@pytest.mark.parametrize("rule", [rule for endpoint in ENDPOINTS for kind in ("relabelings", "metricRelabelings")
                                  for rule in endpoint.get(kind, ())], ids=lambda rule: rule.get("targetLabel", ""))
def test_a_relabelling_has_what_its_action_needs(rule):
    action = rule.get("action", "replace").lower()
    re.compile(rule.get("regex", "(.*)"))
    needs = {"replace": {"targetLabel"}, "hashmod": {"targetLabel", "modulus", "sourceLabels"},
             "keep": {"sourceLabels"}, "drop": {"sourceLabels"}, "labelmap": {"regex"}, "labeldrop": {"regex"},
             "labelkeep": {"regex"}}.get(action, {"sourceLabels", "targetLabel"})
    assert needs <= rule.keys()
    assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", rule.get("targetLabel", "a"))


@pytest.mark.parametrize("group", [group for one in OBJECTS if one["kind"] == "PrometheusRule"
                                   for group in one["spec"]["groups"]], ids=lambda group: group["name"])
def test_a_rule_of_the_operator_is_either_an_alert_or_a_recording(group):
    for rule in group["rules"]:
        assert ("alert" in rule) != ("record" in rule)
        assert "alert" in rule or not rule.keys() & {"for", "keep_firing_for", "annotations"}


def of_prometheus(rule):
    """Return a relabelling as Prometheus' own configuration writes it, and as the operator writes it there."""
    return {re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", key):
            value.lower() if key == "action" else value for key, value in rule.items()}


def test_a_new_pod_is_the_same_instance_in_prometheus_and_another_service_is_another(tmp_path):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    [endpoint] = ENDPOINTS
    config = {"scrape_configs": [{
        "job_name": "idlewatt", "metrics_path": endpoint["path"], "scrape_interval": endpoint["interval"],
        "static_configs": [{"targets": [address], "labels": META | {"__meta_kubernetes_service_name": service}}
                           for address, service in (("10.0.0.1:9723", "watts"), ("10.9.9.9:9723", "watts"),
                                                    ("10.0.0.2:9723", "other"))],
        "relabel_configs": [of_prometheus(rule) for rule in endpoint["relabelings"]]}]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    done = subprocess.run(("promtool", "check", "service-discovery", "--timeout=1s", tmp_path / "prometheus.yml",
                           "idlewatt"), check=True, capture_output=True, timeout=60)
    found = {one["labels"]["__address__"]: one["labels"]["instance"] for one in json.loads(done.stdout)}
    assert found == {"10.0.0.1:9723": "idlewatt/watts", "10.9.9.9:9723": "idlewatt/watts",
                     "10.0.0.2:9723": "idlewatt/other"}
