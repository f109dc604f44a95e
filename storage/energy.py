"""Records energy: rollups per GPU, waste per class, learned idle floors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Row, Table, select

from . import schema, waste_windows, windows
from .database import upsert
from .power_classes import PowerClass
from .records import GpuRollup, IdleFloor, WasteReading
from .values import chunks, number, thousandths, words
from .windows import GpuKey


def store_rollups(connection: Connection, rollups: Sequence[GpuRollup], gpus: dict[GpuKey, int]) -> None:
    """Record rollups; one that is given again for the same window replaces the first.

    ``gpus`` remembers the numbers of GPUs that are known already.
    """
    _learn_gpus(connection, {(words(one.uuid), words(one.node), one.index) for one in rollups}, gpus)
    windows.store_rollups(connection, rollups, gpus)


def load_rollups(connection: Connection, since_s: float, until_s: float, node: str | None) -> tuple[GpuRollup, ...]:
    """Return the rollups of windows that start in [since, until), of all nodes or one."""
    names, (old, new) = windows.names_of(connection, node), (schema.rollups, schema.gpu_windows)
    found = [_rollup_of(row, names[row.board]) for row in connection.execute(
        select(old).where(_starts_within(old, since_s, until_s)).order_by(old.c.start_s, old.c.board))
        if row.board in names]
    for window in windows.gpu_windows(connection, _starts_within(new, since_s, until_s)):
        found += windows.rollups_of(window, names)
    return tuple(sorted(found, key=lambda rollup: rollup.start_s))


def _starts_within(table: Table, since_s: float, until_s: float) -> ColumnElement[bool]:
    return (table.c.start_s >= since_s) & (table.c.start_s < until_s)


def store_waste(connection: Connection, readings: Iterable[WasteReading]) -> None:
    """Record the energy of classes; one that is given again for the same window replaces the first."""
    some = list(readings)
    waste_windows.store_waste(connection, (reading for reading in some if reading.node))
    rows = [{"start_s": reading.start_s, "seconds": reading.seconds, "partition": words(reading.partition),
             "node": words(reading.node), "power_class": reading.power_class.value,
             "energy_mj": energy} for reading in some
            if not reading.node and (energy := thousandths(reading.energy_joules)) is not None]
    upsert(connection, schema.waste, rows, update=("energy_mj",))


def load_waste(connection: Connection, since_s: float, until_s: float, *, per_node: bool) -> tuple[WasteReading, ...]:
    """Return the energy by class of windows that start in [since, until): of partitions, or of their nodes."""
    table, packed = schema.waste, schema.waste_windows
    found = [_waste_of(row) for row in connection.execute(select(table).where(
        _starts_within(table, since_s, until_s), (table.c.node != "") == per_node).order_by(table.c.start_s))]
    if not per_node:
        return tuple(found)
    for window, energies in waste_windows.waste_windows(connection, _starts_within(packed, since_s, until_s)):
        found += waste_windows.readings_of(window, energies)
    return tuple(sorted(found, key=lambda reading: reading.start_s))


def _waste_of(row: Row[object]) -> WasteReading:
    return WasteReading(row.start_s, row.seconds, row.partition, PowerClass(row.power_class), row.energy_mj / 1000,
                        row.node)


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
    found = connection.execute(select(schema.boards).where(schema.boards.c.uuid.in_(uuids)))
    return {(uuid, node, index): number for number, uuid, node, index in found}
