import contextlib
import gc
import json
import os
import select
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest
import requests
import trustme
from cost import widened
from slow_clients import HALF_A_HEADER, SlowClients

from idlewatt.daemon.web import connections
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.gate import WebConfigFile
from idlewatt.daemon.web.server import THREADS, ListenError, WebServer, activated, listen

TIMEOUT = 30


def port_of(server: WebServer) -> int:
    return int(server.urls[0].rstrip("/").rsplit(":", 1)[1])


def exchange(port: int, sent: bytes) -> bytes:
    """Send bytes as they are and return everything that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


class Tls:
    """A folder with a certificate authority, a server's certificate and a web configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, trustme.CA()
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        self.rotate()

    def rotate(self) -> None:
        certificate = self.authority.issue_cert("localhost", "127.0.0.1")
        certificate.private_key_pem.write_to_path(self.folder / "server.key")
        certificate.cert_chain_pems[0].write_to_path(self.folder / "server.pem")

    def client(self, name: str, authority: trustme.CA | None = None) -> tuple[str, str]:
        certificate = (authority or self.authority).issue_cert(name)
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.cert_chain_pems[0].write_to_path(paths[0])
        certificate.private_key_pem.write_to_path(paths[1])
        return str(paths[0]), str(paths[1])

    def gate(self, more: str = "", rest: str = "") -> WebConfigFile:
        text = f"tls_server_config: {{cert_file: server.pem, key_file: server.key{more}}}\n{rest}"
        (self.folder / "web.yml").write_text(text)
        return WebConfigFile(self.folder / "web.yml")

    def get(self, server: WebServer, **more) -> requests.Response:
        return requests.get(f"{server.urls[0]}-/healthy", verify=str(self.folder / "ca.pem"), timeout=TIMEOUT, **more)

    def serial(self, port: int) -> int:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as secure:
            return int(secure.getpeercert()["serialNumber"], 16)


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path)


def test_nothing_of_an_answer_stays_once_it_is_sent(serve, view):
    server = serve(WebApp(view))
    gc.collect()
    gc.disable()  # what only the collector would find stays for minutes in a daemon that makes little garbage
    try:
        for _ in range(2 * THREADS):
            requests.get(f"{server.urls[0]}metrics", timeout=TIMEOUT)
        kept = [found for found in gc.get_objects() if type(found) is connections.BufferedAnswer]  # proxies may be dead
    finally:
        gc.enable()
    assert len(kept) <= THREADS  # each worker remembers its last exchange, but nothing of what was in it
    assert not any(found._pieces for found in kept)


def test_a_kept_connection_keeps_nothing_of_its_answer():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = connections.HttpConnection(ours, "127.0.0.1", 1, float("inf"), unsent=memoryview(b"answer" * 9))
        client._send()
        assert client.unsent.obj == b""


def test_page_is_served_over_a_real_socket(serve, view):
    server = serve(WebApp(view))
    answer = requests.get(server.urls[0], timeout=TIMEOUT)
    assert answer.status_code == 200
    assert "Where the watts go" in answer.text
    assert answer.headers["Server"] == "idlewatt"


def test_megabytes_arrive_whole(serve, view):
    view.job_rows = view.job_rows * 2000
    answer = requests.get(f"{serve(WebApp(view)).urls[0]}api/v1/jobs", timeout=TIMEOUT)
    assert len(answer.json()["data"]) == 10_000


def test_password_is_asked_for_t13(serve, view, tmp_path):
    path = tmp_path / "web.yml"

    def allow(*names: str) -> None:
        hashes = {name: bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode() for name in names}
        path.write_text(json.dumps({"basic_auth_users": hashes}))

    allow("alice")
    gate = WebConfigFile(path)
    server = serve(WebApp(view, gate), gate)

    def status(*auth: str) -> int:
        return requests.get(f"{server.urls[0]}metrics", auth=auth or None, timeout=TIMEOUT).status_code

    assert status() == 401
    assert status("alice", "wrong") == 401
    assert status("alice", "alice") == 200
    assert status("bob", "bob") == 401
    allow("alice", "bob")
    assert status("bob", "bob") == 200, "a new user needs no restart"
    refused = requests.get(f"{server.urls[0]}api/v1/jobs", timeout=TIMEOUT)
    assert refused.headers["WWW-Authenticate"] == 'Basic realm="idlewatt", charset="UTF-8"'
    assert refused.json()["errorType"] == "unauthorized"


def test_rate_limit_answers_429(serve, view, tmp_path):
    (tmp_path / "web.yml").write_text("rate_limit: {interval: 1h, burst: 2}")
    gate = WebConfigFile(tmp_path / "web.yml")
    server = serve(WebApp(view, gate), gate)
    codes = [requests.get(f"{server.urls[0]}-/healthy", timeout=TIMEOUT).status_code for _ in range(3)]
    assert codes == [200, 200, 429]


def test_configured_headers_are_sent(serve, view, tls):
    gate = tls.gate(rest="http_server_config: {headers: {Strict-Transport-Security: max-age=31536000}}")
    answer = tls.get(serve(WebApp(view, gate), gate))
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_tls_below_12_is_refused_t13(serve, view, tls):
    gate = tls.gate()
    port = port_of(serve(WebApp(view, gate), gate))

    def version(wanted: ssl.TLSVersion) -> str | None:
        context = ssl.create_default_context(cafile=str(tls.folder / "ca.pem"))
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = wanted
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.version()

    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    assert version(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    with pytest.warns(DeprecationWarning, match="TLS"), pytest.raises((ssl.SSLError, ConnectionError)):
        version(ssl.TLSVersion.TLSv1_1)


def test_client_certificate_is_required_when_asked_t13(serve, view, tls):
    gate = tls.gate(", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert")
    server = serve(WebApp(view, gate), gate)
    with pytest.raises(requests.ConnectionError):
        tls.get(server)
    with pytest.raises(requests.ConnectionError):
        tls.get(server, cert=tls.client("mallory", trustme.CA()))
    assert tls.get(server, cert=tls.client("prometheus")).status_code == 200


def test_client_certificate_must_bear_an_allowed_name(serve, view, tls):
    gate = tls.gate(", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert, "
                    "client_allowed_sans: [prometheus]")
    server = serve(WebApp(view, gate), gate)
    assert tls.get(server, cert=tls.client("prometheus")).status_code == 200
    with pytest.raises(requests.ConnectionError):
        tls.get(server, cert=tls.client("grafana"))


def test_rotated_certificate_needs_no_restart(serve, view, tls):
    gate = tls.gate()
    port = port_of(serve(WebApp(view, gate), gate))
    before = tls.serial(port)
    tls.rotate()
    assert tls.serial(port) != before
    (tls.folder / "server.pem").write_text("not a certificate")
    tls.serial(port)


def test_changed_tls_settings_hold_from_the_next_connection_on(serve, view, tls):
    gate = tls.gate(", client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven")
    server = serve(WebApp(view, gate), gate)
    assert tls.get(server).status_code == 200
    tls.gate(", client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert")
    with pytest.raises(requests.ConnectionError):
        tls.get(server)
    assert tls.get(server, cert=tls.client("prometheus")).status_code == 200


def silent_clients(port: int, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) for _ in range(count)]


def test_silent_clients_keep_nobody_out(serve, view, tls):
    gate = tls.gate()
    for server in (serve(WebApp(view, gate), gate), serve(WebApp(view))):
        silent = silent_clients(port_of(server), 50)
        began = time.monotonic()
        assert tls.get(server).status_code == 200
        assert time.monotonic() - began < widened(5)
        for client in silent:
            client.close()


def test_of_more_clients_than_an_address_may_have_the_oldest_is_closed(serve, view, monkeypatch):
    monkeypatch.setattr(connections, "MOST_PER_ADDRESS", 5)
    server = serve(WebApp(view))
    silent = silent_clients(port_of(server), 6)
    assert silent[0].recv(1) == b""
    assert requests.get(f"{server.urls[0]}-/healthy", timeout=TIMEOUT).status_code == 200
    for client in silent:
        client.close()


def test_an_address_with_many_clients_makes_room_for_another_address(serve, view, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 6)
    port = port_of(serve(WebApp(view)))
    lonely = socket.create_connection(("127.0.0.1", port), TIMEOUT, source_address=("127.0.0.2", 0))
    crowd = silent_clients(port, 10)
    lonely.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b" 200 " in lonely.recv(1024)
    for client in (lonely, *crowd):
        client.close()


@pytest.mark.parametrize("said", [
    HALF_A_HEADER, b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", b"",
    b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["header", "body", "nothing", "takes nothing"])
def test_a_thousand_slow_clients_hold_up_neither_prometheus_nor_the_health_check(serve, view, said):
    view.job_rows = view.job_rows * 100
    server = serve(WebApp(view))
    with SlowClients(port_of(server), said):
        for path in ("metrics", "-/healthy"):
            took = [requests.get(f"{server.urls[0]}{path}", timeout=TIMEOUT).elapsed.total_seconds() for _ in range(5)]
            assert statistics.median(took) < widened(1), path


def test_a_thousand_clients_that_do_not_shake_hands_hold_up_nobody(serve, view, tls):
    gate = tls.gate()
    server = serve(WebApp(view, gate), gate)
    with SlowClients(port_of(server), b"\x16\x03\x01"):
        began = time.monotonic()
        assert tls.get(server).status_code == 200
        assert time.monotonic() - began < widened(1)


def test_a_body_is_refused_before_it_is_sent(serve, view):
    port = port_of(serve(WebApp(view, lifecycle=True)))
    for announced in (b"Content-Length: 5", b"Transfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
            client.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\n" + announced + b"\r\n\r\n")
            assert client.recv(1024).startswith(b"HTTP/1.1 413 ")
    assert view.reloads == 0


ASKED = b"POST /api/v1/kubernetes/prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
QUESTION = json.dumps({"Pod": {"metadata": {"name": "p", "namespace": "t", "creationTimestamp": "2026-11-22T10:00:00Z"},
                               "spec": {}}, "NodeNames": ["n1", "n2"]}).encode()


def test_a_scheduler_asks_by_a_body_in_pieces_and_goes_on_on_the_same_connection(serve, view):
    view.scores = {"n2": 7}
    port = port_of(serve(WebApp(view)))
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as client:
        for _ in range(2):
            for piece in (ASKED % len(QUESTION), QUESTION[:40], QUESTION[40:]):
                client.sendall(piece)
                time.sleep(0)
            answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == [{"Host": "n2", "Score": 7}]


def test_a_body_is_taken_within_a_limit_and_only_where_its_size_is_told(serve, view):
    port = port_of(serve(WebApp(view)))
    longest = connections.LARGEST_BODY
    chunked = ASKED.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
    for said, status in ((ASKED % (longest + 1), b"413"), (chunked, b"413"), (ASKED % 0, b"400"),
                         (ASKED % longest + b"[" * longest, b"400"), (ASKED % 3 + b"{}}", b"400"),
                         ((ASKED % 5).replace(b"POST", b"GET") + b"12345", b"413"),
                         ((ASKED % -1), b"413"), ((ASKED % 2).replace(b": 2", b": x"), b"400")):
        assert exchange(port, said).startswith(b"HTTP/1.1 " + status), said[:100]


def test_half_bodies_are_bounded_the_oldest_is_given_up(serve, view, monkeypatch):
    monkeypatch.setattr(connections, "MOST_RECEIVED", 150_000)
    port = port_of(serve(WebApp(view)))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT))
                   for _ in range(3)]
        for client in clients:
            client.sendall(ASKED % 200_000 + b" " * 70_000)
            assert requests.get(f"http://127.0.0.1:{port}/-/healthy", timeout=TIMEOUT).ok
        assert clients[0].recv(1) == b""
        clients[2].sendall(b" " * 130_000)
        assert clients[2].recv(1024).startswith(b"HTTP/1.1 400")


def test_an_answer_is_sent_whole_to_a_client_that_takes_it_late(serve, view):
    view.job_rows = view.job_rows * 4000
    port = port_of(serve(WebApp(view)))
    whole = exchange(port, b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as late:
        late.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert requests.get(f"http://127.0.0.1:{port}/-/healthy", timeout=TIMEOUT).ok, "others are answered meanwhile"
        taken = b"".join(iter(lambda: late.recv(65536), b""))
    assert len(whole) > 1 << 20
    assert taken.partition(b"\r\n\r\n")[2] == whole.partition(b"\r\n\r\n")[2]


def test_requests_that_come_at_once_are_answered_in_order(serve, view):
    port = port_of(serve(WebApp(view)))
    both = b"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = exchange(port, both)
    assert answer.index(b"is ready") < answer.index(b"is healthy")


def test_answers_that_nobody_takes_are_bounded(serve, view, monkeypatch):
    monkeypatch.setattr(connections, "MOST_UNSENT", 20 << 20)
    view.job_rows = view.job_rows * 4000
    port, clients, taken = port_of(serve(WebApp(view))), [], []
    for _ in range(3):  # whoever is silent while the others are answered is let go
        client, = silent_clients(port, 1)
        clients.append(client)
        client.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        taken.append(client.recv(1))  # answered; the rest is not taken yet
    sizes = [sum(iter(lambda client=client: len(client.recv(1 << 20)), 0)) for client in clients]
    assert sizes[0] < sizes[-1], "of three answers of 13 MB that nobody takes the oldest is given up"
    for client in clients:
        client.close()


def test_client_that_drips_bytes_is_let_go(serve, view, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_S", 0.5)
    port = port_of(serve(WebApp(view)))
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        stop, gone = threading.Event(), b"?"

        def drip() -> None:
            while not stop.wait(0.05):
                try:
                    slow.sendall(b"a")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            gone = slow.recv(1024)
        except ConnectionError:
            gone = b""
        stop.set()
        dripping.join()
    assert b"200" not in gone


def statuses_of_a_crowd(serve, monkeypatch, lasts: Callable[[list[socket.socket]], bool]) -> list[bytes]:
    """Return how requests of one address end, one more than work at once, of which none is answered as it lasts."""
    working, go_on, looked = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)
    look = connections.Connections._let_go_of_the_late

    def app(environ, start_response):
        working.release()
        assert go_on.wait(TIMEOUT)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    def counted(self, now_s):
        look(self, now_s)
        looked.release()

    monkeypatch.setattr(connections.Connections, "_let_go_of_the_late", counted)
    server = serve(app)
    with contextlib.ExitStack() as kept:
        clients = [kept.enter_context(socket.create_connection(("127.0.0.1", port_of(server)), timeout=TIMEOUT))
                   for _ in range(connections.MOST_AT_WORK + 1)]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert all(working.acquire(timeout=TIMEOUT) for _ in clients[1:])
        while lasts(clients):
            assert looked.acquire(timeout=TIMEOUT)
        go_on.set()
        return sorted(client.recv(1024)[:12] for client in clients)


def test_a_whole_request_may_wait_for_a_worker_longer_than_its_header_may_take(serve, monkeypatch):
    """Behind a proxy all users have one address, so that a few slow answers hold up those of everybody."""
    monkeypatch.setattr(connections, "HEADER_S", 0.5)
    began = time.monotonic()
    statuses = statuses_of_a_crowd(serve, monkeypatch, lambda _: time.monotonic() < began + 1.5)
    assert statuses == [b"HTTP/1.1 200"] * (connections.MOST_AT_WORK + 1)


def test_a_request_that_no_worker_takes_in_time_is_let_go(serve, monkeypatch):
    monkeypatch.setattr(connections, "QUEUED_S", 0.1)
    statuses = statuses_of_a_crowd(serve, monkeypatch, lambda clients: not select.select(clients, [], [], 0)[0])
    assert statuses == [b"", *[b"HTTP/1.1 200"] * connections.MOST_AT_WORK]


@pytest.mark.parametrize(("sent", "status"), [
    (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n", b"413"),
    (b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"413"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
    (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
    (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
    (b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic \xff\xfe\r\n\r\n", b"200"),
    (b"GET / HTTP/1.1\r\nHost: a b<script>\r\n\r\n", b"200"),
    (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"505")])
def test_hostile_requests_get_a_short_no_and_the_server_lives(serve, view, sent, status):
    port = port_of(serve(WebApp(view)))
    answer = exchange(port, sent)
    assert answer.split(b" ")[1] == status, answer[:200]
    assert b"<script>" not in answer
    assert b" 200 " in exchange(port, b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def test_port_taken_is_said_clearly():
    with listen("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: Address already in use; is another"):
            listen(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["9876", "localhost", "localhost:http", "127.0.0.1:70000", "[::1", "", "::1:a",
                                     "no.such.host.invalid:9876", "256.0.0.1:80"])
def test_address_that_is_none_is_said_clearly(address):
    with pytest.raises(ListenError, match="is no address|cannot listen on"):
        listen(address)


def test_several_addresses_and_ipv6(view):
    sockets = [listen("127.0.0.1:0"), listen("[::1]:0"), listen(":0")]
    server = WebServer(WebApp(view), sockets, WebConfigFile(None))
    server.start()
    try:
        assert [url.rsplit(":", 1)[0] for url in server.urls] == ["http://127.0.0.1", "http://[::1]", "http://localhost"]
        for url in (*server.urls, server.urls[-1].replace("localhost", "[::1]")):
            assert requests.get(f"{url}-/healthy", timeout=TIMEOUT).status_code == 200
    finally:
        server.stop()


def test_stop_frees_the_port(view):
    server = WebServer(WebApp(view), [listen("127.0.0.1:0")], WebConfigFile(None))
    server.start()
    port = port_of(server)
    server.stop()
    listen(f"127.0.0.1:{port}").close()


def test_systemd_hands_over_its_sockets():
    given = listen("127.0.0.1:0")
    copy = os.dup(given.fileno())
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    with given, activated(environ, first=copy)[0] as taken:
        assert taken.family == socket.AF_INET
        assert taken.getsockname() == given.getsockname()


@pytest.mark.parametrize("environ", [{}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
                                     {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
                                     {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"}])
def test_no_socket_from_systemd_is_said_clearly(environ):
    with pytest.raises(ListenError, match="systemd handed over no socket"):
        activated(environ)


ACTIVATED = """
import os, sys
from idlewatt.daemon.web.gate import WebConfigFile
from idlewatt.daemon.web.server import WebServer, activated
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
os.environ["LISTEN_PID"] = str(os.getpid())
server = WebServer(app, activated(), WebConfigFile(None))
server.start()
sys.stdin.read()
server.stop()
"""


def test_activated_daemon_answers_on_systemds_socket():
    with listen("127.0.0.1:0") as given:
        # A shell puts the socket where systemd would: file descriptor 3.
        command = ["bash", "-c", f'exec "$0" -c "$1" 3<&{given.fileno()}', sys.executable, ACTIVATED]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[given.fileno()],
                              env=os.environ | {"LISTEN_FDS": "1"}) as daemon:
            try:
                # The socket takes the request at once; a new Python answers it, for which a busy machine takes long.
                port = given.getsockname()[1]
                assert requests.get(f"http://127.0.0.1:{port}/", timeout=60).text == "ok"
            finally:
                daemon.stdin.close()
                daemon.wait(60)


def test_concurrent_readers_are_all_answered(serve: Callable[..., WebServer], view):
    server, codes = serve(WebApp(view)), []

    def read() -> None:
        codes.extend(requests.get(f"{server.urls[0]}metrics", timeout=TIMEOUT).status_code for _ in range(5))

    readers = [threading.Thread(target=read) for _ in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert codes == [200] * 60
