"""One moment as MAIFS sees it: the queue, walked while nodes decide on the next few jobs of one node together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs, Masks
from ...replay.state import Start
from ..candidate_placement import CandidatePlacement
from ..demands import CHUNKS, CPUS, RESTS
from ..free_resources import FreeResources
from ..observation import Observation, looked_at
from ..placing import NODE
from .levels import AMPLE, ASKED, LEAN, LEVELS, Needs, demands_at, speeds_at
from .network import ACTION_INPUTS, NODE_INPUTS, NOMINATED, TASKS
from .sight import QueueArrays, fit_anywhere, nominate, observe

HOUR_S, MINUTE_S = 3600.0, 60.0


@dataclass(frozen=True)
class Joint:
    """What nodes are to decide on together; action 0 is to take none, the others are (job, level)."""

    now: float
    seen: Floats
    """[agent, input] by ``NODE_INPUTS``."""
    actions: Floats
    """[agent, action, input] by ``ACTION_INPUTS``, without that of taking none."""
    able: Masks
    """[agent, action]."""

    @property
    def tasks(self) -> int:
        """Return on how many jobs."""
        return int(self.able.shape[1]) // len(LEVELS)


Decide = Callable[[Joint], Longs]
"""Returns the action of each agent."""


class SchedulingRound:
    """The waiting jobs that are looked at, while they are placed."""

    def __init__(self, seen: Observation, needs: Needs, order: Floats, longest_wait_s: float) -> None:
        self._seen, waiting = seen, seen.waiting
        self.jobs = looked_at(seen)
        self._application = waiting.application[self.jobs]
        self._run, self._wait = waiting.guess[self.jobs], np.maximum(0.0, seen.now - waiting.submit[self.jobs])
        self.demands, self._levels = demands_at(waiting.demands[self.jobs], needs, self._application)
        self._speed = np.log(speeds_at(seen.known, self._application, self.demands))
        self._resources = FreeResources(seen, self.demands.reshape(-1, self.demands.shape[2]))
        self._kind: list[list[int]] = self._resources.kind.reshape(len(self.jobs), len(LEVELS)).tolist()
        self._there: list[list[bool]] = self._levels.tolist()
        self._single: list[list[bool]] = (self.demands[:, :, CHUNKS] + self.demands[:, :, RESTS] == 1).tolist()
        self.inputs = job_inputs(seen, self.jobs, needs)
        told = np.stack([np.log(self._run + MINUTE_S), np.log(np.maximum(1, waiting.gpus[self.jobs])),
                         self._wait / HOUR_S], axis=1)
        late = self._wait > longest_wait_s
        # Jobs that have waited for too long come before all others, the oldest first.
        keys = np.where(late, -1e9 - self._wait, told @ order)
        self._queue = deque(np.argsort(keys, kind="stable").tolist())
        self._late = {int(job) for job in np.flatnonzero(late)}
        self._latest: list[float] = (seen.now + waiting.limit[self.jobs]).tolist()
        self._promised_s = np.inf
        nodes, harm, beside = seen.nodes, *self._company()
        total = np.maximum(1, np.stack([nodes.gpus, nodes.cpus, nodes.memory], axis=1))
        kinds = self._resources.kind.reshape(len(self.jobs), len(LEVELS)).astype(np.int64)
        self._arrays = QueueArrays(kinds, self._levels, self.demands, self.inputs, self._speed, self._application,
                                   total, beside, harm)
        self._full: set[tuple[int, ...]] = set()
        """Demands that there is no room for: there will not be more."""

    def starts(self, decide: Decide) -> Generator[Start, None, None]:
        """Yield what to start now, and with what."""
        while self._queue:
            batch = self._next()
            if batch:
                done = yield from self._together(batch, decide)
                self._queue.extendleft(reversed([job for job in batch if job not in done]))
            elif not (yield from self._alone(self._queue.popleft())):
                return

    def _next(self) -> list[int]:
        """Take those from the head of the queue, a few at most, that run on one node and can be placed now."""
        ahead = list(takewhile(lambda job: self._single[job][ASKED] and self._asked(job) not in self._full,
                               islice(self._queue, TASKS)))
        beside = np.array([self._keeps_off(job) for job in ahead], bool)
        count = fit_anywhere(self._resources.arrays, self._arrays, np.array(ahead, np.int64), beside) if ahead else 0
        if count < len(ahead):
            self._full.add(self._asked(ahead[count]))
        return [self._queue.popleft() for _ in range(count)]

    def _asked(self, job: int) -> tuple[int, ...]:
        """Return what tells whether there is room for a job of one node."""
        return (*self._kind[job], self._keeps_off(job))

    def _keeps_off(self, job: int) -> bool:
        """Tell whether a job may still run when nodes are promised to another, and so keeps off these."""
        return self._latest[job] > self._promised_s

    def _alone(self, job: int) -> Generator[Start, None, bool]:
        """Place a job of several nodes, or promise one that finds no room its nodes; tell whether others may follow."""
        beside = self._keeps_off(job)
        for level in (AMPLE, ASKED, LEAN):
            if not self._there[job][level] or self._single[job][level]:
                continue
            placement = self._resources.placement(self._kind[job][level], beside=beside)
            if placement is not None:
                yield self._start(job, level, placement)
                return True
        if job in self._late:
            return False  # nobody overtakes a job that has waited for so long
        if not np.isfinite(self._promised_s):
            self._promised_s = self._resources.reserve(self._kind[job][ASKED])
        return True

    def _together(self, batch: Sequence[int], decide: Decide) -> Generator[Start, None, set[int]]:
        """Let nodes decide on some jobs; return those that were placed, one at least."""
        jobs, beside = np.array(batch), np.array([self._keeps_off(job) for job in batch])
        nodes = np.empty(len(batch) * NOMINATED, np.int64)
        able = np.empty((len(nodes), len(batch) * len(LEVELS)), bool)
        count = nominate(self._resources.arrays, self._arrays, jobs, beside, nodes, able)
        nodes, able = nodes[:count], able[:count]
        actions = able.argmax(axis=1) + able.any(axis=1) if np.count_nonzero(able) == 1 else decide(
            self._seen_by(nodes, jobs, able))
        done = set[int]()
        for agent in np.argsort(actions, kind="stable").tolist():
            task, level = divmod(int(actions[agent]) - 1, len(LEVELS))
            if task >= 0 and batch[task] not in done:
                done.add(batch[task])
                yield self._start(batch[task], level, CandidatePlacement(nodes[[agent]], NODE, 0, opens=False))
        return done

    def _seen_by(self, nodes: Longs, jobs: Longs, able: Masks) -> Joint:
        """Return what nodes see of themselves and of jobs."""
        seen, actions = np.empty((len(nodes), len(NODE_INPUTS))), np.empty((*able.shape, len(ACTION_INPUTS)))
        observe(self._resources.arrays, self._arrays, jobs, nodes, seen, actions)
        return Joint(self._seen.now, seen, actions, able)

    def _start(self, job: int, level: int, placement: CandidatePlacement) -> Start:
        if self._arrays.beside.size:
            self._arrays.beside[placement.nodes, self._application[job]] += 1
        return self._resources.take(self._kind[job][level], placement, int(self._seen.waiting.rows[self.jobs[job]]),
                               granted=level != ASKED)

    def _company(self) -> tuple[Floats, Floats]:
        """Return what neighbours cost, and [node, group] how many run where; empty where they do not matter."""
        seen = self._seen
        if seen.known.company.size == 1:
            return np.zeros((0, 0)), np.zeros((len(seen.nodes.gpus), 0))
        found = np.zeros((len(seen.nodes.gpus), len(seen.known.company)))
        shares = seen.running.shares
        np.add.at(found, (shares[:, 1], seen.running.application[shares[:, 0]]), 1.0)
        return -np.log(seen.known.company), found


def job_inputs(seen: Observation, jobs: NDArray[np.intp], needs: Needs) -> Floats:
    """Return [job, input] what is told of jobs alone, the first of ``ACTION_INPUTS``."""
    waiting = seen.waiting
    demands, used = waiting.demands[jobs], needs.told(waiting.application[jobs])[0]
    asked = np.maximum(1, demands[:, CPUS]) / np.maximum(1, demands[:, 1])
    wait = np.maximum(0.0, seen.now - waiting.submit[jobs])
    over = np.where(np.isfinite(used), np.log2(asked / np.maximum(0.5, np.nan_to_num(used))), 0.0)
    return np.stack([0.5 * np.log((waiting.guess[jobs] + MINUTE_S) / HOUR_S),
                     np.log2(np.maximum(1, waiting.gpus[jobs])) / 3, 0.25 * np.log1p(wait / MINUTE_S), over], axis=1)
