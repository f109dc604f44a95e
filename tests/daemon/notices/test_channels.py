"""Webhook, Alertmanager and hooks: what is posted and run, and what becomes of it when nobody takes it."""

import contextlib
import json
import socket
import sys
import time
from threading import Event, Thread

import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from idlewatt.daemon.notices.addresses import NoAddress, address_of
from idlewatt.daemon.notices.programs import ProgramError, run
from idlewatt.daemon.settings.notices import AddressSettings

HOUR = 3600.0


class Taker:
    """An HTTP server that notes what is posted to it."""

    def __init__(self) -> None:
        self.posts, self.status = [], 200
        self.server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @Request.application
    def _answer(self, request: Request) -> Response:
        self.posts.append((request.path, request.headers.get("Authorization"), request.get_json()))
        return Response("", self.status)


@pytest.fixture
def taker():
    made = Taker()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_webhook_is_told_each_notice_once_with_its_figures_and_a_token_from_a_file(place, taker, tmp_path):
    (tmp_path / "token").write_text("t0ken\n")
    desk = place.desk("[{kind: idle_gpus, channels: [webhook]}]",
                      webhook=f"{{url: '{taker.url}/hook', token_file: {tmp_path / 'token'}}}")
    place.look(desk)
    place.look(desk, 300.0)
    ((path, authorization, body),) = taker.posts
    assert (path, authorization) == ("/hook", "Bearer t0ken")
    assert (body["job_id"], body["user"], body["stage"], body["figures"]["gpus"]) == ("4711", "ada", "first", 4)


def test_a_webhook_that_fails_is_asked_again_later(place, taker):
    taker.status = 500
    desk = place.desk("[{kind: idle_gpus, channels: [webhook]}]", webhook=f"{{url: '{taker.url}/'}}")
    place.look(desk)
    assert place.reasons() == ["webhook: answered 500"]
    assert desk.undelivered.notices == 1
    taker.status = 200
    place.look(desk, 61.0)
    assert place.states() == [("4711", "first", "sent")]


@pytest.mark.parametrize("url", ["http://ada:s3cret@127.0.0.1:99999/t0ken", "http://127.0.0.1:99999/s3cret",
                                 "http://ada:s3cret/x@127.0.0.1/t0ken", "http://ada:s3cret#x@127.0.0.1/t0ken",
                                 "http://ada:s3cret@/t0ken", "http://127.0.0.1:1/t0ken?key=s3cret"])
@pytest.mark.parametrize("channel", ["webhook", "alertmanager"])
def test_no_login_and_no_token_in_a_webhooks_url_stands_in_the_reason_why_it_failed(place, channel, url, caplog):
    place.look(place.desk(f"[{{kind: idle_gpus, channels: [{channel}]}}]", **{channel: f"{{url: '{url}'}}"}))
    (reason,) = place.reasons()
    assert reason.startswith(f"{channel}: ")
    assert not any(word in reason + caplog.text for word in ("ada", "s3cret", "t0ken"))


def test_a_token_that_cannot_be_sent_does_not_stand_in_the_reason(place, tmp_path):
    (tmp_path / "token").write_text("s3cret\nt0ken\n")
    place.look(place.desk("[{kind: idle_gpus, channels: [webhook]}]",
                          webhook=f"{{url: 'http://127.0.0.1:1', token_file: {tmp_path / 'token'}}}"))
    assert place.reasons() == ["webhook: its token or password, or that of a proxy (HTTP_PROXY, HTTPS_PROXY), cannot "
                               "be sent: it has a line's end, a control character or a typographic mark"]


@pytest.mark.parametrize("proxy", ["ftp://ada:s3cret@proxy:3128", "http://ada:s3#cret@proxy:3128",
                                   "http://ada:s3cret@proxy..lab:3128", "http://ada:s3cret€@127.0.0.1:1"])
def test_a_proxy_of_the_environment_that_cannot_be_used_is_named_and_its_login_is_not(place, monkeypatch, proxy):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", proxy)
    place.look(place.desk("[{kind: idle_gpus, channels: [webhook]}]", webhook="{url: 'http://192.0.2.1/t0ken'}"))
    (reason,) = place.reasons()
    assert "that of a proxy (HTTP_PROXY, HTTPS_PROXY)" in reason
    assert not any(word in reason for word in ("ada", "s3", "t0ken"))


def test_what_waits_for_a_webhook_that_is_set_no_more_is_left_out_and_holds_up_neither_mails_nor_digests(
        place, taker, mail_server):
    taker.status = 500
    desk = place.desk("[{kind: idle_gpus, channels: [webhook]}]", webhook=f"{{url: '{taker.url}/'}}")
    place.look(desk)
    mails = mail_server()
    place.look(desk.renewed(place.desk(mail=f"{{host: 127.0.0.1, port: {mails.port}, sender: i@example.org}}",
                                       digest="{enabled: true, day: friday}")._all), 61.0)
    assert {(one.channel, one.stage): (one.state, one.why) for one in place.history.notices(0.0)} == {
        ("webhook", "first"): ("left_out", "no webhook is set any more"), ("mail", "first"): ("sent", ""),
        ("mail", "digest"): ("sent", "")}
    assert len(taker.posts) == 1


@pytest.mark.parametrize(("channel", "settings"), [
    ("mail", "{host: 127.0.0.1, port: 1, sender: i@example.org}"), ("alertmanager", "{url: 'http://127.0.0.1:1'}")])
def test_what_waits_for_another_channel_that_is_set_no_more_is_left_out(place, taker, channel, settings):
    desk = place.desk(f"[{{kind: idle_gpus, channels: [{channel}]}}]", **{channel: settings})
    place.look(desk)
    assert desk.undelivered.notices == 1
    place.look(desk.renewed(place.desk("[{kind: idle_gpus, channels: [webhook]}]", webhook=f"{{url: '{taker.url}/'}}",
                                       **{channel: "null"})._all), 61.0)
    assert {one.channel: (one.state, one.why) for one in place.history.notices(0.0)} == {
        channel: ("left_out", f"no {channel} is set any more"), "webhook": ("sent", "")}


class Raw:
    """A server that answers each connection with parts of its own, until the other end is gone or they have ended."""

    def __init__(self, parts) -> None:
        self.sent, self._parts = 0, parts
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            for part in self._parts():
                connection.sendall(part)
                self.sent += len(part)

    def close(self) -> None:
        self._thread.join()
        self._socket.close()


@pytest.fixture
def raw():
    """Return a function that starts a server of raw answers."""
    with contextlib.ExitStack() as stack:
        yield lambda parts: stack.enter_context(contextlib.closing(Raw(parts)))


def test_of_an_answer_without_end_no_more_than_its_head_is_read(place, raw):
    def endless():
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        for _ in range(1000):
            yield bytes(65536)

    server = raw(endless)
    place.look(place.desk("[{kind: idle_gpus, channels: [webhook]}]", webhook=f"{{url: '{server.url}'}}"))
    assert place.states() == [("4711", "first", "sent")]
    server.close()
    assert server.sent < 16 << 20


def test_a_webhook_whose_answer_drips_is_given_up_after_its_time(place, raw):
    ended = Event()

    def dripping():
        yield b"HTTP/1.1 200 OK\r\nX-Slow: "
        for _ in range(200):
            ended.wait(0.02)
            yield b"x"
        yield b"\r\n\r\n"

    server = raw(dripping)
    place.look(place.desk("[{kind: idle_gpus, channels: [webhook]}]",
                          webhook=f"{{url: '{server.url}', timeout: 0.3s}}"))
    ended.set()
    assert place.reasons() == ["webhook: did not answer within 0.3 s"]


def test_alertmanager_gets_its_own_shape_again_and_again_until_it_is_over(place, taker):
    """The shape is that of ``postableAlerts`` in Alertmanager's API v2 (api/v2/openapi.yaml of 0.27)."""
    desk = place.desk("[{kind: idle_gpus, channels: [alertmanager]}]",
                      alertmanager=f"{{url: '{taker.url}', labels: {{cluster: dgx}}}}", page_url="https://x.org")
    place.look(desk)
    place.look(desk, 300.0)
    place.gpus.clear()
    place.look(desk, 300.0)
    assert [path for path, _, _ in taker.posts] == ["/api/v2/alerts"] * 2
    (alert,) = taker.posts[0][2]
    assert set(alert) == {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
    assert alert["labels"] == {"cluster": "dgx", "alertname": "IdlewattNotice", "rule": "idle_gpus",
                               "kind": "idle_gpus", "stage": "first", "job_id": "4711", "user": "ada",
                               "account": "lab", "partition": "a100"}
    assert (alert["startsAt"], alert["endsAt"]) == ("2026-11-20T12:00:00.000Z", "2026-11-20T12:20:00.000Z")
    assert taker.posts[1][2][0]["endsAt"] == "2026-11-20T12:25:00.000Z"
    assert place.states() == [("4711", "first", "sent")]


def test_an_alert_that_holds_is_posted_again_at_the_first_look_after_alertmanager_was_away(place, taker):
    """Else it ends there by itself, and its owner is told that it is over."""
    desk = place.desk("[{kind: idle_gpus, channels: [alertmanager]}]", alertmanager=f"{{url: '{taker.url}'}}")
    place.look(desk)
    place.other("4712", "bob")
    taker.status = 503
    for _ in range(6):
        place.look(desk, 300.0)
    taker.status = 200
    taker.posts.clear()
    place.look(desk, 300.0)
    assert sorted(alert["labels"]["job_id"] for alert in taker.posts[0][2]) == ["4711", "4712"]
    assert [state for _, _, state in place.states()] == ["sent", "sent"]


def test_alertmanager_hears_of_an_opted_out_users_job_at_the_last_stage_and_cannot_route_that_to_the_user(
        place, taker, tmp_path):
    (tmp_path / "out").write_text("ada\n")
    desk = place.desk("[{kind: idle_gpus, channels: [alertmanager]}]", alertmanager=f"{{url: '{taker.url}'}}",
                      opt_out_file=tmp_path / "out")
    place.look(desk)
    place.look(desk, 49 * HOUR)
    place.look(desk, 300.0)
    assert place.states() == [("4711", "first", "left_out"), ("4711", "admins", "sent")]
    for _, _, (alert,) in taker.posts:
        assert (alert["labels"]["stage"], "user" in alert["labels"], alert["annotations"]["owner"]) == (
            "admins", False, "ada")
    assert len(taker.posts) == 2


def script(tmp_path, text: str) -> str:
    file = tmp_path / "hook.py"
    file.write_text(text)
    return json.dumps([sys.executable, str(file)])


def test_a_hook_is_run_once_a_stage_with_the_notice_on_its_input(place, tmp_path):
    hook = script(tmp_path, f"import sys; open({str(tmp_path / 'said')!r}, 'a').write(sys.stdin.read() + '\\n')")
    desk = place.desk("[{kind: idle_gpus, channels: [hook]}]", hooks=f"{{first: {hook}, dry_run: false}}")
    place.look(desk)
    place.look(desk, 300.0)
    place.look(desk, 25 * HOUR)
    (line,) = (tmp_path / "said").read_text().splitlines()
    assert json.loads(line)["job_id"] == "4711"
    assert place.states() == [("4711", "first", "sent"), ("4711", "second", "left_out")]


def test_a_hook_is_only_written_down_until_it_is_meant(place, tmp_path):
    hook = script(tmp_path, f"open({str(tmp_path / 'said')!r}, 'w')")
    desk = place.desk("[{kind: idle_gpus, channels: [hook]}]", hooks=f"{{first: {hook}}}")
    place.look(desk)
    place.look(desk, 300.0)
    assert not (tmp_path / "said").exists()
    assert (place.states(), place.reasons()) == ([("4711", "first", "dry_run")], [f"would run {sys.executable}"])


def test_a_hook_that_fails_is_run_again_later_and_says_why(place, tmp_path):
    hook = script(tmp_path, "import sys; sys.exit('no room\\n\\x1b[31m')")
    place.look(place.desk("[{kind: idle_gpus, channels: [hook]}]", hooks=f"{{first: {hook}, dry_run: false}}"))
    (why,) = place.reasons()
    assert why.startswith(f"{sys.executable}: status 1: no room")
    assert "\x1b" not in why


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path):
    file = tmp_path / "pid"
    slow = f"import os, time; p = os.fork(); open({str(file)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(60)"
    with pytest.raises(ProgramError, match="not done within 1 s"):
        run([sys.executable, "-c", slow], "", 1.0)
    deadline = time.monotonic() + 60
    for pid in file.read_text().split():
        while alive(pid):
            assert time.monotonic() < deadline, f"{pid} is left behind"


def alive(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_shell_never_sees_what_is_given_to_a_program():
    assert run([sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id); `id` | x"], "", 10.0).strip() == \
        "$(id); `id` | x"


def test_a_program_that_is_not_there_is_said():
    with pytest.raises(ProgramError, match="/nowhere"):
        run(["/nowhere"], "", 1.0)


def test_an_address_comes_from_a_command_as_of_ldapsearch():
    said = "print('dn: uid={user},dc=example'); print('mail: ada@physics.example.org')"
    command = (sys.executable, "-c", said)
    assert address_of("ada", AddressSettings(command=command)) == "ada@physics.example.org"


@pytest.mark.parametrize("said", ["print('nobody')", "print('a@b\\x00c@d')", "print('a b@c,d@e')", "pass"])
def test_what_a_command_says_is_only_taken_where_it_is_an_address(said):
    with pytest.raises(NoAddress):
        address_of("ada", AddressSettings(command=(sys.executable, "-c", said)))


@pytest.mark.parametrize("user", ["*", "a)(uid=*", "-x", "a b", "a\n", ""])
def test_no_command_is_run_for_a_user_whose_name_is_none(user):
    with pytest.raises(NoAddress, match="no name"):
        address_of(user, AddressSettings(command=("/nowhere",)))
