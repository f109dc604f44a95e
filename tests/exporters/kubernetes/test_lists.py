"""A list of the API server is whole and of the kind that was asked for, or it is none."""

import json
from itertools import count

import kube_objects as make
import msgspec
import pytest

from idlewatt.exporters.http_options import HttpOptions
from idlewatt.exporters.kubernetes import lists
from idlewatt.exporters.kubernetes.access import Access
from idlewatt.exporters.kubernetes.api import ApiClient
from idlewatt.exporters.kubernetes.fields import Listing
from idlewatt.exporters.kubernetes.lists import PAGE, read_list, served
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import ALL, PODS
from idlewatt.exporters.source import SourceError

PATH = "/api/v1/pods"


@pytest.fixture
def api(server):
    client = ApiClient(Access(server.url), HttpOptions(timeout=5.0))
    yield client
    client.close()


def page(token):
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": token},
                       "items": []}).encode()


def test_a_list_is_read_page_by_page_and_tells_its_version(store, api):
    for number in range(PAGE + 1):
        store.put(PODS, make.pod(f"p{number}"))
    seen = []

    def take(body):
        seen.append(msgspec.json.decode(body, type=Listing))
        return seen[-1]

    assert read_list(api, PATH, take) == str(store.version)
    assert [len(one.items) for one in seen] == [PAGE, 1]


@pytest.mark.parametrize("body", [
    b"{}", b'{"kind":"Status","status":"Failure","code":500}', b'{"error":"backend is starting"}',
    b'{"kind":"NodeList","metadata":{"resourceVersion":"5"},"items":[]}'])
def test_an_answer_of_another_kind_is_no_empty_list(server, api, body):
    server.api.faults.append(Fault(PATH, 200, body=body))
    with pytest.raises(SourceError, match="/api/v1/pods: not answered with a list of it, .*address of an API server"):
        read_list(api, PATH, msgspec.json.Decoder(Listing).decode)


@pytest.mark.parametrize("tokens", [iter(lambda: "again", ""), map(str, count())])
def test_a_list_without_end_is_told(server, api, monkeypatch, tokens):
    monkeypatch.setattr(lists, "MOST_PAGES", 20)
    monkeypatch.setattr(server.api, "_read", lambda path, query: page(next(tokens)))
    with pytest.raises(SourceError, match="/api/v1/pods: its list has no end: after .* pages"):
        read_list(api, PATH, msgspec.json.Decoder(Listing).decode)
    assert len(server.api.requests) <= 20


def test_every_list_of_the_emulator_is_of_the_kind_that_its_path_tells(server, api):
    for resource in ALL:
        read_list(api, f"{server.api._path(resource)}/{resource.plural}", msgspec.json.Decoder(Listing).decode)


def test_an_answer_of_another_kind_is_no_list_of_groups(server, api):
    assert "v1" in served(api)["batch"]
    server.api.faults.append(Fault("/apis", 200, body=b"{}"))
    with pytest.raises(SourceError, match="/apis: not answered with a list of it"):
        served(api)
