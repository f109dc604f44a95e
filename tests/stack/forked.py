"""Daemons forked off a process that has imported what they import: real processes, each started in a tenth of the time.

A start from nothing takes two seconds of a core, nearly all of them for imports.
"""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Never

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["idlewatt.daemon.cli.serve", "idlewatt.daemon.main", "idlewatt.daemon.service"])


def _run(arguments: Sequence[str], environment: Mapping[str, str], log: Connection) -> Never:
    """Be the command: a session, an environment and a standard error of its own."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(log.fileno(), 2)
    log.close()
    from idlewatt.daemon.cli import main  # imported before the fork

    main(list(arguments), prog_name="idlewatt")
    raise SystemExit(0)


class Forked:
    """A forked command with what tests use of ``subprocess.Popen``."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        reader, writer = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(tuple(arguments), dict(environment), writer))
        self._process.start()
        writer.close()
        self.stderr = os.fdopen(os.dup(reader.fileno()))
        reader.close()

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """Return the exit status, negative for a signal; None as long as it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status; None as long as it runs."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Return the exit status, waiting for the end."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("idlewatt", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            # Whoever collects it tells its exit status a moment after its number is gone.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)
