import threading
import time

import pytest
from cost import widened

from idlewatt.exporters import deadline
from idlewatt.exporters.deadline import Errand, Kept, all_of
from idlewatt.exporters.fetch import Client
from idlewatt.exporters.http_options import HttpOptions
from idlewatt.exporters.source import SourceError


def test_one_run_at_a_time_and_another_after_it():
    gate, runs, told = threading.Event(), [], threading.Semaphore(0)

    def work():
        gate.wait(20)
        runs.append(1)

    errand = Errand("test", work, told.release)
    assert not errand.under_way
    assert errand.begin()
    assert not errand.begin()
    assert not errand.wait(0.01)
    assert errand.under_way_s > 0
    gate.set()
    assert errand.wait(20)
    assert told.acquire(timeout=60)
    assert errand.begin()
    assert errand.wait(20)
    assert (len(runs), errand.under_way_s) == (2, 0.0)


def test_calls_are_made_side_by_side_and_answered_in_order():
    gate = threading.Barrier(3)

    def call(number):
        gate.wait(20)
        return number

    assert all_of("test", [lambda n=n: call(n) for n in range(6)], 3) == list(range(6))


def test_after_a_fault_no_more_calls_are_begun():
    made = []

    def call():
        made.append(1)
        raise SourceError("it hangs")

    with pytest.raises(SourceError, match="it hangs"):
        all_of("test", [call] * 50, 4)
    assert len(made) <= 4


def test_no_call_is_no_fault():
    began = time.monotonic()
    assert all_of("test", [], 4) == []
    assert time.monotonic() - began < widened(5)


def test_no_more_connections_are_kept_than_allowed_and_all_are_asked(loopback, monkeypatch):
    kept = Kept(1)
    monkeypatch.setattr(deadline, "KEPT", kept)
    loopback.pages["/"] = b"page\n"
    clients = [Client(HttpOptions()) for _ in range(3)]
    for _ in range(3):
        assert [client.get(loopback.url("/")) for client in clients] == [b"page\n"] * 3
        assert kept._count == 1
    for client in clients:
        client.close()
    assert kept._count == 0


def test_a_share_of_the_descriptors_is_for_kept_connections(monkeypatch):
    monkeypatch.setattr(deadline.resource, "getrlimit", lambda _which: (1024, 4096))
    kept = Kept()
    assert sum(kept.take() for _ in range(2000)) == 256


def test_a_client_that_is_closed_answers_nobody(loopback):
    client = Client(HttpOptions())
    client.close()
    with pytest.raises(SourceError, match="is not read any more"):
        client.get(loopback.url("/"))
