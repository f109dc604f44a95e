"""Two policies side by side on the same held-out jobs, in blocks of history that share no queue.

Each window is replayed to its end, once as nodes are and once with empty ones powered down, which changes no start.

What happens in one block is not the consequence of what happened in another. A day is no such block, for queues run
over midnight. A block ends at the first moment, a day or more after it began, at which nobody waits under any of the
policies that are compared: what they did before is then past, but for what still runs. Where the queue hardly ever
empties a block ends after a week, which weakens it; six blocks are then six weeks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..agents.kinds import TraceWindow
from ..replay.engine import Policy, Run
from ..replay.outcome import SpeedCoverage, coverage, held_time, times
from ..replay.power import Occupation, energy, occupation
from ..replay.state import ClusterState
from ..replay.timeline import ReservedNodes, begun, proceed
from ..replay.workload import Workload
from .evidence import FINE_RATES, NOTHING, USE_RATES, Comparison, compared

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

    windows: tuple[TraceWindow, ...]
    counted: tuple[Members, ...]
    """[window][job] submitted within the window, and able to run at all."""

    @classmethod
    def of(cls, windows: tuple[TraceWindow, ...] | list[TraceWindow]) -> Exam:
        """Return the exam on these windows."""
        return cls(tuple(windows), tuple(_counted(window) for window in windows))

    def column(self, read: Callable[[Workload], object]) -> NDArray[np.generic]:
        """Return one value for each job that counts."""
        columns = [np.asarray(read(window.workload))[counted]
                   for window, counted in zip(self.windows, self.counted, strict=True)]
        return np.concatenate(columns) if columns else np.zeros(0)

    @property
    def days(self) -> float:
        """Return how many days the windows span, each from its beginning to its last submission."""
        return float(sum(max(0.0, _until(window) - window.since_s) for window in self.windows)) / 86400.0

    def groups(self) -> Iterator[tuple[str, Members]]:
        """Yield groups that must not suffer: each partition, and light, middle and heavy thirds of users by GPU time.

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


def _counted(window: TraceWindow) -> Members:
    possible = np.ones(len(window.workload), bool)
    possible[[rejection.job for rejection in ClusterState.of(window.cluster, window.workload).rejected]] = False
    return possible & (window.workload.submit >= window.since_s)


def _until(window: TraceWindow) -> float:
    return float(window.workload.submit.max(initial=window.since_s))


@dataclass(frozen=True)
class WindowReplay:
    """What one replay of one window leaves for comparisons."""

    start: Floats
    """The start of every job, also of jobs that only fill the cluster; NaN for a job that never started."""
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

    window: NDArray[np.int64]
    submit: Floats
    jct: Floats
    wait: Floats
    slowdown: Floats
    replays: tuple[WindowReplay, ...]
    """By window."""
    speeds: tuple[SpeedCoverage, ...] = ()
    """The speeds that the replays used, and on what these rest, by window."""

    @property
    def utilization(self) -> float:
        """Return U, Eq. (5) over the number of partitions, from when jobs count to the last submission; NaN without."""
        lengths = [replay.times[-1] - replay.times[0] for replay in self.replays if len(replay.times) > 1]
        filled = [replay.held[-1] for replay in self.replays if len(replay.times) > 1]
        return float(sum(filled) / sum(lengths)) if lengths else float("nan")

    @property
    def jct_mean_s(self) -> float:
        """Return the mean completion time; infinite where no job ended."""
        return float(np.nanmean(self.jct)) if np.isfinite(self.jct).any() else np.inf


def replayed(policy: Policy, exam: Exam, seed: int, power_down_s: float = POWER_DOWN_S) -> HeldOutRun:
    """Replay every window to its end and return the times of the jobs that count."""
    parts, replays, covered = [], list[WindowReplay](), list[SpeedCoverage]()
    for number, (window, counted) in enumerate(zip(exam.windows, exam.counted, strict=True)):
        done, marks, joules = _metered(window, policy, seed)
        down, _, joules_down = _metered(window, policy, seed, power_down_s)
        job_times = times(done)
        figures = np.full((3, len(window.workload)), np.nan)
        figures[:, job_times.jobs] = job_times.jct, job_times.wait, job_times.slowdown
        parts.append(np.vstack([np.full(int(counted.sum()), number), window.workload.submit[counted],
                                figures[:, counted]]))
        edges = np.append(np.arange(window.since_s, _until(window), USE_MARK_S), _until(window))
        held = np.append(0.0, np.cumsum(held_time(done, edges))) if len(edges) > 1 else np.zeros(len(edges))
        replays.append(WindowReplay(done.start, marks, joules, joules_down, occupation(done), occupation(down),
                                     edges, held,
                                     float(np.nanmax(done.end, initial=window.since_s))))
        covered.append(coverage(done, window.speeds))
    window_number, submit, jct, wait, slowdown = np.hstack(parts) if parts else np.zeros((5, 0))
    return HeldOutRun(window_number.astype(np.int64), submit, jct, wait, slowdown, tuple(replays), tuple(covered))


def _metered(window: TraceWindow, policy: Policy, seed: int,
             power_down_s: float = np.inf) -> tuple[Run, Floats, Floats]:
    """Replay a window to its end; return the run, moments of it and the joules drawn from the first one to each."""
    done, event_list = begun(window.cluster, window.workload, policy, seed=seed, power_down_s=power_down_s,
                         speed=window.speeds.table_for(policy), resize_s=window.resize_s)
    marks = np.append(np.arange(window.since_s, _until(window), MARK_S), _until(window))
    reserved_nodes = ReservedNodes(done.state, window.workload, window.cluster, window.reserved)
    proceed_until, drawn = partial(proceed, done.state, event_list, policy), []
    for mark in marks.tolist() if np.isfinite(marks).all() else ():
        reserved_nodes.proceed(proceed_until, mark)
        drawn.append(energy(done, window.power, until=max(mark, done.state.now)).total)
    reserved_nodes.proceed(proceed_until, np.inf)
    return done, marks, np.array(drawn) - (drawn[0] if drawn else 0.0)


DAY_S = 86400.0
LEAST_S = DAY_S
"""Days have their own rhythm: a shorter block would be a morning or a night."""
MOST_S = 7 * DAY_S
OUTSIDE = -1
"""Block of a job that was submitted after the last block closed, or before the first began."""


def cuts(submit: Floats, clear: Floats, since_s: float, until_s: float) -> Floats:
    """Return the edges of the blocks that have closed, ``since_s`` first; just that when none has.

    Jobs in order of submission; ``clear`` is when each has started under all policies, NaN for never.
    """
    waits_until = np.maximum.accumulate(np.where(np.isnan(clear), np.inf, clear))
    free = submit[1:][submit[1:] >= waits_until[:-1]]
    free = free[free <= until_s]
    edges = [since_s]
    while True:
        place = int(np.searchsorted(free, edges[-1] + LEAST_S))
        latest = edges[-1] + MOST_S
        edge = min(float(free[place]), latest) if place < len(free) else latest
        if edge > until_s:
            return np.array(edges)
        edges.append(edge)


def block_of(submit: Floats, edges: Floats) -> NDArray[np.int64]:
    """Return the number of the block in which each job was submitted; ``OUTSIDE`` of all."""
    number = np.searchsorted(edges, submit, side="right") - 1
    return np.where((number >= 0) & (number < len(edges) - 1), number, OUTSIDE).astype(np.int64)


def sums(values: Floats, number: NDArray[np.int64], blocks: int) -> Floats:
    """Return the sum of values by block."""
    inside = number != OUTSIDE
    return np.asarray(np.bincount(number[inside], weights=values[inside], minlength=blocks), np.float64)


@dataclass(frozen=True)
class Pair:
    """The candidate's trial beside another one, and the blocks in which they are compared."""

    candidate: HeldOutRun
    rival: HeldOutRun
    edges: tuple[Floats, ...]
    """By window."""
    block: NDArray[np.int64]
    """The block of each job, over all windows; ``OUTSIDE`` for a job in no block."""
    blocks: int

    @classmethod
    def of(cls, candidate: HeldOutRun, rival: HeldOutRun, exam: Exam) -> Pair:
        """Return the pair; jobs that did not end under both are left out."""
        edges, numbers, before = list[Floats](), [np.zeros(0, np.int64)], 0
        ended = np.isfinite(candidate.jct) & np.isfinite(rival.jct)
        for window, candidate_replay, rival_replay in zip(exam.windows, candidate.replays, rival.replays, strict=True):
            submit, number = window.workload.submit, len(edges)
            # A long job that ends later would change a block that has been looked at: such a block is not there yet.
            edges.append(cuts(submit, np.maximum(candidate_replay.start, rival_replay.start), window.since_s,
                              min(window.settled_s, float(submit.max(initial=window.since_s)))))
            in_window = candidate.window == number
            blocks = block_of(candidate.submit[in_window], edges[-1])
            numbers.append(np.where((blocks != OUTSIDE) & ended[in_window], blocks + before, OUTSIDE))
            before += len(edges[-1]) - 1
        return cls(candidate, rival, tuple(edges), np.concatenate(numbers), before)

    def jct(self, members: Members | None = None, bound: float = 1.0) -> Comparison:
        """Return mean completion time over the rival's, of all jobs or of some."""
        block = self.block if members is None else np.where(members, self.block, OUTSIDE)
        candidate, rival = (sums(trial.jct, block, self.blocks) for trial in (self.candidate, self.rival))
        return compared(candidate, rival, bound=bound)

    def energy(self, *, down: bool, bound: float = 1.0) -> Comparison:
        """Return energy at the wall over the rival's, with empty nodes powered ``down`` or on."""
        candidate, rival = (np.concatenate([np.zeros(0), *(replay.drawn(edges, down=down) for replay, edges in zip(
            trial.replays, self.edges, strict=True))]) for trial in (self.candidate, self.rival))
        return compared(candidate, rival, FINE_RATES, bound)

    def utilization(self) -> Comparison:
        """Return what jobs held of their partitions over the rival's, Eq. (5); above 1 is better."""
        candidate, rival = (np.concatenate([np.zeros(0), *(replay.filled(edges) for replay, edges in zip(
            trial.replays, self.edges, strict=True))]) for trial in (self.candidate, self.rival))
        return compared(candidate, rival, USE_RATES)

    def tail(self, floor_s: float, bound: float = 1.0) -> Comparison:
        """Return p99 waits of blocks over the rival's, as ``tails`` does."""
        return tails(self.candidate.wait, self.rival.wait, self.block, floor_s, bound)


def tails(candidate: Floats, rival: Floats, block: NDArray[np.int64], floor_s: float, bound: float = 1.0) -> Comparison:
    """Return p99 waits of blocks over others, ``total`` being that of all jobs; none is taken below ``floor_s``."""
    inside = block != OUTSIDE
    if not inside.any():
        return NOTHING
    jobs = [block == number for number in np.unique(block[inside])]
    candidate_p99, rival_p99 = (np.array([max(floor_s, p99(waits[members])) for members in jobs])
                                for waits in (candidate, rival))
    ratio_of_all = max(floor_s, p99(candidate[inside])) / max(floor_s, p99(rival[inside]))
    return replace(compared(candidate_p99, rival_p99, bound=bound), total=ratio_of_all)


def mean(values: Floats) -> float:
    """Return the mean; NaN where there is no value."""
    return float(values.mean()) if len(values) else float("nan")


def p99(values: Floats) -> float:
    """Return the 99th percentile; NaN where there is no value."""
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")
