"""One episode on a real partition: the rules of the simulation, with the real times of Slurm and its servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import ge, sub
from typing import NamedTuple

from ....agents.gist_mdrl.environment import HOUR_S, GpuPartition, PlacementDecision, Resources, demand, utilization
from .cluster import RealSlurm

Act = Callable[[PlacementDecision], int]
TOGETHER_H = 0.5
"""Ends that are due within this time of each other count as one end, as in the simulation, hours of the paper."""
ANYWHERE = -1


class EpisodeJob(NamedTuple):
    """One job of the episode."""

    number: int
    flavor: int
    job: str
    submit_s: float


@dataclass(frozen=True, slots=True)
class Played:
    """Result of an episode; times are in hours of the paper unless stated."""

    utilization: float
    """Eq. 4 when the terminal job starts."""
    terminal_start_h: float
    latency_s: float
    """Mean real time from a job's placement to its beginning."""
    slurm_s: float
    """Mean real time from a job's release to its beginning: Slurm's part of the latency."""
    noticed_s: float
    """Mean real time from the end of a job to the reaction."""
    decisions: tuple[int, ...]
    strayed: int
    """Number of jobs that began on another server than they were placed on."""


@dataclass
class PlayedEpisode:
    """Runs one sequence on one partition; ``poll`` takes the due steps and returns the result at the end."""

    cluster: RealSlurm
    kind: GpuPartition
    partition: str
    servers: tuple[str, ...]
    name: str
    sequence: tuple[int, ...]
    act: Act
    hour_s: float
    placed: bool
    """Whether the policy names the server; otherwise Slurm chooses it."""
    begin_s: float
    _running: dict[EpisodeJob, int] = field(default_factory=dict)
    _queue: list[EpisodeJob] = field(default_factory=list)
    _due: dict[EpisodeJob, tuple[int, float]] = field(default_factory=dict)
    _begun: dict[EpisodeJob, float] = field(default_factory=dict)
    _over: dict[EpisodeJob, tuple[float, float]] = field(default_factory=dict)
    _latencies: list[float] = field(default_factory=list)
    _released: dict[int, float] = field(default_factory=dict)
    """Release times by number of the job in the episode."""
    _of_slurm: list[float] = field(default_factory=list)
    _noticed: list[float] = field(default_factory=list)
    _decisions: list[int] = field(default_factory=list)
    _strayed: int = 0

    def __post_init__(self) -> None:
        self._flavors = (*self.kind.flavors, self.kind.terminal)
        self._arrivals = [*self.sequence, len(self.kind.flavors)]
        self._tasks: list[EpisodeJob] = []

    @property
    def jobs(self) -> list[str]:
        """Return the Slurm ids of all jobs of the episode."""
        return [task.job for task in self._tasks]

    def poll(self, now_s: float, pinned: set[str]) -> Played | None:
        """Take the due steps; return the result when the terminal job has begun, otherwise None."""
        self._release(pinned)
        terminal = next((task for task in self._begun_now() if task.flavor == len(self.kind.flavors)), None)
        if terminal is not None:
            return self._result(self._begun[terminal])
        ended = self._end_jobs(now_s)
        if self._arrivals and now_s >= self.begin_s + len(self._tasks) * self.hour_s:
            self._arrive(now_s)
        if ended:
            for task in sorted(self._queue, key=lambda task: (-task.flavor, task.submit_s)):
                self._look_at(task, now_s)
        return None

    def _release(self, pinned: set[str]) -> None:
        for task, (server, _) in list(self._due.items()):
            if server == ANYWHERE or task.job in pinned:
                self._released[task.number] = self.cluster.now()
                self.cluster.release(task.job)
                del self._due[task]

    def _begun_now(self) -> list[EpisodeJob]:
        begun = []
        for task, server in self._running.items():
            if task not in self._begun and (note := self.cluster.begun(self._name(task.number))) is not None:
                moment, node = note
                self._begun[task] = moment
                self._latencies.append(moment - task.submit_s)
                self._of_slurm.append(moment - self._released[task.number])
                self.cluster.withdraw(task.job)
                begun.append(task)
                if server != ANYWHERE:
                    self._strayed += self.placed and self.servers[server] != node
                    self._running[task] = self.servers.index(node)
        return begun

    def _end_jobs(self, now_s: float) -> bool:
        """Record the ended jobs; return False while other jobs of the same end are still running."""
        ended = {task: moment for task in self._begun if task in self._running
                 and (moment := self.cluster.ended(self._name(task.number))) is not None}
        if not ended:
            return False
        soon = now_s + TOGETHER_H * self.hour_s
        if any(self._end(task) <= soon for task in self._begun if task in self._running and task not in ended):
            return False
        self._noticed.append(now_s - max(ended.values()))
        for task, moment in ended.items():
            self._over[task] = (self._begun[task], moment)
            del self._running[task]
        return True

    def _end(self, task: EpisodeJob) -> float:
        return self._begun[task] + self._flavors[task.flavor].limit_s / HOUR_S * self.hour_s

    def _arrive(self, now_s: float) -> None:
        flavor, number = self._arrivals.pop(0), len(self._tasks)
        terminal = flavor == len(self.kind.flavors)
        wanted = self._flavors[flavor]
        job = self.cluster.submit(self._name(number), self.partition, wanted.gpus,
                                  self.kind.servers if terminal else 1, wanted.limit_s / HOUR_S * self.hour_s)
        task = EpisodeJob(number, flavor, job, now_s)
        self._tasks.append(task)
        if terminal:
            self._queue.append(task)
            self._look_at(task, now_s)
        else:
            self._ask(task, now_s, dequeued=False)

    def _look_at(self, task: EpisodeJob, now_s: float) -> None:
        """Let a queued job decide; the terminal job needs all servers empty."""
        if task.flavor == len(self.kind.flavors):
            if not self._running:
                self._queue.remove(task)
                self._start(task, ANYWHERE, now_s)
        elif task.flavor < len(self.kind.flavors) and not self._taken() and any(self._room(task.flavor)):
            self._queue.remove(task)
            self._ask(task, now_s, dequeued=True)

    def _taken(self) -> bool:
        return any(task.flavor == len(self.kind.flavors) for task in self._running)

    def _ask(self, task: EpisodeJob, now_s: float, *, dequeued: bool) -> None:
        room = self._room(task.flavor)
        decision = PlacementDecision(task.flavor, self._free(), room, self._remaining(now_s), tuple(
            sum(other.flavor == flavor for other in self._queue) for flavor in range(len(self.kind.flavors))), dequeued)
        action = self.act(decision)
        self._decisions.append(action)
        server = action - task.flavor * self.kind.servers
        if action < len(self.kind.flavors) * self.kind.servers and room[server]:
            self._start(task, server, now_s)
        else:
            self._queue.append(task)

    def _start(self, task: EpisodeJob, server: int, now_s: float) -> None:
        self._running[task] = server
        task_moved = task._replace(submit_s=now_s)
        self._running[task_moved] = self._running.pop(task)
        anywhere = server == ANYWHERE or not self.placed
        if not anywhere:
            self.cluster.advise(task.job, self.partition, self.servers[server])
        self._due[task_moved] = (ANYWHERE if anywhere else server, now_s)

    def _free(self) -> tuple[Resources, ...]:
        free = [self.kind.server] * self.kind.servers
        for task, server in self._running.items():
            for index in range(len(free)) if server == ANYWHERE else (server,):
                gpus, cpus, memory = map(sub, free[index], demand(self._flavors[task.flavor]))
                free[index] = (gpus, cpus, memory)
        return tuple(free)

    def _room(self, flavor: int) -> tuple[bool, ...]:
        return tuple(all(map(ge, free, demand(self._flavors[flavor]))) for free in self._free())

    def _remaining(self, now_s: float) -> tuple[float, ...]:
        """Return the time at which the last job of each server ends, in seconds of the paper."""
        scale = HOUR_S / self.hour_s
        ends = [[(self._begun.get(task, now_s) - now_s) * scale + self._flavors[task.flavor].limit_s
                 for task, at in self._running.items() if at == server] for server in range(self.kind.servers)]
        return tuple(max(0.0, max(some, default=0.0)) for some in ends)

    def _result(self, terminal_s: float) -> Played:
        runs = [(self._flavors[task.flavor].rate, *span) for task, span in self._over.items()]
        runs.append((self.kind.terminal.rate, terminal_s, terminal_s))
        first = min(start for _, start, _ in runs)
        return Played(utilization(runs, terminal_s), (terminal_s - first) / self.hour_s,
                      _mean(self._latencies), _mean(self._of_slurm), _mean(self._noticed), tuple(self._decisions),
                      self._strayed)

    def _name(self, number: int) -> str:
        return f"{self.name}-{number}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
