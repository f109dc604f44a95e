"""Keys of the jobs of several schedulers: two of these may submit jobs of one id within one second.

A job is known by its id and its submission everywhere. Of two jobs that share both, the one that was known later gets a
submission that is a 64th of a second later, so that everything takes them for two. Which of them that is stays as it is
recorded: each job is recorded with its source.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from ..storage.errors import StoreError
from ..storage.records import Job, SchedulerSnapshot

log = logging.getLogger(__name__)

STEP_S = 1 / 64
"""Exact as a float and in six decimals; schedulers tell whole seconds."""
FEDERATED = 1 << 26
"""Slurm gives such numbers to jobs of federations alone, whose clusters list one job under one number."""
MOST_UNLISTED = 10_000
"""Jobs of the accounts that are remembered beside those that schedulers list; the history knows the others."""

Key = tuple[str, float]
SourcesOf = Callable[[Collection[str]], Mapping[Key, str]]
"""Returns the recorded source of each submission of some job ids; raises ``StoreError`` where it cannot."""


class SubmissionKeys:
    """Tells jobs of several schedulers apart; those of a scheduler that is alone stay as they are. Threads share it."""

    def __init__(self, schedulers: Collection[str], recorded: SourcesOf) -> None:
        self._schedulers, self._recorded = frozenset(schedulers), recorded
        self._steps: dict[Key, dict[str, int]] = {}
        """By how many steps jobs are moved, by source."""
        self._listed: dict[str, dict[Key, tuple[Job, Job]]] = {}
        """Jobs of the last snapshot of each source, as it told them and as they are known."""
        self._turn = threading.Lock()

    def renewed(self, schedulers: Collection[str]) -> SubmissionKeys:
        """Return keys for the schedulers of another configuration, the jobs of those that stay as they are known."""
        keys = SubmissionKeys(schedulers, self._recorded)
        keys._steps = {submission: {source: step for source, step in steps.items() if source in keys._schedulers}
                       for submission, steps in self._steps.items()}
        return keys

    def snapshot(self, source: str, told: SchedulerSnapshot) -> SchedulerSnapshot:
        """Return a snapshot of a source with the jobs as they are known; a job that is told as before is the same."""
        if len(self._schedulers) < 2:
            return told
        with self._turn:
            self._find(source, told.jobs)
            before = self._listed.get(source, {})
            known = [listed if (listed := before.get(job.key)) is not None and listed[0] is job
                     else (job, self._known(source, job)) for job in told.jobs]
            self._listed[source] = {job.key: (job, known_job) for job, known_job in known}
            self._forget()
        return replace(told, jobs=tuple(known_job for _, known_job in known))

    def jobs(self, source: str, told: Sequence[Job]) -> Sequence[Job]:
        """Return jobs of the accounts of a source as they are known."""
        if len(self._schedulers) < 2:
            return told
        with self._turn:
            self._find(source, told)
            known = tuple(self._known(source, job) for job in told)
            self._forget()
        return known

    def _known(self, source: str, job: Job) -> Job:
        if _federated(job):
            return job
        return replace(job, source=source, submit_s=job.submit_s + STEP_S * self._steps[job.key][source])

    def _find(self, source: str, jobs: Iterable[Job]) -> None:
        """Find out how far the jobs are moved of which that is not known yet."""
        fresh = {job.key for job in jobs if source not in self._steps.get(job.key, ()) and not _federated(job)}
        recorded: dict[str, list[tuple[float, str]]] = {}
        for (job_id, submit_s), recorded_source in self._recorded_of({job_id for job_id, _ in fresh}).items():
            recorded.setdefault(job_id, []).append((submit_s, recorded_source))
        for job_id, submit_s in fresh:
            steps = self._steps.setdefault((job_id, submit_s), {})
            steps[source] = self._step(source, submit_s, steps, recorded.get(job_id, ()))

    def _recorded_of(self, job_ids: Collection[str]) -> Mapping[Key, str]:
        try:
            return self._recorded(job_ids) if job_ids else {}
        except StoreError as error:
            log.warning("recorded jobs cannot be compared with those of several schedulers", extra={
                "error": str(error)})
            return {}

    def _step(self, source: str, submit_s: float, known: Mapping[str, int],
              recorded: Iterable[tuple[float, str]]) -> int:
        """Return the step at which a job of a source is recorded, else the first that is no other scheduler's."""
        taken, own = set(known.values()), set[int]()
        for recorded_s, recorded_source in recorded:
            steps = (recorded_s - submit_s) / STEP_S
            if 0 <= steps < 1 / STEP_S and steps == int(steps):
                if recorded_source == source:
                    own.add(int(steps))
                elif recorded_source in self._schedulers:  # a source that has got another name reads the same jobs
                    taken.add(int(steps))
        free = own - set(known.values())
        return min(free) if free else next(step for step in count() if step not in taken)

    def _forget(self) -> None:
        listed = {key for jobs in self._listed.values() for key in jobs}
        if len(self._steps) > len(listed) + MOST_UNLISTED:
            self._steps = {key: steps for key, steps in self._steps.items() if key in listed}


def _federated(job: Job) -> bool:
    number = (job.array or job.job_id.partition("+")[0])[:12]
    return number.isascii() and number.isdecimal() and int(number) >= FEDERATED
