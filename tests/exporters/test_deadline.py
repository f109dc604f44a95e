import pytest

from idlewatt.exporters import deadline
from idlewatt.exporters.deadline import Kept
from idlewatt.exporters.fetch import Client, HttpOptions, SourceError


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
    with pytest.raises(SourceError, match="is not asked any more"):
        client.get(loopback.url("/"))
