"""What a change of size is worth to a job, in figures and in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....storage.elastic import ElasticAdvice, ResizeEffect
from ....storage.records import Job, JobState
from ...agents.kinds import RESTART_S
from ...amounts import counted
from ...durations import sooner, span
from .curves import Learned
from .what_if_sizes import SpareCapacity, doubled, given_up, nodes_left


@dataclass(frozen=True, slots=True)
class Case:
    """A job of which the curve is known."""

    job: Job
    gpus: int
    """The GPUs that the job has, or asks for."""
    curve: Learned
    basis: str
    remaining_s: float | None


def weigh(case: Case, site: SpareCapacity, now_s: float) -> ElasticAdvice:
    """Return what twice as many GPUs and half as many would do for a job."""
    job, gpus = case.job, case.gpus
    more = _resized(case, gpus) if _known(case, 2 * gpus) else None
    half = halved(job, gpus)
    fewer = _resized(case, half - gpus, site.helped(job)) if 0 < half < gpus and _known(case, half) else None
    room = more is not None and site.has_room(job, doubled(job.request, gpus, site.largest(job)))
    return ElasticAdvice(
        job.job_id, job.submit_s, job.partition, now_s, job.state.value, job.user,
        tuple(part.node for part in job.allocations), gpus, case.basis,
        case.curve.runs if case.basis != "configured" else 0, case.curve.sizes, case.curve.error,
        ", ".join(_reasons(case, more, fewer, room)), more, fewer, case.curve.falls_at, case.remaining_s,
        site.free_gpus(job), room)


def _known(case: Case, gpus: int) -> bool:
    """Tell whether both a job's own size and another are near enough to what was measured."""
    return case.curve.reaches(case.gpus) and case.curve.reaches(gpus)


def _resized(case: Case, change: int, helps: tuple[str, ...] = ()) -> ResizeEffect:
    gain, (low, high) = case.curve.ratio(case.gpus, case.gpus + change)
    time = _time(gain)
    saved_s = None if case.remaining_s is None else -case.remaining_s * time - _pause_s(case, change)
    return ResizeEffect(change, gain, (low, high), time, (_time(high), _time(low)), gain / change, _how(case, change),
                        saved_s, helps)


def _pause_s(case: Case, change: int) -> float:
    """Return the seconds that a running job loses when it goes on from its checkpoint; 0 where it does not stop."""
    stops = case.job.state is JobState.RUNNING and (change > 0 or bool(case.job.owner) or _nodes(case.job) == 1)
    return RESTART_S if stops else 0.0


def halved(job: Job, gpus: int) -> int:
    """Return the GPUs that are left when a job gives up half of them, or half of its nodes; 0 when it has only one."""
    if job.state is JobState.RUNNING:
        return gpus - sum(amounts[0] for _, amounts in given_up(job))
    nodes = _nodes(job)
    return gpus // 2 if nodes == 1 else gpus * nodes_left(nodes) // nodes


def _nodes(job: Job) -> int:
    return len(job.allocations) or max(1, job.request.nodes)


def _time(gain: float) -> float:
    """Return the change in time that a change in speed makes."""
    return 1 / (1 + gain) - 1


def _how(case: Case, change: int) -> str:
    """Return in words what Slurm needs for another size: a running job can only give up whole nodes, its last ones."""
    nodes, target = _nodes(case.job), counted(case.gpus + change)
    if case.job.state is not JobState.RUNNING:
        return f"submit it again with {target}"
    if case.job.owner:  # of Kubernetes, where no job changes its size while it runs
        return f"resubmit it from its checkpoint with {target}"
    if change > 0:
        return f"resubmit it from its checkpoint with {target}: Slurm lets no running job grow"
    if nodes == 1:
        return f"resubmit it from its checkpoint with {target}: a running job can give up whole nodes only"
    known = case.job.raw_id or case.job.job_id  # of components Slurm takes no 24+1
    return (f"scontrol update JobId={known} NumNodes={nodes_left(nodes)}, if the program can go on without the others")


def _reasons(case: Case, more: ResizeEffect | None, fewer: ResizeEffect | None, room: bool) -> Iterator[str]:
    if more is not None:
        yield (f"{sooner(more.time_ratio, more.time_interval)} with {more.gpus} more GPUs, "
               f"{'for which there is room now' if room else 'for which there is no room now'}")
        if more.saved_s is not None and _pause_s(case, more.gpus):
            yield (f"{span(more.saved_s)} gained net of the restart" if more.saved_s > 0 else
                   "which the restart would eat up")
    if fewer is not None:
        yield f"{sooner(fewer.time_ratio, fewer.time_interval)} with {-fewer.gpus} fewer"
        if fewer.helps:
            yield f"which would make room for {', '.join(fewer.helps)}"
    if case.curve.falls_at is not None:
        yield f"slower again from {case.curve.falls_at} GPUs"
