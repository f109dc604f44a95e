"""How much a child process of the daemon gives way to everybody else on the machine."""

from __future__ import annotations

import contextlib
import os


def give_way(niceness: int) -> None:
    """Lower this process's priority to ``niceness``, 0 to 19, where the system lets it.

    A sandbox may forbid even that (``SystemCallFilter=~@resources``); the work is then done at the usual priority.
    """
    with contextlib.suppress(PermissionError):
        os.nice(niceness)
