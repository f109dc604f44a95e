"""Tiresias and Optimus+Oracle in the arena of Pollux (Qiao et al., OSDI'21): elastic jobs on 16 nodes of 4 GPUs.

A tick is a minute; policies act at ticks only. Pollux itself is a stochastic search and is not rewritten here.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Protocol

from .pollux_speed import EPOCHS, Application, Archive, BatchSplit, Placement
from .result import Row

NODES, NODE_GPUS = 16, 4
TICK_S = 60
RESTART_S = 30
THRESHOLD_GPU_S = 57_600
"""Tiresias: a job that held its GPUs for 16 GPU-hours falls to the second queue."""

Nodes = list[int]
"""Node of each GPU of an allocation, in the order of allocation."""
Allocations = dict[str, Nodes]


@dataclass(slots=True)
class PolluxJob:
    """An elastic job."""

    name: str
    submit_s: int
    application: Application
    wanted: int
    """Number of GPUs in the workload's row."""
    batch: int
    """Total batch size in the workload's row."""
    nodes: Nodes = field(default_factory=list)
    progress: float = 0.0
    epoch: int = 0
    delay_s: int = 0
    end_s: int | None = None
    restarts: int = 0
    _goodput: float = 0.0

    @property
    def epochs(self) -> int:
        """Return the number of epochs of the job."""
        return EPOCHS[self.application.name]

    def place(self, nodes: Nodes) -> None:
        """Set the job's GPUs; each change to a non-empty allocation costs a restart, also the first start."""
        if nodes != self.nodes:
            self.nodes = nodes
            if nodes:
                self.delay_s = RESTART_S
                self.restarts += 1
                self._refresh()

    def advance(self, now: int) -> None:
        """Advance the job by one tick from ``now``.

        A job that ends within the tick keeps its GPUs to the tick's end.
        """
        if not self.nodes or self.end_s is not None:
            return
        seconds = TICK_S - min(self.delay_s, TICK_S)
        self.delay_s -= TICK_S - seconds
        while seconds > 0:
            boundary = float(self.application.boundaries[self.epoch + 1])
            if self.progress + self._goodput * seconds < boundary:
                self.progress += self._goodput * seconds
                return
            seconds -= round((boundary - self.progress) / self._goodput)  # artefact: epochs end on whole seconds
            self.progress = boundary
            self.epoch += 1
            if self.epoch == self.epochs:
                self.end_s = now + TICK_S - seconds
                return
            self._refresh()

    def _refresh(self) -> None:
        split = self.application.split(self.batch, len(self.nodes))
        self._goodput = self.application.goodput(shape(self.nodes), split, self.epoch)


def shape(nodes: Nodes) -> Placement:
    """Return the GPUs on each node, in the order of the allocation."""
    return tuple(len(list(run)) for _, run in groupby(nodes))


class TickPolicy(Protocol):
    """A policy of Pollux' simulator, which decides at each tick."""

    def decide(self, now: int, active: Sequence[PolluxJob], held: Allocations) -> Allocations:
        """Return the allocation of every active job, in file order; an empty one pauses it."""


def place_emptiest(gpus: int, free: list[int]) -> Nodes:
    """Take GPUs repeatedly from the node with most free GPUs, without best fit or migration."""
    taken: Nodes = []
    while len(taken) < gpus:
        node = max(range(len(free)), key=free.__getitem__)
        count = min(free[node], gpus - len(taken))
        if not count:
            raise ValueError(f"{gpus} GPUs are not free")
        free[node] -= count
        taken += [node] * count
    return taken


def free_gpus(held: Allocations) -> list[int]:
    """Return the free GPUs of each node."""
    free = [NODE_GPUS] * NODES
    for nodes in held.values():
        for node in nodes:
            free[node] -= 1
    return free


class Tiresias:
    """Two first-come queues by attained GPU time, without promotion."""

    def __init__(self) -> None:
        self._queues: tuple[list[str], list[str]] = ([], [])
        self._running: set[str] = set()
        self._executed_s: dict[str, int] = {}
        self._visited_s: dict[str, int] = {}

    def decide(self, now: int, active: Sequence[PolluxJob], held: Allocations) -> Allocations:
        """Run jobs in the order of the queues; a job that does not fit is skipped."""
        jobs = {job.name: job for job in active}
        for queue in self._queues:
            queue[:] = [name for name in queue if name in jobs]
        known = {*self._queues[0], *self._queues[1]}
        self._queues[0].extend(name for name in jobs if name not in known)
        self._account(now, jobs)
        budget, running = NODES * NODE_GPUS, []
        for name in (*self._queues[0], *self._queues[1]):
            if jobs[name].wanted <= budget:
                budget -= jobs[name].wanted
                running.append(name)
        self._running = set(running)
        unchanged = {name: held[name] for name in running if held.get(name)}
        free = free_gpus(unchanged)
        placed = {name: unchanged.get(name) or place_emptiest(jobs[name].wanted, free) for name in running}
        return {name: placed.get(name, []) for name in jobs}

    def _account(self, now: int, jobs: dict[str, PolluxJob]) -> None:
        """Count the time that running jobs held their GPUs, restarts included, and demote."""
        for name in (*self._queues[0], *self._queues[1]):
            if name in self._running:
                self._executed_s[name] = self._executed_s.get(name, 0) + now - self._visited_s[name]
                attained = self._executed_s[name] * jobs[name].wanted
                if name in self._queues[0] and attained >= THRESHOLD_GPU_S:
                    self._queues[0].remove(name)
                    self._queues[1].append(name)
            self._visited_s[name] = now


class OptimusOracle:
    """Gives each GPU to the job that saves most seconds, by true remaining work and true step times."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int, int], float] = {}

    def decide(self, now: int, active: Sequence[PolluxJob], held: Allocations) -> Allocations:
        """Decide all sizes again; a job of the same size keeps its nodes, the others are placed by size."""
        sizes = self._sizes(active)
        unchanged = {name: nodes for name, nodes in held.items() if len(nodes) == sizes.get(name)}
        free = free_gpus(unchanged)
        placed = {name: unchanged[name] if name in unchanged else place_emptiest(size, free)
                  for name, size in sorted(sizes.items(), key=lambda item: item[1])}
        return {job.name: placed[job.name] for job in active}

    def _sizes(self, active: Sequence[PolluxJob]) -> dict[str, int]:
        left = NODES * NODE_GPUS
        sizes: dict[str, int] = {}
        gains: list[tuple[float, int]] = []
        for index, job in enumerate(active):
            sizes[job.name] = min(1, left)
            left -= sizes[job.name]
            gains.append((-self._gain(job, 1), index))
        heapq.heapify(gains)
        while left and gains[0][0] < 0:
            job = active[gains[0][1]]
            sizes[job.name] += 1
            left -= 1
            heapq.heapreplace(gains, (-self._gain(job, sizes[job.name]), gains[0][1]))
        return sizes

    def _gain(self, job: PolluxJob, gpus: int) -> float:
        """Return the seconds that one more GPU saves; 0 at the largest number of GPUs that the batch allows."""
        most = 1 if job.application.name == "ncf" else job.batch // job.application.smallest_local
        if gpus + 1 > most:
            return 0.0
        return (self._step_s(job, gpus) - self._step_s(job, gpus + 1)) * remaining_steps(job)

    def _step_s(self, job: PolluxJob, gpus: int) -> float:
        key = job.application.name, job.batch, gpus
        if key not in self._steps:
            whole, rest = divmod(gpus, NODE_GPUS)
            packed = (NODE_GPUS,) * whole + (rest,) * (rest > 0)
            split: BatchSplit = job.application.split(job.batch, gpus, lone_accumulates=True)
            self._steps[key] = job.application.step_s(packed, split)
        return self._steps[key]


def remaining_steps(job: PolluxJob) -> float:
    """Return the true number of remaining optimiser steps at the row's batch; 1 in the last epoch (artefact)."""
    if job.epoch >= job.epochs - 1:
        return 1.0
    return (job.application.validated(job.batch, job.epochs - 1, "iteration")
            - job.application.validated(job.batch, job.epoch, "iteration"))


def replay(jobs: Sequence[PolluxJob], policy: TickPolicy) -> dict[str, int]:
    """Run jobs to their end; return each one's completion time, s, from its submission."""
    now, waiting = 0, list(jobs)
    while waiting:
        for job in waiting:
            job.advance(now)
        now += TICK_S
        waiting = [job for job in waiting if job.end_s is None]
        active = [job for job in waiting if job.submit_s <= now]
        if active:
            decided = policy.decide(now, active, {job.name: job.nodes for job in active if job.nodes})
            for job in active:
                job.place(decided[job.name])
    return {job.name: job.end_s - job.submit_s for job in jobs if job.end_s is not None}


POLICIES: dict[str, type[Tiresias] | type[OptimusOracle]] = {"tiresias": Tiresias, "optimus": OptimusOracle}


class Artifact:
    """The packaged workloads, tables and results of Pollux' artifact."""

    def __init__(self, traces: Path) -> None:
        self._archive = Archive(traces / "pollux_osdi21/pollux_osdi21_data.tar.gz")
        self._applications = {name: Application.load(self._archive, name) for name in EPOCHS}

    def jobs(self, load: str, workload: int) -> list[PolluxJob]:
        """Return the jobs of a workload at ``0.5``, ``1.0``, ``1.5`` or ``2.0`` times the load."""
        folder = "workloads" if load == "1.0" else f"workloads-{load}"
        return [PolluxJob(row["name"], int(row["time"]), self._applications[row["application"]],
                          int(row["num_replicas"]),
                          int(row["batch_size"])) for row in self._archive.rows(f"{folder}/workload-{workload}.csv")]

    def published(self, policy: str, load: str, workload: int) -> dict[str, int]:
        """Return the authors' completion time of every job, s."""
        text = self._archive.text(f"results-jobload/{policy}-{load}/summary.json")
        return {name: int(jct) for name, jct in json.loads(text)["jcts"][f"workload-{workload}"].items()}


LOADS = ("0.5", "1.0", "1.5", "2.0")


def rows(traces: Path) -> Iterator[Row]:
    """Yield the published mean completion times over workloads 1 to 4 at four loads beside ours."""
    artifact = Artifact(traces)
    for policy, kind in POLICIES.items():
        for load in LOADS:
            published, ours = dict[tuple[int, str], int](), dict[tuple[int, str], int]()
            for workload in range(1, 5):
                published |= {(workload, job): jct for job, jct in artifact.published(policy, load, workload).items()}
                ours |= {(workload, job): jct for job, jct in replay(artifact.jobs(load, workload), kind()).items()}
            differing = sum(ours.get(job) != jct for job, jct in published.items())
            yield Row(f"Pollux {policy} mean jct_s", f"workloads 1-4 at {load}x, 16 x 4 GPUs",
                      sum(published.values()) / len(published), sum(ours.values()) / len(ours),
                      f"{differing} of {len(published)} jobs differ" if differing else f"all {len(ours)} jobs equal")
