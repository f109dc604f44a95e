"""Nobody is held up by a peer: work has a thread of its own, and each HTTP exchange a hard end.

Socket timeouts alone never end a server that sends a byte now and then, so one thread looks at the exchanges that are
under way and cuts the connections of those that are overdue.
"""

from __future__ import annotations

import http.client
import queue
import re
import resource
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from urllib3 import HTTPConnectionPool, HTTPHeaderDict, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ProtocolError, ReadTimeoutError, SSLError
from urllib3.response import HTTPResponse

from .source import FAULTS, SourceError

Result = TypeVar("Result")
_LOOK_S = 0.05
_LAST_ANSWER = "_HTTPConnection__response"
"""Where http.client remembers the headers of the last answer, 1.3 kB for each kept connection."""
_HEAD = re.compile(rb"HTTP/1\.1 200([\t -~]*)\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n){1,99})\r\n")
"""The head of a good answer as servers write it, of no more lines than http.client takes."""
_LENGTH = re.compile(r"[0-9]{1,15}")
_SHARE = 4
"""Kept connections take one in so many of the descriptors that the process may have."""


class Errand:
    """Something that is done now and then on a thread of its own; a run that never ends costs that one thread.

    Its threads are daemons: nobody waits for them at the end of the process. ``then`` is called after each run, when
    the next could begin.
    """

    def __init__(self, name: str, work: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        self._name, self._work, self.then = name, work, then
        self._starting = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        self._began: float | None = None

    def begin(self) -> bool:
        """Begin a run; return False while one is under way."""
        with self._starting:
            if not self._ended.is_set():
                return False
            self._ended.clear()
            self._began = time.monotonic()
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except RuntimeError:  # no more threads: tried again at the next beginning
                self._ended.set()
                return False
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the run under way; return whether it has ended."""
        return self._ended.wait(seconds)

    @property
    def under_way(self) -> bool:
        """Tell whether a run has begun and not ended."""
        return not self._ended.is_set()

    @property
    def under_way_s(self) -> float:
        """Return for how many seconds the present run has lasted, 0 when none is under way."""
        return 0.0 if self._ended.is_set() or self._began is None else time.monotonic() - self._began

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._ended.set()
            self.then()


def all_of(name: str, calls: Iterable[Callable[[], Result]], threads: int) -> list[Result]:
    """Return what each call returns, a few side by side; after a fault no more are begun, and the first is raised."""
    waiting, taking = deque(enumerate(calls)), threading.Lock()
    results: dict[int, Result] = {}
    faults: list[Exception] = []

    def work() -> None:
        while not faults:
            with taking:
                if not waiting:
                    return
                number, call = waiting.popleft()
            try:
                results[number] = call()
            except (SourceError, *FAULTS) as fault:
                faults.append(fault)

    crew = [threading.Thread(target=work, name=name, daemon=True) for _ in range(min(threads, len(waiting)))]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    if faults:
        raise faults[0]
    return [results[number] for number in sorted(results)]


@dataclass(slots=True)
class Exchange:
    """One request that must end in time."""

    began: float
    deadline: float
    sock: socket.socket | None = None
    overdue: bool = False
    hastened: bool = False
    """Cut before its time, in favour of others."""

    def cut(self) -> None:
        """End the exchange: a thread that reads from the connection gets its end."""
        self.overdue = True
        if self.sock is not None:
            with suppress(OSError):  # it ended by itself meanwhile
                # Past SSLSocket's own shutdown, which is no matter for a second thread.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class Deadlines:
    """The exchanges under way, one at most per thread."""

    def __init__(self) -> None:
        self._exchanges: dict[int, Exchange] = {}
        self._under_way = threading.Event()
        self._watcher: threading.Thread | None = None
        self._starting = threading.Lock()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[Exchange]:
        """Cut the connection that this thread uses within, once ``seconds`` have passed."""
        began = time.monotonic()
        exchange = Exchange(began, began + seconds)
        self._exchanges[threading.get_ident()] = exchange
        self._under_way.set()
        if self._watcher is None:
            self._start()
        try:
            yield exchange
        finally:
            del self._exchanges[threading.get_ident()]

    def hasten(self, thread: int) -> None:
        """End the exchange of a thread now, or as soon as it has a connection."""
        exchange = self._exchanges.get(thread)
        if exchange is not None:
            exchange.hastened, exchange.deadline = True, 0.0

    def attach(self, sock: socket.socket | None) -> None:
        """Note the connection that this thread's exchange uses."""
        exchange = self._exchanges.get(threading.get_ident())
        if exchange is not None:
            exchange.sock = sock

    def _start(self) -> None:
        with self._starting:
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="http-deadlines", daemon=True)
                self._watcher.start()

    def _watch(self) -> None:
        while self._under_way.wait():
            self._under_way.clear()
            while exchanges := list(self._exchanges.values()):
                now = time.monotonic()
                for exchange in exchanges:
                    if now > exchange.deadline:
                        exchange.cut()
                time.sleep(_LOOK_S)


DEADLINES = Deadlines()


class Kept:
    """How many connections may stay open between exchanges: a share of the descriptors that the process may have.

    The rest is for exchanges under way, the web side, the database and child processes.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._count = most, 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Count one more kept connection; return False when there are enough."""
        with self._lock:
            if self._most is None:
                soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
                self._most = (sys.maxsize if soft == resource.RLIM_INFINITY else soft) // _SHARE
            if self._count >= self._most:
                return False
            self._count += 1
            return True

    def give_back(self) -> None:
        """Count one less."""
        with self._lock:
            self._count -= 1


KEPT = Kept()


class _Answer(http.client.HTTPResponse):
    """An answer whose head is taken apart at once where it is plain: what http.client has for it reads mails."""

    def begin(self) -> None:
        """Read the head."""
        head = _HEAD.match(self.fp.peek()) if self.headers is None and self._method != "HEAD" else None
        lines = [line.partition(":") for line in (head[2] if head else b"").decode("ascii").split("\r\n")[:-1]]
        head_fields = {name.lower(): text.strip(" \t") for name, _, text in lines}
        length, coding = head_fields.get("content-length"), head_fields.get("transfer-encoding")
        framed = coding is None and length is not None and _LENGTH.fullmatch(length)
        if head is None or len(head_fields) < len(lines) or not (framed or (coding == "chunked" and length is None)):
            super().begin()
            return
        self.fp.read(head.end())
        self.headers = self.msg = http.client.HTTPMessage()
        for name, _, text in lines:
            self.headers.set_raw(name, text.strip(" \t"))
        self.code = self.status = http.client.OK
        self.version, self.reason = 11, head[1].decode("ascii").strip()
        self.chunked, self.chunk_left, self.length = coding is not None, None, int(length) if length else None
        self.will_close = "close" in head_fields.get("connection", "").lower()


class _Cuttable(HTTPConnection):
    """A connection that its exchange's deadline can cut, and that is counted while it is kept."""

    response_class = _Answer
    kept: Kept | None = None
    sent: bytes = b""
    """What was sent last: of a request without a body all of it."""

    def send(self, data: Any) -> None:
        self.sent = data
        super().send(data)

    def getresponse(self) -> Any:
        DEADLINES.attach(self.sock)
        return super().getresponse()

    def again(self, request: bytes, within_s: float) -> _Answer:
        """Send the bytes of a request, return the answer with its head read."""
        DEADLINES.attach(self.sock)
        self.sock.settimeout(within_s)
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may have been sent before
            self.sock.sendall(request)
        answer = _Answer(self.sock, method="GET")
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        if answer.will_close:
            self.close()
        return answer

    def close(self) -> None:
        self.used()
        super().close()

    def keep(self) -> None:
        """Count it as kept, or close it when enough are kept: it connects again when it is used again."""
        setattr(self, _LAST_ANSWER, None)
        if self.sock is not None and KEPT.take():
            self.kept = KEPT
        else:
            self.close()

    def used(self) -> None:
        """Count it as kept no more."""
        if self.kept is not None:
            self.kept.give_back()
            self.kept = None


class _Connection(_Cuttable):
    pass


class _SecureConnection(_Cuttable, HTTPSConnection):
    pass


class _Stack:
    """The places of one host's pool, last in first out; nobody ever waits for one.

    ``queue.LifoQueue`` has a lock and three conditions for threads that wait: 3 kB a host, 9 MB at 3,000 pages.
    """

    __slots__ = ("_most", "queue")

    def __init__(self, maxsize: int) -> None:
        self._most = maxsize
        self.queue: list[object] = []

    def get(self, block: bool = False, timeout: float | None = None) -> object:
        """Return what was put last, or raise ``queue.Empty``."""
        try:
            return self.queue.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, item: object, block: bool = False, timeout: float | None = None) -> None:
        """Put something on top, or raise ``queue.Full``."""
        if len(self.queue) >= self._most:
            raise queue.Full
        self.queue.append(item)

    def qsize(self) -> int:
        """Return how many there are."""
        return len(self.queue)


class _Keeping(HTTPConnectionPool):
    """A pool that keeps a connection only while not too many are kept in the whole process."""

    QueueCls = _Stack  # type: ignore[assignment]  # a list would do as well: only put, get and qsize are called
    sent: tuple[str, object, bytes] | None = None
    """The path and the headers of the last request, and the bytes in which it was sent."""

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Return the answer to a request; one that was sent before is sent again in the same bytes."""
        if method != "GET" or body is not None:
            return super().urlopen(method, url, body, headers, **options)
        sent = self.sent
        if sent is not None and sent[0] == url and sent[1] is headers:
            answer = self._send_again(url, sent[2], options["timeout"].read_timeout)
            if answer is not None:
                return answer
        first: Any = super().urlopen(method, url, body, headers, **options)
        if first.connection is not None:
            self.sent = url, headers, first.connection.sent
        return first

    def _send_again(self, url: str, request: bytes, within_s: float) -> HTTPResponse | None:
        """Return the answer on a connection that is open, None where there is none; it fails as urllib3 does."""
        connection = self._get_conn()
        if connection.sock is None:
            self._put_conn(connection)
            return None
        try:
            answer = connection.again(request, within_s)
        except BaseException as error:
            connection.close()
            self._put_conn(None)
            for kinds, fault in ((TimeoutError, ReadTimeoutError(self, url, "Read timed out.")),
                                 (ssl.SSLError, SSLError(error)),
                                 ((OSError, http.client.HTTPException), ProtocolError("Connection aborted.", error))):
                if isinstance(error, kinds):
                    raise fault from error
            raise
        headers = HTTPHeaderDict((name, text.strip(" \t")) for name, text in answer.headers.items())
        return HTTPResponse(
            answer, headers, answer.status, answer.version, reason=answer.reason, preload_content=False,
            decode_content=False, original_response=answer, pool=self, connection=connection, request_method="GET",
            request_url=url)

    def _get_conn(self, timeout: float | None = None) -> Any:
        connection = super()._get_conn(timeout)
        connection.used()  # type: ignore[attr-defined]
        return connection

    def _put_conn(self, conn: Any) -> None:
        if conn is not None:
            conn.keep()
        super()._put_conn(conn)


class _PlainPool(_Keeping):
    ConnectionCls = _Connection


class _SecurePool(_Keeping, HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _PlainPool, "https": _SecurePool}
"""For ``PoolManager.pool_classes_by_scheme``: connections that can be cut, and of which only so many are kept."""
