"""End times of jobs that lie in the future: the clock that set them was ahead, and the job may not have ended."""

from __future__ import annotations

from dataclasses import replace

from ...storage.records import Job
from .parse_json import Parsed
from .parse_text import print_time

CLOCKS_APART_S = 300.0
"""How far the clocks of a cluster may be apart: munge takes no credential that is older."""


def without_ends_to_come(accounted: Parsed[Job], now_s: float) -> Parsed[Job]:
    """Return the runs of accounting without those that end later than now, which are skipped until then."""
    runs = tuple(run for run in accounted.records if not _to_come(run, now_s))
    skipped = tuple(f"{run.job_id}: it ended at {print_time(run.end_s)}, which is later than now: a clock is wrong"
                    for run in accounted.records if _to_come(run, now_s) and run.end_s is not None)
    return Parsed(runs, accounted.skipped + skipped)


def ended_by(job: Job, now_s: float) -> Job:
    """Return a finished job, with now as its end where the controller gives a later one.

    It has no end then if it has not started by now.
    """
    if not _to_come(job, now_s):
        return job
    return replace(job, end_s=now_s if job.start_s is not None and job.start_s <= now_s else None)


def _to_come(job: Job, now_s: float) -> bool:
    return job.end_s is not None and job.end_s > now_s + CLOCKS_APART_S
