"""Advice is believed only whole, fresh, undegraded and of the active policy."""

import json
import socket
from threading import Thread

import pytest
import responses

from idlewatt.daemon.follow.advice import Adviser
from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.sight import Advised

NOW = 1_000_000.0
API = "http://127.0.0.1:9723/api/v1"
GOOD = {"now_s": NOW, "ready": True, "missing": [], "no_advice": "", "degraded": []}
ROW = {"job_id": "7", "submit_s": NOW - 60, "partition": "gpu", "issued_s": NOW - 5, "policy": "easy",
       "objective": "wait", "action": "start", "reason": "fits", "shadow": False, "snapshot_s": NOW - 6,
       "placement": {"nodes": ["b", "a"], "gpus": [1, 1]}, "command": "scontrol update jobid=7 ReqNodeList=b,a"}


@pytest.fixture
def web():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def answers(web, rows, status=GOOD, code=200, **envelope):
    web.get(f"{API}/status", json={"status": "success", "data": [status]})
    web.get(f"{API}/recommendations", body=json.dumps({"status": "success", "data": rows} | envelope), status=code)


def advice(text=""):
    return Adviser(parse(f"allow: {{partitions: [gpu], users: ['*']}}\n{text}")).advice(NOW)


def test_advice_to_start_is_read_with_its_nodes_in_order(web):
    answers(web, [ROW])
    assert advice().starts == (Advised("7", NOW - 60, "gpu", ("a", "b"), "easy", NOW - 5, NOW - 6),)


@pytest.mark.parametrize("change", [
    {"shadow": True}, {"action": "hold"}, {"action": "unknown"}, {"placement": None}, {"snapshot_s": None},
    {"snapshot_s": NOW - 61}, {"issued_s": NOW - 61}, {"snapshot_s": NOW + 60}, {"issued_s": "now"}, {"job_id": "7_"},
    {"job_id": "7+1"}, {"job_id": "-7"}, {"job_id": "7 Nice=-1"}, {"placement": {"nodes": ["a;rm -rf /"], "gpus": [1]}},
    {"placement": {"nodes": []}}, {"placement": {"nodes": ["a,b"]}}, {"partition": None}, {"submit_s": float("nan")}])
def test_what_is_stale_of_a_shadow_or_not_understood_is_no_advice(web, change):
    answers(web, [ROW | change, "row", None])
    assert advice().starts == ()


def test_a_command_that_does_more_than_name_nodes_is_told_apart(web):
    answers(web, [ROW | {"command": "scontrol update jobid=7 ExcNodeList=c"}])
    assert not advice().starts[0].plain


@pytest.mark.parametrize(("change", "why"), [
    ({"snapshot_s": NOW - 61}, "stale"), ({"issued_s": NOW - 61}, "stale"), ({"job_id": "7+1"}, "plain"),
    ({"job_id": "7 Nice=-1"}, "unreadable"), ({"placement": None}, "unreadable"), ({"issued_s": "now"}, "unreadable")])
def test_no_advice_to_start_is_left_alone_in_silence(web, change, why):
    answers(web, [ROW, ROW | change, ROW | {"action": "hold"}, ROW | {"shadow": True}])
    assert (len(advice().starts), advice().passed_over) == (1, (why,))


def test_advice_on_an_array_is_for_its_next_task(web):
    answers(web, [ROW | {"command": ""},
                  ROW | {"job_id": "7_3", "command": "scontrol update jobid=7_3 ReqNodeList=b,a"}])
    assert [(one.job_id, one.plain, one.task) for one in advice().starts] == [("7", True, True), ("7_3", True, False)]


@pytest.mark.parametrize(("status", "why"), [
    (GOOD | {"ready": False}, "the daemon has not read the scheduler lately"),
    (GOOD | {"no_advice": "the snapshot is stale"}, "the snapshot is stale"),
    (GOOD | {"degraded": [{"cause": "unmeasured", "words": "3 GPUs are not measured"}]},
     "degraded: 3 GPUs are not measured"),
    ({}, "its status is not understood"), ("up", "its status is not understood")])
def test_a_daemon_that_is_not_well_is_not_believed_and_the_reason_is_told(web, status, why):
    answers(web, [ROW], status)
    assert (advice().starts, advice().silence) == ((), why)


def test_a_degradation_that_the_site_accepts_is_no_reason(web):
    answers(web, [ROW], GOOD | {"degraded": [{"cause": "unmeasured", "words": "3 GPUs"}]})
    assert len(advice("despite: [unmeasured]").starts) == 1


@pytest.mark.parametrize("how", [{"code": 500}, {"code": 302}, {"status": "error"}, {"data": {}}, {"data": None}])
def test_an_answer_of_another_kind_is_a_silence(web, how):
    answers(web, [ROW], **how) if "status" not in how else web.get(f"{API}/status", json={"status": "error"})
    assert advice().starts == ()
    assert advice().silence.startswith("the daemon does not answer")


@pytest.fixture
def broken_off():
    """The address of a server that begins an answer and goes away."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789")

        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_an_answer_that_breaks_off_is_a_silence(broken_off):
    rules = parse(f"daemon: {{url: '{broken_off}'}}\nallow: {{partitions: [gpu], users: ['*']}}\n")
    assert Adviser(rules).advice(NOW).silence.startswith("the daemon does not answer")


def test_a_daemon_that_is_down_is_a_silence():
    rules = parse("daemon: {url: 'http://127.0.0.1:9'}\nallow: {partitions: [gpu], users: ['*']}\n")
    assert Adviser(rules).advice(NOW).silence.startswith("the daemon does not answer")


def test_no_login_in_the_daemons_address_stands_in_the_reason_of_a_silence():
    silence = advice("daemon: {url: 'http://alice:s3cret@127.0.0.1:99999'}").silence
    assert silence.startswith("the daemon does not answer")
    assert "s3cret" not in silence
