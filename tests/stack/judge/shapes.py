"""Smaller requests as they are told, submitted to a real Slurm: does it take them, and start them where it was said?"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from idlewatt.daemon.advice.job_wait_estimate import JobWaitEstimates
from idlewatt.daemon.advice.smaller_shapes import SmallerRequest
from idlewatt.exporters.hostlist import expand

from .rounds import Case, Round, policy_of, snapshots
from .slurm import Rejected, Slurm

_GPUS = re.compile(r"--gres=gpu|--gpus|-N|--nodes")
_OTHERS = {"--cpus-per-task": r"-c|--cpus-per", "--mem": r"--mem", "--time": r"-t"}
"""What an option that is told stands in place of."""


@dataclass(frozen=True)
class Tried:
    """A smaller request that was told to start, and what became of it."""

    asked: tuple[str, ...]
    """What the job asked for before."""
    shape: SmallerRequest
    state: str
    """``RUNNING``, else Slurm's reason or its refusal."""
    nodes: tuple[str, ...] = ()

    @property
    def as_told(self) -> bool:
        """Tell whether it started on the nodes that were told."""
        said = self.shape.placement
        return self.state == "RUNNING" and said is not None and set(self.nodes) == set(said.nodes)

    def __str__(self) -> str:
        """Return it on one line."""
        return (f"{' '.join(self.asked)} | {self.shape.change}: {self.shape.options} | told: {self.shape.placement}"
                f" | became: {self.state} {','.join(self.nodes)}")


def in_place(asked: Sequence[str], told: str) -> tuple[str, ...]:
    """Return the options of a job with those that are told in place of its own."""
    fresh, kept = told.split(), list(asked)
    if any(_GPUS.match(option) for option in fresh):
        kept = [option for option in kept if not _GPUS.match(option)]
    for name, own in _OTHERS.items():
        if any(option.startswith(f"{name}=") for option in fresh):
            kept = [option for option in kept if not re.match(own, option)]
    return (*kept, *fresh)


def try_shapes(slurm: Slurm, played: Round, most: int) -> list[Tried]:
    """Submit so many of the smaller requests that are told to start in place of jobs that wait after a round."""
    found = list[Tried]()
    waiting = [case for case in played.cases
               if case.state == "PENDING" and not (case.wish.array or case.wish.heterogeneous)]
    for place, case in enumerate(waiting):
        if len(found) == most:
            break
        found += _tried(slurm, played, case, place)
    return found


def _tried(slurm: Slurm, played: Round, case: Case, place: int) -> Iterator[Tried]:
    policy = policy_of(played.cluster)
    read = snapshots(slurm, played.cluster)["slurm_cli"]
    estimates = JobWaitEstimates(read, time.time(), policy).of(case.number)
    able = [shape for estimate in estimates for shape in estimate.shapes if shape.verdict == "starts"]
    if not able:
        return
    shape = able[place % len(able)]
    slurm.cancel(case.number)
    try:
        number = int(slurm.submit(in_place(case.wish.options, shape.options)))
    except Rejected as refusal:
        yield Tried(case.wish.options, shape, str(refusal))
        return
    slurm.settle()
    job = slurm.queue()[number]
    running = job["job_state"] == "RUNNING"
    yield Tried(case.wish.options, shape, "RUNNING" if running else job["state_reason"],
                tuple(expand(job["nodes"] or "")) if running else ())
