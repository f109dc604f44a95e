"""One decision of MAIFS: a walk through the queue, in which nodes decide together on the next single-node jobs."""

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
from ..observation import Observation, considered_jobs
from ..placing import NODE
from .levels import AMPLE, LEAN, LEVELS, REQUESTED, Needs, demands_at, speeds_at
from .network import ACTION_INPUTS, NODE_INPUTS, NOMINATED, TASKS
from .node_inputs import QueueArrays, fit_anywhere, nominate, observe

HOUR_S, MINUTE_S = 3600.0, 60.0


@dataclass(frozen=True)
class Joint:
    """The inputs of a joint decision; action 0 is to take none, the others are (job, level)."""

    now: float
    node_inputs: Floats
    """[agent, input] by ``NODE_INPUTS``."""
    actions: Floats
    """[agent, action, input] by ``ACTION_INPUTS``, without that of taking none."""
    able: Masks
    """[agent, action]."""

    @property
    def tasks(self) -> int:
        """Return the number of jobs."""
        return int(self.able.shape[1]) // len(LEVELS)


Decide = Callable[[Joint], Longs]
"""Returns the action of each agent."""


class SchedulingRound:
    """The considered jobs, while they are placed."""

    def __init__(self, observation: Observation, needs: Needs, order: Floats, longest_wait_s: float) -> None:
        self._observation, waiting = observation, observation.waiting
        self.jobs = considered_jobs(observation)
        self._application = waiting.application[self.jobs]
        self._run, self._wait = waiting.guess[self.jobs], np.maximum(0.0, observation.now - waiting.submit[self.jobs])
        self.demands, self._levels = demands_at(waiting.demands[self.jobs], needs, self._application)
        self._speed = np.log(speeds_at(observation.known, self._application, self.demands))
        self._resources = FreeResources(observation, self.demands.reshape(-1, self.demands.shape[2]))
        self._kind: list[list[int]] = self._resources.kind.reshape(len(self.jobs), len(LEVELS)).tolist()
        self._available: list[list[bool]] = self._levels.tolist()
        self._single: list[list[bool]] = (self.demands[:, :, CHUNKS] + self.demands[:, :, RESTS] == 1).tolist()
        self.inputs = job_inputs(observation, self.jobs, needs)
        order_inputs = np.stack([np.log(self._run + MINUTE_S), np.log(np.maximum(1, waiting.gpus[self.jobs])),
                                 self._wait / HOUR_S], axis=1)
        late = self._wait > longest_wait_s
        # Jobs that have waited for too long come before all others, the oldest first.
        keys = np.where(late, -1e9 - self._wait, order_inputs @ order)
        self._queue = deque(np.argsort(keys, kind="stable").tolist())
        self._late = {int(job) for job in np.flatnonzero(late)}
        self._latest: list[float] = (observation.now + waiting.limit[self.jobs]).tolist()
        self._promised_s = np.inf
        nodes, harm, beside = observation.nodes, *self._interference()
        total = np.maximum(1, np.stack([nodes.gpus, nodes.cpus, nodes.memory], axis=1))
        kinds = self._resources.kind.reshape(len(self.jobs), len(LEVELS)).astype(np.int64)
        self._arrays = QueueArrays(kinds, self._levels, self.demands, self.inputs, self._speed, self._application,
                                   total, beside, harm)
        self._full: set[tuple[int, ...]] = set()
        """Demands without room, which cannot get room within this round."""

    def starts(self, decide: Decide) -> Generator[Start, None, None]:
        """Yield the jobs to start now, with their resources."""
        while self._queue:
            batch = self._next()
            if batch:
                done = yield from self._place_batch(batch, decide)
                self._queue.extendleft(reversed([job for job in batch if job not in done]))
            elif not (yield from self._place_alone(self._queue.popleft())):
                return

    def _next(self) -> list[int]:
        """Take up to ``TASKS`` jobs from the head of the queue that run on one node and can be placed now."""
        ahead = list(takewhile(lambda job: self._single[job][REQUESTED] and self._room_key(job) not in self._full,
                               islice(self._queue, TASKS)))
        beside = np.array([self._keeps_off(job) for job in ahead], bool)
        count = fit_anywhere(self._resources.arrays, self._arrays, np.array(ahead, np.int64), beside) if ahead else 0
        if count < len(ahead):
            self._full.add(self._room_key(ahead[count]))
        return [self._queue.popleft() for _ in range(count)]

    def _room_key(self, job: int) -> tuple[int, ...]:
        """Return the key of demands by which single-node jobs have room together, or not."""
        return (*self._kind[job], self._keeps_off(job))

    def _keeps_off(self, job: int) -> bool:
        """Tell whether a job may outlast the start of a reservation, so that it must not use its nodes."""
        return self._latest[job] > self._promised_s

    def _place_alone(self, job: int) -> Generator[Start, None, bool]:
        """Place a multi-node job, or reserve nodes for a job without room; tell whether others may follow."""
        beside = self._keeps_off(job)
        for level in (AMPLE, REQUESTED, LEAN):
            if not self._available[job][level] or self._single[job][level]:
                continue
            placement = self._resources.placement(self._kind[job][level], beside=beside)
            if placement is not None:
                yield self._start(job, level, placement)
                return True
        if job in self._late:
            return False  # no job may overtake one that has waited for too long
        if not np.isfinite(self._promised_s):
            self._promised_s = self._resources.reserve(self._kind[job][REQUESTED])
        return True

    def _place_batch(self, batch: Sequence[int], decide: Decide) -> Generator[Start, None, set[int]]:
        """Let nodes decide on some jobs; return those that were placed, one at least."""
        jobs, beside = np.array(batch), np.array([self._keeps_off(job) for job in batch])
        nodes = np.empty(len(batch) * NOMINATED, np.int64)
        able = np.empty((len(nodes), len(batch) * len(LEVELS)), bool)
        count = nominate(self._resources.arrays, self._arrays, jobs, beside, nodes, able)
        nodes, able = nodes[:count], able[:count]
        actions = able.argmax(axis=1) + able.any(axis=1) if np.count_nonzero(able) == 1 else decide(
            self._joint(nodes, jobs, able))
        done = set[int]()
        for agent in np.argsort(actions, kind="stable").tolist():
            task, level = divmod(int(actions[agent]) - 1, len(LEVELS))
            if task >= 0 and batch[task] not in done:
                done.add(batch[task])
                yield self._start(batch[task], level, CandidatePlacement(nodes[[agent]], NODE, 0, opens=False))
        return done

    def _joint(self, nodes: Longs, jobs: Longs, able: Masks) -> Joint:
        """Return the inputs of nodes for a joint decision on jobs."""
        node_inputs, actions = np.empty((len(nodes), len(NODE_INPUTS))), np.empty((*able.shape, len(ACTION_INPUTS)))
        observe(self._resources.arrays, self._arrays, jobs, nodes, node_inputs, actions)
        return Joint(self._observation.now, node_inputs, actions, able)

    def _start(self, job: int, level: int, placement: CandidatePlacement) -> Start:
        if self._arrays.beside.size:
            self._arrays.beside[placement.nodes, self._application[job]] += 1
        row = int(self._observation.waiting.rows[self.jobs[job]])
        return self._resources.take(self._kind[job][level], placement, row,
                               granted=level != REQUESTED)

    def _interference(self) -> tuple[Floats, Floats]:
        """Return the slowdown by neighbours, and [node, group] the running jobs; empty where it is unknown."""
        observation = self._observation
        if observation.known.company.size == 1:
            return np.zeros((0, 0)), np.zeros((len(observation.nodes.gpus), 0))
        running_jobs = np.zeros((len(observation.nodes.gpus), len(observation.known.company)))
        shares = observation.running.shares
        np.add.at(running_jobs, (shares[:, 1], observation.running.application[shares[:, 0]]), 1.0)
        return -np.log(observation.known.company), running_jobs


def job_inputs(observation: Observation, jobs: NDArray[np.intp], needs: Needs) -> Floats:
    """Return [job, input] the inputs of jobs alone, the first of ``ACTION_INPUTS``."""
    waiting = observation.waiting
    demands, cpus_used = waiting.demands[jobs], needs.of_applications(waiting.application[jobs])[0]
    requested = np.maximum(1, demands[:, CPUS]) / np.maximum(1, demands[:, 1])
    wait = np.maximum(0.0, observation.now - waiting.submit[jobs])
    excess = np.where(np.isfinite(cpus_used), np.log2(requested / np.maximum(0.5, np.nan_to_num(cpus_used))), 0.0)
    return np.stack([0.5 * np.log((waiting.guess[jobs] + MINUTE_S) / HOUR_S),
                     np.log2(np.maximum(1, waiting.gpus[jobs])) / 3, 0.25 * np.log1p(wait / MINUTE_S), excess], axis=1)
