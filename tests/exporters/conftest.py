"""A real HTTP server on loopback whose every path behaves as the test says."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

Behaviour = Callable[[BaseHTTPRequestHandler], None]
RECORDED = Path(__file__).parent.parent / "recorded"


class Loopback:
    """Serves ``pages``: bytes are answered with 200, callables get the handler and do what they like."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Behaviour] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                loopback.requests.append((self.path, dict(self.headers)))
                page = loopback.pages.get(self.path.partition("?")[0])
                if callable(page):
                    page(self)
                elif page is None:
                    send(self, b"no such page", status=404)
                else:
                    send(self, page)

            def log_message(self, *_args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128  # a full queue costs a second: the kernel drops and asks again

            def handle_error(self, *_args: object) -> None:
                pass  # clients that hang up are the point of these tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def url(self, path: str = "/metrics") -> str:
        return f"http://{self.address}{path}"


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def loopback():
    server = Loopback()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def answer():
    """Return the function by which a behaviour answers."""
    return send


@pytest.fixture
def recorded():
    """Return the function that reads a recorded page or answer."""
    return lambda name: (RECORDED / name).read_bytes()


class Hand:
    """A clock that a test moves by hand."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def until():
    """Return the function that waits for a condition."""
    def wait(met: Callable[[], object], seconds: float = 60.0) -> None:
        pause, end = Event(), time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, "the condition was not met in time"
            pause.wait(0.005)

    return wait


@pytest.fixture
def server(loopback, tmp_path):
    """A real Prometheus that scrapes the loopback server, on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:  # two workers may each have one
        port = free.getsockname()[1]
    job = {"job_name": "all", "metrics_path": "/metrics", "static_configs": [{"targets": [loopback.address]}]}
    config = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [job]}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    process = subprocess.Popen([shutil.which("prometheus"), f"--config.file={tmp_path}/prometheus.yml",
                                f"--storage.tsdb.path={tmp_path}", f"--web.listen-address=127.0.0.1:{port}",
                                "--log.level=error"])
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()
