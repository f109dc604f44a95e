import json
import logging
import socket
from threading import Thread

import pytest
import requests

from idlewatt.daemon import logs


@pytest.fixture(autouse=True)
def _restore_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_an_event_is_one_line_whatever_it_holds(capsys):
    logs.configure("info", "logfmt")
    logging.getLogger("idlewatt.test").warning("target down", extra={"target": "a:9400", "error": "refused\nreally"})
    (line,) = capsys.readouterr().err.splitlines()
    assert 'level=warning logger=idlewatt.test event="target down"' in line
    assert "target=a:9400" in line


def test_json_lines_are_json(capsys):
    logs.configure("info", "json")
    logging.getLogger("idlewatt.test").info("ready", extra={"nodes": 4})
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["nodes"], event["level"]) == ("ready", 4, "info")


@pytest.mark.parametrize("level", ["debug", "info"])
def test_the_path_of_a_request_which_may_be_a_webhooks_token_is_in_no_line(capsys, level):
    logs.configure(level, "logfmt")
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=answer_strangely, args=(server,), daemon=True).start()
        requests.post(f"http://127.0.0.1:{server.getsockname()[1]}/t0ken", timeout=5)
    assert "t0ken" not in capsys.readouterr().err


def answer_strangely(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nno header\r\nX: 1\r\n\r\n")


def record(message="target down", target="a", level=logging.WARNING):
    made = logging.LogRecord("idlewatt.test", level, __file__, 1, message, (), None)
    made.target = target
    return made


def test_a_repeated_warning_is_said_once_a_period_and_then_with_its_count():
    now = [0.0]
    repeats = logs.Repeats(period_s=60, clock=lambda: now[0])
    assert [repeats.filter(record()) for _ in range(3)] == [True, False, False]
    now[0] = 61.0
    again = record()
    assert repeats.filter(again)
    assert again.repeated == 2


def test_another_target_is_another_line():
    repeats = logs.Repeats(clock=lambda: 0.0)
    assert repeats.filter(record(target="a"))
    assert repeats.filter(record(target="b"))
    assert not repeats.filter(record(target="a"))


def test_information_is_never_held_back():
    repeats = logs.Repeats(clock=lambda: 0.0)
    assert all(repeats.filter(record(level=logging.INFO)) for _ in range(5))


def test_the_memory_of_lines_is_bounded():
    repeats = logs.Repeats(clock=lambda: 0.0, remembered=10)
    for number in range(100):
        repeats.filter(record(message=f"garbage {number}"))
    assert len(repeats._held) == 10
