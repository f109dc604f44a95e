"""One moment as MAIFS sees it: the queue, walked while nodes decide on the next few jobs of one node together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...replay.state import Start
from ..asks import CHUNKS, CPUS, MEMORY, RESTS
from ..observation import Observation
from ..placing import NODE
from ..room import Room
from ..spots import Spot
from .levels import AMPLE, ASKED, LEAN, LEVELS, Needs, asks_at, speeds_at
from .network import ACTION_INPUTS, NODE_INPUTS, NOMINATED, OF_JOB, TASKS

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Masks = NDArray[np.bool_]

OLDEST, SHORTEST = 64, 64
"""Waiting jobs that are considered at a time: those submitted first, and those expected to run for the shortest."""
HOUR_S, MINUTE_S = 3600.0, 60.0
LEFT_OVER, SAVED, SPEED = (ACTION_INPUTS.index(name) for name in ("GPUs left over", "CPUs saved", "speed"))
_NODE_SPOT = NODE
_EACH_LEVEL = np.eye(len(LEVELS))


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


class Desk:
    """The waiting jobs that are looked at, while they are placed."""

    def __init__(self, seen: Observation, needs: Needs, order: Floats, longest_wait_s: float) -> None:
        self._seen, waiting = seen, seen.waiting
        self.jobs = looked_at(seen)
        self._application = waiting.application[self.jobs]
        self._run, self._wait = waiting.guess[self.jobs], np.maximum(0.0, seen.now - waiting.submit[self.jobs])
        self.asks, self._levels = asks_at(waiting.asks[self.jobs], needs, self._application)
        self._speed = np.log(speeds_at(seen.known, self._application, self.asks))
        self._room = Room(seen, self.asks.reshape(-1, self.asks.shape[2]))
        self._kind: list[list[int]] = self._room.kind.reshape(len(self.jobs), len(LEVELS)).tolist()
        self._there: list[list[bool]] = self._levels.tolist()
        self._single: list[list[bool]] = (self.asks[:, :, CHUNKS] + self.asks[:, :, RESTS] == 1).tolist()
        self.inputs = job_inputs(seen, self.jobs, needs)
        told = np.stack([np.log(self._run + MINUTE_S), np.log(np.maximum(1, waiting.gpus[self.jobs])),
                         self._wait / HOUR_S], axis=1)
        late = self._wait > longest_wait_s
        # Who has waited for too long comes before all others, the oldest first.
        keys = np.where(late, -1e9 - self._wait, told @ order)
        self._queue = deque(np.argsort(keys, kind="stable").tolist())
        self._late = {int(job) for job in np.flatnonzero(late)}
        self._latest: list[float] = (seen.now + waiting.limit[self.jobs]).tolist()
        self._promised_s = np.inf
        self._beside = self._company()
        self._found: dict[tuple[int, ...], tuple[Masks, bool]] = {}
        """Where jobs that ask for the same fit, until one of them starts."""

    def starts(self, decide: Decide) -> Generator[Start, None, None]:
        """Yield what to start now, and with what."""
        batch: list[int] = []
        while self._queue or batch:
            if self._queue and len(batch) < TASKS and self._joins(self._queue[0]):
                batch.append(self._queue.popleft())
            elif batch:
                done = yield from self._together(batch, decide)
                self._queue.extendleft(reversed([job for job in batch if job not in done]))
                batch = []
            elif not (yield from self._alone(self._queue.popleft())):
                return

    def _joins(self, job: int) -> bool:
        """Tell whether a job of one node can be placed now."""
        return self._single[job][ASKED] and self._where(job)[1]

    def _where(self, job: int) -> tuple[Masks, bool]:
        """Return [level, node] where a job of one node fits, and whether it does anywhere."""
        beside = self._latest[job] > self._promised_s
        key = (*self._kind[job], beside)
        if key not in self._found:
            where = np.asarray(self._room.fitting_each(self._kind[job], beside=beside) & self._levels[job][:, None])
            self._found[key] = where, bool(where.any())
        return self._found[key]

    def _shrink(self) -> None:
        """Look anew for places, but not for those who had none."""
        self._found = {key: found for key, found in self._found.items() if not found[1]}

    def _alone(self, job: int) -> Generator[Start, None, bool]:
        """Place a job of several nodes, or promise one that finds no room its nodes; tell whether others may follow."""
        beside = self._latest[job] > self._promised_s
        for level in (AMPLE, ASKED, LEAN):
            if not self._there[job][level] or self._single[job][level]:
                continue
            spot = self._room.spot(self._kind[job][level], beside=beside)
            if spot is not None:
                yield self._start(job, level, spot)
                return True
        if job in self._late:
            return False  # nobody overtakes who has waited for so long
        if not np.isfinite(self._promised_s):
            self._promised_s = self._room.reserve(self._kind[job][ASKED])
            self._shrink()
        return True

    def _together(self, batch: Sequence[int], decide: Decide) -> Generator[Start, None, set[int]]:
        """Let nodes decide on some jobs; return those that were placed, one at least."""
        where = np.stack([self._where(job)[0] for job in batch])
        nodes = self._nominated(np.asarray(where.any(axis=1)))
        able = where[:, :, nodes].transpose(2, 0, 1).reshape(len(nodes), -1)
        actions = able.argmax(axis=1) + able.any(axis=1) if able.sum() == 1 else decide(
            Joint(self._seen.now, self._nodes(nodes), self._actions(batch, nodes), able))
        done = set[int]()
        for agent in np.argsort(actions, kind="stable").tolist():
            task, level = divmod(int(actions[agent]) - 1, len(LEVELS))
            if task >= 0 and batch[task] not in done:
                done.add(batch[task])
                yield self._start(batch[task], level, Spot(nodes[[agent]], _NODE_SPOT, 0, opens=False))
        return done

    def _start(self, job: int, level: int, spot: Spot) -> Start:
        self._shrink()
        if self._beside is not None:
            self._beside[spot.nodes, self._application[job]] += 1
        start = self._room.take(self._kind[job][level], spot, int(self._seen.waiting.rows[self.jobs[job]]))
        ask = self.asks[job, level]
        if level == ASKED:
            return start
        return replace(start, cpus=int(ask[CPUS]), memory=int(ask[MEMORY]))

    def _nominated(self, can: Masks) -> NDArray[np.intp]:
        """Return the nodes that decide, of [job, node] those with the fewest free GPUs, and then CPUs."""
        free = self._room.free
        rank = free[:, 0] * 4096.0 + np.minimum(free[:, 1], 4095)
        found = set[int]()
        for task in can:
            nodes = np.flatnonzero(task)
            near = nodes[np.argpartition(rank[nodes], NOMINATED - 1)[:NOMINATED]] if len(nodes) > NOMINATED else nodes
            found.update(near.tolist())
        return np.array(sorted(found), np.intp)

    def _nodes(self, nodes: NDArray[np.intp]) -> Floats:
        """Return what agents see of themselves."""
        free, busy = self._room.free[nodes] / np.maximum(1, self._totals(nodes)), self._room.busy[nodes]
        found = np.empty((len(nodes), len(NODE_INPUTS)))
        found[:, :3], found[:, 3], found[:, 4] = free, 0.3 * np.log1p(busy), busy == 0
        found[:, 5] = self._room.reserved[nodes]
        return found

    def _totals(self, nodes: NDArray[np.intp]) -> Longs:
        seen = self._seen.nodes
        return np.stack([seen.gpus[nodes], seen.cpus[nodes], seen.memory[nodes]], axis=1)

    def _actions(self, batch: Sequence[int], nodes: NDArray[np.intp]) -> Floats:
        """Return the inputs of taking each job at each level."""
        asks, total = self.asks[batch], np.maximum(1, self._totals(nodes))[:, None, None]
        needs = asks[:, :, [1, CPUS, MEMORY]]
        left = (self._room.free[nodes][:, None, None] - needs) / total
        found = np.zeros((len(nodes), len(batch), len(LEVELS), len(ACTION_INPUTS)))
        found[..., :OF_JOB] = self.inputs[batch][None, :, None]
        found[..., LEFT_OVER], found[..., LEFT_OVER + 1] = left[..., 0], left[..., 0] <= 0
        found[..., LEFT_OVER + 2] = (self._room.busy[nodes] == 0)[:, None, None]
        found[..., 7], found[..., 8] = left[..., 1], left[..., 2]
        found[..., 9] = np.maximum(0.0, left[..., 0] - np.minimum(left[..., 1], left[..., 2]))
        if self._beside is not None:
            harm, there = -np.log(self._seen.known.company), self._beside[nodes]
            found[..., 10] = (there @ harm[self._application[batch]].T)[:, :, None]
            found[..., 11] = (there @ harm[:, self._application[batch]])[:, :, None]
        found[..., SPEED] = self._speed[batch]
        found[..., SAVED] = (asks[:, ASKED, None, CPUS] - asks[:, :, CPUS]) / total[..., 1]
        found[..., -len(LEVELS):] = _EACH_LEVEL
        return found.reshape(len(nodes), -1, len(ACTION_INPUTS))

    def _company(self) -> Floats | None:
        """Return [node, group] how many jobs of each group run there; None where neighbours do not matter."""
        seen = self._seen
        if seen.known.company.size == 1:
            return None
        found = np.zeros((len(seen.nodes.gpus), len(seen.known.company)))
        shares = seen.running.shares
        np.add.at(found, (shares[:, 1], seen.running.application[shares[:, 0]]), 1.0)
        return found


def looked_at(seen: Observation) -> NDArray[np.intp]:
    """Return the waiting jobs that are considered, by index; they stand in order of submission."""
    count = len(seen.waiting.rows)
    if count <= OLDEST + SHORTEST:
        return np.arange(count)
    short = OLDEST + np.argsort(seen.waiting.guess[OLDEST:], kind="stable")[:SHORTEST]
    return np.concatenate([np.arange(OLDEST), np.sort(short)])


def job_inputs(seen: Observation, jobs: NDArray[np.intp], needs: Needs) -> Floats:
    """Return [job, input] what is told of jobs alone, the first of ``ACTION_INPUTS``."""
    waiting = seen.waiting
    asks, used = waiting.asks[jobs], needs.told(waiting.application[jobs])[0]
    asked = np.maximum(1, asks[:, CPUS]) / np.maximum(1, asks[:, 1])
    wait = np.maximum(0.0, seen.now - waiting.submit[jobs])
    over = np.where(np.isfinite(used), np.log2(asked / np.maximum(0.5, np.nan_to_num(used))), 0.0)
    return np.stack([0.5 * np.log((waiting.guess[jobs] + MINUTE_S) / HOUR_S),
                     np.log2(np.maximum(1, waiting.gpus[jobs])) / 3, 0.25 * np.log1p(wait / MINUTE_S), over], axis=1)
