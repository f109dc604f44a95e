"""Counts how long jobs really waited: each job once, at its first start, in buckets by partition, account and size."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ..exporters.metrics.declared import BUCKETS_S, Distribution
from ..storage.errors import StoreError
from ..storage.finished import Finished
from ..storage.reading import HistoryReader
from ..storage.records import Job

MOST_ACCOUNTS = 40
"""Accounts with a label of their own, the first to come: a counter must not move from one label to another."""
OTHER = "(other)"
REMEMBERED_S = 8 * 86400.0
"""How long a start is known again: longer than accounting is read back."""
SIZES = ((0, "0"), (1, "1"), (4, "2-4"), (8, "5-8"), (32, "9-32"))
LARGEST = "33+"

WINDOWS = {"1d": 86400.0, "7d": 7 * 86400.0}
"""The windows over which it is shown how jobs fared."""

log = logging.getLogger(__name__)
Labels = tuple[str, str, str]


def fared(history: HistoryReader, now_s: float) -> Mapping[str, tuple[Finished, ...]]:
    """Return how the jobs of the last day and week fared; nothing, and nothing old, when the history is not there."""
    try:
        return {name: history.finished(now_s - length_s, now_s) for name, length_s in WINDOWS.items()}
    except StoreError as error:
        log.error("how jobs fared is not known", extra={"error": str(error)})
        return {}


@dataclass(slots=True)
class _Waits:
    """Waits under one set of labels."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total: float = 0.0


class _Counted:
    """Which jobs were counted, in 16 bytes each: in eight days a large site starts a quarter of a million.

    Of a job only the hash of its key is kept: that two among a million have the same is less likely than one in 10^7.
    """

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.int64)
        """In order."""
        self._starts_s = np.zeros(0)

    def first_seen(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that were not counted before, each once, and remember them as long as ``REMEMBERED_S``."""
        by_hash: dict[int, Job] = {}
        for job in jobs:
            by_hash.setdefault(hash(job.key), job)
        hashes = np.fromiter(by_hash, np.int64, len(by_hash))
        fresh = hashes[~self._has(hashes)]
        new = [by_hash[hash_] for hash_ in fresh.tolist()]
        if new:
            self._add(fresh, np.array([job.start_s for job in new], np.float64))
        return new

    def _has(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if not self._hashes.size:
            return np.zeros(hashes.size, np.bool_)
        places = np.searchsorted(self._hashes, hashes).clip(max=self._hashes.size - 1)
        present: npt.NDArray[np.bool_] = self._hashes[places] == hashes
        return present

    def _add(self, hashes: npt.NDArray[np.int64], starts_s: npt.NDArray[np.float64]) -> None:
        hashes, starts_s = np.append(self._hashes, hashes), np.append(self._starts_s, starts_s)
        recent = np.flatnonzero(starts_s > starts_s.max() - REMEMBERED_S)
        recent = recent[np.argsort(hashes[recent])]
        self._hashes, self._starts_s = hashes[recent], starts_s[recent]


class WaitHistogram:
    """Waits of the jobs that started since this began."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._waits: dict[Labels, _Waits] = {}
        self._accounts: set[str] = set()
        self._counted, self._turn = _Counted(), threading.Lock()
        self._published: Mapping[tuple[str, ...], Distribution] = {}

    def noted(self, jobs: Iterable[Job]) -> Mapping[tuple[str, ...], Distribution]:
        """Count the jobs that have started, each once, and return all waits by partition, account and size.

        Since when a job waited that was put back is not known of every scheduler, so later runs are left out.
        """
        begun = [job for job in jobs if job.start_s is not None and job.start_s >= self._began_s and not job.restarts]
        with self._turn:  # schedulers and accounting are read by two cycles
            new = self._counted.first_seen(begun)
            for job in new:
                assert job.start_s is not None
                self._count(job, max(0.0, job.start_s - max(job.submit_s, job.eligible_s or job.submit_s)))
            if new:
                self._published = {labels: Distribution(tuple(accumulate(waits.counts)), waits.total)
                                   for labels, waits in self._waits.items()}
            return self._published

    def _count(self, job: Job, wait_s: float) -> None:
        waits = self._waits.setdefault(self._labels(job), _Waits())
        waits.counts[bisect_left(BUCKETS_S, wait_s)] += 1
        waits.total += wait_s

    def _labels(self, job: Job) -> Labels:
        if job.account not in self._accounts and len(self._accounts) < MOST_ACCOUNTS:
            self._accounts.add(job.account)
        account = job.account if job.account in self._accounts else OTHER
        size = next((name for most, name in SIZES if job.request.gpus <= most), LARGEST)
        return job.partition.split(",")[0], account, size
