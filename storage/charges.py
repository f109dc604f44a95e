"""Reads which users and accounts held what and when: what fair-share of a scheduler rests on."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from . import releases, schema


class Charge(NamedTuple):
    """One run of a job."""

    account: str
    user: str
    qos: str
    cpus: int
    start_s: float
    end_s: float | None
    """None while it runs, or when nobody knows."""
    partition: str = ""
    nodes: int = 0
    gpus: int = 0
    gpu_model: str = ""
    """That the job requested; '' for any."""
    memory_bytes: int = 0


def charges(connection: Connection, since_s: float, until_s: float) -> list[Charge]:
    """Return the runs that overlap [since, until), each with what it held; one without a report has none.

    A run that gave nodes back has a charge for what it held until then, and one for the rest.
    """
    jobs, runs, parts = schema.jobs.c, schema.runs.c, schema.allocations.c
    sums = (func.coalesce(func.sum(column), 0) for column in (parts.cpus, parts.gpus, parts.memory_bytes))
    query = select(jobs.account, jobs.user, jobs.qos, runs.start_s, releases.UNTIL_S, jobs.partition,
                   jobs.request["gpu_model"].as_string(), func.count(parts.run), *sums).join_from(
        schema.runs, schema.jobs, runs.job == jobs.id).outerjoin(schema.allocations, parts.run == runs.id).where(
        runs.start_s < until_s, or_(since_s < releases.UNTIL_S, releases.UNTIL_S.is_(None))).group_by(
        runs.id, jobs.id, parts.until_s)
    return [Charge(account, user, qos, int(cpus), start_s, end_s, partition, nodes, int(gpus), model or "", int(memory))
            for account, user, qos, start_s, end_s, partition, model, nodes, cpus, gpus, memory
            in connection.execute(query)]
