"""Records the node inventory: one row whenever something of a node changes, allocations apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, func, select

from . import schema
from .database import upsert
from .records import Node, NodeState
from .values import TableRow, whole, words

_TABLE = schema.node_changes


def facts(node: Node) -> dict[str, object]:
    """Return what is kept of a node."""
    return {"name": words(node.name), "state": node.state.value, "partitions": list(map(words, node.partitions)),
            "gpus": whole(node.gpus), "gpu_model": words(node.gpu_model), "cpus": whole(node.cpus),
            "memory_bytes": whole(node.memory_bytes), "features": list(map(words, node.features)),
            "reservation": words(node.reservation), "reason": words(node.reason), "leaf": words(node.leaf),
            "spine": words(node.spine), "above": list(map(words, node.above)), "domain": words(node.domain),
            "present": True}


def store(connection: Connection, nodes: Sequence[Node], time_s: float, *, whole: bool = True) -> None:
    """Record what changed against the newest that is known; an older snapshot changes nothing.

    Nodes that are not among them are gone if these are the ``whole`` inventory.
    """
    if not nodes:
        return  # the source could not say, which does not mean that all servers were carried out
    known = {row.name: row for row in latest(connection)}
    now = {words(node.name): facts(node) for node in nodes}
    gone = {name: _facts_of(row) | {"present": False} for name, row in known.items()
            if whole and name not in now and row.present}
    rows = [{**new, "time_s": time_s} for name, new in (now | gone).items() if _differs(known.get(name), new, time_s)]
    upsert(connection, _TABLE, rows)


def latest(connection: Connection, at_s: float | None = None) -> Sequence[TableRow]:
    """Return the newest row of every node, as of ``at_s``."""
    newest = select(_TABLE.c.name, func.max(_TABLE.c.time_s).label("time_s")).group_by(_TABLE.c.name)
    if at_s is not None:
        newest = newest.where(_TABLE.c.time_s <= at_s)
    times = newest.subquery()
    return connection.execute(select(_TABLE).join(
        times, and_(times.c.name == _TABLE.c.name, times.c.time_s == _TABLE.c.time_s)).order_by(_TABLE.c.name)).all()


def node_of(row: TableRow) -> Node:
    """Return the node that a row describes."""
    return Node(name=row.name, partitions=tuple(row.partitions), gpus=row.gpus, gpu_model=row.gpu_model, cpus=row.cpus,
                memory_bytes=row.memory_bytes, state=NodeState(row.state), features=tuple(row.features),
                reservation=row.reservation, reason=row.reason, leaf=row.leaf, spine=row.spine,
                above=tuple(row.above), domain=row.domain)


def _facts_of(row: TableRow) -> dict[str, object]:
    return {name: value for name, value in row._mapping.items() if name not in ("id", "time_s")}


def _differs(known: TableRow | None, new: Mapping[str, object], time_s: float) -> bool:
    return known is None or (known.time_s < time_s and _facts_of(known) != new)
