"""What the accounts tell of runs that nobody watched: their mean use of CPUs, and what follows from a mean.

Of a quantity that is never negative no more than a twentieth of the time can be spent above twenty times its mean
(Markov's inequality): that bounds the 95th percentile. Of one that is never above its limit, a mean above ``starved``
times the limit tells in which share of the time at least it was above that. Memory in the accounts leaves out the page
cache, so it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....storage.records import Job
from ....storage.uses import ACCOUNTS, Use
from ...replay.runtime_prediction import template
from .usage_meter import held

SHORTEST_S = 60.0
"""A run that ended sooner did little but start."""
TIMES = 20.0


def accounted(jobs: Iterable[Job], starved: float) -> Iterator[Use]:
    """Yield the uses of runs on GPUs whose CPU time the accounts know."""
    for job in jobs:
        if job.start_s is None or job.end_s is None or job.cpu_seconds is None or not job.allocations:
            continue
        part, lasted_s = held(job), job.end_s - job.start_s
        if lasted_s < SHORTEST_S or not part.cpus or not part.gpus:
            continue
        cores = job.cpu_seconds / lasted_s
        # All of it may have been on one node, or all of them alike.
        mean, even = min(cores, part.cpus), min(cores / len(job.allocations), part.cpus)
        at_limit = max(0.0, (even / part.cpus - starved) / (1 - starved)) if starved < 1 else 0.0
        yield Use(job.job_id, job.submit_s, job.start_s, job.user, template(job.name), part.gpus, part.cpus,
                  part.memory_bytes, job.end_s, lasted_s, ACCOUNTS, mean, min(TIMES * mean, part.cpus), at_limit)
