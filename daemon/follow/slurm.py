"""What is read from Slurm and changed on it: fixed lists of arguments, no shell, nothing that came over HTTP is run."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from ...exporters.hostlist import expand
from ...exporters.text import clean
from ...storage.follow import Attribute
from ..settings.follow import CommandSettings
from .sight import QueuedJob, spelled

log = logging.getLogger(__name__)

_FORMAT = "%F|%i|%T|%P|%u|%n|%y|%V"
"""Array, id, state, partition, user, required nodes, nice, submission: none of them is a user's free text."""
_MOST_NAMED = 1000
"""Beyond so many jobs the whole queue is read."""
_ARGUMENT = {"required_nodes": "ReqNodeList", "nice": "Nice"}
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
JOB = re.compile(r"[1-9][0-9]{0,9}(_[0-9]{1,9})?")
"""A job, an array or a task of one."""
_NICE = re.compile(r"-?[0-9]{1,10}")
_ATTRIBUTES = {"required_nodes": re.compile(r"^   ReqNodeList=(\S+) ExcNodeList=", re.MULTILINE),
         "nice": re.compile(r"^   Priority=\d+ Nice=(-?\d+) Account=", re.MULTILINE)}
"""Where scontrol tells an attribute. Free text of a user's may look alike: what is found twice is not believed."""
_SILENT = re.compile("contact|timed out|connect|zero bytes|communication|network|transmi|unexpected message|"
                     "authentication|credential|socket", re.IGNORECASE)
"""Words of errors after which Slurm may have done, or may yet do, what was commanded."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class SlurmError(Exception):
    """A command of Slurm's failed, or answered what is not understood; the text is for a person."""


class SlurmRefused(SlurmError):
    """Slurm does not do what was commanded."""


class SlurmFailed(SlurmError):
    """A command ended with an error; the text is its output."""


class Scheduler(Protocol):
    """What is needed of Slurm."""

    def partitions(self) -> frozenset[str]:
        """Return the names of all partitions."""

    def jobs(self, job_ids: Iterable[str]) -> dict[str, QueuedJob]:
        """Return those of the jobs that are known."""

    def change(self, job_id: str, attribute: Attribute, value: str) -> str | None:
        """Change an attribute of a pending job; return what it was right before, None where that is not known."""


class Slurm:
    """Slurm's commands, each within its time; whatever is running ends with this process."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings
        self._unread: set[str] = set()
        """Lines of squeue that were not understood."""
        self._environment = os.environ | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        if settings.slurm_conf:
            self._environment["SLURM_CONF"] = str(settings.slurm_conf)

    def partitions(self) -> frozenset[str]:
        """Return the names of all partitions; raises SlurmError."""
        return frozenset(self._run("sinfo", "--noheader", "--all", "--format=%R").split())

    def jobs(self, job_ids: Iterable[str]) -> dict[str, QueuedJob]:
        """Return those of the jobs that Slurm knows, by id, of arrays each task; raises SlurmError.

        One that is not understood is there, too: a job that is missing would be taken for one that is over.
        """
        wanted = {job_id for job_id in job_ids if JOB.fullmatch(job_id)}
        if not wanted:
            return {}
        # One alone that is no longer known would be an error, and differ from others by its words only.
        chosen = [f"--jobs={','.join((*sorted(wanted), min(wanted)))}"] if len(wanted) <= _MOST_NAMED else []
        listed = self._run("squeue", "--noheader", "--all", "--array", "--states=all", f"--format={_FORMAT}", *chosen)
        jobs = (self._parsed(line) for line in listed.splitlines() if not wanted.isdisjoint(line.split("|", 2)[:2]))
        return {job.job_id: job for job in jobs}

    def _parsed(self, line: str) -> QueuedJob:
        """Return the job of one line; one that is not understood costs itself alone, and is logged once."""
        try:
            return parse(line)
        except SlurmError as error:
            array, _, rest = line.partition("|")
            name = rest.partition("|")[0] or array
            if line not in self._unread:
                log.warning("a job is left alone", extra={"target": clean(name[:40]), "reason": str(error)})
                self._unread = {line} if len(self._unread) >= _MOST_NAMED else self._unread | {line}
            return QueuedJob.unread(name, "" if name == array else array)

    def change(self, job_id: str, attribute: Attribute, value: str) -> str | None:
        """Change an attribute of a job; return what it was right before, None where that is not understood.

        Slurm has no compare-and-set. One scontrol reads and changes in a breath, so that an edit of the owner's that
        it overtakes is known, but for one in the milliseconds between the two. Raises SlurmRefused where Slurm does
        not do it, SlurmError where it is silent and may have done it.
        """
        if not JOB.fullmatch(job_id):
            raise SlurmRefused(f"{job_id[:40]!r} is no number of a job")
        update = f"update jobid={job_id} {_ARGUMENT[attribute]}={checked(attribute, value)}"
        try:
            shown = self._run("scontrol", commands=f"show job {job_id}\n{update}\n")
        except SlurmFailed as error:
            raise (SlurmError if _SILENT.search(str(error)) else SlurmRefused)(str(error)) from error
        return stood(shown, attribute)

    def _run(self, program: str, *arguments: str, commands: str = "") -> str:
        path = str(self._settings.bin_dir / program) if self._settings.bin_dir else program
        try:
            done = subprocess.run(  # noqa: S603 - fixed programs, checked arguments
                (path, *arguments), env=self._environment, input=commands.encode(), capture_output=True,
                timeout=self._settings.timeout, check=False, preexec_fn=_die_with_parent)  # noqa: PLW1509
        except subprocess.TimeoutExpired as error:
            raise SlurmError(f"{program} did not answer within {self._settings.timeout:g} s") from error
        except OSError as error:
            raise SlurmError(f"{path}: {error.strerror}") from error
        if done.returncode:
            message = clean(" ".join(done.stderr.decode(errors="replace").split())[:300])
            raise SlurmFailed(f"{program}: {message or f'exit status {done.returncode}'}")
        return done.stdout.decode(errors="replace")


def _die_with_parent() -> None:
    """Let a command that is running be killed with us: it must change nothing once nobody watches."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def stood(shown: str, attribute: Attribute) -> str | None:
    """Return an attribute as scontrol shows it of one job, '' where it is not set; None where it is not understood."""
    matches = _ATTRIBUTES[attribute].findall(shown)
    if len(matches) != 1:
        return None
    if attribute == "nice":
        return str(int(matches[0]))
    try:
        return "" if matches[0] == "(null)" else spelled(tuple(expand(matches[0])))
    except ValueError:
        return None


def checked(attribute: Attribute, value: str) -> str:
    """Return a value that goes into a command; Refused for what is none."""
    if attribute == "nice":
        good = _NICE.fullmatch(value) is not None
    else:
        good = all(NODE.fullmatch(node) for node in value.split(",")) if value else True
    if not good:
        raise SlurmRefused(f"{value[:80]!r} is no value of {attribute}")
    return value


def parse(line: str) -> QueuedJob:
    """Return the job of one line; raises SlurmError for what is not understood."""
    fields: Sequence[str] = line.split("|")
    if len(fields) != _FORMAT.count("|") + 1:
        raise SlurmError(f"squeue: not understood: {clean(line[:80])!r}")
    array, name, state, partition, user, nodes, nice, submitted = fields
    try:
        submit_s = datetime.fromisoformat(submitted).replace(tzinfo=UTC).timestamp()
        return QueuedJob(name, state, partition, user, tuple(sorted(expand(nodes))), int(nice), submit_s,
                         plain=JOB.fullmatch(name) is not None, array="" if name == array else array)
    except ValueError as error:
        raise SlurmError(f"squeue: not understood: {clean(line[:80])!r}") from error
