"""The emulated API server answers as the real one does, as far as clients can tell."""

import json

import pytest
import requests

from idlewatt.exporters.simulated.api_server import Api, ApiServer, Fault
from idlewatt.exporters.simulated.api_store import NODES, PODS, Store

PATH = "/api/v1/pods"


def pod(name, **status):
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status}


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def server(store):
    served = ApiServer(Api(store, bookmark_s=0.05)).begin()
    yield served
    served.api.drop_watches()
    served.shutdown()
    served.server_close()


@pytest.fixture
def ask(server):
    return lambda path=PATH, **query: requests.get(f"{server.url}{path}", params=query, timeout=60)


def events(answer, count):
    lines = answer.iter_lines()
    return [json.loads(next(lines)) for _ in range(count)]


def test_all_pages_of_a_list_are_of_one_moment(store, ask):
    for number in range(5):
        store.put(PODS, pod(f"p{number}"))
    first = ask(limit="2").json()
    store.delete(PODS, ("team", "p3"))
    names, page = [item["metadata"]["name"] for item in first["items"]], first
    while token := page["metadata"].get("continue"):
        page = ask(limit="2", **{"continue": token}).json()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert first["metadata"]["remainingItemCount"] == 3


def test_lists_of_two_kinds_may_be_read_side_by_side(store, ask):
    for number in range(3):
        store.put(PODS, pod(f"p{number}"))
        store.put(NODES, {"metadata": {"name": f"n{number}"}})
    pods, nodes = ask(limit="2").json(), ask("/api/v1/nodes", limit="2").json()
    rest = ask(limit="2", **{"continue": pods["metadata"]["continue"]}).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["p2"]
    rest = ask("/api/v1/nodes", limit="2", **{"continue": nodes["metadata"]["continue"]}).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["n2"]


def test_a_list_that_was_compacted_away_cannot_be_continued(store, ask):
    for number in range(3):
        store.put(PODS, pod(f"p{number}"))
    token = ask(limit="1").json()["metadata"]["continue"]
    store.expire()
    answer = ask(limit="1", **{"continue": token})
    assert answer.status_code == 410
    assert answer.json()["reason"] == "Expired"


def test_a_watch_tells_what_happened_after_its_version_and_marks_the_quiet(store, server, ask):
    store.put(PODS, pod("old"))
    version = ask().json()["metadata"]["resourceVersion"]
    store.put(PODS, pod("new"))
    store.put(PODS, pod("new", phase="Running"))
    store.put(NODES, {"metadata": {"name": "n1"}})
    store.delete(PODS, ("team", "old"))
    query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
    answer = requests.get(f"{server.url}{PATH}", params=query, stream=True, timeout=60)
    found = events(answer, 4)
    answer.close()
    assert [(event["type"], event["object"]["metadata"].get("name")) for event in found] == [
        ("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "old"), ("BOOKMARK", None)]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
    assert versions == sorted(versions)
    assert versions[0] > int(version)


def test_a_watch_from_before_the_compaction_has_expired(store, ask):
    store.put(PODS, pod("p"))
    version = ask().json()["metadata"]["resourceVersion"]
    store.put(PODS, pod("p", phase="Running"))
    store.expire()
    assert ask(watch="1", resourceVersion=version).status_code == 410


def test_a_watch_under_way_is_told_of_the_compaction(store, server, ask):
    version = ask().json()["metadata"]["resourceVersion"]
    answer = requests.get(f"{server.url}{PATH}", params={"watch": "1", "resourceVersion": version}, stream=True,
                          timeout=60)
    store.expire()
    found = events(answer, 1)[0]
    assert (found["type"], found["object"]["code"]) == ("ERROR", 410)


def test_faults_come_as_often_as_they_were_asked_for(server, ask):
    server.api.faults.append(Fault(PATH, 429, times=2, retry_after="7"))
    assert [(answer.status_code, answer.headers.get("Retry-After")) for answer in (ask(), ask(), ask())] == [
        (429, "7"), (429, "7"), (200, None)]


def test_only_known_tokens_are_let_in(server):
    server.api.tokens = {"secret"}
    bearer = {"Authorization": "Bearer secret"}
    assert requests.get(f"{server.url}{PATH}", timeout=60).status_code == 401
    assert requests.get(f"{server.url}{PATH}", headers=bearer, timeout=60).status_code == 200


def test_what_is_unchanged_is_no_change(store):
    store.put(PODS, pod("p"))
    version = store.version
    store.put(PODS, pod("p"))
    assert store.version == version
