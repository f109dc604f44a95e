"""The paper's episodes (§4.2, §6): four single-server jobs, then one that takes the whole partition.

Numbers in brackets are the paper's ambiguities, each decided where it is implemented. Time is in seconds from the
first submission, utilisation 0..1. Servers are counted from 0.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from operator import ge

import numpy as np

from ....storage.flavor import Flavor

HOUR_S = 3600.0
JOBS = 4
"""Single-server jobs before the terminal one."""
Resources = tuple[int, int, int]
"""GPUs, CPU cores, bytes of memory."""


@dataclass(frozen=True, slots=True)
class GpuPartition:
    """A partition of GPU servers and the flavours it offers (Table 2)."""

    name: str
    flavors: tuple[Flavor, ...]
    """Flavours that run on a single server, smallest first."""
    terminal: Flavor
    servers: int
    kilowatts: float
    """The power of one server (§6.2)."""
    sizes: tuple[Resources, ...] = ()
    """What each server has, smallest first; empty where they are equal, as the paper's are."""
    among: int = 0
    """Servers of which only so few are looked at at a time; 0 where all of them are."""

    @property
    def server(self) -> Resources:
        """Return what the largest server has: of equal ones, its share of the flavour that takes them all."""
        if self.sizes:
            gpus, cpus, memory = (max(size[resource] for size in self.sizes) for resource in range(3))
            return gpus, cpus, memory
        gpus, cpus, memory = demand(self.terminal)
        return gpus // self.servers, cpus // self.servers, memory // self.servers

    @property
    def jobs(self) -> int:
        """Return how many single-server jobs an episode has: the paper's four on two servers, two a server."""
        return JOBS * self.servers // 2 or 2

    def with_limits(self, *hours: float) -> GpuPartition:
        """Return the same partition with other time limits, the terminal flavour's last."""
        limited = [replace(flavor, limit_s=limit * HOUR_S)
                   for flavor, limit in zip((*self.flavors, self.terminal), hours, strict=True)]
        return replace(self, flavors=tuple(limited[:-1]), terminal=limited[-1])


def _partition(model: str, cpus: int, memory_gb: int, kilowatts: float) -> GpuPartition:
    sizes = (("s", 2, 72), ("m", 4, 168), ("l", 8, 336), ("f", 16, 504))
    # [9] The rate is of GPUs alone; CPU and memory only have to fit.
    flavors = tuple(Flavor(f"{size}-{model}", gpus, cpus * gpus // 2, memory_gb * gpus // 2 * 10**9, hours * HOUR_S,
                           gpus / 16) for size, gpus, hours in sizes)
    return GpuPartition(model, flavors[:-1], flavors[-1], servers=2, kilowatts=kilowatts)


# [17] The paper writes P = {p1..pN} and "72" without unit for V100; there are M partitions, and all limits are hours.
A100 = _partition("A100", 64, 256, 6.5)
V100 = _partition("V100", 20, 128, 3.5)
PARTITIONS = {partition.name: partition for partition in (A100, V100)}
FIGURE_3_HOURS = (72, 168, 240, 336)
"""Limits under which Fig. 3's day counts come out: 3, 7, 10 and 14 days, not Table 2's 3, 7, 14 and 21."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the paper leaves open about an episode, with the values that come closest to its results."""

    gap_s: float = HOUR_S
    """[3] Time between submissions; 0 submits all at once."""
    blocking: bool = False
    """[4] The first in line holds back all behind it; else any job that fits starts (work-conserving)."""
    asks_again: bool = True
    """[4] Whenever a job ends, the agent decides again about each queued job; else it starts where there is room."""


CLOSEST = Reading()


@dataclass(frozen=True, slots=True)
class PlacementDecision:
    """A job to place, and the partition as its agent sees it."""

    flavor: int
    free: tuple[Resources, ...]
    """By server."""
    room: tuple[bool, ...]
    """By server: whether the job fits there now."""
    remaining_s: tuple[float, ...]
    """By server: until its last job ends, by its limit; 0 when empty."""
    queued: tuple[int, ...]
    """Jobs in the queue by flavour."""
    dequeued: bool = False
    """The job comes from the queue, not from its user."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A single-server job that is yet to come."""

    flavor: int
    submit_s: float
    run_s: float
    """No agent or policy is shown it when it decides, only the limit."""
    limit_s: float | None = None
    """Its own; None where it is its flavour's."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One job's run, as Fig. 3 draws it; the terminal job is on all servers, ``server`` is -1."""

    flavor: Flavor
    server: int
    submit_s: float
    start_s: float
    end_s: float
    limit_s: float = 0.0
    """The time limit of the run."""


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """What came of an episode."""

    utilization: float
    """[6] Eq. 4 when the terminal job starts: only this comes near the paper's 0.62 and 0.75."""
    utilization_at_end: float
    terminal_start_s: float
    makespan_s: float
    """[18] "Total run time": until the last job has ended; the other reading is ``terminal_start_s``."""
    bars: tuple[Bar, ...]


class Environment:
    """Plays episodes: ``reset`` with four flavours, then ``step`` with actions until no decision is left.

    Actions count as in §5.2: flavour x server first (n·m of them), then "queue this flavour" (n).
    """

    def __init__(self, partition: GpuPartition, reading: Reading = CLOSEST) -> None:
        self.partition, self.reading = partition, reading
        self._flavors = (*partition.flavors, partition.terminal)
        self._demands = [demand(flavor) for flavor in self._flavors]
        self._terminal = len(partition.flavors)

    def reset(self, flavors: Sequence[int]) -> PlacementDecision:
        """Begin an episode with these single-server flavours, at least one; the terminal job follows them."""
        return self.begin([Arrival(flavor, index * self.reading.gap_s, self._flavors[flavor].limit_s)
                           for index, flavor in enumerate(flavors)])

    def begin(self, jobs: Sequence[Arrival]) -> PlacementDecision:
        """Begin an episode with these jobs, at least one, by submission; the terminal job follows them."""
        terminal = Arrival(self._terminal, jobs[-1].submit_s + self.reading.gap_s, self.partition.terminal.limit_s)
        self._arrivals = [terminal, *reversed(jobs)]
        # A smaller server is a larger one that is partly taken, whatever runs.
        self._free = list(self.partition.sizes or [self.partition.server] * self.partition.servers)
        self._running: list[Bar] = []
        self._started: list[Bar] = []
        self._queue: list[Arrival] = []
        self._line: list[Arrival] = []
        self._now = jobs[0].submit_s
        self._outcome: EpisodeOutcome | None = None
        return self._ask(self._arrivals.pop())

    def fork(self) -> Environment:
        """Return an environment at the same moment, which goes its own way from here."""
        other = copy(self)
        for name in ("_arrivals", "_free", "_running", "_started", "_queue", "_line"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def step(self, action: int) -> tuple[float, PlacementDecision | None]:
        """Carry out an action for the current job; return its reward (§5.2) and the next decision, if any."""
        server = self._server_of(action)
        job, room = self._current, self._room(self._current.flavor)
        if server is not None and room[server]:
            self._start(job, server)
            return self._utilization(), self._next()
        self._queue.append(job)
        # [14] Insufficient resources: in the chosen server. [12] The terminal job has no queue action, it just waits.
        return 0.0 if server is None and not any(room) else -1.0, self._next()

    @property
    def outcome(self) -> EpisodeOutcome:
        """Return what came of the episode, once it has ended."""
        if self._outcome is None:
            raise RuntimeError("the episode has not ended: step() until there is no decision")
        return self._outcome

    def _server_of(self, action: int) -> int | None:
        """Return the server that an action names; None to queue the job."""
        servers, flavor = self.partition.servers, self._current.flavor
        if action == self._terminal * servers + flavor:
            return None
        if not flavor * servers <= action < (flavor + 1) * servers:
            raise ValueError(f"action {action} is not one for a {self._flavors[flavor].name} job")
        return action - flavor * servers

    def _next(self) -> PlacementDecision | None:
        """Let time pass until the agent has to decide; None once the terminal job has started."""
        while True:
            if self._line:
                decision = self._look_at(self._line.pop(0))
                if decision or self._outcome:
                    return decision
            elif self._arrivals and (not self._running or self._arrivals[-1].submit_s < self._running[0].end_s):
                job = self._arrivals.pop()
                self._now = job.submit_s
                if job.flavor < self._terminal:
                    return self._ask(job)
                self._queue.append(job)
                self._line = [] if self._running else [job]
            else:
                self._end_jobs()

    def _look_at(self, job: Arrival) -> PlacementDecision | None:
        """Give a queued job its turn; the agent's decision, if there is one to make."""
        if job.flavor == self._terminal and not self._running:
            self._finish(job)
        elif not any(self._room(job.flavor)):
            self._line = [] if self.reading.blocking else self._line
        elif self.reading.asks_again:
            self._queue.remove(job)
            return self._ask(job, dequeued=True)
        else:
            self._take_from_queue(job)
        return None

    def _ask(self, job: Arrival, *, dequeued: bool = False) -> PlacementDecision:
        self._current = job
        last = [max((run.start_s + run.limit_s for run in self._running if run.server == server),
                    default=0.0) for server in range(len(self._free))]
        queued = [sum(other.flavor == flavor for other in self._queue) for flavor in range(self._terminal)]
        return PlacementDecision(job.flavor, tuple(self._free), self._room(job.flavor),
                                 tuple(max(0.0, end - self._now) for end in last), tuple(queued), dequeued)

    def _room(self, flavor: int) -> tuple[bool, ...]:
        """Tell by server whether a job fits now; the terminal job needs a server that is twice as large."""
        # [10] A job is never split: there is no action for it but the terminal job's, which has no choice.
        return tuple(all(map(ge, free, self._demands[flavor])) for free in self._free)

    def _start(self, job: Arrival, server: int) -> None:
        flavor = self._flavors[job.flavor]
        limit_s = flavor.limit_s if job.limit_s is None else job.limit_s
        run = Bar(flavor, server, job.submit_s, self._now, self._now + job.run_s, limit_s)
        self._started.append(run)
        insort(self._running, run, key=lambda other: other.end_s)
        if server >= 0:
            self._free[server] = _less(self._free[server], self._demands[job.flavor])

    def _take_from_queue(self, job: Arrival) -> None:
        self._queue.remove(job)
        self._start(job, self._room(job.flavor).index(True))

    def _end_jobs(self) -> None:
        """Go on to the next end of a job, and end all that end then."""
        self._now = self._running[0].end_s
        while self._running and self._running[0].end_s <= self._now:
            run = self._running.pop(0)
            if run.server >= 0:
                self._free[run.server] = _more(self._free[run.server], demand(run.flavor))
        # [4] The queue is looked at when a job ends, and only then. [5] Largest first: the terminal job outranks all,
        # but while it waits for an empty partition the others may start.
        self._line = sorted(self._queue, key=lambda job: (-job.flavor, job.submit_s))

    def _utilization(self) -> float:
        return utilization(((run.flavor.rate, run.start_s, run.end_s) for run in self._started), self._now)

    def _finish(self, job: Arrival) -> None:
        """Run the terminal job, then what it overtook, so that the whole episode can be judged."""
        at_start, terminal_start = self._utilization(), self._now
        self._queue.remove(job)
        self._start(job, -1)
        while self._running:
            self._end_jobs()
            for left in self._line:
                if any(self._room(left.flavor)):
                    self._take_from_queue(left)
        self._outcome = EpisodeOutcome(at_start, self._utilization(), terminal_start, self._now, tuple(self._started))


MOST_SEQUENCES = 243
"""Up to so many sequences are played one by one; of more, as many are drawn, always the same."""


HALVES = (slice(0, None, 2), slice(1, None, 2))
"""The halves of the sequences: weights that did best on one half are judged on the other."""


def sequences(partition: GpuPartition) -> list[tuple[int, ...]]:
    """Return every sequence of single-server flavours, or some where there are too many."""
    kinds, jobs = len(partition.flavors), partition.jobs
    if kinds ** jobs <= MOST_SEQUENCES:
        return list(itertools.product(range(kinds), repeat=jobs))
    drawn = np.random.default_rng(2022).integers(0, kinds, (MOST_SEQUENCES, jobs))
    return [tuple(row) for row in drawn.tolist()]


def play(environment: Environment, flavors: Sequence[int], act: Callable[[PlacementDecision], int]) -> EpisodeOutcome:
    """Play one episode to its end."""
    decision: PlacementDecision | None = environment.reset(flavors)
    while decision is not None:
        _, decision = environment.step(act(decision))
    return environment.outcome


def _less(free: Resources, needs: Resources) -> Resources:
    return free[0] - needs[0], free[1] - needs[1], free[2] - needs[2]


def _more(free: Resources, back: Resources) -> Resources:
    return free[0] + back[0], free[1] + back[1], free[2] + back[2]


def demand(flavor: Flavor) -> Resources:
    """Return what a job of the flavour takes."""
    return flavor.gpus, flavor.cpus, flavor.memory_bytes


def utilization(runs: Iterable[tuple[float, float, float]], now: float) -> float:
    """Return U of a partition (Eq. 2-4) from (rate, start, end) of every job that has started."""
    known = list(runs)
    if not known:
        return 0.0
    # [7] The partition's time counts from the episode's first start.
    total = now - min(start for _, start, _ in known)
    if total <= 0.0:
        # [3] Eq. 3 gives 0 / 0 when the first job starts; its limit is the rate that has been placed.
        return sum(rate for rate, _, _ in known)
    # [8] A completed job ran its whole limit here; a queued one has run for 0. [11] R = 1: no server is ever drained.
    return sum(rate * (min(now, end) - start) for rate, start, end in known) / total
