"""Compile policies in a process of their own, so that the daemon only loads what is on disk.

Compiling takes half a minute on a new machine and twice the memory of running; in a process of its own it can be ended
at once when the daemon stops, and its memory goes with it. What has been compiled before is not compiled again.
``python -m idlewatt.daemon.advice.warm_up [--models FOLDER] POLICY|KIND@VERSION …``
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from ..learning.models import ModelError, ModelStore
from ..niceness import give_way
from ..replay.compiled import compiled_mark
from ..replay.runtime_prediction import JobFeatures, predicted_columns
from ..settings.advice import AdviceSettings
from ..settings.sections import FIRST_COME
from .advisor import AdviceInputs, Advisor
from .inference import ServedModel

Floats = NDArray[np.float64]

log = logging.getLogger(__name__)

NICENESS = 10
"""The daemon that waits for the child reads, records and answers meanwhile, on a machine with few cores, too."""


class WarmUp:
    """A child process in which policies take their first decision; ``over`` is true once they may be used here."""

    def __init__(self, names: Sequence[str], models: Path | None = None) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._reported = False
        if models is not None or not compiled_mark(names).exists():
            command = [sys.executable, "-m", __name__, *names, *(("--models", str(models)) if models else ())]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own program

    def over(self) -> bool:
        """Tell whether the policies are compiled; also when that failed, as compiling here still works."""
        status = 0 if self._child is None else self._child.poll()
        if status not in (None, 0) and not self._reported:
            self._reported = True
            log.warning("policies could not be compiled in advance", extra={"status": status})
        return status is not None

    def end(self) -> None:
        """End the child, whatever it does."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()


def warm_up(names: Sequence[str], models: Path | None = None) -> None:
    """Let each policy advise on a small cluster: a running job, one that may start, one that has to wait.

    Names of agents are ``kind@version``; ModelError when one of them cannot be used.
    """
    request = Request(4, 1, 4, 8, 1 << 30)
    held = (Allocation("node", 4, (0, 1, 2, 3), 8, 1 << 30),)
    jobs = (Job("1", 0.0, JobState.RUNNING, "all", request, start_s=0.0, limit_s=60.0, allocations=held),
            Job("2", 1.0, JobState.PENDING, "all", Request(8, 1, 8), limit_s=60.0),
            Job("3", 2.0, JobState.PENDING, "all", request, limit_s=30.0))
    node = Node("node", ("all",), 8, cpus=64, memory_bytes=1 << 40, gpus_allocated=4, cpus_allocated=8)
    policies = [name for name in names if "@" not in name] or [FIRST_COME]
    served_models = [ServedModel(name, True, ModelStore(models).load(name))
                     for name in names if "@" in name and models is not None]
    settings = AdviceSettings(policy=policies[0], shadow=tuple(policies[1:]))
    advice_inputs = AdviceInputs(served_models, policies[-1], _predicted)
    Advisor(settings, advice_inputs).advise(SchedulerSnapshot(3.0, (node,), jobs=jobs), 3.0)
    if models is None:
        with suppress(OSError):  # they are compiled again then
            compiled_mark(names).touch()


def _predicted(jobs: Sequence[Job]) -> dict[str, Floats]:
    """Predict run times from nothing."""
    nothing = np.full(len(jobs), np.nan)
    return predicted_columns(submit_s=[job.submit_s for job in jobs], run_s=nothing, ended_s=nothing,
                             features=JobFeatures([1] * len(jobs)))


def _end_with_parent() -> None:
    """End this process when the daemon has gone, however it went: its end of our standard input closes."""
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when this process ends by itself
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parser, default = argparse.ArgumentParser(), AdviceSettings()
    parser.add_argument("names", nargs="*", default=(FIRST_COME, *default.shadow))
    parser.add_argument("--models", type=Path)
    given = parser.parse_args()
    give_way(NICENESS)
    try:
        warm_up(given.names, given.models)
    except ModelError as error:
        sys.exit(str(error))
