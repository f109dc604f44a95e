"""Smaller parts of GPUs that jobs would do with: MIG instances or turns on a shared GPU, by what was measured.

A job has no row before all that it holds was measured for a whole window without a gap, nor of one whose GPUs
were guessed, nor of several GPUs of one batch job: instances of MIG cannot talk to each other. Only what nodes hand out
already is advised. Whether work slows down on fewer multiprocessors nobody can tell: most of the window must fit.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....exporters.mig import slices_of
from ....storage.eligibility import has_features
from ....storage.gpu_slices import SmallerSlice
from ....storage.owners import OwnerKind
from ....storage.records import Job, JobState, Node, NodeState
from ....storage.telemetry import GpuReading
from ...durations import span
from ...settings.recommenders import GpuSlicesSettings
from ...waste import HeldRun, run_of
from ..kubectl import slice_command
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register

WHOLE, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
_PROFILE = re.compile(r"nvidia\.com/mig-([1-7])g\.(\d{1,4})gb(\S{0,20})")
_USABLE = 0.9
"""Share of the memory that a profile is named after, at least: 1g.12gb has 11.5 GB, 1g.18gb has 17.2."""
STALE_S, LONGEST_GAP_S = 120.0, 600.0

Run = tuple[str, float, float]


class GpuUse(NamedTuple):
    """What was used at one moment, of one GPU."""

    activity: float
    memory_bytes: float


class Size(NamedTuple):
    """A part of a GPU: its share of the work that one does, and its memory."""

    share: float
    memory_bytes: float


@dataclass(slots=True)
class _Offer:
    """A resource that nodes hand out."""

    size: Size
    total: int = 0
    free: int = 0


@dataclass(slots=True)
class _Watch:
    """A run, since when it is measured without a gap, and what it used."""

    since_s: float
    uses: deque[tuple[float, GpuUse]] = field(default_factory=deque)


class GpuSliceRecommender:
    """Watches what each pod uses of its GPU or instance, and looks for the smallest part that would do."""

    def __init__(self, settings: GpuSlicesSettings) -> None:
        self._settings = settings
        self._watched: dict[Run, _Watch] = {}

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return the jobs that would do with less of a GPU."""
        sizes, seen = _GpuSizes(context), dict[Run, _Watch]()
        rows = list[SmallerSlice]()
        for job in context.snapshot.jobs:
            held = _held(job)
            use = sizes.used(job) if held else None
            if use is not None:
                run = (*job.key, job.start_s or 0.0)
                watch = seen[run] = self._taken(self._watched.get(run), use, context.now_s)
                row = self._row(job, held, watch, sizes, context)
                rows += [row] if row is not None else []
            elif (known := self._watched.get((*job.key, job.start_s or 0.0))) is not None:
                seen[*job.key, job.start_s or 0.0] = known  # a page that failed is no end; the gap will tell
        self._watched = seen
        rows.sort(key=lambda row: (row.activity, row.job_id))
        return Recommendations(context.now_s, tuple(rows))

    def _taken(self, watch: _Watch | None, use: GpuUse, now_s: float) -> _Watch:
        if watch is None or now_s - watch.uses[-1][0] > LONGEST_GAP_S:
            watch = _Watch(now_s)
        watch.uses.append((now_s, use))
        while watch.uses[0][0] < now_s - self._settings.window:
            watch.uses.popleft()
        return watch

    def _row(self, job: Job, held: str, watch: _Watch, sizes: _GpuSizes, context: RecommenderContext,
             ) -> SmallerSlice | None:
        window_s = self._settings.window
        if context.now_s - watch.since_s < window_s:
            return None
        most = GpuUse(max(use.activity for _, use in watch.uses), max(use.memory_bytes for _, use in watch.uses))
        room = 1.0 + self._settings.margin
        now, offers = sizes.of(held, job), sizes.offers(job)
        fitting = [(offer.size, name != SHARED, name) for name, offer in offers.items()
                   if offer.size.share < now.share and most.activity * room <= offer.size.share
                   and most.memory_bytes * room <= offer.size.memory_bytes]
        if not fitting or job.steering is None:
            return None
        size, _, name = min(fitting, key=lambda offered: (offered[0].share, not offered[1], offered[0].memory_bytes))
        offer, nodes = offers[name], tuple(part.node for part in job.allocations)
        reason = (f"in {span(window_s)} it never used more than {100 * most.activity:.0f} % of a GPU and "
                  f"{most.memory_bytes / 1e9:.1f} GB; {name} has {100 * size.share:.0f} % and "
                  f"{size.memory_bytes / 1e9:.1f} GB")
        return SmallerSlice(
            job.job_id, job.submit_s, job.partition, job.user, context.now_s, nodes, _pods(job), held, name,
            most.activity, most.memory_bytes, window_s, offer.total, offer.free, reason,
            slice_command(job.steering, job.owner, held, name))


class _GpuSizes:
    """What GPUs and their parts are, have and do at one moment."""

    def __init__(self, context: RecommenderContext) -> None:
        fresh = [gpu for gpu in context.telemetry.gpus if context.now_s - gpu.time_s <= STALE_S]
        self._gpus = {(gpu.node, gpu.uuid): gpu for gpu in fresh}
        self._nodes = [node for node in context.snapshot.nodes if node.slices and node.state is NodeState.UP]
        self._memory = {gpu.node: gpu.memory_total_bytes for gpu in fresh if gpu.memory_total_bytes}
        self._models = {node.name: node.gpu_model for node in context.snapshot.nodes} | {
            gpu.node: gpu.model for gpu in fresh if gpu.model}
        self._held: dict[HeldRun, list[GpuReading | None]] = {}
        verdicts = context.assessment.gpu_verdicts if context.assessment is not None else ()
        for verdict in verdicts:
            if verdict.run is not None and verdict.allocated:
                reading = None if verdict.guessed else self._gpus.get((verdict.node, verdict.uuid))
                self._held.setdefault(verdict.run, []).append(reading)
        self._instances = {name: (instance.slices * instance.activity if instance.activity is not None else None,
                                  instance.memory_used_bytes)
                           for gpu in fresh for instance in gpu.instances
                           for name in instance.jobs if len(instance.jobs) == 1}

    def used(self, job: Job) -> GpuUse | None:
        """Return the most that any GPU or instance of a job was used; None unless each was measured."""
        if job.request.details.slices:
            names = [name for part in job.allocations for name in part.members]
            measured = [self._instances.get(name, (None, None)) for name in names]
        else:
            readings = self._held.get(run_of(job), [])
            measured = [(gpu.activity, gpu.memory_used_bytes) if gpu is not None else (None, None) for gpu in readings]
        uses = [GpuUse(activity, memory)
                for activity, memory in measured if activity is not None and memory is not None]
        if len(uses) != _pods(job) or len(uses) != len(measured):
            return None
        return GpuUse(max(use.activity for use in uses), max(use.memory_bytes for use in uses))

    def of(self, held: str, job: Job) -> Size:
        """Return the size of what a job holds."""
        sizes = [_profile(held, self._models.get(part.node, "")) for part in job.allocations]
        return min(filter(None, sizes), default=Size(
            1.0, max(self._memory.get(part.node) or 0.0 for part in job.allocations)))

    def offers(self, job: Job) -> Mapping[str, _Offer]:
        """Return what nodes hand out that a job may use; taints are not looked at."""
        offers: dict[str, _Offer] = {}
        for node in self._nodes:
            if _may(job, node):
                for name, total, taken in node.slices:
                    size = _profile(name, self._models[node.name]) or self._turn(node, name, total)
                    if size is not None and total > 0:
                        offer = offers.setdefault(name, _Offer(size))
                        offer.size = Size(*map(min, offer.size, size))
                        offer.total, offer.free = offer.total + total, offer.free + max(0, total - taken)
        return offers

    def _turn(self, node: Node, name: str, total: int) -> Size | None:
        """Return what is left of a shared GPU to each job when every turn is taken."""
        memory = self._memory.get(node.name)
        if name != SHARED or not node.gpus or not memory or total <= node.gpus:
            return None
        return Size(node.gpus / total, memory * node.gpus / total)


def _profile(name: str, model: str) -> Size | None:
    """Return the size of a MIG instance by its name, of a GPU of that model."""
    match = _PROFILE.fullmatch(name)
    return Size(min(1.0, int(match[1]) / slices_of(model)), int(match[2]) * 1e9 * _USABLE) if match else None


def _may(job: Job, node: Node) -> bool:
    request = job.request
    return (job.partition in node.partitions and node.name not in request.excluded_nodes
            and (not request.required_nodes or node.name in request.required_nodes)
            and (not request.features or has_features(node.features, request.features)))


def _pods(job: Job) -> int:
    return sum(len(part.members) for part in job.allocations)


def _held(job: Job) -> str:
    """Return what each pod of a job holds one of; '' for anything else, and for batch jobs of several."""
    pods = _pods(job)
    if job.state is not JobState.RUNNING or job.steering is None or not pods or (
            pods > 1 and job.owner_kind is not OwnerKind.SERVICE):
        return ""
    slices = job.request.details.slices
    if sum(part.gpus for part in job.allocations) == pods and not slices:
        return WHOLE
    if len(slices) == 1 and slices[0][1] == pods and _PROFILE.fullmatch(slices[0][0]):
        return slices[0][0]
    return ""


def _cells(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "uses": f"{100 * row['activity']:.0f} %, {row['memory_bytes'] / 1e9:.1f} GB",
            "free_now": f"{row['free']} of {row['offered']}", "command": row["command"] or None}


register(RecommenderKind("gpu_slices", SmallerSlice, lambda settings, history: GpuSliceRecommender(settings), {
    "job_id": "job", "partition": "partition", "pods": "pods", "held": "each holds", "uses": "uses at most",
    "advised": "would do with", "free_now": "free", "command": "ask for"}, _cells,
    "no job was measured for long enough that would do with a part of its GPU that nodes hand out"))
