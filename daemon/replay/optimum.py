"""How good a schedule can be at all: the best one of a few jobs, and a bound for many.

Jobs are rigid and are never interrupted in the best schedule; the bounds hold for preemptive policies, too, as long as
nothing makes a job faster than its recorded run time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .cluster import Cluster
from .feasibility import pools, shape
from .workload import Workload

Objective = Literal["jct_mean_s", "makespan_s"]

MOST_JOBS = 12
STATES = 300_000
"""Looked at before the search gives up and says how far it came; about ten seconds."""

Amount = tuple[int, int, int]
"""GPUs, CPUs, memory bytes on one node."""
Placement = tuple[int, ...]
"""Node of each share of a job."""


class OptimumError(ValueError):
    """No optimum can be had; the message says why."""


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A job as the search sees it."""

    submit_s: float
    run_s: float
    shares: tuple[Amount, ...]
    """What it holds on each of as many different nodes; equal shares stand together."""
    allowed: tuple[bool, ...]
    """Whether it may use each node."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best schedule that was found."""

    value: float
    """Mean job completion time, or the end of the last job after the first submission, s."""
    start_s: tuple[float, ...]
    placements: tuple[Placement, ...]
    proven: bool
    """False when the search gave up; the true optimum then lies between ``bound`` and ``value``."""
    bound: float
    states: int


@dataclass(slots=True)
class _Search:
    """Depth-first branch and bound over what starts at each submission and each end.

    No more moments are needed: a job that starts in between could start earlier without hurting anybody.
    """

    tasks: list[SearchJob]
    capacity: list[Amount]
    mean: bool
    budget: int
    best: float = math.inf
    best_starts: dict[int, tuple[float, Placement]] = field(default_factory=dict)
    starts: dict[int, tuple[float, Placement]] = field(default_factory=dict)
    running: list[tuple[float, int]] = field(default_factory=list)
    """(end, task)."""
    free: list[Amount] = field(default_factory=list)
    seen: dict[object, float] = field(default_factory=dict)
    states: int = 0

    def run(self) -> None:
        """Search everything, or as much as the budget allows."""
        self.free = list(self.capacity)
        self._visit(min(task.submit_s for task in self.tasks), 0.0, -1)

    def _visit(self, now: float, cost: float, last: int) -> None:
        """Try every continuation; ``last`` started at this moment, and those before it are not tried again."""
        waiting = [index for index in range(len(self.tasks)) if index not in self.starts]
        if not waiting:
            if cost < self.best:
                self.best, self.best_starts = cost, dict(self.starts)
            return
        if self.states >= self.budget or self._cannot_win(now, cost, waiting, last):
            return
        self.states += 1
        for index in sorted(waiting, key=lambda index: self.tasks[index].run_s):
            if index > last and self.tasks[index].submit_s <= now and not self._twin_waits(index, waiting):
                for placement in self._placements(index, waiting):
                    self._start(index, placement, now, cost)
        self._wait(now, cost, waiting)

    def _start(self, index: int, placement: Placement, now: float, cost: float) -> None:
        task = self.tasks[index]
        end = now + task.run_s
        self._shift(index, placement, -1)
        self.starts[index] = now, placement
        self.running.append((end, index))
        self._visit(now, cost + end if self.mean else max(cost, end), index)
        self.running.remove((end, index))
        del self.starts[index]
        self._shift(index, placement, 1)

    def _wait(self, now: float, cost: float, waiting: list[int]) -> None:
        """Let time pass until something ends or arrives."""
        times = [end for end, _ in self.running]
        times += [submit for index in waiting if (submit := self.tasks[index].submit_s) > now]
        if not times:
            return
        then = min(times)
        ended = [run for run in self.running if run[0] <= then]
        self.running = [run for run in self.running if run[0] > then]
        for _, index in ended:
            self._shift(index, self.starts[index][1], 1)
        self._visit(then, cost, -1)
        for _, index in ended:
            self._shift(index, self.starts[index][1], -1)
        self.running += ended

    def _shift(self, index: int, placement: Placement, sign: int) -> None:
        for node, share in zip(placement, self.tasks[index].shares, strict=True):
            gpus, cpus, memory = self.free[node]
            self.free[node] = gpus + sign * share[0], cpus + sign * share[1], memory + sign * share[2]

    def _twin_waits(self, index: int, waiting: list[int]) -> bool:
        """Tell whether an equal job with a lower index waits: only the first of equals is tried."""
        return any(self.tasks[other] == self.tasks[index] for other in waiting if other < index)

    def _placements(self, index: int, waiting: list[int]) -> Iterator[Placement]:
        """Yield the placements that differ in more than the names of equal nodes."""
        marks = self._marks(waiting)
        yield from self._extend(self.tasks[index], (), marks)

    def _extend(self, task: SearchJob, chosen: Placement, marks: list[object]) -> Iterator[Placement]:
        if len(chosen) == len(task.shares):
            yield chosen
            return
        share, tried = task.shares[len(chosen)], set()
        for node, free in enumerate(self.free):
            fits = task.allowed[node] and all(left >= wanted for left, wanted in zip(free, share, strict=True))
            if fits and node not in chosen and marks[node] not in tried:
                tried.add(marks[node])
                yield from self._extend(task, (*chosen, node), marks)

    def _marks(self, waiting: list[int]) -> list[object]:
        """Return for each node what distinguishes it: its size, what may use it, and what runs on it until when."""
        held: list[list[tuple[float, Amount]]] = [[] for _ in self.free]
        for end, index in self.running:
            for node, share in zip(self.starts[index][1], self.tasks[index].shares, strict=True):
                held[node].append((end, share))
        allowed = [tuple(self.tasks[index].allowed[node] for index in waiting) for node in range(len(self.free))]
        return [(self.capacity[node], allowed[node], tuple(sorted(held[node]))) for node in range(len(self.free))]

    def _cannot_win(self, now: float, cost: float, waiting: list[int], last: int) -> bool:
        """Tell whether no continuation beats the best, or the same state was reached at no higher cost."""
        if self._least(now, cost, waiting, last) >= self.best * (1 - 1e-12):
            return True
        key = now, tuple(waiting), last, tuple(sorted(map(repr, self._marks(waiting))))
        if self.seen.get(key, math.inf) <= cost:
            return True
        self.seen[key] = cost
        return False

    def _least(self, now: float, cost: float, waiting: list[int], last: int) -> float:
        """Return a cost that no continuation undercuts: GPUs become free only as the running jobs end."""
        tasks = [self.tasks[index] for index in waiting]
        speed = [(now, sum(free[0] for free in self.free))]
        for end, index in sorted(self.running):
            speed.append((end, speed[-1][1] + _gpus(self.tasks[index])))
        # What was passed over at this moment starts at the next one at the earliest.
        next_s = min([end for end, _ in self.running] + [task.submit_s for task in tasks if task.submit_s > now],
                     default=now)
        release = [max(now if index > last else next_s, task.submit_s)
                   for index, task in zip(waiting, tasks, strict=True)]
        if not self.mean:
            return max(cost, *(begin + task.run_s for begin, task in zip(release, tasks, strict=True)))
        run, gpus = [task.run_s for task in tasks], [_gpus(task) for task in tasks]
        return cost + _completions_bound(release, run, gpus, speed)


def _gpus(task: SearchJob) -> int:
    return sum(share[0] for share in task.shares)


def best_schedule(cluster: Cluster, workload: Workload, objective: Objective = "jct_mean_s",
                  states: int = STATES) -> Optimum:
    """Return the best schedule of a few rigid jobs, placed as the engine places them.

    Raises ``OptimumError`` for more than a dozen jobs, or one that can never run.
    """
    if not 0 < len(workload) <= MOST_JOBS:
        raise OptimumError(f"the best schedule is searched for 1 to {MOST_JOBS} jobs, not {len(workload)};"
                           " use a bound for more")
    capacity = list(zip(cluster.gpus.tolist(), cluster.cpus.tolist(), cluster.memory.tolist(), strict=True))
    search = _Search(_tasks(cluster, workload), capacity, objective == "jct_mean_s", states)
    search.run()
    if not search.best_starts:
        raise OptimumError("a job can never run on this cluster, or the search was cut short before any schedule")
    value = _value(search.best, workload, objective)
    proven = search.states < states
    bound = jct_mean_bound if objective == "jct_mean_s" else makespan_bound
    schedule = [search.best_starts[index] for index in range(len(workload))]
    return Optimum(value, tuple(start for start, _ in schedule), tuple(placement for _, placement in schedule), proven,
                   value if proven else bound(workload, int(cluster.gpus.sum())), search.states)


def _value(cost: float, workload: Workload, objective: Objective) -> float:
    if objective == "jct_mean_s":
        return (cost - float(workload.submit.sum())) / len(workload)
    return cost - float(workload.submit.min())


def _tasks(cluster: Cluster, workload: Workload) -> list[SearchJob]:
    pool, matrix = pools(cluster, workload)
    shapes = shape(cluster, workload, pool, matrix)
    tasks = []
    for job in range(len(workload)):
        chunk, chunks, rest, rests, cpus, memory = (
            int(shapes[name][job]) for name in ("chunk", "chunks", "rest", "rests", "cpus", "memory"))
        scale = max(chunk, 1)
        last = ((rest, -(-cpus * rest // scale), -(-memory * rest // scale)),) * rests
        shares = ((chunk, cpus, memory),) * chunks + last
        tasks.append(SearchJob(float(workload.submit[job]), float(workload.run[job]), shares,
                               tuple(bool(member) for member in matrix[pool[job]])))
    return tasks


def jct_mean_bound(workload: Workload, gpus: int) -> float:
    """Return a mean job completion time, s, that no schedule on so many GPUs can beat."""
    if not len(workload):
        return 0.0
    submit, run, wanted = (column.tolist() for column in (workload.submit, workload.run, workload.gpus))
    completions = _completions_bound(submit, run, wanted, [(-math.inf, gpus)])
    return float((completions - workload.submit.sum()) / len(workload))


def elastic_jct_mean_bound(submit: NDArray[np.float64], fastest_s: NDArray[np.float64],
                           gpu_seconds: NDArray[np.float64], gpus: int) -> float:
    """Return a mean job completion time, s, that no policy can beat, even one that changes the sizes of jobs.

    ``fastest_s`` is the run time of each job at its best size, ``gpu_seconds`` the least that it takes at any.
    """
    if not len(submit):
        return 0.0
    ends = _shortest_remaining(submit.tolist(), gpu_seconds.tolist(), [(-math.inf, gpus)])
    return float(max(fastest_s.mean(), (ends - submit.sum()) / len(submit)))


def makespan_bound(workload: Workload, gpus: int) -> float:
    """Return a time from the first submission to the last end, s, that no schedule on so many GPUs can beat.

    What is submitted from some moment on cannot be done before its GPU-seconds have passed through all GPUs.
    """
    if not len(workload):
        return 0.0
    order = np.argsort(workload.submit, kind="stable")
    submit = workload.submit[order]
    work = (workload.run * workload.gpus)[order]
    after = np.cumsum(work[::-1])[::-1] / gpus
    longest = (workload.submit + workload.run).max()
    return float(max((submit + after).max(), longest) - submit[0])


Speed = list[tuple[float, int]]
"""(from when, GPUs) of one machine that stands for all free GPUs; the last holds for ever."""


def _completions_bound(submit: list[float], run: list[float], gpus: list[int], speed: Speed) -> float:
    """Return a sum of completion times that cannot be beaten: the best of three relaxations."""
    work = [seconds * count for seconds, count in zip(run, gpus, strict=True)]
    alone = sum(submit) + sum(run)
    busy = _mean_busy(submit, work, speed) + sum(run) / 2
    return max(alone, busy, _shortest_remaining(submit, work, speed))


def _mean_busy(submit: list[float], work: list[float], speed: Speed) -> float:
    """Return the sum of mean busy times when one machine of all free GPUs serves the least work first.

    This preemptive schedule has the least such sum (Goemans, Queyranne, Schulz, Skutella and Wang, SIAM J. Discrete
    Math. 2002); a real job of constant width ends at least half its run time after its mean busy time.
    """
    busy = [0.0 if gpu_s > 0 else begin for begin, gpu_s in zip(submit, work, strict=True)]
    for job, begin, end, rate in _one_machine(submit, work, speed, shrink=False):
        busy[job] += (begin + end) / 2 * (end - begin) * rate / work[job]
    return sum(busy)


def _shortest_remaining(submit: list[float], work: list[float], speed: Speed) -> float:
    """Return the sum of completion times on that machine when it serves the shortest remaining work first."""
    ends = list(submit)
    for job, _, end, _ in _one_machine(submit, work, speed, shrink=True):
        ends[job] = end
    return sum(ends)


def _one_machine(submit: list[float], work: list[float], speed: Speed, *,
                 shrink: bool) -> Iterator[tuple[int, float, float, int]]:
    """Yield (job, from, to, GPUs) as one preemptive machine serves the least work, or with ``shrink`` what is left."""
    arrivals = sorted(range(len(submit)), key=submit.__getitem__)
    left, queue = list(work), list[tuple[float, int]]()
    now, arrived, step = speed[0][0], 0, 0
    while queue or arrived < len(arrivals):
        if not queue:
            now = max(now, submit[arrivals[arrived]])
        while arrived < len(arrivals) and submit[arrivals[arrived]] <= now:
            job = arrivals[arrived]
            arrived += 1
            if left[job] > 0:
                heapq.heappush(queue, (left[job], job))
        while step + 1 < len(speed) and speed[step + 1][0] <= now:
            step += 1
        if not queue:
            continue
        until = min(submit[arrivals[arrived]] if arrived < len(arrivals) else math.inf,
                    speed[step + 1][0] if step + 1 < len(speed) else math.inf)
        rate = speed[step][1]
        rank, job = queue[0]
        done = now + left[job] / rate if rate else math.inf
        if done <= until:
            yield job, now, done, rate
            heapq.heappop(queue)
        else:
            yield job, now, until, rate
            left[job] -= (until - now) * rate
            heapq.heapreplace(queue, (left[job] if shrink else rank, job))
        now = min(done, until)
