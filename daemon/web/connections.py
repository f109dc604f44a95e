"""Connections of the web side: whole requests go to the workers, whole answers come back.

One thread accepts, shakes hands, gathers headers and sends what a client would not take at once, all without waiting.
However slowly a client speaks or listens, it costs a file descriptor and some memory, never a worker.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

HEADER_S = 5.0
"""A client has so long from connecting, or from its first byte, until its header is whole."""
IDLE_S = 10.0
"""A connection that is kept for another request is closed after so long without one."""
QUEUED_S = 60.0
"""A whole request waits so long for a worker: behind a proxy all users have one address, and some answers take long."""
TAKE_S = 30.0
"""A client has so long to take its answer."""
LARGEST_HEADER = 16 << 10
LARGEST_BODY = 1 << 20
"""Bytes that may follow a header, of the few requests that want a body at all."""
MOST_RECEIVED = 64 << 20
"""Bytes of bodies that are not whole yet; beyond it the one that has waited longest is let go."""
MOST_CONNECTIONS, MOST_PER_ADDRESS = 512, 128
"""One more closes the oldest of the address that has most, so that a newcomer is always served."""
MOST_AT_WORK = 4
"""Requests of one address that workers have at once; its others wait, so that the workers are never all its own."""
BACKLOG = 1024
"""Clients that the system lets queue for us."""
MOST_UNSENT = 64 << 20
"""Bytes of answers that clients have not taken yet; beyond it the one that has waited longest is let go."""
FINISH_S = 1.0
"""At the end clients have so long to take what is answered."""
LOOK_S = 0.25
"""How often deadlines are looked at."""
_END_OF_HEADER = b"\r\n\r\n"
_PIECE = 1 << 16
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Wrap = Callable[[socket.socket], socket.socket]
"""Puts TLS on a connection, the handshake still to do; raises OSError where it cannot."""
Check = Callable[[ssl.SSLSocket], None]
"""Raises OSError when the certificate of a client is not welcome."""
Awaited = Callable[[bytes], int]
"""Returns how many bytes of a body are wanted behind a header."""


@dataclass(eq=False, slots=True)
class HttpConnection:
    """One connection and what has been received from it or is still to be sent."""

    sock: socket.socket
    address: str
    port: int
    deadline_s: float
    received: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    keep: bool = True
    """Whether another request may follow the answer."""
    shaken: bool = True
    """False while a TLS handshake is under way."""
    awaited: Awaited = lambda header: 0  # noqa: E731 - a default
    _wants_to_write: bool = False
    _size: int = 0
    """Of the request that is coming in, with its body; 0 while its header is not whole."""

    @property
    def request_is_whole(self) -> bool:
        """Tell whether a whole request has been received, or more than a header may be."""
        if not self._size:
            end = self.received.find(_END_OF_HEADER)
            if end < 0:
                return len(self.received) > LARGEST_HEADER
            self._size = end + len(_END_OF_HEADER)
            self._size += self.awaited(bytes(self.received[:self._size]))
        return len(self.received) >= self._size

    @property
    def due(self) -> int:
        """Return how many bytes of a body have come that is not whole yet."""
        return len(self.received) if self._size > len(self.received) else 0

    def request(self) -> bytes | None:
        """Take the next whole header, with its body, out of what was received; None while it is not whole.

        A header that is too long is taken as it is: its parser says so to the client.
        """
        if not self.shaken or self.unsent or not self.request_is_whole:
            return None
        size, self._size = self._size or len(self.received), 0
        request = bytes(self.received[:size])
        del self.received[:size]
        return request

    @property
    def events(self) -> int:
        """Return what to wait for before going on."""
        return selectors.EVENT_WRITE if self.unsent or self._wants_to_write else selectors.EVENT_READ

    def advance(self, check: Check, now_s: float) -> bool:
        """Shake hands, send and receive as far as it goes without waiting; tell whether the connection goes on.

        Raises:
            OSError: the client is gone, or not welcome.
        """
        if not self.shaken and not self._shake_hands(check):
            return True
        if self.unsent:
            self._send()
            if self.unsent or not self.keep:
                return bool(self.unsent)
            self.deadline_s = now_s + IDLE_S
        return self._receive(now_s)

    def _shake_hands(self, check: Check) -> bool:
        assert isinstance(self.sock, ssl.SSLSocket)
        self._wants_to_write = False
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._wants_to_write = True
            return False
        check(self.sock)
        self.shaken = True
        return True

    def _send(self) -> None:
        with contextlib.suppress(*_NOT_NOW):
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent[:_PIECE]):] or memoryview(b"")

    def _receive(self, now_s: float) -> bool:
        """Take what has come; tell whether the client may still say more."""
        with contextlib.suppress(*_NOT_NOW):
            while len(self.received) <= max(LARGEST_HEADER, self._size):
                piece = self.sock.recv(_PIECE)
                if not piece:
                    return self.request_is_whole
                if not self.received:
                    self.deadline_s = now_s + HEADER_S
                self.received += piece
                if not self._size and self.request_is_whole:
                    break
        return True

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.sock.close()


class Connections:
    """Accepts clients on one socket, hands over their requests and sends them their answers.

    ``work`` gets a client and its header, and returns at once. The worker that has the answer sets ``unsent`` and
    ``keep`` and calls ``hand_back``; without an answer the client is hung up on.
    """

    def __init__(self, listening: socket.socket, work: Callable[[HttpConnection, bytes], None], *,
                 wrap: Wrap | None = None,
                 check: Check = lambda sock: None, awaited: Awaited = lambda header: 0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._listening, self._work, self._wrap, self._check, self._clock = listening, work, wrap, check, clock
        self._awaited = awaited
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[HttpConnection, None] = {}
        """Clients that this thread looks after, the longest here first; those whose request is at work are not."""
        self._queued: dict[HttpConnection, bytes] = {}
        """Of these, the ones whose request waits for a worker."""
        self._at_work: Counter[str] = Counter()
        """Requests at work, by address."""
        self._answered: deque[HttpConnection] = deque()
        self._woken, self._wake = socket.socketpair()
        self._accepting = True
        self._end_s = float("inf")

    def open(self) -> None:
        """Let clients in; they are looked after by ``run``."""
        for sock in (self._listening, self._woken):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)

    def run(self) -> None:
        """Look after the clients until ``finish``."""
        listening, woken = self._listening, self._woken
        looked_s = self._clock()
        while not self._is_over():
            for key, _ in self._selector.select(LOOK_S):
                if key.fileobj is listening:
                    self._accept()
                elif key.fileobj is woken:
                    self._take_answers()
                elif key.data in self._waiting:
                    self._go_on(key.data)
            if self._clock() - looked_s >= LOOK_S:
                looked_s = self._clock()
                self._let_go_of_the_late(looked_s)
        self._end()

    def _is_over(self) -> bool:
        if self._end_s == float("inf"):
            return False
        return self._clock() > self._end_s or not (self._answered or any(client.unsent for client in self._waiting))

    def hand_back(self, client: HttpConnection) -> None:
        """Take a client back with its answer; from any thread."""
        self._answered.append(client)
        with contextlib.suppress(OSError):  # Full: the thread is awake anyway. Closed: it has ended.
            self._wake.send(b"\0")

    def stop_accepting(self) -> None:
        """Take no further client and no further request; answers are still sent."""
        self._accepting = False

    def finish(self) -> None:
        """Send what is answered, within ``FINISH_S``, and end."""
        self._end_s = self._clock() + FINISH_S
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")

    def _accept(self) -> None:
        """Take the clients that have come, no more at once than the system lets queue."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(BACKLOG):
                self._welcome()

    def _welcome(self) -> None:
        try:
            sock, name = self._listening.accept()
        except BlockingIOError:
            raise
        except OSError as fault:  # It has gone again, or no descriptor is left.
            if fault.errno in (errno.EMFILE, errno.ENFILE) and self._waiting:
                self._close(next(iter(self._waiting)))
            return
        address, port = name[:2] if isinstance(name, tuple) else ("", 0)
        if not self._accepting:
            sock.close()
            return
        self._make_room(address)
        try:
            sock.setblocking(False)
            wrapped = self._wrap(sock) if self._wrap else sock
        except OSError as fault:
            log.debug("no TLS for a client", extra={"target": address, "error": str(fault)})
            sock.close()
            return
        self._watch(HttpConnection(wrapped, address, port, self._clock() + HEADER_S, shaken=self._wrap is None,
                                   awaited=self._awaited))

    def _make_room(self, address: str) -> None:
        """Let go of the oldest of this address, or of the address that has most, where there are too many."""
        counts = Counter(client.address for client in self._waiting)
        if counts[address] >= MOST_PER_ADDRESS:
            crowd = address
        elif len(self._waiting) >= MOST_CONNECTIONS:
            crowd = counts.most_common(1)[0][0]
        else:
            return
        self._close(next(client for client in self._waiting if client.address == crowd))

    def _watch(self, client: HttpConnection) -> None:
        self._waiting[client] = None
        self._selector.register(client.sock, client.events, client)

    def _unwatch(self, client: HttpConnection) -> None:
        del self._waiting[client]
        if client in self._queued:
            del self._queued[client]
        else:
            self._selector.unregister(client.sock)

    def _close(self, client: HttpConnection) -> None:
        self._unwatch(client)
        client.close()

    def _go_on(self, client: HttpConnection) -> None:
        """Do for a client what can be done without waiting."""
        try:
            stays = client.advance(self._check, self._clock())
        except OSError as fault:
            log.debug("a client is let go", extra={"target": client.address, "error": str(fault)})
            stays = False
        if not stays:
            self._close(client)
        elif self._accepting and (header := client.request()) is not None:
            self._selector.unregister(client.sock)
            self._queued[client] = header
            client.deadline_s = self._clock() + QUEUED_S
            self._give_work()
        else:
            self._selector.modify(client.sock, client.events, client)
            if client.due:
                self._bound_received()

    def _give_work(self) -> None:
        """Give the workers what waits for them, the oldest first, but no address more than its share."""
        for client, header in list(self._queued.items()):
            if self._at_work[client.address] < MOST_AT_WORK:
                self._unwatch(client)
                self._at_work[client.address] += 1
                self._work(client, header)

    def _take_answers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(_PIECE)
        while self._answered:
            client = self._answered.popleft()
            self._at_work[client.address] -= 1
            client.deadline_s = self._clock() + TAKE_S
            self._watch(client)
            if client.unsent:
                self._go_on(client)
            else:
                self._close(client)
        self._at_work = +self._at_work  # without addresses that have nothing left
        self._give_work()
        self._bound_unsent()

    def _bound_unsent(self) -> None:
        """Close clients that have waited longest with an answer unsent; the newest answer stays, however large."""
        unsent = [client for client in self._waiting if client.unsent]
        excess = sum(len(client.unsent) for client in unsent) - MOST_UNSENT
        for client in unsent[:-1]:
            if excess <= 0:
                return
            excess -= len(client.unsent)
            self._close(client)

    def _bound_received(self) -> None:
        """Close clients that have waited longest with half a body; the newest stays, however large."""
        halves = [client for client in self._waiting if client.due]
        excess = sum(client.due for client in halves) - MOST_RECEIVED
        for client in halves[:-1]:
            if excess <= 0:
                return
            excess -= client.due
            self._close(client)

    def _let_go_of_the_late(self, now_s: float) -> None:
        for client in [client for client in self._waiting if client.deadline_s < now_s]:
            self._close(client)

    def _end(self) -> None:
        for client in list(self._waiting):
            self._close(client)
        self._selector.close()
        self._woken.close()
        self._wake.close()


class BufferedAnswer:
    """A file that keeps what is written into it: the answer of one request."""

    def __init__(self) -> None:
        self.bytes_written = 0
        self.closed = False
        self._pieces: list[bytes] = []

    def write(self, piece: bytes | memoryview) -> int:
        """Keep a piece."""
        self._pieces.append(bytes(piece))
        self.bytes_written += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: all is sent once the answer is whole."""

    def close(self) -> None:
        """Keep what there is; nothing more comes."""
        self.closed = True

    def whole(self) -> memoryview:
        """Return everything that was written, and keep none of it."""
        pieces, self._pieces = self._pieces, []
        return memoryview(b"".join(pieces))
