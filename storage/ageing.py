"""Ages windows of energy: fine ones become hourly, old ones go, and what older versions wrote is packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, select

from . import schema, waste, windows
from .database import upsert
from .packed import Window

HOUR_S = 3600.0

Step = Callable[[Connection], int]
"""One small transaction; returns how many rows it removed."""


def steps(connection: Connection, fine_gpus_s: float, fine_waste_s: float) -> Iterator[Step]:
    """Yield the steps that pack what is not, and make windows before these times hourly."""
    for window in _windows(connection, schema.rollups):
        yield _packing(schema.rollups, window)
    for window in _windows(connection, schema.waste, schema.waste.c.node != ""):
        yield _packing(schema.waste, window)
    for table, fine_s in ((schema.gpu_windows, fine_gpus_s), (schema.waste_windows, fine_waste_s),
                          (schema.waste, fine_waste_s)):
        # Only whole hours, or one hour would be merged twice over.
        for hour in _hours(connection, table, fine_s // HOUR_S * HOUR_S):
            yield _merging(table, hour)


def drops(connection: Connection, table: Table, before_s: float, clock: str = "start_s") -> Iterator[Step]:
    """Yield one deletion per hour of rows that are too old."""
    time = table.c[clock]
    hours = connection.execute(select(func.floor(time / HOUR_S) * HOUR_S).where(time < before_s).distinct())
    for hour in hours.scalars().all():
        yield remove(table, and_(time >= hour, time < min(float(hour) + HOUR_S, before_s)))


def remove(table: Table, old: ColumnElement[bool]) -> Step:
    """Return the step that deletes such rows."""
    return lambda connection: connection.execute(delete(table).where(old)).rowcount


def _windows(connection: Connection, table: Table, which: ColumnElement[bool] | None = None) -> list[Window]:
    query = select(table.c.start_s, table.c.seconds).distinct().order_by(table.c.start_s)
    return [(start_s, seconds) for start_s, seconds in
            connection.execute(query if which is None else query.where(which))]


def _packing(table: Table, window: Window) -> Step:
    """Return the step that packs one window which an older version wrote row by row."""
    within = (table.c.start_s == window[0]) & (table.c.seconds == window[1])

    def pack_gpus(connection: Connection) -> int:
        windows.put(connection, window, windows.from_rows(connection.execute(select(table).where(within)).all()))
        return connection.execute(delete(table).where(within)).rowcount

    def pack_waste(connection: Connection) -> int:
        parts = within & (table.c.node != "")
        waste.put(connection, window, {
            (row.node, row.partition, row.power_class): row.energy_mj
            for row in connection.execute(select(table).where(parts))})
        return connection.execute(delete(table).where(parts)).rowcount

    return pack_gpus if table is schema.rollups else pack_waste


def _hours(connection: Connection, table: Table, before_s: float) -> list[float]:
    hour = func.floor(table.c.start_s / HOUR_S) * HOUR_S
    starts = connection.execute(select(hour).where(table.c.seconds < HOUR_S, table.c.start_s < before_s)
                                .distinct().order_by(hour))
    return [float(start) for start in starts.scalars()]


def _merging(table: Table, hour_s: float) -> Step:
    """Return the step that makes one window of those within an hour."""
    within = and_(table.c.start_s >= hour_s, table.c.start_s < hour_s + HOUR_S, table.c.seconds <= HOUR_S)
    merge = {schema.gpu_windows: _merge_gpus, schema.waste_windows: _merge_places, schema.waste: _merge_partitions}
    return lambda connection: merge[table](connection, within, hour_s)


def _merge_gpus(connection: Connection, within: ColumnElement[bool], hour_s: float) -> int:
    fine = list(windows.gpu_windows(connection, within))
    removed = connection.execute(delete(schema.gpu_windows).where(within)).rowcount
    if not fine:  # what is damaged stays so: kept, it would be tried and logged each hour
        return removed
    windows.put(connection, (hour_s, HOUR_S), windows.merged(fine))
    return removed - 1


def _merge_places(connection: Connection, within: ColumnElement[bool], hour_s: float) -> int:
    total: dict[waste.Place, int] = {}
    for _, energies in waste.windows_of_nodes(connection, within):
        for place, energy in energies.items():
            total[place] = total.get(place, 0) + energy
    removed = connection.execute(delete(schema.waste_windows).where(within)).rowcount
    waste.put(connection, (hour_s, HOUR_S), total)
    return removed - 1


def _merge_partitions(connection: Connection, within: ColumnElement[bool], hour_s: float) -> int:
    table = schema.waste
    keys = (table.c.partition, table.c.node, table.c.power_class)
    # PostgreSQL sums BIGINT to NUMERIC.
    energy = func.sum(table.c.energy_mj).cast(table.c.energy_mj.type).label("energy_mj")
    rows = connection.execute(select(*keys, energy).where(within).group_by(*keys)).mappings().all()
    removed = connection.execute(delete(table).where(within)).rowcount
    upsert(connection, table, [{"start_s": hour_s, "seconds": HOUR_S, **row} for row in rows])
    return removed - len(rows)
