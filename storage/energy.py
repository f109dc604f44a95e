"""Records energy: rollups per board, waste per class, learned idle floors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from . import schema
from .database import upsert
from .power_classes import PowerClass
from .records import GpuRollup, IdleFloor, WasteReading
from .values import chunks, number, thousandths, words

Board = tuple[str, str, int]


def store_rollups(connection: Connection, rollups: Iterable[GpuRollup], boards: dict[Board, int]) -> None:
    """Record rollups; one that is given again for the same window replaces the first.

    ``boards`` remembers the numbers of boards that are known already.
    """
    rows = [(rollup, (words(rollup.uuid), words(rollup.node), rollup.index)) for rollup in rollups]
    _learn_boards(connection, {board for _, board in rows}, boards)
    upsert(connection, schema.rollups, [_rollup_row(rollup, boards[board]) for rollup, board in rows],
           update=("measured_ms", "allocated_ms", "energy_mj", "activity_mean", "activity_max", "power_mean_watts",
                   "power_max_watts"))


def store_waste(connection: Connection, readings: Iterable[WasteReading]) -> None:
    """Record the energy of classes; one that is given again for the same window replaces the first."""
    rows = [{"start_s": reading.start_s, "seconds": reading.seconds, "partition": words(reading.partition),
             "node": words(reading.node), "power_class": reading.power_class.value,
             "energy_mj": energy} for reading in readings
            if (energy := thousandths(reading.energy_joules)) is not None]
    upsert(connection, schema.waste, rows, update=("energy_mj",))


def waste_of(row: Row[Any]) -> WasteReading:
    """Return the reading that a row holds."""
    return WasteReading(row.start_s, row.seconds, row.partition, PowerClass(row.power_class), row.energy_mj / 1000,
                        row.node)


def rollup_query() -> Select[Any]:
    """Return the query for rollups with their boards."""
    boards = schema.boards
    return select(schema.rollups, boards.c.uuid, boards.c.node, boards.c.index).join(
        boards, boards.c.id == schema.rollups.c.board)


def rollup_of(row: Row[Any]) -> GpuRollup:
    """Return the rollup that a row holds."""
    found = row._mapping
    return GpuRollup(
        start_s=row.start_s, seconds=row.seconds, node=row.node, uuid=row.uuid, index=found["index"],
        measured_seconds=row.measured_ms / 1000, allocated_seconds=row.allocated_ms / 1000,
        energy_joules=None if row.energy_mj is None else row.energy_mj / 1000, activity_mean=row.activity_mean,
        activity_max=row.activity_max, power_mean_watts=row.power_mean_watts, power_max_watts=row.power_max_watts)


def store_floors(connection: Connection, floors: Mapping[tuple[str, str], IdleFloor]) -> None:
    """Record idle floors by (UUID or model, ``bare`` or ``context``)."""
    rows = [{"board": words(board), "kind": kind, "watts": watts, "source": floor.source, "samples": floor.samples,
             "updated_s": number(floor.updated_s)} for (board, kind), floor in floors.items()
            if (watts := number(floor.watts)) is not None]
    upsert(connection, schema.floors, rows, update=("watts", "source", "samples", "updated_s"))


def load_floors(connection: Connection) -> dict[tuple[str, str], IdleFloor]:
    """Return all floors as they were stored."""
    return {(row.board, row.kind): IdleFloor(row.watts, row.source, row.samples, row.updated_s)
            for row in connection.execute(select(schema.floors))}


def _rollup_row(rollup: GpuRollup, board: int) -> dict[str, Any]:
    return {"start_s": rollup.start_s, "seconds": rollup.seconds, "board": board,
            "measured_ms": thousandths(rollup.measured_seconds) or 0,
            "allocated_ms": thousandths(rollup.allocated_seconds) or 0,
            "energy_mj": thousandths(rollup.energy_joules), "activity_mean": number(rollup.activity_mean),
            "activity_max": number(rollup.activity_max), "power_mean_watts": number(rollup.power_mean_watts),
            "power_max_watts": number(rollup.power_max_watts)}


def _learn_boards(connection: Connection, boards: set[Board], known: dict[Board, int]) -> None:
    new = sorted(boards - known.keys())
    upsert(connection, schema.boards, [dict(zip(("uuid", "node", "index"), board, strict=True)) for board in new])
    for some in chunks({uuid for uuid, _, _ in new}):
        known.update(_numbers(connection, some))


def _numbers(connection: Connection, uuids: Sequence[str]) -> dict[Board, int]:
    found = connection.execute(select(schema.boards).where(schema.boards.c.uuid.in_(uuids)))
    return {(uuid, node, index): number for number, uuid, node, index in found}
