"""The HTTP server underneath: cheroot on sockets of our own, TLS by the web configuration file, bounded clients."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cheroot import wsgi
from cheroot.server import HeaderReader, HTTPConnection, HTTPRequest

from .connections import (
    BACKLOG,
    IDLE_S,
    LARGEST_BODY,
    LARGEST_HEADER,
    BufferedAnswer,
    Connections,
    HttpConnection,
    Wrap,
)
from .gate import WebConfigFile
from .openapi import PRIORITIZE

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

THREADS = 16
STOP_S = 2
"""How long answers that have begun may take when the server stops."""
FIRST_ACTIVATED = 3
"""systemd hands over sockets from this file descriptor on (sd_listen_fds(3))."""


class ListenError(Exception):
    """An address cannot be listened on; the message says which and why."""


def listen(address: str) -> socket.socket:
    """Return a bound socket for ``host:port``, ``[v6]:port`` or ``:port`` (every address of the machine)."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ListenError(f"{address!r} is no address: write host:port, [IPv6]:port or :port")
    failure: OSError | None = None
    for family, name in _candidates(host.removeprefix("[").removesuffix("]"), int(port), address):
        try:
            return _bound(family, name)
        except OSError as fault:
            failure = failure or fault
    assert failure is not None
    hint = "; is another daemon running there?" if failure.errno == errno.EADDRINUSE else ""
    raise ListenError(f"cannot listen on {address}: {failure.strerror or failure}{hint}") from failure


SocketName = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""The address of a socket, as its family has it."""


def _candidates(host: str, port: int, address: str) -> list[tuple[int, SocketName]]:
    """Return (family, socket address) pairs to try; IPv4 first for names, as Go's servers do."""
    if not host:
        # An IPv6 socket takes IPv4 clients too; without IPv6 in the kernel the second is tried.
        return [(socket.AF_INET6, ("::", port)), (socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - as configured
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as fault:
        raise ListenError(f"cannot listen on {address}: {fault}") from fault
    return sorted({(int(family), name) for family, _, _, _, name in addresses})[:1]


def _bound(family: int, name: SocketName) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(name[0] != "::"))
        sock.bind(name)
        # Listening is part of the claim: two sockets may bind one port as long as neither listens.
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def activated(environ: Mapping[str, str] = os.environ, first: int = FIRST_ACTIVATED) -> list[socket.socket]:
    """Return the sockets that systemd opened for us (``.socket`` unit); raise ListenError when there is none."""
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdigit() or int(count) < 1:
        raise ListenError("systemd handed over no socket: start the .socket unit, or give an address to listen on")
    return [socket.socket(fileno=first + offset) for offset in range(int(count))]


class WebServer:
    """Serves one application on several sockets, each with its own threads."""

    def __init__(self, app: WSGIApplication, sockets: Iterable[socket.socket], gate: WebConfigFile) -> None:
        self._servers = [_Server(sock, app, gate) for sock in sockets]
        self._threads: list[threading.Thread] = []
        self.scheme = "https" if gate.secure else "http"

    @property
    def urls(self) -> list[str]:
        """Return where the server can be reached."""
        return [f"{self.scheme}://{_shown(server.given.getsockname())}/" for server in self._servers]

    def start(self) -> None:
        """Start serving in the background."""
        # cheroot would take the first socket of systemd by itself, whichever is configured.
        os.environ.pop("LISTEN_PID", None)
        for server in self._servers:
            server.prepare()
            server.connections.open()
            thread = threading.Thread(target=server.serve, name="web", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Answer what has begun, then stop."""
        for server in self._servers:
            server.connections.stop_accepting()
            server.stop()
            server.connections.finish()
        for thread in self._threads:
            thread.join(timeout=STOP_S)


def _shown(name: object) -> str:
    if not isinstance(name, tuple):
        return str(name)
    host = str({"::": "localhost", "0.0.0.0": "localhost"}.get(name[0], name[0]))  # noqa: S104 - compared, not bound
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"


WITH_BODY = (PRIORITIZE,)
"""Paths of requests that carry a body; for all others none is waited for."""
_LENGTH = re.compile(rb"\r\nContent-Length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\nTransfer-Encoding:", re.IGNORECASE)


def awaited(header: bytes) -> int:
    """Return how many bytes of a body to wait for; 0 where none is wanted, or its size is unknown or too large."""
    line = header.split(b"\r\n", 1)[0].split(b" ")
    path = line[1].split(b"?", 1)[0].decode("ascii", "replace") if len(line) == 3 else ""
    if line[0] != b"POST" or path not in WITH_BODY or _CHUNKED.search(header):
        return 0
    lengths = {int(length) for length in _LENGTH.findall(header)}
    length = lengths.pop() if len(lengths) == 1 else 0
    return length if length <= LARGEST_BODY else 0


_NAME = re.compile(rb"[A-Za-z0-9!#$%&'*+.^`|~-]+")
"""What a header is called. One with an underscore would pass for another with a dash, which a proxy has set."""


class _HeaderLines(dict[bytes, bytes]):
    """Headers of which every line is kept: a second one, or a folded one, does not take the place of the first."""

    def __setitem__(self, name: bytes, value: bytes) -> None:
        before = self.get(name)
        joined = before is None or value.startswith(before + b", ")  # some are joined by cheroot itself
        super().__setitem__(name, value if joined else self[name] + b", " + value)


class _Headers(HeaderReader):
    """Reads headers so that none can be taken for one that a trusted proxy has set."""

    def __call__(self, rfile: Any, hdict: Any = None) -> Any:
        """Read headers into a dictionary; ValueError where they are none."""
        headers = {} if hdict is None else hdict
        headers.update(super().__call__(rfile, _HeaderLines()))
        return headers

    def _transform_key(self, key_name: bytes) -> bytes:
        if b"_" not in key_name and not _NAME.fullmatch(key_name):
            raise ValueError("Illegal header name.")
        return key_name.title()

    def _allow_header(self, key_name: bytes) -> bool:
        return b"_" not in key_name


class _WebRequest(HTTPRequest):
    """A request without a body but where one is wanted: for no other is waited."""

    header_reader = _Headers()

    def read_request_headers(self) -> bool:
        """Parse the headers; answer 413 where a body is announced that is not wanted, or too large."""
        if not super().read_request_headers():  # type: ignore[no-untyped-call]
            return False
        size = int(self.inheaders.get(b"Content-Length", 0))
        wanted = self.method == b"POST" and self.path.decode("ascii", "replace") in WITH_BODY
        if self.chunked_read or (size != 0 and not (wanted and 0 < size <= LARGEST_BODY)):
            self.simple_response("413 Content Too Large", "No body is wanted here." if not wanted else
                                 f"A body is taken up to {LARGEST_BODY} bytes, in one piece with its length.")
            return False
        return True


class _Exchange(HTTPConnection):
    """One request and its answer, both in memory: the worker that handles it never waits for the client."""

    RequestHandlerClass = _WebRequest

    def __init__(self, server: _Server, client: HttpConnection, header: bytes) -> None:
        files = {"rb": io.BytesIO(header), "wb": BufferedAnswer()}
        super().__init__(server, client.sock, lambda sock, mode, size: files[mode])
        self.remote_addr, self.remote_port = client.address, client.port
        self.ssl_env = server.tls_environment
        self._client, self._connections = client, server.connections

    def communicate(self) -> bool:
        """Answer the request; the connection is handed back either way."""
        self._client.keep = bool(super().communicate())  # type: ignore[no-untyped-call]
        self._client.unsent = self.wfile.whole()
        return False

    def close(self) -> None:
        """Hand the connection back; without an answer it is closed there."""
        # cheroot keeps these with a reference to itself: each answer would stay until the collector finds it.
        for name in ("resolve_peer_creds", "get_peer_creds"):
            vars(self).pop(name, None)
        self._connections.hand_back(self._client)


def _tls(gate: WebConfigFile) -> Wrap:
    """Return what puts TLS on a connection, with the certificate of the moment; the handshake is still to do."""
    return lambda sock: gate.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)


class _Server(wsgi.Server):
    """cheroot on a socket that is already bound, with its limits set."""

    max_request_header_size = LARGEST_HEADER

    def __init__(self, given: socket.socket, app: WSGIApplication, gate: WebConfigFile) -> None:
        name = given.getsockname()
        super().__init__(name[:2] if isinstance(name, tuple) else name, app, numthreads=THREADS, max=THREADS,
                         server_name="idlewatt", request_queue_size=BACKLOG, timeout=int(IDLE_S),
                         shutdown_timeout=STOP_S)
        self.given = given
        self.software = "idlewatt"
        self.tls_environment = {"wsgi.url_scheme": "https", "HTTPS": "on"} if gate.secure else {}
        self.connections = Connections(given, self._work, wrap=_tls(gate) if gate.secure else None,
                                       check=gate.check_peer, awaited=awaited)

    def serve(self) -> None:
        """Serve requests until the connections are to finish."""
        self.connections.run()

    def _work(self, client: HttpConnection, header: bytes) -> None:
        """Give a request to the workers."""
        self.requests.put(_Exchange(self, client, header))

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:  # noqa: A002 - cheroot's name
        """Return the socket that was given."""
        self.socket = self.given
        return self.given

    def bind_unix_socket(self, bind_addr: object) -> socket.socket:
        """Return the socket that was given; systemd owns its file."""
        self.socket = self.given
        return self.given

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Pass cheroot's messages on to the log; what single clients do wrong is no news."""
        log.log(level if level >= logging.ERROR else logging.DEBUG, "web server",
                extra={"target": str(msg)[:200]}, exc_info=traceback)
