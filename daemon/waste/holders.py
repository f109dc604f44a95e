"""Who holds which GPU: the scheduler's allocations laid over the GPUs of telemetry, as an outer join.

The scheduler is the truth: an allocation without a process is the most expensive waste, and a process without an
allocation is none of ours. Telemetry's own job labels only help to choose when the scheduler does not name the GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ...storage.gpu_parts import GpuPart
from ...storage.records import Allocation, Job, Node
from .readings import WatchedGpu

MOST_GPUS = 256
"""GPUs of one node that are believed to be missing: no server has more, whatever a scheduler says."""


@dataclass(frozen=True, slots=True)
class GpuSlot:
    """A place for a GPU in a node: filled by telemetry, or known to the scheduler only."""

    index: int
    gpu: WatchedGpu | None


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """Who holds a GPU; no job where the scheduler says 'allocated' and names nobody."""

    job: Job | None
    guessed: bool = False
    others: tuple[Job, ...] = ()
    """Who holds the same GPU beside it: an instance of it, or a share."""
    shares: tuple[float | None, ...] = ()
    """What each of them holds of the GPU, 0..1, None for what nobody tells; () where it is handed out whole."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return everybody who holds it by name."""
        return () if self.job is None else (self.job, *self.others)


Held = tuple[Job, Allocation]


def allocations_by_node(jobs: Iterable[Job]) -> dict[str, list[Held]]:
    """Return what active jobs hold of the GPUs of every node, the earliest start first."""
    nodes: dict[str, list[Held]] = {}
    for job in jobs:
        if job.state.active:
            for allocation in job.allocations:
                if allocation.gpus > 0 or allocation.members or allocation.parts:
                    nodes.setdefault(allocation.node, []).append((job, allocation))
    for held in nodes.values():
        held.sort(key=lambda pair: (pair[0].start_s or 0.0, pair[0].job_id, pair[0].submit_s))
    return nodes


def slots(gpus: list[WatchedGpu], node: Node | None) -> list[GpuSlot]:
    """Return the GPUs of a node with a hole for each one that the scheduler has and telemetry does not."""
    found = [GpuSlot(gpu.reading.index, gpu) for gpu in gpus]
    lost = [GpuSlot(index, None) for index in holes([slot.index for slot in found], node)]
    return sorted([*found, *lost], key=lambda slot: slot.index) if lost else found


def holes(indexes: Collection[int], node: Node | None) -> list[int]:
    """Return indexes for the GPUs of a node that the scheduler has and telemetry does not."""
    missing = max(0, min(node.gpus if node is not None else 0, MOST_GPUS) - len(indexes))
    return [index for index in range(len(indexes) + missing) if index not in indexes][:missing]


def holders(places: list[GpuSlot], held: list[Held], node: Node | None) -> dict[int, GpuHolder]:
    """Return the holder of each taken slot, by position.

    The scheduler counts GPUs 0, 1, 2, ... where NVML may leave a hole, so its index is a position. GPUs that it names
    go first, and those on which an exporter names a member of the job; of those that several hold the one that began
    first stands first. Jobs whose GPUs nobody names then choose among the rest.
    """
    taken: dict[int, GpuHolder] = {}
    unnamed: list[tuple[Job, int]] = []
    # Two vendors in one node count from 0 each: an index then names two places, and says nothing.
    mixed = len({place.index for place in places}) < len(places)
    for job, allocation in held:
        for part in allocation.parts:
            for position in _parted(places, part, mixed=mixed):
                _join(taken, position, job, part)
        unnamed.append((job, _hold(places, taken, job, allocation, mixed=mixed)))
    for job, count in unnamed:
        for position in _choose(places, taken, job, count):
            taken[position] = GpuHolder(job, guessed=True)
    if node is not None:
        _fill_anonymous(places, taken, node, () if mixed else node.gpu_indexes_allocated or ())
    return taken


def _hold(places: list[GpuSlot], taken: dict[int, GpuHolder], job: Job, allocation: Allocation, *, mixed: bool) -> int:
    """Give a job the GPUs on which it is named; return how many of its GPUs are named by nobody."""
    indexes = None if mixed else allocation.gpu_indexes
    if allocation.members:
        named = _labelled(places, allocation)
        left = max(0, allocation.gpus - len(named))
    elif indexes is None:
        return allocation.gpus
    else:
        named, left = [position for position in indexes if 0 <= position < len(places)], 0
    for place, position in enumerate(named):
        first = taken.get(position)
        for part in _unplaced(allocation, len(named), place):
            _join(taken, position, job, part)
        if position not in taken or job not in taken[position].jobs:
            taken[position] = GpuHolder(job) if first is None else _beside(first, job)
    return left


def _unplaced(allocation: Allocation, count: int, place: int) -> list[GpuPart]:
    """Return the parts on the GPU of this place among ``count`` of which the scheduler names none.

    Of parts of several GPUs that are not alike nobody knows which is where.
    """
    loose = [part for part in allocation.parts if part.index is None and not part.uuid]
    if count == 1:
        return loose
    alike = len({part.share for part in loose}) == 1 and len(loose) == count
    return loose[place:place + 1] if alike else []


def _beside(first: GpuHolder, job: Job) -> GpuHolder:
    """Return the holder of a GPU that another job holds, too, nobody tells how much of it."""
    return replace(first, others=(*first.others, job), shares=(*first.shares, None) if first.shares else ())


def _parted(places: list[GpuSlot], part: GpuPart, *, mixed: bool) -> list[int]:
    """Return the position of the GPU that a part is of; none where nobody tells which."""
    if part.uuid:
        return [position for position, slot in enumerate(places)
                if slot.gpu is not None and slot.gpu.reading.uuid == part.uuid][:1]
    return [part.index] if part.index is not None and not mixed and 0 <= part.index < len(places) else []


def _join(taken: dict[int, GpuHolder], position: int, job: Job, part: GpuPart) -> None:
    """Add the holder of a part; several parts of one job are one."""
    share = part.share if part.share is not None and 0.0 < part.share <= 1.0 else None
    first = taken.get(position)
    if first is None or first.job is None:
        taken[position] = GpuHolder(job, shares=(share,))
        return
    shares = first.shares or (None,) * len(first.jobs)
    if job not in first.jobs:
        taken[position] = replace(first, others=(*first.others, job), shares=(*shares, share))
        return
    place, had = first.jobs.index(job), shares[first.jobs.index(job)]
    total = None if had is None or share is None else min(1.0, had + share)
    taken[position] = replace(first, shares=(*shares[:place], total, *shares[place + 1:]))


def _labelled(places: list[GpuSlot], held: Allocation) -> list[int]:
    """Return the positions of the GPUs that the scheduler names by id, or on which an exporter names a member."""
    return [position for position, slot in enumerate(places) if slot.gpu is not None and (
        slot.gpu.reading.uuid in held.gpu_uuids or any(name in held.members for name in slot.gpu.reading.jobs))]


def _choose(places: list[GpuSlot], taken: dict[int, GpuHolder], job: Job, count: int) -> list[int]:
    """Return the likeliest GPUs of a job: where the exporter names it, where it was, where memory is in use."""

    def unlikely(position: int) -> tuple[bool, bool, float, int]:
        gpu = places[position].gpu
        if gpu is None:
            return True, True, 0.0, position
        return (job.job_id not in gpu.reading.jobs, gpu.held_by != job.key,
                -(gpu.reading.memory_used_bytes or 0.0), position)

    chosen = sorted((position for position in range(len(places)) if position not in taken), key=unlikely)[:count]
    for position in chosen:
        gpu = places[position].gpu
        if gpu is not None:
            gpu.held_by = job.key
    return chosen


def _fill_anonymous(places: list[GpuSlot], taken: dict[int, GpuHolder], node: Node, named: Collection[int]) -> None:
    """Mark GPUs that the scheduler calls allocated although no job we were told of holds them."""
    for position in named:
        if 0 <= position < len(places):
            taken.setdefault(position, GpuHolder(None))
    missing = min(node.gpus_allocated, node.gpus) - len(taken)
    if missing > 0:
        free = [position for position in range(len(places)) if position not in taken]
        taken.update((position, GpuHolder(None, guessed=True)) for position in free[:missing])
