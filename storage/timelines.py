"""What a run did over time: its classes and its GPUs, from windows that are spread evenly over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, select

from . import schema, windows
from .energy_queries import RunRow
from .packed import Window, readable, spread, unpack
from .power_classes import PowerClass
from .records import GpuRollup


def classes(connection: Connection, run: RunRow, most: int) -> Iterator[tuple[Window, dict[PowerClass, int]]]:
    """Yield the millijoules of a run by class in up to ``most`` windows, as long as windows are kept fine.

    Of a window in which it started or ended, the time is that in which it ran: its power is not that of both.
    """
    table = schema.run_windows
    chosen = spread(connection, table, run.start_s, run.last_s, most)
    rows = connection.execute(select(table).where(table.c.start_s.in_(chosen)).order_by(table.c.start_s))
    for row, (columns, (names,)) in readable(rows, unpack):
        run_columns = columns[1:, columns[0] == run.number] if columns.size else columns
        if run_columns.size:
            yield _ran(run, row.start_s, row.start_s + row.seconds), {
                PowerClass(names[code]): energy for code, energy in run_columns.T.tolist()}


def _ran(run: RunRow, start_s: float, end_s: float) -> Window:
    """Return the part of a time in which a run ran; all of it where clocks leave none."""
    first_s, last_s = max(start_s, run.start_s), end_s if run.end_s is None else min(end_s, run.end_s)
    return (first_s, last_s - first_s) if last_s > first_s else (start_s, end_s - start_s)


def gpus(connection: Connection, places: Mapping[str, tuple[int, ...] | None], since_s: float, until_s: float,
         most: int) -> tuple[GpuRollup, ...]:
    """Return what GPUs did in up to ``most`` windows of [since, until); by node their positions, None for all."""
    names = {number: gpu for node, positions in places.items()
             for number, gpu in _gpus(connection, node, positions).items()}
    chosen = spread(connection, schema.gpu_windows, since_s, until_s, most)
    return tuple(rollup for window in windows.gpu_windows(connection, schema.gpu_windows.c.start_s.in_(chosen))
                 for rollup in windows.rollups_of(window, names))


def held(connection: Connection, places: Mapping[str, tuple[int, ...] | None]) -> tuple[windows.GpuKey, ...]:
    """Return UUID, node and index of the GPUs at places, in the order of their nodes and indexes."""
    return tuple(sorted({gpu for node, positions in places.items() for gpu in _gpus(connection, node, positions)
                         .values()}, key=lambda gpu: (gpu[1], gpu[2])))


def _gpus(connection: Connection, node: str, positions: tuple[int, ...] | None) -> dict[int, windows.GpuKey]:
    """Return the GPUs of a node; a scheduler's index is a position, where NVML may leave a hole."""
    known = windows.names_of(connection, node)
    indexes = sorted({index for _, _, index in known.values()})
    held = set(indexes) if positions is None else {indexes[place] for place in positions if 0 <= place < len(indexes)}
    return {number: gpu for number, gpu in known.items() if gpu[2] in held}
