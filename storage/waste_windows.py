"""Records the energy of classes by node in closed windows, all nodes in one packed row a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from sqlalchemy import ColumnElement, Connection, select

from . import schema
from .packed import Window, pack, put_packed, readable, recorded, unpack
from .power_classes import PowerClass
from .records import WasteReading
from .values import thousandths, words

Place = tuple[str, str, str]
"""Node, partition and class."""


def store_waste(connection: Connection, readings: Iterable[WasteReading]) -> None:
    """Record the energy of classes of nodes; one that is given again for the same window replaces the first."""
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


def waste_windows(connection: Connection, within: ColumnElement[bool]) -> Iterator[tuple[Window, dict[Place, int]]]:
    """Yield millijoules of windows by node, partition and class, in the order of time."""
    table = schema.waste_windows
    rows = connection.execute(select(table).where(within).order_by(table.c.start_s, table.c.seconds))
    for row, energies in readable(rows, _energies):
        yield (row.start_s, row.seconds), energies


def readings_of(window: Window, energies: Mapping[Place, int]) -> Iterator[WasteReading]:
    """Yield a window's energies as they were given."""
    for (node, partition, power_class), energy in energies.items():
        yield WasteReading(*window, partition, PowerClass(power_class), energy / 1000, node)


def _energies(packed: bytes) -> dict[Place, int]:
    table, (nodes, partitions, classes) = unpack(packed)
    return {(nodes[node], partitions[partition], classes[power_class]): energy
            for node, partition, power_class, energy in table.T.tolist()}
