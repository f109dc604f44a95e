"""Records the energy of classes in closed windows: a row for each partition, all nodes of a window packed in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, select

from . import schema
from .database import upsert
from .packed import Window, pack, put_packed, readable, recorded, spread, starts_within, unpack
from .power_classes import PowerClass
from .records import WasteReading
from .values import thousandths, words

Place = tuple[str, str, str]
"""Node, partition and class."""


def store(connection: Connection, readings: Iterable[WasteReading]) -> None:
    """Record the energy of classes; one that is given again for the same window replaces the first."""
    some = list(readings)
    _store_nodes(connection, (reading for reading in some if reading.node))
    rows = [{"start_s": reading.start_s, "seconds": reading.seconds, "partition": words(reading.partition),
             "node": words(reading.node), "power_class": reading.power_class.value,
             "energy_mj": energy} for reading in some
            if not reading.node and (energy := thousandths(reading.energy_joules)) is not None]
    upsert(connection, schema.waste, rows, update=("energy_mj",))


def load(connection: Connection, since_s: float, until_s: float, *, per_node: bool) -> tuple[WasteReading, ...]:
    """Return the energy by class of windows that start in [since, until): of partitions, or of their nodes."""
    table, packed = schema.waste, schema.waste_windows
    readings = [_waste_of(row) for row in connection.execute(select(table).where(
        starts_within(table, since_s, until_s), (table.c.node != "") == per_node).order_by(table.c.start_s))]
    if not per_node:
        return tuple(readings)
    for window, energies in windows_of_nodes(connection, starts_within(packed, since_s, until_s)):
        readings += _readings_of(window, energies)
    return tuple(sorted(readings, key=lambda reading: reading.start_s))


def _waste_of(row: Row[object]) -> WasteReading:
    return WasteReading(row.start_s, row.seconds, row.partition, PowerClass(row.power_class), row.energy_mj / 1000,
                        row.node)


def _store_nodes(connection: Connection, readings: Iterable[WasteReading]) -> None:
    by_window: dict[Window, dict[Place, int]] = {}
    for reading in readings:
        if (energy := thousandths(reading.energy_joules)) is not None:
            place = words(reading.node), words(reading.partition), reading.power_class.value
            by_window.setdefault((reading.start_s, reading.seconds), {})[place] = energy
    for window, energies in by_window.items():
        put(connection, window, energies)


def put(connection: Connection, window: Window, energies: Mapping[Place, int]) -> None:
    """Record millijoules of one window; places that it has are replaced."""
    every = {**(recorded(connection, schema.waste_windows, window, _energies) or {}), **energies}
    names = [sorted({place[part] for place in every}) for part in range(3)]
    codes = [{name: code for code, name in enumerate(some)} for some in names]
    table = np.array([[*(code[name] for code, name in zip(codes, place, strict=True)), energy]
                      for place, energy in sorted(every.items())], np.int64).reshape(-1, 4).T
    put_packed(connection, schema.waste_windows, window, pack(table, names))


def windows_of_nodes(connection: Connection, within: ColumnElement[bool]) -> Iterator[tuple[Window, dict[Place, int]]]:
    """Yield millijoules of windows by node, partition and class, in the order of time."""
    table = schema.waste_windows
    rows = connection.execute(select(table).where(within).order_by(table.c.start_s, table.c.seconds))
    for row, energies in readable(rows, _energies):
        yield (row.start_s, row.seconds), energies


def by_node(connection: Connection, since_s: float, until_s: float, most: int) \
        -> Iterator[tuple[Window, dict[str, dict[PowerClass, float]]]]:
    """Yield the joules of nodes by class in up to ``most`` windows that lie within [since, until)."""
    table = schema.waste_windows
    chosen = spread(connection, table, since_s, until_s, most)
    for (start_s, seconds), energies in windows_of_nodes(connection, table.c.start_s.in_(chosen)):
        nodes: dict[str, dict[PowerClass, float]] = {}
        for (node, _, name), energy in energies.items():
            of_node, power_class = nodes.setdefault(node, {}), PowerClass(name)
            of_node[power_class] = of_node.get(power_class, 0.0) + energy / 1000
        if start_s >= since_s and start_s + seconds <= until_s:
            yield (start_s, seconds), nodes


def _readings_of(window: Window, energies: Mapping[Place, int]) -> Iterator[WasteReading]:
    for (node, partition, power_class), energy in energies.items():
        yield WasteReading(*window, partition, PowerClass(power_class), energy / 1000, node)


def _energies(packed: bytes) -> dict[Place, int]:
    table, (nodes, partitions, classes) = unpack(packed)
    return {(nodes[node], partitions[partition], classes[power_class]): energy
            for node, partition, power_class, energy in table.T.tolist()}
