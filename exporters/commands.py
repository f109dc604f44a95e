"""Programs that a source runs: each within its time, and none outlives the source."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO


class Commands:
    """Runs programs and knows those that are running, so that they can be ended at once."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._change = threading.Lock()
        self._closed = False

    def run(self, command: Sequence[str], *, env: Mapping[str, str], stdout: IO[bytes],
            timeout: float) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end, as ``subprocess.run`` does; it gets no input, its errors are returned.

        Raises:
            OSError: it cannot be started.
            subprocess.TimeoutExpired: it did not end in time, and was ended.
        """
        with self._change:
            if self._closed:
                raise OSError(0, "nothing is run any more")
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,  # noqa: S603 - the caller's program
                                     stdout=stdout, stderr=subprocess.PIPE)
            self._running.add(child)
        try:
            _, errors = child.communicate(timeout=timeout)
        finally:
            child.kill()
            child.wait()
            with self._change:
                self._running.discard(child)
        return subprocess.CompletedProcess(command, child.returncode, None, errors)

    def close(self) -> None:
        """End what is running, start nothing more."""
        with self._change:
            self._closed = True
            for child in self._running:
                child.kill()
