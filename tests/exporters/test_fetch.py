"""One page over HTTP: hostile servers cost one clear error, bounded time and bounded memory."""

import gzip
import http.client
import os
import re
import socket
import ssl
import subprocess
import threading
import time
import tracemalloc

import pytest
import responses
from cost import widened
from pydantic import ValidationError

from idlewatt.exporters import deadline
from idlewatt.exporters.fetch import Client, Unreachable
from idlewatt.exporters.http_options import HttpOptions
from idlewatt.exporters.source import SourceError

PAGE = b"up 1\n"


def client(**options):
    return Client(HttpOptions(**{"timeout": 5} | options))


def fault(loopback, behaviour, **options):
    loopback.pages["/metrics"] = behaviour
    with pytest.raises(SourceError) as caught:
        client(**options).get(loopback.url())
    return caught.value


def test_a_page_is_fetched_and_the_connection_is_kept(loopback):
    ports = []
    loopback.pages["/metrics"] = lambda handler: (ports.append(handler.client_address), _send(handler, PAGE))
    keeper = client()
    assert [keeper.get(loopback.url()) for _ in range(3)] == [PAGE] * 3
    assert len(set(ports)) == 1


def _send(handler, body, **headers):
    handler.send_response(200)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def test_a_question_about_another_moment_each_time_leaves_nothing_behind(loopback):
    ports = set()
    loopback.pages["/metrics"] = lambda handler: (ports.add(handler.client_address), _send(handler, PAGE))
    keeper = client()
    for moment in range(3):
        keeper.get(loopback.url(), {"since": str(moment)})
    adapter = keeper._adapter
    assert (len(ports), len(adapter._pools), len(adapter._paths), len(keeper._prepared)) == (1, 1, 0, 0)


def test_pages_told_apart_by_their_parameters_share_a_connection(loopback):
    asked = []
    loopback.pages["/probe"] = lambda handler: (asked.append((handler.client_address, handler.path)),
                                                _send(handler, PAGE))
    keeper = client()
    for target in "abab":
        keeper.get(f"{loopback.url('/probe')}?target={target}")
    assert [path for _, path in asked] == [f"/probe?target={target}" for target in "abab"]
    assert len({address for address, _ in asked}) == 1
    assert len(keeper._adapter.poolmanager.pools) == 0


def test_a_url_that_is_not_asked_any_more_and_an_old_token_leave_nothing_behind(loopback, tmp_path):
    loopback.pages["/metrics"] = lambda handler: _send(handler, PAGE)
    token = tmp_path / "token"
    keeper = client(authorization={"credentials_file": token})
    for word in ("old", "newer"):
        token.write_text(word)
        keeper.get(loopback.url())
    assert len(keeper._prepared) == 1
    keeper.forget(loopback.url())
    adapter = keeper._adapter
    assert (adapter._pools, adapter._paths, keeper._prepared) == ({}, {}, {})


LENGTH = b"Content-Length: %d\r\n" % len(PAGE)
HEADS = {
    "plain": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + PAGE,
    "many": b"HTTP/1.1 200 OK\r\nDate: now\r\nX-A:  b c \t\r\nX-A: d\r\n" + LENGTH + b"\r\n" + PAGE,
    "no reason": b"HTTP/1.1 200\r\n" + LENGTH + b"\r\n" + PAGE,
    "odd case": b"HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh:5\r\n\r\n" + PAGE,
    "bare newlines": b"HTTP/1.1 200 OK\n" + LENGTH.replace(b"\r", b"") + b"\n" + PAGE,
    "continued": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + PAGE,
    "folded": b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n" + LENGTH + b"\r\n" + PAGE,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + PAGE + b"\r\n0\r\n\r\n",
    "both": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + LENGTH + b"\r\n5\r\n" + PAGE + b"\r\n0\r\n\r\n",
    "twice": b"HTTP/1.1 200 OK\r\n" + LENGTH + LENGTH + b"\r\n" + PAGE,
    "two lengths": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"Content-Length: 4\r\n\r\n" + PAGE,
    "no length": b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n" + PAGE,
    "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n" + PAGE,
    "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + PAGE,
    "longer": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n" + PAGE,
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "closing": b"HTTP/1.1 200 OK\r\nConnection: Close\r\n" + LENGTH + b"\r\n" + PAGE,
    "old": b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + PAGE,
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(PAGE))
    + gzip.compress(PAGE),
    "not found": b"HTTP/1.1 404 Not Found\r\n" + LENGTH + b"\r\n" + PAGE,
    "moved": b"HTTP/1.1 302 Found\r\nLocation: http://evil/\r\n" + LENGTH + b"\r\n" + PAGE,
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "99 lines": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 98 + LENGTH + b"\r\n" + PAGE,
    "100 lines": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 99 + LENGTH + b"\r\n" + PAGE,
    "long": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\n" + LENGTH + b"\r\n" + PAGE,
    "too long": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n" + LENGTH + b"\r\n" + PAGE,
    "no colon": b"HTTP/1.1 200 OK\r\nX\r\n" + LENGTH + b"\r\n" + PAGE,
    "latin": b"HTTP/1.1 200 OK\r\nX: \xe9\r\n" + LENGTH + b"\r\n" + PAGE,
    "garbage": b"220 smtp.example ESMTP\r\n",
    "cut head": b"HTTP/1.1 200 OK\r\nContent-Le", "silence": b""}


CLOSING = {"no length", "bad length", "negative", "longer", "closing", "old", "garbage", "cut head", "silence",
           "no colon"}


@pytest.mark.parametrize("pieces", [1, 7], ids=["whole", "in pieces"])
@pytest.mark.parametrize("name", HEADS)
def test_an_answer_to_a_repeated_request_is_read_as_the_libraries_read_it(loopback, monkeypatch, name, pieces):
    reply = HEADS[name]

    def dripped(handler):
        size = -(-len(reply) // pieces) or 1
        for start in range(0, len(reply), size):
            handler.wfile.write(reply[start:start + size])
            time.sleep(0.002 * (pieces > 1))
        handler.close_connection = name in CLOSING

    def answers(keeper):
        for behaviour in (PAGE, dripped) if name in CLOSING else (PAGE, dripped, PAGE, PAGE):
            loopback.pages["/metrics"] = behaviour
            try:
                yield keeper.get(loopback.url())
            except SourceError as error:
                yield type(error), str(error), error.permanent

    ours = list(answers(client(timeout=2)))
    monkeypatch.setattr(deadline._Keeping, "_send_again", lambda *_: None)
    monkeypatch.setattr(deadline._Cuttable, "response_class", http.client.HTTPResponse)
    assert ours == list(answers(client(timeout=2)))


def test_a_repeated_request_goes_out_in_the_same_bytes(loopback):
    loopback.pages["/metrics"] = PAGE
    keeper = client(authorization={"credentials": "token"}, headers={"X-Scope-OrgID": "gpu"})
    for _ in range(3):
        assert keeper.get(loopback.url()) == PAGE
    keeper.get(loopback.url(), {"query": "up"})
    keeper.get(loopback.url())
    first, second, third, other, last = loopback.requests
    assert first == second == third == last
    assert first[1]["Host"] == loopback.address
    assert other[0] == "/metrics?query=up"


def test_a_connection_that_the_server_has_closed_is_opened_again(loopback):
    ports, gone = [], threading.Event()

    def behave(handler):
        ports.append(handler.client_address)
        _send(handler, PAGE)
        handler.close_connection = True  # without a word of it

    loopback.pages["/metrics"] = behave
    shutdown = loopback.server.shutdown_request
    loopback.server.shutdown_request = lambda request: (shutdown(request), gone.set())
    keeper = client()
    for _ in range(3):
        gone.clear()
        assert keeper.get(loopback.url()) == PAGE
        assert gone.wait(5)
    assert len(set(ports)) == 3


def test_gzip_is_asked_for_and_unpacked(loopback):
    loopback.pages["/metrics"] = lambda handler: _send(handler, gzip.compress(PAGE), **{"Content-Encoding": "gzip"})
    assert client().get(loopback.url()) == PAGE
    assert loopback.requests[0][1]["Accept-Encoding"] == "gzip"


def test_a_chunked_page_is_read_whole(loopback):
    def chunks(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for _ in range(3):
            handler.wfile.write(b"5\r\nup 1\n\r\n")
        handler.wfile.write(b"0\r\n\r\n")

    loopback.pages["/metrics"] = chunks
    assert client().get(loopback.url()) == PAGE * 3


def test_a_gzip_bomb_is_refused_before_it_unfolds(loopback):
    bomb = gzip.compress(bytes(50_000_000))
    error = fault(loopback, lambda handler: _send(handler, bomb, **{"Content-Encoding": "gzip"}),
                  max_body_bytes=1_000_000)
    assert "more than 1000000 bytes" in str(error)


def test_a_page_over_the_cap_is_refused(loopback):
    assert "max_body_bytes" in str(fault(loopback, lambda handler: _send(handler, b"x" * 2000), max_body_bytes=1000))


def test_a_large_answer_is_held_once_while_it_is_read(loopback):
    large = b'{"jobs": "' + 16 * 2**20 * b"x" + b'"}'
    loopback.pages["/metrics"] = lambda handler: _send(handler, large)
    tracemalloc.start()
    try:
        assert client(timeout=60).get(loopback.url()) == large
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.4 * len(large)


def test_a_cut_off_gzip_is_refused(loopback):
    cut = gzip.compress(os.urandom(1000))[:-20]
    assert "gzip is cut off" in str(
        fault(loopback, lambda handler: _send(handler, cut, **{"Content-Encoding": "gzip"})))


def test_garbage_that_claims_to_be_gzip_is_refused(loopback):
    assert "gzip is broken" in str(
        fault(loopback, lambda handler: _send(handler, b"garbage", **{"Content-Encoding": "gzip"})))


def test_a_body_shorter_than_announced_is_refused(loopback):
    def short(handler):
        _send(handler, PAGE, **{"Content-Length": "1000"})
        handler.close_connection = True

    assert "the connection ended before the answer did" in str(fault(loopback, short))


def test_an_endless_page_ends_at_the_timeout(loopback):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"up 1\n")
            time.sleep(0.01)

    started = time.monotonic()
    assert "did not end within 0.3 s" in str(fault(loopback, endless, timeout=0.3))
    assert time.monotonic() - started < widened(3)


def test_headers_that_drip_for_ever_end_at_the_timeout(loopback):
    def dripping(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.02)

    started = time.monotonic()
    fault(loopback, dripping, timeout=0.3)
    assert time.monotonic() - started < widened(3)


def test_a_silent_server_ends_at_the_timeout(loopback):
    silence = threading.Event()
    said = str(fault(loopback, lambda _handler: silence.wait(10), timeout=0.2))
    # The socket's own limit and the deadline of the exchange fall on the same moment: either may be first.
    assert "took too long" in said or "did not end within 0.2 s" in said
    silence.set()


def test_a_refused_connection_is_no_unreachable_host():
    with pytest.raises(SourceError) as caught:
        client().get("http://127.0.0.1:9/metrics")
    assert "Connection refused" in str(caught.value)
    assert not isinstance(caught.value, Unreachable)


@responses.activate
def test_a_host_that_does_not_answer_is_unreachable():
    import requests
    responses.get("http://node:9400/metrics", body=requests.exceptions.ConnectTimeout("x"))
    with pytest.raises(Unreachable):
        client().get("http://node:9400/metrics")


def test_an_unknown_host_is_told_by_name():
    with pytest.raises(SourceError, match="no-such-host"):
        client().get("http://no-such-host.invalid/metrics")


@pytest.mark.parametrize("url", ["http://", "http://a b/", "http://[::1/", "gopher://x/"])
def test_what_is_no_url_is_told_apart(url):
    with pytest.raises(SourceError):
        client().get(url)


def test_a_redirect_is_not_followed(loopback):
    error = fault(loopback, lambda handler: (
        handler.send_response(302), handler.send_header("Location", "http://evil/"),
        handler.send_header("Content-Length", "0"), handler.end_headers()))
    assert "redirects to 'http://evil/'" in str(error)
    assert error.permanent


@pytest.mark.parametrize(("status", "word", "permanent"),
                         [(401, "password", True), (404, "path", True), (503, "503", False)])
def test_a_fault_of_the_server_is_told_with_its_words(loopback, answer, status, word, permanent):
    error = fault(loopback, lambda handler: answer(handler, b"bad\x1b[31m day", status=status))
    assert word in str(error)
    assert "\x1b" not in str(error)
    assert error.permanent == permanent


def test_a_fault_leaves_the_next_answer_intact(loopback, answer):
    keeper = client(max_body_bytes=100)
    for body in (b"x" * 5000, PAGE, b"y" * 5000, PAGE):
        loopback.pages["/metrics"] = body
        if body == PAGE:
            assert keeper.get(loopback.url()) == PAGE
        else:
            with pytest.raises(SourceError):
                keeper.get(loopback.url())


def test_a_password_file_is_read_again_when_it_changes(loopback, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("first\n")
    loopback.pages["/metrics"] = PAGE
    keeper = client(basic_auth={"username": "u", "password_file": secret})
    keeper.get(loopback.url())
    secret.write_text("second!\n")
    os.utime(secret, ns=(1, 1))
    keeper.get(loopback.url())
    sent = [headers["Authorization"] for _, headers in loopback.requests]
    assert sent == ["Basic dTpmaXJzdA==", "Basic dTpzZWNvbmQh"]


def test_a_bearer_token_is_sent(loopback):
    loopback.pages["/metrics"] = PAGE
    client(authorization={"credentials": "token"}, headers={"X-Scope-OrgID": "gpu"}).get(loopback.url())
    headers = loopback.requests[0][1]
    assert headers["Authorization"] == "Bearer token"
    assert headers["X-Scope-OrgID"] == "gpu"


def test_a_missing_token_file_is_told(loopback, tmp_path):
    with pytest.raises(SourceError, match="cannot read the secret"):
        client(authorization={"credentials_file": tmp_path / "none"}).get(loopback.url())


def test_a_password_never_shows_in_the_configuration():
    assert "hush" not in repr(HttpOptions(basic_auth={"username": "u", "password": "hush"}))


@pytest.mark.parametrize("options", [
    {"basic_auth": {"username": "u"}},
    {"authorization": {}},
    {"basic_auth": {"username": "u", "password": "p"}, "authorization": {"credentials": "t"}},
    {"tls_confg": {}}])
def test_contradictory_options_are_refused(options):
    with pytest.raises(ValidationError):
        HttpOptions(**options)


@pytest.fixture
def certificate(tmp_path):
    made = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", made[0], "-keyout", made[1]], check=True, capture_output=True)
    return made


@pytest.fixture
def secure(loopback, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_OPTIONAL
    loopback.server.socket = context.wrap_socket(loopback.server.socket, server_side=True)
    loopback.pages["/metrics"] = PAGE
    return f"https://{loopback.address}/metrics"


def test_a_page_over_tls_needs_a_trusted_certificate(secure):
    with pytest.raises(SourceError, match="TLS fails") as caught:
        client().get(secure)
    assert caught.value.permanent


def test_a_page_over_tls_is_read_with_its_authority_and_our_certificate(secure, certificate):
    tls = {"ca_file": certificate[0], "cert_file": certificate[0], "key_file": certificate[1]}
    assert client(tls_config=tls).get(secure) == PAGE


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_page_over_tls_is_read_unverified_when_asked(secure):
    assert client(tls_config={"insecure_skip_verify": True}).get(secure) == PAGE


def test_a_missing_authority_file_is_told(secure, tmp_path):
    with pytest.raises(SourceError, match="CA"):
        client(tls_config={"ca_file": tmp_path / "none.pem"}).get(secure)


@responses.activate
def test_recorded_pages_can_stand_in_for_a_server(recorded):
    page = recorded("ipmi_exporter_1.6.1.prom")
    responses.get("http://node:9290/metrics", body=page, auto_calculate_content_length=True)
    assert client().get("http://node:9290/metrics") == page




def test_a_page_that_ends_where_the_connection_does_is_not_taken_as_whole(loopback):
    def closing(*headers):
        def behave(handler):
            handler.send_response(200)
            for name, value in headers:
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(PAGE)
            handler.close_connection = True
        return behave

    assert "whether the page is whole" in str(fault(loopback, closing()))
    openmetrics = ("Content-Type", "application/openmetrics-text; version=1.0.0"), ("Content-Length", "5")
    assert "does not end in # EOF" in str(fault(loopback, closing(*openmetrics)))


def closing_after(body, **headers):
    def behave(handler):
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = True
    return behave


@pytest.mark.parametrize(("body", "kind"), [
    (b"up 1\n# EOF\n", "text/plain"), (b"# EOF", "text/plain"), (b'{"status": "success"}', "application/json"),
    (b' [{"status": "success"}]\r\n', None)])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_what_shows_its_own_end_may_end_with_the_connection(loopback, body, kind, packed):
    headers = {"Content_Encoding": "gzip"} if packed else {}
    headers |= {"Content_Type": kind} if kind else {}
    loopback.pages["/metrics"] = closing_after(gzip.compress(body) if packed else body, **headers)
    assert client().get(loopback.url()) == body


@pytest.mark.parametrize(("body", "headers"), [
    (b"up 1\n# HELP load in {units}\n", {"Content_Type": "text/plain; version=0.0.4"}),
    (b"up 1\n# HELP load in [units]\n", {}),
    (b'{"a.name"} 1\n# HELP load in {units}\n', {"Content_Type": "text/plain"}),
    (b"up 1\n# HELP load until # EOF\n", {}),
    (gzip.compress(b"up 1\n"), {"Content_Encoding": "gzip"})],
    ids=["brace", "bracket", "quoted name", "word of the end", "gzip between two members"])
def test_a_page_cut_with_its_connection_is_no_whole_one_whatever_its_last_bytes_are(loopback, body, headers):
    assert "whether the page is whole" in str(fault(loopback, closing_after(body, **headers)))


def test_an_openmetrics_page_that_was_cut_behind_a_brace_is_told(loopback):
    page = b"up 1\n# HELP load in {units}\n"
    headers = {"Content-Type": "application/openmetrics-text; version=1.0.0", "Content-Length": str(len(page))}
    assert "does not end in # EOF" in str(fault(loopback, lambda handler: _send(handler, page, **headers)))


def test_every_member_of_a_gzip_is_read(loopback):
    packed = gzip.compress(PAGE) + gzip.compress(b"down 1\n")
    loopback.pages["/metrics"] = lambda handler: _send(
        handler, packed, **{"Content-Encoding": "gzip", "Content-Length": str(len(packed))})
    assert client().get(loopback.url()) == PAGE + b"down 1\n"


@pytest.mark.parametrize(("packed", "word"), [
    (gzip.compress(PAGE) * 20, "more than 16 members"), (gzip.compress(PAGE) + b"x" * 30, "gzip is broken"),
    (gzip.compress(PAGE) + gzip.compress(PAGE)[:-4], "cut off")], ids=["many members", "noise", "cut"])
def test_a_gzip_with_a_strange_rest_is_refused(loopback, packed, word):
    assert word in str(fault(loopback, lambda handler: _send(
        handler, packed, **{"Content-Encoding": "gzip", "Content-Length": str(len(packed))})))


def test_a_bomb_in_a_later_member_is_refused(loopback):
    packed = gzip.compress(PAGE) + gzip.compress(bytes(50_000_000))
    assert "max_body_bytes" in str(fault(loopback, lambda handler: _send(
        handler, packed, **{"Content-Encoding": "gzip", "Content-Length": str(len(packed))}), max_body_bytes=10_000))


def _hang_up(handler):
    handler.connection.close()


def _talk(reply):
    return lambda handler: (handler.wfile.write(reply), setattr(handler, "close_connection", True))


@pytest.mark.parametrize("behaviour", [
    _hang_up, _talk(b"220 smtp.example ESMTP\r\n"),
    _talk(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    _talk(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n"), _talk(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)])
def test_an_error_names_no_object_of_a_library(loopback, behaviour):
    said = str(fault(loopback, behaviour))
    assert not re.search(r"\w\(|object at|Error|Exception", said), said


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", "https://127.0.0.1:1/"])
def test_a_server_that_is_not_there_is_told_without_an_object(url):
    with pytest.raises(SourceError) as caught:
        client().get(url)
    assert not re.search(r"\w\(|object at|Errno|host=", str(caught.value)), str(caught.value)
    assert str(caught.value) in ("Connection refused", "Failed to resolve \'no-such-host.invalid\'",
                                 "Failed to resolve 'no-such-host.invalid'")


@pytest.mark.parametrize("secret", ["geheim\nsecond line", "geheim\u201d", "geheim\0", "geheim\r"])
@pytest.mark.parametrize("place", ["authorization", "headers"])
def test_a_secret_that_no_header_may_have_is_told_without_it(loopback, secret, place):
    given = {"authorization": {"credentials": secret}, "headers": {"X-Token": secret}}[place]
    told = fault(loopback, lambda handler: _send(handler, PAGE), **{place: given})
    assert re.match(r"the header '(Authorization|X-Token)' cannot be sent: .*look at the token", str(told))
    assert "geheim" not in str(told)
    assert told.permanent


@pytest.mark.parametrize("given", [{"authorization": {"credentials": "geheim"}},
                                   {"basic_auth": {"username": "u", "password": "geheim"}}])
def test_a_server_that_repeats_our_secret_does_not_bring_it_into_messages(loopback, given):
    def repeat(handler):
        body = f"bad: {handler.headers['Authorization']}".encode()
        handler.send_response(400)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    told = fault(loopback, repeat, **given)
    assert re.fullmatch(r"HTTP 400 : 'bad: (Bearer|Basic) \.\.\.'", str(told))
    assert b"geheim" not in told.body


@pytest.mark.parametrize("version", [b"\x01", b"\x03"])
def test_a_port_for_https_that_is_asked_by_http_is_told_as_such(version):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def refuse():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x15\x03" + version + b"\x00\x02\x02\x46")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(SourceError, match="it speaks https and was read by http: write https://, or"):
            Client(HttpOptions(timeout=5.0)).get(f"http://127.0.0.1:{listening.getsockname()[1]}/metrics")
        thread.join()
