"""The GPUs that jobs hold, found in telemetry as the scheduler counts them."""

from __future__ import annotations

from collections.abc import Iterable

from ...storage.records import Allocation, Node
from ...storage.telemetry import GpuReading
from ..waste.holders import MOST_GPUS, holes


class HeldGpus:
    """The readings of each node's GPUs in the scheduler's order: 0, 1, 2, ... where NVML may leave a hole."""

    def __init__(self, gpus: Iterable[GpuReading], nodes: Iterable[Node]) -> None:
        self._gpus: dict[str, list[GpuReading]] = {}
        for gpu in gpus:
            self._gpus.setdefault(gpu.node, []).append(gpu)
        self._nodes = {node.name: node for node in nodes}
        self._places: dict[str, list[GpuReading | None]] = {}
        """The GPUs of the requested nodes, by place."""

    def of(self, part: Allocation) -> list[GpuReading | None]:
        """Return the GPUs of a job on a node, None for each that is not known.

        Where the scheduler names none of them, they are those on which an exporter names a pod of the job, if it is
        as many as the job holds; else they are known only if they are all that there are.
        """
        places = self._places.get(part.node)
        if places is None:
            places = self._places[part.node] = self._in_order(part.node)
        if part.gpu_indexes:
            return [places[place] if 0 <= place < len(places) else None for place in part.gpu_indexes]
        wanted = {*part.gpu_uuids, *part.members}
        named = {gpu.uuid: gpu for gpu in self._gpus.get(part.node, ()) if not wanted.isdisjoint((gpu.uuid, *gpu.jobs))}
        if named and len(named) == part.gpus:
            return [named[uuid] for uuid in sorted(named)]
        return list(places) if part.gpus == len(places) else [None] * min(part.gpus, MOST_GPUS)

    def _in_order(self, node: str) -> list[GpuReading | None]:
        """Return the GPUs of a node by place; none of them where an index says nothing: two vendors count from 0 each.

        One that telemetry has lost keeps its place, or those behind it would be taken for others.
        """
        readings: dict[int, GpuReading] = {}
        for gpu in self._gpus.get(node, ()):
            if readings.setdefault(gpu.index, gpu).uuid != gpu.uuid:
                return []
            readings[gpu.index] = gpu
        if not readings:
            return []
        return [readings.get(index) for index in sorted([*readings, *holes(readings, self._nodes.get(node))])]
