"""How the jobs of the last day and week fared: means by partition and flavour, as the database adds them up."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Double, case, cast, func, select

from . import schema

SHORT_S = 10.0
"""Bound of the bounded slowdown: shorter jobs count as this long (Feitelson & Rudolph 1998)."""
MOST_GROUPS = 500


@dataclass(frozen=True, slots=True)
class Finished:
    """Jobs that ran and ended within some time; means over them, in seconds."""

    partition: str
    flavour: str
    jobs: int
    wait_mean_s: float
    """From when they could start until they first did, as far as their last start tells."""
    run_mean_s: float
    completion_mean_s: float
    """From when they could start to the end."""
    slowdown_mean: float
    """Bounded slowdown: completion over run time, both of at least 10 s; 1 is no wait."""
    makespan_s: float
    """From the first of their submissions within that time to the last end."""


def since(connection: Connection, since_s: float, until_s: float) -> tuple[Finished, ...]:
    """Return how jobs fared that ended in [since, until), those with most jobs first; requeued ones are left out."""
    job = schema.jobs.c
    ready = case((job.eligible_s > job.submit_s, job.eligible_s), else_=job.submit_s)
    wait = case((job.start_s > ready, job.start_s - ready), else_=0.0)
    run = job.end_s - job.start_s
    long = case((run > SHORT_S, run), else_=SHORT_S)
    slowdown = case((wait + run > long, (wait + run) / long), else_=1.0)
    # Of what was submitted before, nobody knows here when its like began.
    first = func.min(case((job.submit_s > since_s, job.submit_s), else_=since_s))
    flavour = func.coalesce(job.flavour, "")
    query = select(job.partition, flavour.label("flavour"), func.count().label("jobs"),
                   *(cast(func.avg(column), Double).label(name) for name, column in (
                       ("wait", wait), ("run", run), ("completion", wait + run), ("slowdown", slowdown))),
                   (func.max(job.end_s) - first).label("makespan")).where(
        job.end_s >= since_s, job.end_s < until_s, job.start_s.is_not(None), job.end_s >= job.start_s,
        job.restarts == 0).group_by(job.partition, flavour).order_by(func.count().desc(), job.partition).limit(
        MOST_GROUPS)
    return tuple(Finished(row.partition, row.flavour, row.jobs, row.wait, row.run, row.completion, row.slowdown,
                          row.makespan) for row in connection.execute(query))
