"""Reads which users and accounts held what and when: what fair-share of a scheduler rests on."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, Subquery, and_, case, func, or_, select

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
    """That the job requested, else that of all its nodes in lower case; '' where they have several or none is known."""
    memory_bytes: int = 0


def charges(connection: Connection, since_s: float, until_s: float) -> list[Charge]:
    """Return the runs that overlap [since, until), each with what it held; one without a report has none.

    A run that gave nodes back has a charge for what it held until then, and one for the rest.
    """
    jobs, runs, parts = schema.jobs.c, schema.runs.c, schema.allocations.c
    of_node = _models()
    known = func.count(of_node.c.model) == func.sum(case((parts.gpus > 0, 1), else_=0))
    alike = and_(known, func.min(of_node.c.model) == func.max(of_node.c.model))
    sums = (func.coalesce(func.sum(column), 0) for column in (parts.cpus, parts.gpus, parts.memory_bytes))
    models = jobs.request["gpu_model"].as_string(), case((alike, func.min(of_node.c.model)))
    query = select(jobs.account, jobs.user, jobs.qos, runs.start_s, releases.UNTIL_S, jobs.partition, *models,
                   func.count(parts.run), *sums).join_from(
        schema.runs, schema.jobs, runs.job == jobs.id).outerjoin(schema.allocations, parts.run == runs.id).outerjoin(
        of_node, and_(of_node.c.name == parts.node, parts.gpus > 0)).where(
        runs.start_s < until_s, or_(since_s < releases.UNTIL_S, releases.UNTIL_S.is_(None))).group_by(
        runs.id, jobs.id, parts.until_s)
    return [Charge(account, user, qos, int(cpus), start_s, end_s, partition, nodes, int(gpus), asked or held or "",
                   int(memory))
            for account, user, qos, start_s, end_s, partition, asked, held, nodes, cpus, gpus, memory
            in connection.execute(query)]


def _models() -> Subquery:
    """Return the model of each node that has only ever had one, in lower case: all ways to write one are one."""
    nodes = schema.node_changes.c
    model = func.lower(nodes.gpu_model)
    return select(nodes.name, func.min(model).label("model")).where(nodes.gpu_model != "").group_by(
        nodes.name).having(func.min(model) == func.max(model)).subquery()
