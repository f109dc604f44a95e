"""What stands out of a job and what to do about it, in the manner of jobstats: a sentence each, with the fix.

Nothing is said of what was not measured, and nothing of a job that is younger than ten minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...storage.power_classes import PowerClass
from ...storage.records import Job
from ..headline import percent, watts
from .rows import CauseRow, JobRow, Note

YOUNG_S = 600.0
MEASURED = 0.9
"""Share of the time that must be measured before it is said what a job never did."""
LOW_ACTIVITY = 0.25
LOW_CPUS, LOW_MEMORY, LOW_LIMIT = 0.25, 0.25, 0.25
SUSPICIOUS = 0.05
"""Share of the energy in GPUs that look hung from which it is said."""
GIB = 2**30
_GIGABYTES = re.compile(r"(\d+) ?GB")


@dataclass(frozen=True, slots=True)
class Used:
    """What is known of a run beside its energy."""

    cpus: float | None = None
    memory_bytes: float | None = None
    causes: tuple[CauseRow, ...] = ()


def notes(job: Job, run: JobRow | None, used: Used, now_s: float) -> tuple[Note, ...]:
    """Return what stands out of a run of a job, what matters most first."""
    if run is None:
        return (Note("Nothing was recorded of it."),) if job.state.finished else ()
    ran_s = (run.end_s if run.end_s is not None else now_s) - run.start_s
    found = [*_coverage(run, ran_s)]
    if ran_s < YOUNG_S:
        return (*found, Note("It ran for less than ten minutes: too short to judge."))
    known = run.measured_share is not None and run.measured_share >= MEASURED
    found += _causes(used.causes)
    if known:
        found += _gpus(run, used, " while it was looked at" if run.seen_seconds < MEASURED * ran_s else "")
    found += [*_hung(run), *_shape(job), *_host(job, used.cpus, used.memory_bytes), *_limit(job, run)]
    return tuple(found)


def _coverage(run: JobRow, ran_s: float) -> Iterator[Note]:
    if run.gpus and run.measured_share is not None and run.measured_share < MEASURED:
        yield Note(f"Its GPUs were measured {percent(run.measured_share)} of the time: of the rest nothing is known.",
                   "Mend the telemetry of its nodes.")
    elif ran_s > YOUNG_S and run.seen_seconds < MEASURED * ran_s:
        yield Note(f"It was looked at {percent(run.seen_seconds / ran_s)} of the time that it ran: energies are of "
                   "that part.")
    if run.shared_share > 0.0:
        yield Note("It shares GPUs with other jobs: their watts are split in equal parts.")


def _causes(causes: Iterable[CauseRow]) -> Iterator[Note]:
    for one in causes:
        yield Note(f"{one.words[:1].upper()}{one.words[1:]}, {percent(one.share_ratio)} of the judged time (confidence "
                   f"{percent(one.confidence)}): {'; '.join(one.evidence)}.", one.remedy)


def _gpus(run: JobRow, used: Used, scope: str) -> Iterator[Note]:
    held = round(run.gpus)
    idle = len(run.idle_gpus or ())
    if held and idle >= held:
        yield Note(f"Its GPU was never used{scope}." if held == 1 else f"None of its {held} GPUs was ever used{scope}.",
                   "Ask for no GPU, or look why the program does not see it.")
    elif idle:
        yield Note(f"{idle} of {held} GPUs {'was' if idle == 1 else 'were'} never used{scope}.",
                   f"Ask for {held - idle}.")
    elif run.activity is not None and run.activity < LOW_ACTIVITY and used.causes:
        yield Note(f"Its GPUs worked {percent(run.activity)} of the time.")
    elif run.activity is not None and run.activity < LOW_ACTIVITY:
        few = max(1, math.ceil(held * run.activity / 0.5)) if held > 1 else 0
        fix = f"{few} would do, " if few and few < held else ""
        yield Note(f"Its GPUs worked {percent(run.activity)} of the time.",
                   f"{fix[:1].upper()}{fix[1:]}{'or' if fix else 'Try'} a larger batch, more data loaders, a share of "
                   "a GPU (MIG).")
    yield from _memory(run)


def _memory(run: JobRow) -> Iterator[Note]:
    told = _GIGABYTES.search(run.gpu_model)
    if told and run.memory_max_bytes is not None:
        share = run.memory_max_bytes / (int(told[1]) * GIB)
        if share < LOW_MEMORY:
            yield Note(f"Its fullest GPU held {run.memory_max_bytes / GIB:.1f} of {told[1]} GiB.",
                       "A smaller GPU or a MIG instance may do.")


def _hung(run: JobRow) -> Iterator[Note]:
    joules = run.classes.get(PowerClass.ALLOCATED_HUNG, 0.0)
    if run.energy_joules and joules / run.energy_joules > SUSPICIOUS:
        yield Note(f"GPUs were busy at the power of idle ones for {percent(joules / run.energy_joules)} of its energy: "
                   "it may have hung.", "Look at its log; end it if it makes no progress.")


def _shape(job: Job) -> Iterator[Note]:
    sizes = [part.gpus for part in job.allocations if part.gpus]
    if len(sizes) > 1 and max(sizes) and sum(sizes) <= 8:
        yield Note(f"{sum(sizes)} GPUs lie over {len(sizes)} nodes.", "Ask for one node: GPUs then talk by NVLink.")


def _host(job: Job, cpus_used: float | None, memory_used: float | None) -> Iterator[Note]:
    cpus, memory = _held(job)
    if cpus > 1 and cpus_used is not None and cpus_used / cpus < LOW_CPUS:
        yield Note(f"{cpus_used:.1f} of its {cpus} CPUs worked at once.",
                   f"Ask for {max(1, math.ceil(cpus_used * 1.2))}.")
    if memory and memory_used is not None and memory_used / memory < LOW_MEMORY:
        yield Note(f"It used {memory_used / GIB:.1f} of {memory / GIB:.1f} GiB of memory.",
                   f"Ask for {max(1, math.ceil(memory_used / GIB * 1.2))} GiB.")


def _held(job: Job) -> tuple[int, int]:
    """Return CPUs and memory that a job holds of each of its nodes: uses are told by node."""
    parts = job.allocations
    return max((part.cpus for part in parts), default=0), max((part.memory_bytes for part in parts), default=0)


def _limit(job: Job, run: JobRow) -> Iterator[Note]:
    if run.end_s is None or job.limit_s is None or not job.state.finished or job.state.value != "completed":
        return
    ran_s = run.end_s - run.start_s
    if ran_s < LOW_LIMIT * job.limit_s:
        hours = max(1, math.ceil(ran_s * 1.5 / 3600))
        yield Note(f"It took {percent(ran_s / job.limit_s)} of its time limit.",
                   f"Ask for {hours} h: short jobs start sooner.")


def headline(run: JobRow) -> str:
    """Return the power of a run in words."""
    mean = watts(run.power_mean_watts)
    return mean if run.power_max_watts is None else f"{mean} (at most {watts(run.power_max_watts)})"
