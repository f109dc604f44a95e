"""What stands out of a job and what to do about it, in the manner of jobstats: a sentence each, with the fix.

There is no note on what was not measured, and none on a job that is younger than ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...storage.records import Job
from ...storage.uses import Use
from ..headline import percent, watts
from . import findings
from .findings import MEASURED, RunFacts
from .rows import CauseRow, JobRow, Note

YOUNG_S = 600.0
LOW_ACTIVITY = 0.25
LOW_CPUS, LOW_MEMORY, LOW_LIMIT = 0.25, 0.25, 0.25
SUSPICIOUS = 0.05
"""Share of the energy in GPUs that look hung from which there is a note."""


@dataclass(frozen=True, slots=True)
class Used:
    """What is known of a run beside its energy."""

    use: Use | None = None
    """Of CPUs and memory."""
    causes: tuple[CauseRow, ...] = ()
    node_gpus: int | None = None
    """GPUs of the largest of its nodes; None where one of them is not known."""


def notes(job: Job, run: JobRow | None, used: Used, now_s: float) -> tuple[Note, ...]:
    """Return what stands out of a run of a job, what matters most first."""
    if run is None:
        return (Note("Nothing was recorded of it."),) if job.state.finished else ()
    facts = RunFacts(job, run, now_s, node_gpus=used.node_gpus).using(used.use)
    gaps = [*_coverage(run, facts.ran_s)]
    if facts.ran_s < YOUNG_S:
        return (*gaps, Note("It ran for less than ten minutes: too short to judge."))
    if used.use is not None and not findings.long_enough(used.use, facts.ran_s):
        measured = percent(used.use.measured_s / facts.ran_s)
        gaps.append(Note(f"Its CPUs and memory were measured {measured} of the time: not long enough to judge them."))
    gpus = findings.unused_gpus(facts, 0.0) or findings.low_activity(facts, LOW_ACTIVITY)
    if gpus is not None and gpus.kind == "low_activity" and used.causes:
        gpus = replace(gpus, fix="")  # each cause has its own
    judged = (gpus, findings.unused_gpu_memory(facts, LOW_MEMORY), findings.suspicious(facts, SUSPICIOUS),
              findings.scattered(facts, 1), findings.unused_cpus(facts, LOW_CPUS),
              findings.unused_memory(facts, LOW_MEMORY), findings.short_of_limit(facts, LOW_LIMIT))
    return (*gaps, *_causes(used.causes), *(note for note in judged if note is not None))


def _coverage(run: JobRow, ran_s: float) -> Iterator[Note]:
    if run.gpus and run.measured_share is not None and run.measured_share < MEASURED:
        yield Note(f"Its GPUs were measured {percent(run.measured_share)} of the time: of the rest nothing is known.",
                   "Mend the telemetry of its nodes.")
    elif ran_s > YOUNG_S and run.seen_seconds < MEASURED * ran_s:
        yield Note(f"It was looked at {percent(run.seen_seconds / ran_s)} of the time that it ran: energies are of "
                   "that part.")
    if run.shared_share > 0.0:
        yield Note("It holds GPUs with other jobs, or parts of them: idle watts are split by what each holds, the rest "
                   "by what MIG instances do or by what is held; where neither is recorded, in equal parts.")


def _causes(causes: Iterable[CauseRow]) -> Iterator[Note]:
    for cause in causes:
        yield Note(f"{cause.words[:1].upper()}{cause.words[1:]}, {percent(cause.share_ratio)} of the judged time "
                   f"(confidence {percent(cause.confidence)}): {'; '.join(cause.evidence)}.", cause.remedy)


def headline(run: JobRow) -> str:
    """Return the power of a run in words."""
    mean = watts(run.power_mean_watts)
    return mean if run.power_max_watts is None else f"{mean} (at most {watts(run.power_max_watts)})"
