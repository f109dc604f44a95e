"""Records what GPUs did in closed windows, all of them in one packed row a window.

Energy is in whole millijoules and measured time in whole milliseconds, so that sums stay exact however windows are
merged; activity is in millionths and power in milliwatts, as fine as exporters tell them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, select

from . import schema
from .packed import MISSING, Floats, Ints, Window, pack, put_packed, readable, recorded, scaled, unpack, unscaled
from .records import GpuRollup
from .values import words

GpuKey = tuple[str, str, int]
"""UUID, node and index."""
_GPU, _MEASURED, _ALLOCATED, _ENERGY, _MEAN, _MOST, _POWER, _PEAK = range(8)
"""Columns of a GPU: its number, ms, ms, mJ, millionths twice, and mW twice.

Mean power is kept as its difference from energy over time, which is nearly always nothing.
"""


class Packed(NamedTuple):
    """One window of GPUs."""

    start_s: float
    seconds: float
    columns: Ints


def store_rollups(connection: Connection, rollups: Sequence[GpuRollup], gpus: Mapping[GpuKey, int]) -> None:
    """Record rollups of GPUs that have numbers; the same GPU and window again replaces."""
    by_window: dict[Window, dict[int, GpuRollup]] = {}
    for rollup in rollups:
        number = gpus[words(rollup.uuid), words(rollup.node), rollup.index]
        by_window.setdefault((rollup.start_s, rollup.seconds), {})[number] = rollup
    for window, some in by_window.items():
        put(connection, window, _columns(some))


def gpu_windows(connection: Connection, within: ColumnElement[bool]) -> Iterator[Packed]:
    """Yield windows of GPUs in the order of time."""
    table = schema.gpu_windows
    rows = connection.execute(select(table).where(within).order_by(table.c.start_s, table.c.seconds))
    for row, columns in readable(rows, _unpacked):
        yield Packed(row.start_s, row.seconds, columns)


def rollups_of(window: Packed, names: Mapping[int, GpuKey]) -> Iterator[GpuRollup]:
    """Yield the rollups of a window, of GPUs with a name only."""
    columns = window.columns[:, np.isin(window.columns[_GPU], np.fromiter(names, np.int64, len(names)))]
    power = [None if watts != watts else watts for watts in _power(columns).tolist()]  # NaN differs from itself
    values = zip(columns[_GPU].tolist(), unscaled(columns[_MEASURED], 1e3), unscaled(columns[_ALLOCATED], 1e3),
                 unscaled(columns[_ENERGY], 1e3), unscaled(columns[_MEAN], 1e6), unscaled(columns[_MOST], 1e6),
                 power, unscaled(columns[_PEAK], 1e3), strict=True)
    for gpu, measured, allocated, energy, mean, most, watts, peak in values:
        uuid, node, index = names[gpu]
        yield GpuRollup(window.start_s, window.seconds, node, uuid, index, measured or 0.0, energy, mean, most, watts,
                        peak, allocated or 0.0)


def merged(windows: Iterable[Packed]) -> Ints:
    """Return windows as one, GPU by GPU: energy and time in sum, means weighted by measured time."""
    columns = np.concatenate([window.columns for window in windows], axis=1)
    numbers, place = np.unique(columns[_GPU], return_inverse=True)
    measured = columns[_MEASURED]
    total = _sum(place, measured, numbers.size)
    result = np.stack([numbers, total, _sum(place, columns[_ALLOCATED], numbers.size),
                       _known_sum(place, columns[_ENERGY], numbers.size), *np.zeros((4, numbers.size), np.int64)])
    activity = np.where(columns[_MEAN] == MISSING, np.nan, columns[_MEAN].astype(np.float64))
    result[_MEAN] = scaled(_mean(place, activity, measured, numbers.size), 1)
    result[_MOST], result[_PEAK] = (_most(place, columns[name], numbers.size) for name in (_MOST, _PEAK))
    result[_POWER] = _offset(_mean(place, _power(columns), measured, numbers.size), result[_ENERGY], total)
    return result


def names_of(connection: Connection, node: str | None = None) -> dict[int, GpuKey]:
    """Return GPUs by number, all or those of a node."""
    gpus = schema.boards
    query = select(gpus) if node is None else select(gpus).where(gpus.c.node == node)
    return {row.id: (row.uuid, row.node, row._mapping["index"]) for row in connection.execute(query)}


def from_rows(rows: Sequence[Row[object]]) -> Ints:
    """Return rows of the old table of rollups, one window's, as columns."""
    def column(name: str) -> list[float]:
        return [getattr(row, name) for row in rows]

    energy, measured = scaled(column("energy_mj"), 1), scaled(column("measured_ms"), 1)
    return np.stack([scaled(column("board"), 1), measured, scaled(column("allocated_ms"), 1), energy,
                     scaled(column("activity_mean"), 1e6), scaled(column("activity_max"), 1e6),
                     _offset(column("power_mean_watts"), energy, measured), scaled(column("power_max_watts"), 1e3)])


def _columns(rollups: Mapping[int, GpuRollup]) -> Ints:
    some = list(rollups.values())
    measured, allocated = (np.where(column == MISSING, 0, column) for column in (
        scaled([rollup.measured_seconds for rollup in some], 1e3),
        scaled([rollup.allocated_seconds for rollup in some], 1e3)))
    energy, watts = scaled([rollup.energy_joules for rollup in some], 1e3), [rollup.power_mean_watts for rollup in some]
    return np.stack([np.fromiter(rollups, np.int64, len(some)), measured, allocated, energy,
                     scaled([rollup.activity_mean for rollup in some], 1e6),
                     scaled([rollup.activity_max for rollup in some], 1e6),
                     _offset(watts, energy, measured), scaled([rollup.power_max_watts for rollup in some], 1e3)])


def put(connection: Connection, window: Window, columns: Ints) -> None:
    """Record a window of GPUs in columns; GPUs that it has are replaced."""
    before = recorded(connection, schema.gpu_windows, window, _unpacked)
    if before is not None:
        columns = np.concatenate([before[:, ~np.isin(before[_GPU], columns[_GPU])], columns], axis=1)
    put_packed(connection, schema.gpu_windows, window, pack(columns[:, np.argsort(columns[_GPU], kind="stable")]))


def _unpacked(packed: bytes) -> Ints:
    return unpack(packed)[0]


def _derived(energy: Ints, measured: Ints) -> Floats:
    """Return mean watts as energy and time tell them; NaN where they do not."""
    known = (energy != MISSING) & (measured > 0)
    return np.where(known, energy, np.nan) / np.where(known, measured, 1)


def _offset(watts: Iterable[float | None], energy: Ints, measured: Ints) -> Ints:
    """Return by how many milliwatts mean power differs from energy over time, or from zero where that is unknown."""
    milliwatts = scaled(watts, 1e3)
    base = np.rint(np.nan_to_num(_derived(energy, measured)) * 1e3).astype(np.int64)
    return np.where(milliwatts == MISSING, MISSING, milliwatts - base)


def _power(columns: Ints) -> Floats:
    """Return mean watts; NaN where unmeasured."""
    offset, derived = columns[_POWER], _derived(columns[_ENERGY], columns[_MEASURED])
    milliwatts = np.rint(np.nan_to_num(derived) * 1e3) + np.where(offset == MISSING, 0, offset)
    exact = (offset == 0) & ~np.isnan(derived)
    return np.where(offset == MISSING, np.nan, np.where(exact, derived, milliwatts / 1e3))


def _sum(place: Ints, values: Ints, size: int) -> Ints:
    total = np.zeros(size, np.int64)
    np.add.at(total, place, values)
    return total


def _known_sum(place: Ints, values: Ints, size: int) -> Ints:
    known = values != MISSING
    total, count = _sum(place[known], values[known], size), _sum(place, known.astype(np.int64), size)
    return np.where(count > 0, total, MISSING)


def _most(place: Ints, values: Ints, size: int) -> Ints:
    most = np.full(size, MISSING, np.int64)
    np.maximum.at(most, place, values)
    return most


def _mean(place: Ints, values: Floats, weights: Ints, size: int) -> Floats:
    """Return means weighted by measured time; NaN where nothing was measured."""
    weight = np.where(np.isnan(values), 0, weights).astype(np.float64)
    total = np.bincount(place, np.nan_to_num(values) * weight, size)
    whole = np.bincount(place, weight, size)
    return np.where(whole > 0, total / np.where(whole > 0, whole, 1.0), np.nan)
