"""Tells jobs of one id apart: two clusters number alike, and one scheduler reuses an id."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...storage.energy_queries import RunFilter
from ...storage.records import Job

EVERY = RunFilter()
"""Names no user, account or partition."""


def holds(job: Job, wanted: RunFilter) -> bool:
    """Tell whether a job is of the user, account and partition that are named; '' names none."""
    return (wanted.user in ("", job.user) and wanted.account in ("", job.account)
            and (not wanted.partition or wanted.partition in job.partition.split(",")))


def of_several_clusters(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return of jobs of one id, the last submission first, that one and those that other clusters have.

    Where two sources are recorded, they tell. Where they are not, one scheduler never has two jobs of one id at the
    same time, and one that takes the id again later puts it where it was: a job of another partition, or of the same
    time, is another cluster's.
    """
    others: list[Job] = []
    for job in jobs:
        if all(_of_two_clusters(other, job) for other in others):
            others.append(job)
    return tuple(others)


def _of_two_clusters(later: Job, earlier: Job) -> bool:
    if later.source and earlier.source:
        return later.source != earlier.source
    return later.partition != earlier.partition or _at_one_time(later, earlier)


def _at_one_time(later: Job, earlier: Job) -> bool:
    return later.submit_s < _end_s(earlier) and earlier.submit_s < _end_s(later)


def _end_s(job: Job) -> float:
    """Return until when a job has its id: for ever while no end is seen."""
    if job.end_s is not None:
        return job.end_s
    return (job.start_s or job.submit_s) if job.state.finished else math.inf
