"""How commands reach the daemon: passwords, certificates, and what they say when nobody is there."""

import json
import socket
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import bcrypt
import pytest
import trustme

COMMANDS = ("jobs", "waste", "advise")


@pytest.fixture
def tls(tmp_path):
    """A certificate of an authority that nobody else knows."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    return tmp_path


@pytest.mark.parametrize("command", [*COMMANDS, "live"])
def test_a_daemon_that_is_not_there_ends_with_3_and_says_what_to_do(alone, command):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = alone.run(command, "--url", f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert done.exit_code == 3
    assert "Is `idlewatt serve` running there?" in done.stderr
    assert "--url or IDLEWATT_URL" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", "http://127.0.0.1:99999", "http://[::1"])
def test_an_invalid_address_is_wrong_usage(alone, url):
    done = alone.run("jobs", "--url", url)
    assert done.exit_code == 2
    assert url in done.stderr


@pytest.fixture
def answering():
    """A function that serves one document at every path and returns the address."""
    with ExitStack() as servers:
        def serve(document: object) -> str:
            body = json.dumps(document).encode()

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_arguments: object) -> None:
                    """Say nothing."""

            server = servers.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield serve


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b"{}", b'"x"', b'{"status": "success"}', b""])
def test_another_server_on_the_port_ends_with_3(alone, body):
    with socket.create_server(("127.0.0.1", 0)) as other:
        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        thread = threading.Thread(target=answer)
        thread.start()
        done = alone.run("jobs", "--url", f"http://127.0.0.1:{other.getsockname()[1]}")
        thread.join()
    assert done.exit_code == 3
    assert "not as idlewatt does" in done.stderr


@pytest.mark.parametrize("answer", [
    {"data": [None]}, {"data": [{}]}, {"data": [1]}, {"data": [], "warnings": 5}, {"data": [{"degraded": 3}]},
    {"data": [{"degraded": [{}]}]}])
@pytest.mark.parametrize("command", [("waste",), ("advise",), ("jobs",), ("jobs", "--format", "csv"),
                                     ("live", "--once"), ("job", "1"), ("flavours",), ("reclaim",)])
def test_an_answer_of_another_form_is_no_traceback(alone, answering, command, answer):
    done = alone.run(*command, "--url", answering({"status": "success", **answer}))
    assert done.exit_code in (0, 1, 3)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.exit_code != 3 or "not as idlewatt" in done.stderr


@pytest.mark.parametrize("command", [("report", "--month", "2026-10"), ("notices",), ("digest",), ("reclaim",),
                                     ("job", "1")])
def test_json_is_what_any_reader_takes_whatever_the_daemon_answered(alone, answering, command):
    row = {"name": "a\udc80b", "watts": float("nan"), "more": [{"ratio": float("inf")}], "whole": True}
    done = alone.run(*command, "--format", "json", "--url", answering({"status": "success", "data": [row]}))
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (found if command == ("digest",) else found[0]) == {
        "name": "a?b", "watts": None, "more": [{"ratio": None}], "whole": True}


def test_https_works_with_an_own_authority_and_is_refused_without(serve, tls):
    (tls / "web.yml").write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")
    shell = serve(tls / "web.yml")
    assert shell.url.startswith("https://")
    assert shell.json("jobs", "--ca-file", str(tls / "ca.pem"))
    refused = shell.run("jobs")
    assert refused.exit_code == 3
    assert "(certificate verify failed: unable to get local issuer certificate)" in refused.stderr


@pytest.mark.parametrize("command", [*COMMANDS, "live"])
def test_an_authority_that_cannot_be_read_is_named(alone, command):
    done = alone.run(command, "--url", "https://127.0.0.1:1", "--ca-file", "/nowhere/ca.pem")
    assert done.exit_code == 2
    assert "/nowhere/ca.pem" in done.stderr


def test_a_user_and_password_in_the_address_are_accepted(serve, tmp_path):
    hashed = bcrypt.hashpw(b"p@ss", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{alice: '{hashed}'}}\n")
    shell = serve(tmp_path / "web.yml")
    assert shell.json("jobs", "--url", shell.url.replace("//", "//alice:p%40ss@"))
    refused = shell.run("jobs")
    assert refused.exit_code == 1
    assert "a user and password are required" in refused.stderr


@pytest.mark.parametrize(("url", "code"), [
    ("http://alice:s3cret@127.0.0.1:1", 3), ("http://alice:1/s3cret@127.0.0.1:1", 3), ("http://alice:s3cret@.x", 3),
    ("http://alice:s3cret@*", 3), ("http://alice:s3cret@login..cluster", 3),
    ("http://alice:s3cret%E2%82%AC@127.0.0.1:1", 3), ("http://alice:x/s3cret@127.0.0.1", 2),
    ("http://alice:s3cret@127.0.0.1:99999", 2), ("ftp://alice:s3cret@127.0.0.1", 2),
    ("alice:s3cret@127.0.0.1", 2)])
def test_a_password_is_not_repeated_in_messages(alone, url, code):
    done = alone.run("jobs", "--url", url)
    assert done.exit_code == code
    assert "s3cret" not in done.output
    assert code == 2 or "no daemon answers at http://…@" in done.stderr
