"""Which job holds which GPU and draws its watts: of every node, what each run takes of its GPUs and of its host.

The scheduler's allocations are laid over the GPUs of telemetry, as an outer join. The scheduler is the truth: an
allocation without a process is the most expensive waste, and a process without an allocation is none of ours.
Telemetry's own job labels only help to choose when the scheduler does not name the GPUs.

The rules of watts, stated once: a GPU's watts are its holder's; where several jobs hold one GPU, instances (MIG) have
parts by their slices and activity, others (shards, MPS, time slicing, fractions) by what the scheduler records that
each holds, else equal ones (``parts``). The watts of a host are divided among the jobs that hold its GPUs, by their
number; on a server without GPUs among its jobs, by their CPUs. What is left is nobody's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...storage.gpu_parts import GpuPart
from ...storage.power_classes import PowerClass
from ...storage.records import Allocation, Job, Node
from ...storage.telemetry import GpuInstance
from .assessment import CLASSES, COLUMN, GpuVerdict
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
    """The jobs that hold a GPU; none where the scheduler says 'allocated' and names nobody."""

    job: Job | None
    guessed: bool = False
    others: tuple[Job, ...] = ()
    """Jobs that hold the same GPU beside it: an instance of it, or a share."""
    shares: tuple[float | None, ...] = ()
    """What each of them holds of the GPU, 0..1, None for what nobody tells; () where it is handed out whole."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Return all named jobs that hold it."""
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
    slots = [GpuSlot(gpu.reading.index, gpu) for gpu in gpus]
    lost = [GpuSlot(index, None) for index in holes([slot.index for slot in slots], node)]
    return sorted([*slots, *lost], key=lambda slot: slot.index) if lost else slots


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
    """Mark GPUs that the scheduler calls allocated although no known job holds them."""
    for position in named:
        if 0 <= position < len(places):
            taken.setdefault(position, GpuHolder(None))
    missing = min(node.gpus_allocated, node.gpus) - len(taken)
    if missing > 0:
        free = [position for position in range(len(places)) if position not in taken]
        taken.update((position, GpuHolder(None, guessed=True)) for position in free[:missing])


def parts(jobs: Sequence[Job], instances: Sequence[GpuInstance], watts: float | None, idle: float | None,
          shares: Sequence[float | None] = ()) -> list[float]:
    """Return each job's part of the GPU's watts; together 1, or less where some of the GPU is nobody's.

    What the GPU draws idle is divided by the slices of its instances; what it draws above that, as by Kepler from DCGM,
    by how active each instance is, weighed by its slices; where none is active, by slices too. What belongs to
    instances that nobody holds is nobody's. Slices without an instance have no part, so that all instances make the
    GPU.

    For shards, MPS, time slicing and fractions the draw of each job is not measured. Where the scheduler records how
    much of the GPU each job holds, idle draw is divided by that, what nobody holds of it is nobody's, and the jobs have
    the rest in that proportion. Where it does not, or a job is named on no instance, the jobs have equal parts of all.

    ``shares`` is what the scheduler records of each job: of the GPU, 0..1.
    """
    equal = [1.0 / len(jobs)] * len(jobs) if None in shares or not shares else _by_share(shares, watts, idle)
    held = [[instance for instance in instances if names_of(job) & set(instance.jobs)] for job in jobs]
    slices = sum(instance.slices for instance in instances)
    if not instances or not all(held) or not watts or idle is None or slices <= 0:
        return equal
    if len({instance.number for own_instances in held for instance in own_instances}) < sum(map(len, held)):
        return equal  # two jobs in one instance
    floor = min(idle, watts)
    weights = {instance.number: (instance.activity or 0.0) * instance.slices for instance in instances}
    active = sum(weights.values())
    instance_share = {instance.number: (floor * instance.slices / slices + (watts - floor) * (
        weights[instance.number] / active if active > 0 else instance.slices / slices)) / watts
        for instance in instances}
    return [sum(instance_share[instance.number] for instance in own_instances) for own_instances in held]


def _by_share(shares: Sequence[float | None], watts: float | None, idle: float | None) -> list[float]:
    """Return the parts of jobs that hold shares; more than the whole GPU is handed out where jobs take turns."""
    held = [share or 0.0 for share in shares]
    total = sum(held)
    if total >= 1.0 or not watts or idle is None:
        return [share / total for share in held]
    floor = min(max(idle, 0.0), watts)
    return [(floor * share + (watts - floor) * share / total) / watts for share in held]


def names_of(job: Job) -> set[str]:
    """Return how exporters may name a job: by its ids, or by its members."""
    names = {job.job_id, *(name for part in job.allocations for name in part.members)}
    return names if job.raw_id is None else names | {str(job.raw_id)}


COLUMNS = len(CLASSES) + 5
GPUS, MEASURED, ACTIVE, SHARED, MEMORY = range(len(CLASSES), COLUMNS)
"""Behind the watts by class: GPUs held, those with activity measured, the sum of that, those that others hold too, and
bytes in use of the fullest."""

Key = tuple[str, str, float, float]
"""Node and run; of what nobody holds, node and partition."""
_ROUNDING = 1e-9
_SPLIT = (PowerClass.ALLOCATED_UNDERUSED, PowerClass.PRODUCTIVE)
_UNDERUSED, _PRODUCTIVE = (COLUMN[row] for row in _SPLIT)


class Share:
    """What one run, or nobody, takes of one node at one moment."""

    __slots__ = ("idle", "job", "key", "model", "node", "partition", "values")

    def __init__(self, node: str, partition: str, job: Job | None) -> None:
        self.node, self.partition, self.job = node, partition, job
        self.key: Key = (node, partition, -1.0, -1.0) if job is None else (node, job.job_id, job.submit_s, began(job))
        self.values = [0.0] * COLUMNS
        self.model = ""
        self.idle: list[int] = []
        """GPUs that the run was never seen to use."""


def began(job: Job) -> float:
    """Return what tells a job's runs apart; -1 for a run of which nobody knows when it began."""
    return -1.0 if job.start_s is None else job.start_s


class NodeShares:
    """The shares of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._jobs: dict[tuple[str, float], Share] = {}
        self._nobody: dict[str, Share] = {}
        self._anonymous = 0
        """GPUs that are held by a job which the scheduler does not name."""

    @property
    def all(self) -> list[Share]:
        """Return the shares, those of jobs first."""
        return [*self._jobs.values(), *self._nobody.values()]

    def add_gpus(self, verdicts: Sequence[GpuVerdict], taken: Mapping[int, GpuHolder],
                 places: Sequence[GpuSlot]) -> None:
        """Add the watts of GPUs to the jobs that hold them; ``taken`` are their holders by position."""
        last: Share | None = None
        for position, verdict in enumerate(verdicts):
            holder = taken.get(position)
            job = None if holder is None else holder.job
            if holder is None or job is None:
                self._anonymous += holder is not None
                _add_watts(self._free(verdict.partition).values, verdict, 1.0)
            elif holder.others or holder.shares:
                self._add_shared(holder, verdict, places[position].gpu)
            else:
                if last is None or job is not last.job:
                    last = self._of(job)
                _take(last, verdict, places[position].gpu, 1.0)

    def _add_shared(self, holder: GpuHolder, verdict: GpuVerdict, gpu: WatchedGpu | None) -> None:
        """Divide a GPU among the jobs that hold it; what is left is nobody's."""
        instances = () if gpu is None else gpu.reading.instances
        floor = verdict.floor.watts if verdict.floor is not None else None
        shares_of_jobs = parts(holder.jobs, instances, verdict.watts, floor, holder.shares)
        shares = holder.shares or (None,) * len(shares_of_jobs)
        for job, part, share in zip(holder.jobs, shares_of_jobs, shares, strict=True):
            _take(self._of(job), verdict, gpu, part, 1.0 / len(shares_of_jobs) if share is None else share)
        left = 1.0 - sum(shares_of_jobs)
        if left > _ROUNDING:
            _add_watts(self._free(verdict.partition).values, verdict, left)

    def add_host(self, power_class: PowerClass, watts: float, partition: str, cpus: Iterable[tuple[Job, int]]) -> None:
        """Divide the watts of the host; ``cpus`` are held by the jobs of a server without GPUs."""
        weights = [(share, share.values[GPUS]) for share in self._jobs.values()]
        weights += [(self._of(job), float(held)) for job, held in cpus]
        total = sum([weight for _, weight in weights]) + self._anonymous
        column, left = COLUMN[power_class], watts
        for share, weight in weights if total > 0.0 else ():
            part = watts * weight / total
            share.values[column] += part
            left -= part
        if self._anonymous or total <= 0.0:
            self._free(partition).values[column] += left

    def _of(self, job: Job) -> Share:
        share = self._jobs.get(job.key)
        if share is None:
            share = self._jobs[job.key] = Share(self._node, job.partition, job)
        return share

    def _free(self, partition: str) -> Share:
        share = self._nobody.get(partition)
        if share is None:
            share = self._nobody[partition] = Share(self._node, partition, None)
        return share


def _take(share: Share, verdict: GpuVerdict, gpu: WatchedGpu | None, watts: float, part: float = 1.0) -> None:
    """Add a part of a GPU's watts, and of its time, to the share of the job that holds it."""
    values = share.values
    _add_watts(values, verdict, watts)
    values[GPUS] += part
    if part != 1.0:
        values[SHARED] += part
    if verdict.activity is not None:
        values[MEASURED] += part
        values[ACTIVE] += part * verdict.activity
    share.model = verdict.model or share.model
    if gpu is None:
        share.idle.append(verdict.index)
        return
    if not gpu.trail.worked:
        share.idle.append(verdict.index)
    memory = gpu.reading.memory_used_bytes
    if memory is not None and memory > values[MEMORY]:
        values[MEMORY] = memory


def _add_watts(values: list[float], verdict: GpuVerdict, part: float) -> None:
    watts = verdict.watts
    if watts is None:
        return
    if verdict.state in _SPLIT:
        values[_UNDERUSED] += verdict.wasted_watts * part
        values[_PRODUCTIVE] += (watts - verdict.wasted_watts) * part
    else:
        values[COLUMN[verdict.state]] += watts * part
