"""Reads who was charged for how many CPUs and when: what fair-share of a scheduler rests on."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from . import schema


class Charge(NamedTuple):
    """One run of a job."""

    account: str
    user: str
    qos: str
    cpus: int
    start_s: float
    end_s: float | None
    """None while it runs, or when nobody knows."""


def charges(connection: Connection, since_s: float, until_s: float) -> list[Charge]:
    """Return the runs that overlap [since, until), each with the CPUs that it held; one that told none has none."""
    jobs, runs, parts = schema.jobs.c, schema.runs.c, schema.allocations
    cpus = select(func.sum(parts.c.cpus)).where(parts.c.run == runs.id).scalar_subquery()
    query = select(jobs.account, jobs.user, jobs.qos, func.coalesce(cpus, 0), runs.start_s, runs.end_s).join_from(
        schema.runs, schema.jobs, runs.job == jobs.id).where(
        runs.start_s < until_s, or_(runs.end_s > since_s, runs.end_s.is_(None)))
    return [Charge(account, user, qos, int(held), start_s, end_s)
            for account, user, qos, held, start_s, end_s in connection.execute(query)]
