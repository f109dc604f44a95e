"""FIFO, SJF, SRTF and QSSF as HeliosArtifact replays them (Hu et al., SC'21; commit bdaae10).

Integer seconds; one pool of 8-GPU nodes per virtual cluster; strict head-of-line blocking in all but SRTF.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .result import Row, table

NODE_GPUS = 8
PREEMPTION_S = ((1, 7), (NODE_GPUS, 30), (10**9, 60))
"""(up to so many GPUs, seconds added to the remaining time at each preemption)."""

Placement = list[tuple[int, int]]
"""(node, number of GPUs on the node) of each part of a placement."""


@dataclass(slots=True)
class HeliosJob:
    """A job of one virtual cluster, and its start and end."""

    submit_s: int
    number: int
    gpus: int
    run_s: int
    start_s: int = -1
    end_s: int = -1
    wait_s: int = 0
    overhead_s: int = 0
    preemptions: int = 0
    remaining_s: int = 0
    waiting_since_s: int = 0
    priority: int | None = None
    placement: Placement = field(default_factory=list)

    @property
    def jct_s(self) -> int:
        """Return the seconds from submission to end."""
        return self.end_s - self.submit_s


class Pool:
    """The nodes of one virtual cluster, filled by the placer "consolidate"."""

    def __init__(self, free: Sequence[int]) -> None:
        self.free = list(free)
        self._left = sum(self.free)

    def place(self, gpus: int) -> Placement | None:
        """Take GPUs: the fullest node that holds them all, or whole nodes; None when they do not fit."""
        if gpus > self._left:
            return None
        placement = self._within(gpus) if gpus <= NODE_GPUS else self._across(gpus)
        for node, taken in placement or ():
            self.free[node] -= taken
            self._left -= taken
        return placement

    def release(self, placement: Placement) -> None:
        """Give GPUs back."""
        for node, taken in placement:
            self.free[node] += taken
            self._left += taken

    def _within(self, gpus: int) -> Placement | None:
        fits = [(left, node) for node, left in enumerate(self.free) if left >= gpus]
        return [(min(fits)[1], gpus)] if fits else None

    def _across(self, gpus: int) -> Placement | None:
        """Take whole nodes; the remainder goes to the *emptiest* other node, an artefact of the original."""
        whole, rest = divmod(gpus, NODE_GPUS)
        emptiest = sorted(range(len(self.free)), key=lambda node: -self.free[node])
        chosen, other = emptiest[:whole], emptiest[whole:whole + 1]
        if any(self.free[node] < NODE_GPUS for node in chosen) or len(chosen) < whole:
            return None
        if not rest:
            return [(node, NODE_GPUS) for node in chosen]
        if not other or self.free[other[0]] < rest:
            return None
        return [*((node, NODE_GPUS) for node in chosen), (other[0], rest)]


Sort = Callable[[list[HeliosJob], int], bool]
"""Sorts the queue in place at a time, s; returns whether it must be sorted again a second later."""


def fifo(queue: list[HeliosJob], now: int) -> bool:
    """Keep the order of arrival."""
    return False


def sjf(queue: list[HeliosJob], now: int) -> bool:
    """Order by the true run time."""
    queue.sort(key=lambda job: job.run_s)
    return False


def qssf(generator: random.Random) -> Sort:
    """Return QSSF as published for Philly: by GPUs x true run time with a random error, without a trained model."""

    def order(queue: list[HeliosJob], now: int) -> bool:
        queue.sort(key=lambda job: job.gpus)
        if not any(job.submit_s < now for job in queue):
            return True  # artefact: a queue of newcomers alone is served by size
        for job in queue:
            if job.priority is None:
                job.priority = _noisy(job.run_s, generator) * job.gpus
        queue.sort(key=lambda job: job.priority or 0)
        return False

    return order


def _noisy(run_s: int, generator: random.Random) -> int:
    """Return the estimated run time; errors below -100 % make it negative, as in the original."""
    low, high = generator.choices(((0.0, 0.1), (0.1, 0.5), (0.5, 1.0), (1.0, 10.0), (10.0, 100.0)),
                                  weights=(0.1, 0.4, 0.2, 0.2, 0.1))[0]
    return int(run_s + run_s * generator.choice((-1, 1)) * generator.uniform(low, high))


def replay_queue(jobs: list[HeliosJob], nodes: int, sort: Sort) -> None:
    """Run jobs to their end without preemption; the first job that does not fit blocks the queue."""
    arrivals = sorted(jobs, key=lambda job: (job.submit_s, job.number))[::-1]
    pool, queue, again = Pool([NODE_GPUS] * nodes), list[HeliosJob](), False
    running: list[tuple[int, int, HeliosJob]] = []
    now = -1
    while arrivals or queue:
        now = min([job.submit_s for job in arrivals[-1:]] + [end for end, _, _ in running[:1]]
                  + [now + 1] * (again and bool(queue)))
        while running and running[0][0] <= now:
            pool.release(heapq.heappop(running)[2].placement)
        while arrivals and arrivals[-1].submit_s <= now:
            queue.append(arrivals.pop())
        again = sort(queue, now)
        started = 0
        for job in queue:
            placement = pool.place(job.gpus)
            if placement is None:
                break
            started += 1
            job.placement, job.start_s, job.end_s, job.wait_s = placement, now, now + job.run_s, now - job.submit_s
            heapq.heappush(running, (job.end_s, job.number, job))
        del queue[:started]


def replay_srtf(jobs: list[HeliosJob], nodes: int) -> None:
    """Run the jobs with the shortest remaining time, preempting at a cost.

    The original checks every second. Nothing changes between arrivals and ends, so only these moments are simulated.
    """
    arrivals = sorted(jobs, key=lambda job: (job.submit_s, job.number))[::-1]
    pool, queue, running = Pool([NODE_GPUS] * nodes), list[HeliosJob](), list[HeliosJob]()
    now = 0
    while arrivals or queue or running:
        # Artefact: a zero is noticed one tick after the remaining time reached it, hence + 1.
        then = min([job.submit_s for job in arrivals[-1:]] + [now + job.remaining_s + 1 for job in running])
        running = _advance(running, now, then, pool)
        now = then
        while arrivals and arrivals[-1].submit_s <= now:
            job = arrivals.pop()
            job.remaining_s, job.waiting_since_s = job.run_s, job.submit_s
            queue.append(job)
        chosen = _choose(queue, running, nodes * NODE_GPUS)
        running = _preempt(queue, running, {id(job) for job in chosen}, now, pool)
        _start(chosen, queue, running, now, pool)


def _advance(running: list[HeliosJob], now: int, then: int, pool: Pool) -> list[HeliosJob]:
    """Advance the running jobs; return the jobs that still run."""
    going_on = []
    for job in running:
        job.remaining_s -= then - now
        if job.remaining_s < 0:
            job.end_s = then
            pool.release(job.placement)
        else:
            going_on.append(job)
    return going_on


def _choose(queue: list[HeliosJob], running: list[HeliosJob], quota: int) -> list[HeliosJob]:
    """Return the jobs that may run, by counting GPUs only; one that does not fit is skipped."""
    chosen = []
    for job in sorted([*queue, *running], key=lambda job: job.remaining_s):
        if job.gpus <= quota:
            quota -= job.gpus
            chosen.append(job)
    return chosen


def _preempt(queue: list[HeliosJob], running: list[HeliosJob], chosen: set[int], now: int,
             pool: Pool) -> list[HeliosJob]:
    """Move the running jobs that were not chosen to the queue's tail; return the others."""
    for job in running:
        if id(job) not in chosen:
            overhead = next(seconds for most, seconds in PREEMPTION_S if job.gpus <= most)
            job.remaining_s += overhead
            job.overhead_s += overhead
            job.preemptions += 1
            job.waiting_since_s = now
            pool.release(job.placement)
            job.placement = []
            queue.append(job)
    return [job for job in running if id(job) in chosen]


def _start(chosen: list[HeliosJob], queue: list[HeliosJob], running: list[HeliosJob], now: int, pool: Pool) -> None:
    """Place the chosen waiting jobs; one that fails stays in the queue and its quota is lost (artefact)."""
    started = set()
    for job in chosen:
        if job.placement:
            continue
        placement = pool.place(job.gpus)
        if placement is not None:
            job.placement = placement
            job.wait_s += now - job.waiting_since_s
            job.start_s = now if job.start_s < 0 else job.start_s
            started.add(id(job))
            running.append(job)
    queue[:] = [job for job in queue if id(job) not in started]


def means(jobs: Sequence[HeliosJob]) -> tuple[float, float]:
    """Return the mean job completion time and the mean wait, s."""
    return sum(job.jct_s for job in jobs) / len(jobs), sum(job.wait_s for job in jobs) / len(jobs)


def replay(jobs: list[HeliosJob], nodes: int, policy: str, seed: int = 0) -> tuple[float, float]:
    """Replay a virtual cluster under ``fifo``, ``sjf``, ``srtf`` or ``qssf``; return ``means``."""
    if any(job.run_s < 1 or not 0 < job.gpus <= nodes * NODE_GPUS for job in jobs):
        raise ValueError("a job has no run time, or more GPUs than the cluster: the original would never end it")
    if policy == "srtf":
        replay_srtf(jobs, nodes)
    else:
        replay_queue(jobs, nodes, {"fifo": fifo, "sjf": sjf, "qssf": qssf(random.Random(seed))}[policy])
    return means(jobs)


def philly(traces: Path, vc: str) -> list[HeliosJob]:
    """Return the jobs of a complete Philly virtual cluster in October and November 2017."""
    return [HeliosJob(int(row["submit_s"]), int(row["job"]), int(row["gpus"]), int(row["run2_s"]))
            for row in table(traces / "philly/philly_jobs.csv.gz")
            if row["vc"] == vc and row["vc_src"] == "muri" and "2017-10-01" <= row["submit"] <= "2017-11-30 23:59:00"]


def venus(traces: Path, vc: str) -> list[HeliosJob]:
    """Return the jobs of one virtual cluster of the Venus slice."""
    return [HeliosJob(int(row["submit_time"]) // 10**6, int(row["job_id"]), int(row["num_chips"]),
                      int(float(row["duration_s"])))
            for row in table(traces / "helios_venus/helios_venus_2vc_sept.csv") if row["tenant"] == vc]


QSSF_DRAWS = 20


def rows(traces: Path) -> Iterator[Row]:
    """Yield the published means of both Philly virtual clusters and of the Venus slice beside ours."""
    published = {(row["vc"], row["metric"]): row for row in table(traces / "philly/reference_qssf_philly.csv")}
    for vc in ("7f04ca", "0e4a51"):
        for policy in ("fifo", "sjf", "srtf", "qssf"):
            ours = _philly_means(traces, vc, policy)
            for metric, value in zip(("jct_s", "queue_s"), ours, strict=True):
                yield Row(f"Helios {policy.upper()} mean {metric}", f"Philly {vc}, 32 x 8 GPUs",
                          float(published[vc, metric][policy]), value, _NOTES.get(policy, ""))
    for row in table(traces / "helios_venus/reference_slice_official_simulator.csv"):
        if row["vc"] != "all":
            jct_s, wait_s = replay(venus(traces, row["vc"]), {"vcvGl": 20, "vcvlY": 2}[row["vc"]], row["policy"])
            setting = f"Venus slice {row['vc']}"
            yield Row(f"Helios {row['policy'].upper()} mean jct_s", setting, float(row["jct_s"]), jct_s)
            yield Row(f"Helios {row['policy'].upper()} mean queue_s", setting, float(row["queue_s"]), wait_s)


_NOTES = {"fifo": "published values are truncated; order of jobs submitted in the same second is unknown",
          "qssf": f"random estimates whose seed is not published: mean of {QSSF_DRAWS} draws",
          "sjf": "published values are truncated", "srtf": "published values are truncated"}


def _philly_means(traces: Path, vc: str, policy: str) -> tuple[float, float]:
    jobs = philly(traces, vc)
    if policy != "qssf":
        return replay(jobs, 32, policy)
    draws = [replay([replace(job) for job in jobs], 32, policy, seed) for seed in range(QSSF_DRAWS)]
    return sum(jct for jct, _ in draws) / len(draws), sum(wait for _, wait in draws) / len(draws)
