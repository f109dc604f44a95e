"""The GPUs that jobs hold, found in telemetry as the scheduler counts them."""

from __future__ import annotations

from collections.abc import Iterable

from ...storage.records import Allocation, Node
from ...storage.telemetry import GpuReading
from ..waste.holders import MOST_GPUS, holes


class HeldGpus:
    """The readings of each node's GPUs in the scheduler's order: 0, 1, 2, ... where NVML may leave a hole."""

    def __init__(self, gpus: Iterable[GpuReading], nodes: Iterable[Node]) -> None:
        by_node: dict[str, dict[int, GpuReading]] = {}
        mixed = set[str]()
        self._named: dict[tuple[str, str], list[GpuReading]] = {}
        """By node and whom an exporter names there, or the vendor's id."""
        for gpu in gpus:
            for name in (gpu.uuid, *gpu.jobs):
                self._named.setdefault((gpu.node, name), []).append(gpu)
            if by_node.setdefault(gpu.node, {}).setdefault(gpu.index, gpu).uuid != gpu.uuid:
                mixed.add(gpu.node)  # two vendors count from 0 each: an index says nothing
            by_node[gpu.node][gpu.index] = gpu
        known = {node.name: node for node in nodes}
        # One that telemetry has lost keeps its place, or those behind it would be taken for others.
        self._places = {name: [found.get(index) for index in sorted([*found, *holes(found, known.get(name))])]
                        for name, found in by_node.items() if name not in mixed}

    def of(self, part: Allocation) -> list[GpuReading | None]:
        """Return the GPUs of a job on a node, None for each that is not known.

        Where the scheduler names none of them, they are those on which an exporter names a pod of the job, if it is
        as many as the job holds; else they are known only if they are all that there are.
        """
        places = self._places.get(part.node, [])
        if part.gpu_indexes:
            return [places[place] if 0 <= place < len(places) else None for place in part.gpu_indexes]
        named = {gpu.uuid: gpu for name in (*part.gpu_uuids, *part.members)
                 for gpu in self._named.get((part.node, name), ())}
        if named and len(named) == part.gpus:
            return [named[uuid] for uuid in sorted(named)]
        return list(places) if part.gpus == len(places) else [None] * min(part.gpus, MOST_GPUS)
