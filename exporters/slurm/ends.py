"""Ends of jobs that are still to come: a clock was ahead as they were told, and nothing has ended then."""

from __future__ import annotations

from dataclasses import replace

from ...storage.records import Job
from .parse_json import Parsed
from .parse_text import print_time

CLOCKS_APART_S = 300.0
"""How far the clocks of a cluster may be apart: munge takes no credential that is older."""


def without_ends_to_come(told: Parsed[Job], now_s: float) -> Parsed[Job]:
    """Return what the accounts told without runs that end later than now, which are skipped until then."""
    runs = tuple(run for run in told.records if not _to_come(run, now_s))
    skipped = tuple(f"{run.job_id}: it ended at {print_time(run.end_s)}, which is later than now: a clock is wrong"
                    for run in told.records if _to_come(run, now_s) and run.end_s is not None)
    return Parsed(runs, told.skipped + skipped)


def ended_by(job: Job, now_s: float) -> Job:
    """Return a job that the controller shows as over with an end that has been, where it tells one that is to come."""
    if not _to_come(job, now_s):
        return job
    return replace(job, end_s=now_s if job.start_s is not None and job.start_s <= now_s else None)


def _to_come(job: Job, now_s: float) -> bool:
    return job.end_s is not None and job.end_s > now_s + CLOCKS_APART_S
