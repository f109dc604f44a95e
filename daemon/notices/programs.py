"""Programs of the site's own: a fixed list of arguments, no shell, a time limit, and nothing of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from ...exporters.causes import innermost
from ...exporters.text import clean, decode

MOST_BYTES = 65536
"""Of what a program says that is read."""
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")


class ProgramError(Exception):
    """A program could not be run, took too long or failed; the message says which."""


def run(command: Sequence[str], text: str, timeout_s: float) -> str:
    """Run a program with a text on its standard input, and return what it says on standard output."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        given.write(text.encode("utf-8", "replace"))
        given.seek(0)
        try:
            child = subprocess.Popen(list(command), stdin=given, stdout=output, stderr=errors,  # noqa: S603 - the site's
                                     env=environment, start_new_session=True, cwd="/")
        except (OSError, ValueError) as error:
            raise ProgramError(f"{command[0]}: {innermost(error)}") from error
        try:
            status = child.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ProgramError(f"{command[0]}: not done within {timeout_s:.0f} s, so it was ended") from error
        finally:
            # Its own children too, which would hold on to what it was given.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if status:
            errors.seek(0)
            last = clean(" ".join(decode(errors.read(MOST_BYTES)).split()))[-200:]
            raise ProgramError(f"{command[0]}: status {status}{f': {last}' if last else ''}")
        output.seek(0)
        return decode(output.read(MOST_BYTES))
