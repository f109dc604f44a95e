"""Which GPU is which: one that was replaced is gone, however recently it was reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ...storage.telemetry import GpuReading

MOST_SILENT = 256
"""GPUs of one node that are remembered when no longer reported: an exporter may make up new ones for ever."""

_Place = tuple[str, str, int]


def gone(silent: Collection[GpuReading], reported: Iterable[GpuReading]) -> list[str]:
    """Return the uuids of silent GPUs that are not there any more, by the newest readings of those that are reported.

    A driver gives an index to one GPU at a time. Where a newer reading of the same node and vendor shows another uuid
    at the index of a silent GPU, that was swapped, renumbered or split anew. Of the others each node keeps the newest.
    """
    places = {_place(reading) for reading in silent}
    taken: dict[_Place, float] = {}
    for reading in reported:
        place = _place(reading)
        if place in places:
            taken[place] = max(reading.time_s, taken.get(place, reading.time_s))
    superseded, silent_counts = [], Counter[str]()
    for reading in sorted(silent, key=lambda reading: -reading.time_s):
        if taken.get(_place(reading), reading.time_s) > reading.time_s or silent_counts[reading.node] >= MOST_SILENT:
            superseded.append(reading.uuid)
        else:
            silent_counts[reading.node] += 1
    return superseded


def _place(reading: GpuReading) -> _Place:
    return reading.node, reading.vendor, reading.index
