"""What waits to be written to the database: on disk, and in memory where the disk takes nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from . import batches
from .batches import Batch
from .recommendations import Recommendation
from .spool import Spool

log = logging.getLogger(__name__)

MEMORY_ITEMS = 500_000
"""Facts kept in memory while neither database nor disk take them: some hours of a large cluster."""
REPEAT_S = 600.0
"""Advice that does not change waits no more often than this: every half minute it would fill any disk."""


class Backlog:
    """A queue of batches, oldest first; what is on disk is older than what is in memory."""

    def __init__(self, spool: Spool | None) -> None:
        self._spool = spool
        self._memory: deque[Batch] = deque()
        self._last_recorded: dict[tuple[str, float, str], tuple[object, float]] = {}
        self._faulty = False
        if spool is not None:
            self._recover(spool)

    @property
    def items(self) -> int:
        """Return how many facts wait."""
        return sum(batch.items for batch in self._memory) + (self._spool.items if self._spool else 0)

    @property
    def bytes(self) -> int:
        """Return how much of the disk they take."""
        return self._spool.bytes if self._spool else 0

    @property
    def in_memory(self) -> int:
        """Return how many facts would be lost with the process."""
        return sum(batch.items for batch in self._memory)

    @property
    def damaged(self) -> int:
        """Return how many batches on disk could not be read back; of a file that cannot be read, how many facts."""
        return self._spool.damaged if self._spool else 0

    def add(self, batch: Batch) -> int:
        """Keep a batch and return how many facts had to be given up for the bound: the newest on disk, else the oldest.

        What the disk kept first stays: its windows have no other witness, while a later snapshot tells the jobs again.
        """
        if batch.kind == "recommendations":
            batch = self._without_repeats(batch)
        if not batch.items:
            return 0
        self._memory.append(batch)
        return self._settle()

    def first(self) -> Batch | None:
        """Return the oldest batch; None when nothing waits."""
        waiting = None
        try:
            waiting = self._spool.first() if self._spool else None
        except OSError as error:
            self._complain(error)
        return waiting or (self._memory[0] if self._memory else None)

    def done(self) -> None:
        """Let go of the oldest batch."""
        if self._spool is not None and self._spool.peeked:
            self._let_go(self._spool)
        else:
            self._memory.popleft()
        if not self.items:
            self._last_recorded.clear()

    def close(self) -> None:
        """Leave what is on disk to the next process."""
        if self._spool is not None:
            self._spool.close()

    def _let_go(self, spool: Spool) -> None:
        try:
            spool.done()
        except OSError as error:
            self._complain(error)

    def _settle(self) -> int:
        """Bring to the disk what it takes."""
        lost = 0
        while self._memory and self._spool is not None:
            batch = self._memory[0]
            try:
                spooled = self._spool.append(batches.encode(batch), batch.items)
            except OSError as error:
                self._complain(error)
                break
            self._faulty = False
            lost += 0 if spooled else batch.items
            self._memory.popleft()
        while self.in_memory > MEMORY_ITEMS and len(self._memory) > 1:
            lost += self._memory.popleft().items
        return lost

    def _recover(self, spool: Spool) -> None:
        try:
            spool.recover()
        except OSError as error:
            self._complain(error)
        if spool.items:
            log.warning("facts that an earlier run could not write wait on disk and are written now", extra={
                "facts": spool.items, "target": str(spool.folder)})

    def _complain(self, error: OSError) -> None:
        if not self._faulty:
            assert self._spool is not None
            log.error("the backlog on disk cannot be used; facts stay in memory, and a restart would lose them", extra={
                "target": str(self._spool.folder), "error": error.strerror or str(error)})
        self._faulty = True

    def _without_repeats(self, batch: Batch) -> Batch:
        news = tuple(self._news(batch.facts))
        return replace(batch, facts=news, items=len(news))

    def _news(self, items: Iterable[Recommendation]) -> Iterable[Recommendation]:
        for item in items:
            key = item.job_id, item.submit_s, item.policy
            content = item.action, item.placement, item.shadow, item.reason
            before = self._last_recorded.get(key)
            if before is None or before[0] != content or item.issued_s >= before[1] + REPEAT_S:
                self._last_recorded[key] = content, item.issued_s
                yield item
