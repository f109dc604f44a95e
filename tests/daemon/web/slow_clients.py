"""Many clients at once that hold their connections and send next to nothing."""

import contextlib
import resource
import socket
import threading
from typing import Self

MANY = 1000
TIMEOUT = 30
HALF_A_HEADER = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "


class SlowClients:
    """A thousand clients of one address that say one thing, then drip or take nothing, until it is over."""

    def __init__(self, port: int, said: bytes) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MANY)), hard))
        self._port, self._said = port, said
        self.clients: list[socket.socket] = []
        self._over = threading.Event()
        self._dripping = threading.Thread(target=self._drip)

    def __enter__(self) -> Self:
        for _ in range(MANY):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(TIMEOUT)
            client.bind(("127.0.0.2", 0))
            client.connect(("127.0.0.1", self._port))
            client.sendall(self._said)
            self.clients.append(client)
        self._dripping.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._dripping.join()
        for client in self.clients:
            client.close()

    def _drip(self) -> None:
        while not self._over.wait(0.1):
            for client in self.clients:
                with contextlib.suppress(OSError):
                    client.send(b"a")
