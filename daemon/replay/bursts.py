"""Bursts of like jobs: a sweep of parameters is submitted at once and its runs are much alike, and new all together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .compiled import compiled_with_arrays

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

PAUSE_S = 3600.0
"""A burst is over when no like job has been submitted for so long."""
FIRST = 4
"""So many first jobs stand for a burst where each burst counts alike, whatever its size."""
SEEING, BLIND = 0, 1
"""Whether any job of the burst had ended when a job was submitted."""


class Bursts(NamedTuple):
    """The last burst of each group of like jobs, and of which one each job is."""

    group: Codes
    """[job]"""
    burst: Codes
    """[job] its number within the group."""
    place: Codes
    """[job] how many of its burst were submitted before."""
    last_s: Floats
    """[group] last submission."""
    number: Codes
    """[group] of the burst that goes on."""
    size: Codes
    """[group] of that burst."""
    ended: Codes
    """[group] jobs of it that have ended."""

    @classmethod
    def of(cls, group: Codes) -> Bursts:
        """Return what is known before any submission."""
        groups, jobs = int(group.max(initial=-1)) + 1, len(group)
        return cls(group, np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.full(groups, -np.inf),
                   np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.int64))


@compiled_with_arrays
def submit_to_burst(job: int, now: float, bursts: Bursts) -> int:
    """Note a submission; return whether its burst is a blind one."""
    group = bursts.group[job]
    if now - bursts.last_s[group] > PAUSE_S:
        bursts.number[group] += 1
        bursts.size[group] = bursts.ended[group] = 0
    bursts.burst[job], bursts.place[job] = bursts.number[group], bursts.size[group]
    bursts.last_s[group] = now
    bursts.size[group] += 1
    return SEEING if bursts.ended[group] else BLIND


@compiled_with_arrays
def end_in_burst(job: int, bursts: Bursts) -> None:
    """Note that a job has ended."""
    group = bursts.group[job]
    if bursts.burst[job] == bursts.number[group]:
        bursts.ended[group] += 1
