"""A hard end for an HTTP exchange: socket timeouts alone never end a server that sends a byte now and then.

One thread looks at the exchanges that are under way and cuts the connections of those that are overdue.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

_LOOK_S = 0.05


@dataclass(slots=True)
class Exchange:
    """One request that must end in time."""

    deadline: float
    sock: socket.socket | None = None
    overdue: bool = False

    def cut(self) -> None:
        """End the exchange: whoever reads from the connection gets its end."""
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
        exchange = Exchange(time.monotonic() + seconds)
        self._exchanges[threading.get_ident()] = exchange
        self._under_way.set()
        if self._watcher is None:
            self._start()
        try:
            yield exchange
        finally:
            del self._exchanges[threading.get_ident()]

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


class _Connection(HTTPConnection):
    def getresponse(self) -> Any:
        DEADLINES.attach(self.sock)
        return super().getresponse()


class _SecureConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        DEADLINES.attach(self.sock)
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


POOLS = {"http": _Pool, "https": _SecurePool}
"""For ``PoolManager.pool_classes_by_scheme``: connections that can be cut."""
