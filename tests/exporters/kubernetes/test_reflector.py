"""The copy of a list stays whole through everything that goes wrong between it and its server."""

import json

import kube_objects as make
import pytest

from idlewatt.exporters.fetch import Refused
from idlewatt.exporters.http_options import HttpOptions
from idlewatt.exporters.kubernetes.access import Access
from idlewatt.exporters.kubernetes.api import ApiClient
from idlewatt.exporters.kubernetes.lists import PAGE
from idlewatt.exporters.kubernetes.reflector import Reflector, WatchPatience
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import PODS

PATH = "/api/v1/pods"


def named(raw):
    return json.loads(bytes(raw))["metadata"]["name"]


@pytest.fixture
def reflect(server):
    """Return a function that begins to copy the pods."""
    started = []

    def begin(parse=named, **patience):
        api = ApiClient(Access(server.url), HttpOptions(timeout=5.0))
        made = Reflector(api, PATH, parse, lambda: 0.0, WatchPatience(**{"wait_s": 0.01} | patience))
        started.append((made, api))
        made.start()
        return made

    yield begin
    for made, api in started:
        made.stop()
        api.close()


@pytest.fixture
def present(store, until):
    """Return the function that waits until a copy is what the server has."""
    def wait(copy):
        until(lambda: sorted(copy.kept()) == sorted(name for _, name in store.names(PODS)))

    return wait


def asked(server, word):
    return [request for request in server.api.requests if word in request]


def test_a_long_list_is_read_in_pages(store, server, reflect, present):
    for number in range(PAGE + 1):
        store.put(PODS, make.pod(f"p{number}"))
    copy = reflect()
    present(copy)
    assert len(asked(server, "limit=")) == 2
    assert copy.lists == 1


def test_changes_come_by_the_watch_alone(store, server, reflect, present):
    copy = reflect()
    assert copy.synced.wait(5.0)
    store.put(PODS, make.pod("a"))
    store.put(PODS, make.pod("b"))
    store.delete(PODS, ("team", "a"))
    present(copy)
    assert copy.lists == 1
    assert copy.gone() == ["a"]
    assert copy.gone() == []


def test_bookmarks_carry_the_version_over_quiet_times(store, server, reflect, until):
    copy = reflect()
    assert copy.synced.wait(5.0)
    before = copy.version
    store.version += 5  # other kinds of objects have changed
    until(lambda: int(copy.version) == store.version)
    server.api.drop_watches()
    until(lambda: len(asked(server, "watch=")) == 2)
    assert f"resourceVersion={store.version}" in asked(server, "watch=")[1]
    assert copy.version != before
    assert copy.lists == 1


def test_a_dropped_watch_goes_on_where_it_was(store, server, reflect, present, until):
    copy = reflect()
    until(lambda: asked(server, "watch="))
    store.put(PODS, make.pod("a"))
    present(copy)
    server.api.drop_watches()
    store.put(PODS, make.pod("b"))
    store.delete(PODS, ("team", "a"))
    present(copy)
    assert copy.lists == 1
    assert copy.gone() == ["a"]


def test_a_forgotten_version_is_listed_anew_and_nothing_seems_to_be_gone_meanwhile(store, server, reflect, present,
                                                                                  until):
    for name in ("stays", "goes"):
        store.put(PODS, make.pod(name))
    copy = reflect()
    present(copy)
    seen = []
    server.api.faults.append(Fault(PATH, 500, times=3, watches=False))  # the list anew fails at first
    store.expire()
    store.delete(PODS, ("team", "goes"))
    until(lambda: (seen.append(sorted(copy.kept())), copy.lists == 2)[1])
    assert set(map(tuple, seen)) <= {("goes", "stays"), ("stays",)}
    assert copy.gone() == ["goes"]


def test_a_list_that_is_forgotten_between_its_pages_is_begun_anew(store, server, reflect, present):
    for number in range(PAGE + 1):
        store.put(PODS, make.pod(f"p{number}"))
    read, once = server.api._read, iter((True,))

    def forget(path, query):
        if "continue" in query and next(once, False):
            store.expire()
        return read(path, query)

    server.api._read = forget
    copy = reflect()
    present(copy)
    assert len(asked(server, "limit=")) == 4
    assert copy.lists == 1


def test_another_object_of_the_same_name_is_another(store, reflect, until):
    store.put(PODS, make.pod("a"))
    copy = reflect(parse=lambda raw: json.loads(bytes(raw))["metadata"]["uid"])
    assert copy.synced.wait(5.0)
    again = make.pod("a")
    again["metadata"]["uid"] = "another"
    store.put(PODS, again)
    until(lambda: copy.kept() == ["another"])
    assert copy.gone() == ["uid-team-a"]


def test_a_server_that_asks_for_patience_gets_it(store, server, reflect, present):
    store.put(PODS, make.pod("a"))
    server.api.faults.append(Fault(PATH, 429, times=2, retry_after="0"))
    copy = reflect()
    present(copy)
    assert 7.0 <= copy._failed(Refused("", 429, retry_after="7"), 1) < 8.0
    assert copy._failed(Refused("", 429, retry_after="86400"), 1) < 120.0


def test_pauses_grow_with_each_failure_and_are_never_the_same(reflect):
    copy = reflect(wait_s=1.0)
    pauses = [copy._pause(failures) for failures in range(1, 12)]
    assert all(1.0 <= later / 2.0**number <= 2.0 for number, later in enumerate(pauses[:5]))
    assert all(30.0 <= pause <= 60.0 for pause in pauses[6:])
    assert len(set(pauses)) == len(pauses)


def test_after_a_silent_watch_the_list_tells_what_it_kept_back(store, server, reflect, until):
    server.api.silent = True  # a proxy that keeps lines, or a server whose versions are behind ours
    copy = reflect(silent_s=0.2)
    until(lambda: asked(server, "watch="))
    store.put(PODS, make.pod("a"))
    until(lambda: copy.kept() == ["a"])
    assert copy.lists == 2
    until(lambda: "timed out" in copy.error)


def test_a_watch_that_ends_at_once_is_told_and_the_list_read_instead_ever_more_slowly(store, server, reflect, until):
    copy = reflect()
    until(lambda: asked(server, "watch="))
    store.put(PODS, make.pod("a"))  # this watch has said something: the list is not read for its end
    until(lambda: copy.kept() == ["a"])
    server.api.faults.append(Fault(PATH, 200, times=-1, body=b"\n", watches=True))
    server.api.drop_watches()
    store.put(PODS, make.pod("b"))
    until(lambda: sorted(copy.kept()) == ["a", "b"])
    until(lambda: "ended at once and sent nothing" in copy.error)
    server.api.faults.clear()
    store.put(PODS, make.pod("c"))
    until(lambda: sorted(copy.kept()) == ["a", "b", "c"] and not copy.error)


@pytest.mark.parametrize("line", [b'{"type":"ERROR","object":{"code":500,"message":"etcd"}}\n', b"no json\n", b'{"cut',
                                  b'{"type":"ERROR","object":7}\n'])
def test_after_a_watch_that_fails_before_it_said_anything_the_list_is_read(store, server, reflect, until, line):
    server.api.faults.append(Fault(PATH, 200, times=-1, body=line, watches=True))
    copy = reflect()
    until(lambda: asked(server, "watch="))
    store.put(PODS, make.pod("a"))
    until(lambda: copy.kept() == ["a"])
    until(lambda: copy.error)
    assert "idlewatt itself" not in copy.error


def test_a_list_that_is_forgotten_again_and_again_is_told(store, server, reflect, until):
    server.api.faults.append(Fault(PATH, 410, times=-1, watches=False))
    copy = reflect()
    until(lambda: copy.error == "its list was forgotten while it was read")
    assert not copy.synced.is_set()


def test_the_list_is_read_again_now_and_then_whatever_the_watch_said(store, reflect, present, until):
    store.put(PODS, make.pod("a"))
    copy = reflect(resync_s=0.1, watch_s=1.0)
    until(lambda: copy.lists >= 2)
    present(copy)
    assert copy.gone() == []


def test_a_strange_object_costs_itself_alone(store, reflect, until):
    store.put(PODS, make.pod("good"))
    strange = make.pod("strange")
    store.put(PODS, strange)

    def parse(raw):
        if named(raw) == "strange":
            raise ValueError("it has no creation time")
        return named(raw)

    copy = reflect(parse)
    until(lambda: copy.kept() == ["good"])
    assert copy.skipped == ("team/strange: 'it has no creation time'",)
    store.delete(PODS, ("team", "strange"))
    store.put(PODS, make.pod("later"))
    until(lambda: sorted(copy.kept()) == ["good", "later"])
    assert copy.skipped == ()


@pytest.mark.parametrize("patience", [{}, {"resync_s": 0.1, "watch_s": 1.0}], ids=["by the watch", "by the list"])
def test_an_object_that_becomes_strange_stays_as_it_was_until_it_is_deleted(store, reflect, until, patience):
    store.put(PODS, make.pod("a"))

    def parse(raw):
        if b"restarts" in bytes(raw):
            raise ValueError("its restarts are no number")
        return named(raw)

    copy = reflect(parse, **patience)
    until(lambda: copy.kept() == ["a"])
    lists = copy.lists
    store.put(PODS, make.pod("a", annotations={"restarts": "x"}))
    until(lambda: copy.skipped == ("team/a: 'its restarts are no number'",))
    until(lambda: not patience or copy.lists > lists + 1)
    assert (copy.kept(), copy.gone()) == (["a"], [])
    store.delete(PODS, ("team", "a"))
    until(lambda: copy.kept() == [])
    assert (copy.gone(), copy.skipped) == (["a"], ())


def test_the_end_of_one_object_is_not_the_end_of_another_with_its_name(store, reflect, until):
    store.put(PODS, make.pod("a"))
    copy = reflect()
    until(lambda: copy.kept() == ["a"])
    late = make.pod("a")
    late["metadata"]["uid"] = "of the one before"
    copy._change("DELETED", json.dumps(late).encode())
    assert (copy.kept(), copy.gone()) == (["a"], [])
    copy._change("DELETED", json.dumps(make.pod("a")).encode())
    assert (copy.kept(), copy.gone()) == ([], ["a"])


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"items": 5}', b"\xff\xfe", b'{"items": [5, "x", null]}',
                                  b'{"metadata": {"resourceVersion": 7}, "items": []}'])
def test_what_is_no_list_is_no_list(store, server, reflect, until, body):
    store.put(PODS, make.pod("a"))
    server.api.faults.append(Fault(PATH, 200, times=1, body=body))
    copy = reflect(resync_s=0.0, watch_s=1.0)
    until(lambda: copy.kept() == ["a"])


def test_what_is_no_event_ends_the_watch_and_not_the_copy(store, server, reflect, present, until):
    server.api.faults += [Fault(PATH, 200, times=1, body=body, watches=True)
                          for body in (b"no json\n", b'{"type":"MODIFIED"}\n', b'{"type":"ADDED","object":7}\n',
                                       b'{"type":"ERROR","object":{"code":500,"message":"etcd"}}\n', b'{"cut":')]
    copy = reflect()
    until(lambda: not any(fault.times for fault in server.api.faults))
    store.put(PODS, make.pod("a"))
    present(copy)


def test_no_change_is_lost_or_doubled_in_a_storm(store, server, reflect, present, until):
    copy = reflect()
    assert copy.synced.wait(5.0)
    for number in range(300):
        store.put(PODS, make.pod(f"p{number}"))
        if number % 3 == 0:
            store.delete(PODS, ("team", f"p{number}"))
        if number % 40 == 0:
            server.api.drop_watches()
        if number % 130 == 129:
            store.expire()
    present(copy)
    gone = copy.gone()
    assert len(gone) == len(set(gone))
    assert set(gone) <= {f"p{number}" for number in range(0, 300, 3)}


def test_a_list_with_an_object_without_a_name_ends_none_of_those_that_are_missing(store, server, reflect, present):
    for name in ("a", "b"):
        store.put(PODS, make.pod(name))
    copy = reflect()
    present(copy)
    server.api.faults.append(Fault(PATH, 200, times=1, watches=False, body=json.dumps({
        "kind": "PodList", "metadata": {"resourceVersion": str(store.version)},
        "items": [make.pod("a"), {"metadata": 7}]}).encode()))
    copy._list()
    assert (sorted(copy.kept()), copy.gone()) == (["a", "b"], [])
    store.delete(PODS, ("team", "b"))
    copy._list()
    assert (copy.kept(), set(copy.gone())) == (["a"], {"b"})  # the watch may have said it, too
