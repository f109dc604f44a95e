"""Works out wait estimates beside the caller's thread: one may take seconds, and a page may not."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import TypeVar

from ...exporters.deadline import Errand
from ...storage.records import JobState, SchedulerSnapshot
from .job_wait_estimate import JobWaitEstimate, JobWaitEstimates

KEPT_S = 60.0
"""How long wait estimates of one snapshot are shown: for long waits newer ones say no more, and each costs seconds."""
MOST_AT_ONCE = 16
"""Jobs whose wait estimates are worked out or waited for at a time."""


Result = TypeVar("Result")


class NotYet(Exception):
    """A wait estimate is being worked out and not there yet: ask again."""


class JobWaitWorker:
    """Answers at once from what is worked out, and works the rest out in a thread of its own."""

    def __init__(self) -> None:
        self._lock, self._waiting = threading.Lock(), deque[Callable[[], None]]()
        # Not a pool's thread: the process would wait for it at its end, and a wait estimate takes seconds.
        self._errand = Errand("wait-estimate", self._work, self._go_on)
        self._terms: Hashable = None
        self._made_s = 0.0
        self._listed: frozenset[str] = frozenset()
        self._estimates: Future[JobWaitEstimates] = Future()
        self._futures: dict[str, Future[tuple[JobWaitEstimate, ...]]] = {}

    def ask(self, job_id: str, snapshot: SchedulerSnapshot, terms: Hashable, make: Callable[[], JobWaitEstimates],
            within_s: float | None = None) -> tuple[JobWaitEstimate, ...]:
        """Return the wait estimates of a job, () of one that does not wait; NotYet when it takes over ``within_s``.

        Where several clusters have a waiting job of that id, there is an estimate for each.
        ``make`` prepares wait estimates of the snapshot by the ``terms``; those of one of the last minute do as well,
        as long as terms are the same and the job was listed there.
        """
        waiting = frozenset(name for job in snapshot.jobs if job.state is JobState.PENDING
                            for name in (job.job_id, job.array) if name)
        if job_id not in waiting:
            return ()
        with self._lock:
            if not self._serves(job_id, snapshot.time_s, terms):
                self._terms, self._made_s, self._listed = terms, snapshot.time_s, waiting
                self._estimates, self._futures = self._later(make), {}
            future = self._futures.get(job_id) or self._begin(job_id)
        try:
            return future.result(within_s)
        except TimeoutError:
            raise NotYet(job_id) from None

    def close(self) -> None:
        """Begin nothing more; what is being worked out goes on without being awaited."""
        self._waiting.clear()

    def _later(self, work: Callable[[], Result]) -> Future[Result]:
        """Have something worked out after what waits already."""
        future: Future[Result] = Future()

        def settle() -> None:
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - the caller that asks for the result gets it
                future.set_exception(error)

        self._waiting.append(settle)
        self._errand.begin()
        return future

    def _work(self) -> None:
        with contextlib.suppress(IndexError):  # of the empty queue: what work raises is kept for its caller
            while True:
                self._waiting.popleft()()

    def _go_on(self) -> None:
        """Begin again where something came just as the last run ended."""
        if self._waiting:
            self._errand.begin()

    def _serves(self, job_id: str, time_s: float, terms: Hashable) -> bool:
        if terms != self._terms or job_id not in self._listed:
            return False
        failed = self._estimates.done() and self._estimates.exception() is not None
        return not failed and 0.0 <= time_s - self._made_s < KEPT_S

    def _begin(self, job_id: str) -> Future[tuple[JobWaitEstimate, ...]]:
        if sum(not future.done() for future in self._futures.values()) >= MOST_AT_ONCE:
            raise NotYet(job_id)
        estimates = self._estimates
        self._futures[job_id] = self._later(lambda: estimates.result().of(job_id))
        return self._futures[job_id]
