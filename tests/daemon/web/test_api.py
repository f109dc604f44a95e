import json
import re
from urllib.parse import quote

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from idlewatt.daemon.web.api import ENDPOINTS, dumps
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.openapi import document

ROWS = [name for name, endpoint in ENDPOINTS.items() if endpoint.enveloped]


def data(client, path: str):
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json["data"]


@pytest.mark.parametrize("name", ROWS)
def test_every_endpoint_answers_in_prometheus_envelope(client, name):
    answer = client.get(f"/api/v1/{name}")
    assert answer.status_code == 200
    assert answer.content_type == "application/json; charset=utf-8"
    assert answer.json["status"] == "success"
    assert answer.json["data"]


@pytest.mark.parametrize(("query", "jobs"), [
    ("jobs?user=alice", ["4711", "4720"]), ("jobs?user=alice&state=pending", ["4720"]),
    ("jobs?partition=v100", ["4723"]), ("jobs?node=dgx01", ["4711"]), ("jobs?user=bob&user=erin", ["4721", "4722"]),
    ("recommendations?node=dgx02", ["4720", "4722"]), ("recommendations?user=erin", ["4721", "4721"]),
    ("recommendations?state=hold&policy=easy", ["4722"]), ("recommendations?partition=none", [])])
def test_filters_keep_the_rows_that_match(client, query, jobs):
    assert [row["job_id"] for row in data(client, f"/api/v1/{query}")] == jobs


def test_waste_adds_up_to_the_wall_and_can_be_asked_by_user(client, view):
    everything = sum(row["power_watts"] or 0 for row in data(client, "/api/v1/waste"))
    assert everything == pytest.approx(sum(row.power_watts or 0 for row in view.waste_rows))
    bobs = data(client, "/api/v1/waste?user=bob&state=wasted")
    assert [(row["power_class"], row["power_watts"]) for row in bobs] == [("allocated_idle", 88.0)] * 2


def test_unmeasured_is_null(client):
    assert [row["power_watts"] for row in data(client, "/api/v1/waste?node=dgx03")
            if row["power_class"] == "unmeasured" and row["gpu"] is not None] == [None]


def test_limit_cuts_and_says_so(client):
    answer = client.get("/api/v1/jobs?limit=2").json
    assert len(answer["data"]) == 2
    assert answer["warnings"] == ["3 of 5 rows left out by limit=2"]


@pytest.mark.parametrize("query", [
    "jobs?limit=0", "jobs?limit=-1", "jobs?limit=1e3", "jobs?limit=", "jobs?limit=99999999999999999999", "jobs?limit=²",
    "jobs?state=RUNNING", "nodes?state=UP", "jobs?shape=round", "recommendations?state=", "waste?state=PENDING",
    "jobs?user=" + "a" * 300, "sd/exporters?limit=1"])
def test_what_cannot_be_meant_is_bad_data(client, query):
    answer = client.get(f"/api/v1/{query}")
    assert answer.status_code == 400
    assert (answer.json["status"], answer.json["errorType"]) == ("error", "bad_data")
    assert len(answer.json["error"]) < 400


def test_unknown_paths_and_methods_are_answered_in_the_envelope(client):
    assert client.get("/api/v1/passwords").json["errorType"] == "not_found"
    answer = client.delete("/api/v1/jobs")
    assert (answer.status_code, answer.json["errorType"]) == (405, "bad_data")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("path", ["/api/v1/../../etc/passwd", "/api/v1/%2e%2e/%2e%2e/etc/passwd", "/static/../app.py",
                                  "/static/%2e%2e%2fweb/app.py", "/static//etc/passwd", "/api/v1/jobs/..%2f..%2f"])
def test_paths_lead_nowhere_else_t14(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_one_failing_answer_is_500_and_the_others_go_on(client, view, monkeypatch):
    monkeypatch.setattr(type(view), "jobs", lambda self: 1 / 0)
    answer = client.get("/api/v1/jobs")
    assert (answer.status_code, answer.json["errorType"]) == (500, "internal")
    assert "ZeroDivision" not in answer.text
    assert client.get("/api/v1/nodes").status_code == 200


def test_service_discovery_keeps_prometheus_contract_t12(client, view):
    answer = client.get("/api/v1/sd/exporters", headers={"X-Prometheus-Refresh-Interval-Seconds": "60"})
    assert answer.content_type == "application/json; charset=utf-8"
    assert answer.json == [
        {"targets": [f"dgx0{n}:9400"], "labels": {"__meta_idlewatt_kind": "dcgm", "__meta_idlewatt_node": f"dgx0{n}"}}
        for n in (1, 2)]
    assert answer.data == client.get("/api/v1/sd/exporters?kind=dcgm").data
    assert client.get("/api/v1/sd/exporters?kind=ipmi").json == []
    view.groups = ()
    assert client.get("/api/v1/sd/exporters").json == []


@given(st.recursive(st.floats() | st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(
    st.text(), inner), max_leaves=10))
@settings(max_examples=60)
def test_json_is_always_readable(value):
    json.loads(dumps(value), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_scores_for_a_scheduler_are_what_openapi_says(client, view):
    view.scores = {"n1": 3}
    pod = {"metadata": {"name": "p", "namespace": "t", "creationTimestamp": "2026-11-22T10:00:00Z"}, "spec": {}}
    described = client.get("/api/v1/openapi.json").json["paths"]["/api/v1/kubernetes/prioritize"]["post"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    for names, scores in ((["n1", "n2"], [{"Host": "n1", "Score": 3}]), (["n2"], [])):
        answer = client.post("/api/v1/kubernetes/prioritize", json={"Pod": pod, "Nodes": None, "NodeNames": names})
        jsonschema.validate(answer.json, schema)
        assert (answer.status_code, answer.json) == (200, scores)
    refused = client.post("/api/v1/kubernetes/prioritize", json={"Pod": pod, "Nodes": {"items": []}})
    assert (refused.status_code, refused.json["errorType"]) == (400, "bad_data")
    assert "nodeCacheCapable" in refused.json["error"]
    page = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/api/v1/kubernetes/prioritize", json={}, headers=page).status_code == 403
    assert client.get("/api/v1/kubernetes/prioritize").status_code == 405


def test_openapi_document_is_valid_and_complete(client, view):
    described = client.get("/api/v1/openapi.json").json
    validate(described)
    assert described["openapi"].startswith("3.1")
    routed = {re.sub(r"(\w+)s/<path:name>", r"\1s/{\1}", rule.rule)
              for rule in WebApp(view).routes.iter_rules() if rule.rule.startswith("/api/")}
    assert set(described["paths"]) == routed - {"/api/v1/openapi.json"}


@pytest.mark.parametrize("path", sorted(path for path, how in document()["paths"].items() if "get" in how))
def test_answers_are_what_openapi_says(client, path):
    described = client.get("/api/v1/openapi.json").json
    told = path
    registry = Registry().with_resource("urn:ours", Resource(described, DRAFT202012))

    def schema(status: str) -> jsonschema.Draft202012Validator:
        place = f"urn:ours#/paths/{quote(told.replace('/', '~1'))}/get/responses/{status}/content/" \
                "application~1json/schema"
        return jsonschema.Draft202012Validator({"$ref": place}, registry=registry)

    path = path.format(job="4711", node="dgx01", wait="4722")
    schema("200").validate(client.get(path).json)
    schema("400").validate(client.get(f"{path}?nonsense=1").json)
    assert not schema("200").is_valid(client.get(f"{path}?nonsense=1").json)


OF_JOBS = {"/api/v1/waits/{wait}": {"user": "bob", "account": "", "partition": "a100"}}
OF_JOB_4711 = {"user": "alice", "account": "lab", "partition": "a100"}


@pytest.mark.parametrize("path", sorted(path for path, how in document()["paths"].items() if "get" in how))
def test_openapi_names_the_parameters_that_work(client, path):
    for parameter in document()["paths"][path]["get"]["parameters"]:
        if parameter["in"] == "path":
            continue
        example = parameter["schema"].get("enum", [OF_JOBS.get(path, OF_JOB_4711).get(parameter["name"], "1")])[0]
        place = path.format(job="4711", node="dgx01", wait="4722")
        assert client.get(place, query_string={parameter["name"]: example}).status_code == 200


def test_users_are_joined_once_not_once_a_row(client, view, monkeypatch):
    asked = []
    monkeypatch.setattr(type(view), "jobs", lambda self: asked.append(1) or self.job_rows)
    assert len(data(client, "/api/v1/recommendations?user=alice")) == 1
    assert len(asked) == 1
