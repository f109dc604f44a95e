import os
import socket

import pytest

from idlewatt.daemon import notify


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A service manager's end of the notification socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def test_state_lines_reach_the_service_manager_in_one_datagram(manager):
    assert notify.notify("READY=1", "STATUS=watching 4 nodes")
    assert manager.recv(1000) == b"READY=1\nSTATUS=watching 4 nodes"


def test_a_reload_carries_its_monotonic_time(manager):
    notify.reloading()
    first, second = manager.recv(1000).decode().split("\n")
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_an_abstract_socket_is_understood(monkeypatch):
    name = f"idlewatt-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        assert notify.notify("STOPPING=1")
        assert listener.recv(1000) == b"STOPPING=1"


def test_without_a_service_manager_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify.notify("READY=1")


def test_the_watchdog_is_pinged_twice_as_often_as_it_must(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert notify.watchdog_period_s() == 30.0


def test_a_watchdog_for_another_process_is_not_ours(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))
    assert notify.watchdog_period_s() is None
