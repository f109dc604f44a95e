"""What Slurm's own meters say that jobs took: ConsumedEnergy of ``sacct --json``, in joules.

Slurm counts the energy of whole nodes for each step that runs there, so that a job's steps overlap: the batch and
extern steps span the others. Of a job the step that took most is taken, not their sum. A job that shared its nodes is
reported what all of them took: such a figure is no check of anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import BadRecord, Fields
from .parse_json import Parsed, load, parse_accounted, parse_list


@dataclass(frozen=True, slots=True)
class ConsumedEnergy:
    """What Slurm counted of one run."""

    job_id: str
    start_s: float
    joules: float | None
    """None where it counts none: without a plugin that gathers energy every step has 0."""


def parse_consumed(text: str) -> Parsed[ConsumedEnergy]:
    """Return the runs of ``sacct --json`` that have begun, and a line for each record that is none.

    Raises:
        BadRecord: it is nothing that ``sacct --json`` prints.
    """
    parsed = parse_list(load(text), "jobs", _consumed)
    return Parsed(tuple(record for record in parsed.records if record is not None), parsed.skipped)


def _consumed(raw: Fields) -> ConsumedEnergy | None:
    job = parse_accounted(raw)
    if job.start_s is None:
        return None
    most = max((step.part("statistics").part("energy").number("consumed") or 0.0 for step in raw.parts("steps")),
               default=0.0)
    if most < 0:
        raise BadRecord("its energy is below zero")
    return ConsumedEnergy(job.job_id, job.start_s, most or None)
