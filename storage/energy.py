"""Records what was measured of GPUs: rollups in windows, learned idle floors."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Row, select

from . import schema, windows
from .database import upsert
from .packed import starts_within
from .records import GpuRollup, IdleFloor
from .values import chunks, number, words
from .windows import GpuKey


def store_rollups(connection: Connection, rollups: Sequence[GpuRollup], gpus: dict[GpuKey, int]) -> None:
    """Record rollups; one that is given again for the same window replaces the first.

    ``gpus`` remembers the numbers of GPUs that are known already.
    """
    _learn_gpus(connection, {(words(rollup.uuid), words(rollup.node), rollup.index) for rollup in rollups}, gpus)
    windows.store_rollups(connection, rollups, gpus)


def load_rollups(connection: Connection, since_s: float, until_s: float, node: str | None) -> tuple[GpuRollup, ...]:
    """Return the rollups of windows that start in [since, until), of all nodes or one."""
    names, (old, new) = windows.names_of(connection, node), (schema.rollups, schema.gpu_windows)
    rollups = [_rollup_of(row, names[row.board]) for row in connection.execute(
        select(old).where(starts_within(old, since_s, until_s)).order_by(old.c.start_s, old.c.board))
        if row.board in names]
    for window in windows.gpu_windows(connection, starts_within(new, since_s, until_s)):
        rollups += windows.rollups_of(window, names)
    return tuple(sorted(rollups, key=lambda rollup: rollup.start_s))


def _rollup_of(row: Row[object], gpu: GpuKey) -> GpuRollup:
    uuid, node, index = gpu
    return GpuRollup(
        start_s=row.start_s, seconds=row.seconds, node=node, uuid=uuid, index=index,
        measured_seconds=row.measured_ms / 1000, allocated_seconds=row.allocated_ms / 1000,
        energy_joules=None if row.energy_mj is None else row.energy_mj / 1000, activity_mean=row.activity_mean,
        activity_max=row.activity_max, power_mean_watts=row.power_mean_watts, power_max_watts=row.power_max_watts)


def store_floors(connection: Connection, floors: Mapping[tuple[str, str], IdleFloor]) -> None:
    """Record idle floors by (UUID or model, ``bare`` or ``context``)."""
    rows = [{"board": words(gpu), "kind": kind, "watts": watts, "source": floor.source, "samples": floor.samples,
             "updated_s": number(floor.updated_s)} for (gpu, kind), floor in floors.items()
            if (watts := number(floor.watts)) is not None]
    upsert(connection, schema.floors, rows, update=("watts", "source", "samples", "updated_s"))


def load_floors(connection: Connection) -> dict[tuple[str, str], IdleFloor]:
    """Return all floors as they were stored."""
    return {(row.board, row.kind): IdleFloor(row.watts, row.source, row.samples, row.updated_s)
            for row in connection.execute(select(schema.floors))}


def _learn_gpus(connection: Connection, gpus: set[GpuKey], known: dict[GpuKey, int]) -> None:
    new = sorted(gpus - known.keys())
    upsert(connection, schema.boards, [dict(zip(("uuid", "node", "index"), gpu, strict=True)) for gpu in new])
    for some in chunks({uuid for uuid, _, _ in new}):
        known.update(_numbers(connection, some))


def _numbers(connection: Connection, uuids: Sequence[str]) -> dict[GpuKey, int]:
    rows = connection.execute(select(schema.boards).where(schema.boards.c.uuid.in_(uuids)))
    # Each word once, as pages tell them: eight GPUs have one node.
    return {(sys.intern(uuid), sys.intern(node), index): number for number, uuid, node, index in rows}
