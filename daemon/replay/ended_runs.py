"""Jobs that have ended, beside those of a live state: a replay still has them among its rows, a live one has not.

Orders that predict from similar jobs use the runs that were submitted next to a job. A site has a record of every job
that ended, and none of the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from ...storage.columns import JobColumns
from ...storage.records import Job, JobState
from .arrays import Floats
from .workload import natural, waits_from

REACH = 200
"""Jobs that are looked at on either side of one that waits."""
NEXT, GPUS, USER, RUN, FACTS = range(5)
"""Columns: the row that comes next in order, the GPUs requested, the user, the logarithm of the run time."""


def none() -> Floats:
    """Return an empty table: no job has ended, or ended jobs still have rows."""
    return np.zeros((0, FACTS))


def beside(past: JobColumns, jobs: Sequence[Job], users: Mapping[str, int]) -> Floats:
    """Return [ended job, fact] of jobs next to those that wait, in order of their waiting; users by code."""
    since_s = np.fmax(past.submit_s, past.eligible_s)
    first_s = min((waits_from(job) for job in jobs if job.state is JobState.PENDING), default=np.inf)
    ran, here = past.end_s >= past.start_s, {job.key for job in jobs}
    earlier = np.sort(since_s[ran & (since_s < first_s)])
    near = np.flatnonzero(ran & (since_s >= min(first_s, earlier[-REACH:].min(initial=np.inf))))
    place = {row: (since_s[row], natural(past.job_id[row])) for row in near.tolist()
             if (past.job_id[row], past.submit_s[row]) not in here}
    order = [(waits_from(job), natural(job.job_id)) for job in jobs]
    codes = [users.get(user, -1) for user in past.vocabularies["user"]]
    facts = [(bisect_left(order, place[row]), past.gpus[row], codes[past.user[row]],
              np.log(max(1.0, past.end_s[row] - past.start_s[row]))) for row in sorted(place, key=place.__getitem__)]
    return np.array(facts, np.float64).reshape(len(facts), FACTS)
