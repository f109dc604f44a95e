"""What everybody replays to be compared, which jobs of it are looked at, and how one policy did.

Each stretch is replayed to its end, once as nodes are and once with empty ones powered down, which changes no start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..agents.kinds import Stretch
from ..replay.engine import Policy, Run
from ..replay.outcome import held_time, times
from ..replay.power import Occupation, energy, occupation
from ..replay.speed_coverage import SpeedCoverage, coverage
from ..replay.state import ClusterState
from ..replay.timeline import begun, proceed
from ..replay.workload import Workload

Floats = NDArray[np.float64]
Members = NDArray[np.bool_]

MARK_S = 4 * 3600.0
"""Energy is read so often, and taken to be drawn evenly in between."""
USE_MARK_S = 3600.0
"""What jobs hold is read so often."""
POWER_DOWN_S = 1800.0
"""Where the site does not say after how long it powers empty nodes down: the energy is shown for this."""


@dataclass(frozen=True)
class Exam:
    """What everybody replays, and which jobs of it are looked at."""

    stretches: tuple[Stretch, ...]
    counted: tuple[Members, ...]
    """[stretch][job] submitted within the stretch, and able to run at all."""

    @classmethod
    def of(cls, stretches: tuple[Stretch, ...] | list[Stretch]) -> Exam:
        """Return the exam on these stretches."""
        return cls(tuple(stretches), tuple(_counted(stretch) for stretch in stretches))

    def column(self, read: Callable[[Workload], object]) -> NDArray[np.generic]:
        """Return one value for each job that counts."""
        columns = [np.asarray(read(stretch.workload))[counted]
                   for stretch, counted in zip(self.stretches, self.counted, strict=True)]
        return np.concatenate(columns) if columns else np.zeros(0)

    @property
    def days(self) -> float:
        """Return how many days the stretches span, each from its beginning to its last submission."""
        return float(sum(max(0.0, _until(stretch) - stretch.since_s) for stretch in self.stretches)) / 86400.0

    def groups(self) -> Iterator[tuple[str, Members]]:
        """Yield who must not suffer: each partition, and the light, middle and heavy thirds of users by GPU time.

        Single users have too few jobs to tell harm from chance.
        """
        # A code of -1 is the last one: none.
        partition = self.column(lambda work: np.array([*work.partition_names, ""], object)[work.partition])
        user = self.column(lambda work: np.array([*work.user_names, ""], object)[work.user])
        used = self.column(lambda work: work.run * work.gpus)
        for name in dict.fromkeys(partition):
            yield f"partition {name}", partition == name
        names, number = np.unique(user.astype(str), return_inverse=True)
        if len(names) < 3:
            return
        rank = np.argsort(np.argsort(np.bincount(number, weights=used), kind="stable"))
        for third, word in enumerate(("light", "middle", "heavy")):
            yield f"{word} users", (rank * 3 // len(names))[number] == third


def _counted(stretch: Stretch) -> Members:
    possible = np.ones(len(stretch.workload), bool)
    possible[[rejection.job for rejection in ClusterState.of(stretch.cluster, stretch.workload).rejected]] = False
    return possible & (stretch.workload.submit >= stretch.since_s)


def _until(stretch: Stretch) -> float:
    return float(stretch.workload.submit.max(initial=stretch.since_s))


@dataclass(frozen=True)
class StretchReplay:
    """What one replay of one stretch leaves for comparisons."""

    start: Floats
    """Of every job, those that only fill the cluster included; NaN for one that never started."""
    marks: Floats
    """Moments,"""
    joules: Floats
    """and the energy drawn from the first of them on,"""
    joules_down: Floats
    """also had empty nodes been powered down."""
    spent: Occupation
    spent_down: Occupation
    times: Floats
    """Edges of short windows, and"""
    held: Floats
    """what jobs held from the first of them to each, as shares of their partitions, in seconds: Eq. (5)'s sum."""
    last_end_s: float
    """When the last job ended."""

    def filled(self, edges: Floats) -> Floats:
        """Return the mean share of partitions that jobs held in each block, 0..1, times its length."""
        return np.diff(np.interp(edges, self.times, self.held))

    def drawn(self, edges: Floats, *, down: bool) -> Floats:
        """Return the joules drawn in each block."""
        return np.diff(np.interp(edges, self.marks, self.joules_down if down else self.joules))


@dataclass(frozen=True)
class HeldOutRun:
    """How one policy did on the held-out jobs, rows alike for all policies; NaN where a job did not end."""

    stretch: NDArray[np.int64]
    submit: Floats
    jct: Floats
    wait: Floats
    slowdown: Floats
    courses: tuple[StretchReplay, ...]
    """By stretch."""
    speeds: tuple[SpeedCoverage, ...] = ()
    """On what the speeds of its jobs rest, by stretch."""

    @property
    def utilization(self) -> float:
        """Return U, Eq. (5) over the number of partitions, from when jobs count to the last submission; NaN without."""
        lengths = [course.times[-1] - course.times[0] for course in self.courses if len(course.times) > 1]
        filled = [course.held[-1] for course in self.courses if len(course.times) > 1]
        return float(sum(filled) / sum(lengths)) if lengths else float("nan")

    @property
    def jct_mean_s(self) -> float:
        """Return the mean completion time; infinite where no job ended."""
        return float(np.nanmean(self.jct)) if np.isfinite(self.jct).any() else np.inf


def replayed(policy: Policy, exam: Exam, seed: int, power_down_s: float = POWER_DOWN_S) -> HeldOutRun:
    """Replay every stretch to its end and return the times of the jobs that count."""
    parts, courses, covered = [], list[StretchReplay](), list[SpeedCoverage]()
    for number, (stretch, counted) in enumerate(zip(exam.stretches, exam.counted, strict=True)):
        done, marks, joules = _metered(stretch, policy, seed)
        down, _, joules_down = _metered(stretch, policy, seed, power_down_s)
        found = times(done)
        told = np.full((3, len(stretch.workload)), np.nan)
        told[:, found.jobs] = found.jct, found.wait, found.slowdown
        parts.append(np.vstack([np.full(int(counted.sum()), number), stretch.workload.submit[counted],
                                told[:, counted]]))
        edges = np.append(np.arange(stretch.since_s, _until(stretch), USE_MARK_S), _until(stretch))
        held = np.append(0.0, np.cumsum(held_time(done, edges))) if len(edges) > 1 else np.zeros(len(edges))
        courses.append(StretchReplay(done.start, marks, joules, joules_down, occupation(done), occupation(down),
                                     edges, held,
                                     float(np.nanmax(done.end, initial=stretch.since_s))))
        covered.append(coverage(done, stretch.speeds))
    which, submit, jct, wait, slowdown = np.hstack(parts) if parts else np.zeros((5, 0))
    return HeldOutRun(which.astype(np.int64), submit, jct, wait, slowdown, tuple(courses), tuple(covered))


def _metered(stretch: Stretch, policy: Policy, seed: int,
             power_down_s: float = np.inf) -> tuple[Run, Floats, Floats]:
    """Replay a stretch to its end; return the run, moments of it and the joules drawn from the first one to each."""
    done, agenda = begun(stretch.cluster, stretch.workload, policy, seed=seed, power_down_s=power_down_s,
                         speed=stretch.speeds.table_for(policy), resize_s=stretch.resize_s)
    marks = np.append(np.arange(stretch.since_s, _until(stretch), MARK_S), _until(stretch))
    drawn = []
    for mark in marks.tolist() if np.isfinite(marks).all() else ():
        proceed(done.state, agenda, policy, mark)
        drawn.append(energy(done, stretch.power, until=max(mark, done.state.now)).total)
    proceed(done.state, agenda, policy, np.inf)
    return done, marks, np.array(drawn) - (drawn[0] if drawn else 0.0)
