"""The daemon's side of nightly training: when it begins, and how it ended. It runs in ``nightly.py``'s own process.

The daemon trains, or systemd's timer does, never both: the timer's run refuses where the configuration has the daemon
do it, and the process that trains holds the lock of the training_directory.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from pathlib import Path
from time import monotonic
from typing import Literal, Self, get_args

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from ..agents.checkpoint import LARGEST_CARD_BYTES, CheckpointError, plain_content
from ..agents.kinds import Objective
from ..settings.flavours import FlavourSettings
from ..settings.sections import Sections
from .promotion_criteria import ASSUMED, PromotionCriteria

log = logging.getLogger(__name__)

Result = Literal["done", "refused", "failed", "interrupted"]
PATIENCE_S = 2 * 3600.0
"""The time after its budget at which a training is ended: reading a history and judging take minutes."""
STEPPED_S = 3600.0
"""A night that began further ahead than this began by a clock that has been set back since."""
NOTE = ".training/night.json"
"""Beside the models: what came of the last night."""


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """What is trained in one night."""

    url: str
    models: Path
    now_s: float
    agent: str
    budget_s: float
    history_s: float
    incumbent: str
    promote: bool
    keep: int
    objective: Objective = Objective()
    terms: PromotionCriteria = ASSUMED
    applications: dict[str, str] = field(default_factory=dict)
    """By pattern of job names, whose published speeds they follow until the site's own are known."""
    flavours: tuple[FlavourSettings, ...] = ()
    aims: bool = True
    """Whether the operator says what it is after; else its kind does."""
    forgets: str = ""
    """Why no trial can be judged here, whose beginning the history would have forgotten; '' where it remembers all."""

    @classmethod
    def of(cls, settings: Sections, now_s: float) -> Self:
        """Return what the configuration says, now."""
        wanted = settings.training
        return cls(settings.storage.url, settings.storage.models_folder, now_s, wanted.agent, wanted.budget,
                   wanted.history, settings.incumbent, wanted.promote, wanted.keep,
                   Objective.of(wanted.objective), PromotionCriteria.of(settings),
                   dict(settings.advice.applications), settings.flavours,
                   "objective" in wanted.model_fields_set, settings.forgets)


@dataclass(frozen=True, slots=True)
class Night:
    """The result of one night of training."""

    began_s: FiniteFloat
    result: Result
    """``refused`` is what cannot be yet, such as too short a history; ``failed`` is what should not be."""
    message: str
    model: str = ""
    last_success_s: FiniteFloat | None = None
    """When the last night before it that was done began, on the note of one that was not; None where nobody knows."""

    @property
    def success_s(self) -> float | None:
        """Return when the last night that was done began, up to this one; None where nobody knows."""
        return self.began_s if self.result == "done" else self.last_success_s

    def after(self, before: Night | None) -> Night:
        """Return the night with what the note of the one before it tells of the last success."""
        if self.result == "done" or before is None:
            return self
        return replace(self, last_success_s=before.success_s)


TASK, NIGHT = TypeAdapter(TrainingTask), TypeAdapter(Night)


def last_night(models: Path) -> Night | None:
    """Return the result of the last night; None when nobody knows it."""
    try:
        return NIGHT.validate_json(plain_content(models / NOTE, LARGEST_CARD_BYTES))
    except (OSError, CheckpointError, ValidationError):
        return None


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """What the daemon knows of its trainings."""

    running: bool = False
    runs: Mapping[str, int] = field(default_factory=dict)
    """How many ended since the daemon started, by result; every result where the daemon trains."""
    last_success_s: float | None = None


def last_time(at: time, now_s: float) -> float:
    """Return when it was last this local time of day, by the rules of that day: clocks change within a night.

    A time that comes twice is its first; one that is left out comes as long after midnight as it would have.
    """
    today = datetime.fromtimestamp(now_s).date()
    begins = (datetime.combine(today - timedelta(days=ago), at, tzinfo=None).timestamp() for ago in range(3))
    return next(begin for begin in begins if begin <= now_s)


class TrainingScheduler:
    """Starts the training of a night when it is time, and sees how it ends; never waits for it."""

    def __init__(self, models: Path, now_s: float) -> None:
        last = last_night(models)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._deadline_s = float("inf")
        self._ended = False
        self._runs: Counter[str] = Counter()
        # A clock that was set back must not put training off for years.
        self._began_s = last.began_s if last and last.began_s <= now_s else now_s
        self._success_s = last.success_s if last else None

    def look(self, settings: Sections, now_s: float) -> TrainingStatus:
        """Start tonight's training when it is time for it, or see how it ended; return how things stand."""
        with self._lock:
            if monotonic() > self._deadline_s:
                self._kill()
            if self._child is not None and self._child.poll() is not None:
                self._note(self._child)
                self._child, self._deadline_s = None, float("inf")
            if settings.training.enabled:  # counted from 0 on: nobody sees the rise of what begins at 1
                self._runs.update(dict.fromkeys(get_args(Result), 0))
            wanted = settings.training.enabled and not self._ended
            if wanted and self._child is None and self._due(settings.training.at, now_s):
                self._began_s = now_s
                self._child = _started(TrainingTask.of(settings, now_s))
                self._deadline_s = monotonic() + settings.training.budget + PATIENCE_S
            return TrainingStatus(self._child is not None, dict(self._runs), self._success_s)

    def end(self) -> None:
        """End the training, whatever it does; none is started any more."""
        with self._lock:
            self._ended = True
            self._kill()

    def _kill(self) -> None:
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            log.warning("the nightly training is ended before it was done")

    def _due(self, at: time, now_s: float) -> bool:
        """Tell whether a night has begun since the last one that was seen to, or since the daemon is here."""
        if self._began_s > now_s + STEPPED_S:  # the clock was set back meanwhile
            self._began_s = now_s
        return last_time(at, now_s) > self._began_s

    def _note(self, child: subprocess.Popen[str]) -> None:
        output, _ = child.communicate()
        try:
            night = NIGHT.validate_json(output)
        except ValidationError:
            night = Night(self._began_s, "failed", f"it ended with status {child.returncode} and no word")
        self._runs[night.result] += 1
        if night.result == "done":
            self._success_s = night.began_s
        level = logging.WARNING if night.result == "failed" else logging.INFO
        log.log(level, "the nightly training has ended", extra={"result": night.result, "said": night.message})


def _started(task: TrainingTask) -> subprocess.Popen[str]:
    """Start a training in a process and a session of its own, with all that it may start itself."""
    child = subprocess.Popen([sys.executable, "-m", "idlewatt.daemon.learning.nightly"],  # noqa: S603 - our own module
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdin is not None
    child.stdin.write(TASK.dump_json(task).decode() + "\n")
    child.stdin.flush()  # and left open: it closes when we are gone
    log.info("the nightly training has begun", extra={"agent": task.agent, "budget": task.budget_s})
    return child
