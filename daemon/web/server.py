"""The HTTP server underneath: cheroot on sockets of our own, TLS by the web configuration file, bounded clients."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cheroot import wsgi
from cheroot.errors import FatalSSLAlert
from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HTTPConnection
from cheroot.ssl import Adapter

from .gate import WebConfigFile

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger(__name__)

THREADS = 16
BACKLOG = 128
MOST_WAITING = 400
"""Open connections that are saying nothing; more are closed at once, before file descriptors run out."""
QUEUED = 256
SILENCE_S = 10
"""A client that sends or takes nothing for so long is let go."""
REQUEST_S = 30.0
"""No request may take longer, however busily its client drips bytes."""
LARGEST_HEADER, LARGEST_BODY = 16 << 10, 64 << 10
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


def _candidates(host: str, port: int, address: str) -> list[tuple[int, Any]]:
    """Return (family, socket address) pairs to try; IPv4 first for names, as Go's servers do."""
    if not host:
        # An IPv6 socket takes IPv4 clients too; without IPv6 in the kernel the second is tried.
        return [(socket.AF_INET6, ("::", port)), (socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - asked for
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as fault:
        raise ListenError(f"cannot listen on {address}: {fault}") from fault
    return sorted({(int(family), name) for family, _, _, _, name in found})[:1]


def _bound(family: int, name: Any) -> socket.socket:
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
        # cheroot would take the first socket of systemd by itself, whichever was asked for.
        os.environ.pop("LISTEN_PID", None)
        for server in self._servers:
            server.prepare()
            thread = threading.Thread(target=server.serve, name="web", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Answer what has begun, then stop."""
        for server in self._servers:
            server.stop()
        for thread in self._threads:
            thread.join(timeout=SILENCE_S)


def _shown(name: Any) -> str:
    if not isinstance(name, tuple):
        return str(name)
    host = str({"::": "localhost", "0.0.0.0": "localhost"}.get(name[0], name[0]))  # noqa: S104 - compared, not bound
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"


class _Connection(HTTPConnection):
    """A connection whose handshake is done by a worker and whose every request has a deadline."""

    shaken = False

    def communicate(self) -> bool:
        """Answer one request; tell whether the connection stays open."""
        with _deadline(self.socket):
            try:
                self._shake_hands()
            except OSError as fault:
                log.debug("TLS handshake failed", extra={"target": self.remote_addr, "error": str(fault)})
                return False
            return bool(super().communicate())  # type: ignore[no-untyped-call]

    def _shake_hands(self) -> None:
        # Not in the accepting thread: one silent client would keep everybody else out.
        if self.shaken or not isinstance(self.socket, ssl.SSLSocket):
            return
        self.socket.do_handshake()
        self.server.gate.check_peer(self.socket)
        self.shaken = True


@contextlib.contextmanager
def _deadline(sock: socket.socket) -> Iterator[None]:
    # The plain socket's shutdown: that of a TLS socket would pull its state from under the worker.
    timer = threading.Timer(REQUEST_S, _hang_up, [sock])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Tls(Adapter):
    """Wraps connections with the certificate of the moment."""

    def __init__(self, gate: WebConfigFile) -> None:
        self._gate = gate

    def bind(self, sock: socket.socket) -> socket.socket:
        """Return the listening socket as it is."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """Return the connection with TLS on it, the handshake still to do."""
        try:
            wrapped = self._gate.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError as fault:
            raise FatalSSLAlert(*fault.args) from fault
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        """Return what the application is told of the connection."""
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        """Return a buffered file over the socket."""
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)


class _Server(wsgi.Server):
    """cheroot on a socket that is already bound, with its limits set."""

    ConnectionClass = _Connection
    max_request_header_size = LARGEST_HEADER
    max_request_body_size = LARGEST_BODY
    keep_alive_conn_limit = MOST_WAITING

    def __init__(self, given: socket.socket, app: WSGIApplication, gate: WebConfigFile) -> None:
        name = given.getsockname()
        super().__init__(name[:2] if isinstance(name, tuple) else name, app, numthreads=THREADS, max=THREADS,
                         server_name="idlewatt", request_queue_size=BACKLOG, timeout=SILENCE_S, shutdown_timeout=5,
                         accepted_queue_size=QUEUED, accepted_queue_timeout=1)
        self.given, self.gate = given, gate
        self.software = "idlewatt"
        self.ssl_adapter = _Tls(gate) if gate.secure else None

    def process_conn(self, conn: Any) -> None:
        """Hand a connection to a worker once it has something to say: silence must not occupy one."""
        if conn.last_used is not None:
            super().process_conn(conn)
        elif self.can_add_keepalive_connection:
            self.put_conn(conn)
        else:
            conn.close()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:  # noqa: A002 - cheroot's name
        """Return the socket that was given."""
        self.socket = self.given
        return self.given

    def bind_unix_socket(self, bind_addr: Any) -> socket.socket:
        """Return the socket that was given; systemd owns its file."""
        self.socket = self.given
        return self.given

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Pass cheroot's messages on to the log; what single clients do wrong is no news."""
        log.log(level if level >= logging.ERROR else logging.DEBUG, "web server",
                extra={"target": str(msg)[:200]}, exc_info=traceback)
