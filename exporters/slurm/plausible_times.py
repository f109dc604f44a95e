"""Times of jobs by Slurm's own clock: a time that no clock can have shown costs its record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ...storage.records import Job
from ...storage.time_bounds import EARLIEST_S, believable
from .fields import BadRecord


def with_plausible_times(job: Job) -> Job:
    """Return a job whose times can be believed; when it may begin is the user's word, and not known where absurd.

    Raises:
        BadRecord: no clock can have shown when it was submitted, started or ended.
    """
    for happened, time_s in (("submitted", job.submit_s), ("started", job.start_s), ("ended", job.end_s)):
        if time_s is not None and not believable(time_s):
            raise BadRecord(f"it was {happened} in the year {datetime.fromtimestamp(time_s, UTC).year}, "
                            "and only times from 2000 to 2100 are believed")
    return replace(job, eligible_s=None) if job.eligible_s is not None and job.eligible_s < EARLIEST_S else job
