"""DL2 as a policy: it sizes jobs step by step, places their GPUs close together, and abstains where it is unsure.

Beyond the paper: a job that has waited for too long goes first, a job keeps a new size for a slot, and a job with an
unknown speed curve gets the size that it requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....storage.records import ModelCard
from ...replay.arrays import Floats, Longs, Masks
from ...replay.compiled import compiled_apart
from ...replay.state import Action, Actions, ClusterState, Resize
from .. import checkpoint
from ..doubts import STRANGE, groups_of, outside, strange_jobs, strange_share, wrong_size
from ..free_resources import FreeResources
from ..kinds import Objective
from ..observation import Observation, observe, of_application
from .network import INPUTS, NET, OF_STEP, Sizing, Steps

Choose = Callable[[float, Floats], int]
"""(now, rows) -> the step that is chosen."""

WAITING, RUNNING = 64, 32
"""Jobs that are considered in a round: the waiting ones submitted first, and the largest running ones."""
SLOT_S = 1200.0
"""A job keeps a size for so long: the paper's slot."""
MOST_STEPS = 64
"""Most steps of one decision."""
MOST_REASONS = 3


def schema() -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "dl2", "inputs": list(INPUTS), "hidden": NET.hidden, "actions": "start, double, halve or stop"}


class DL2:
    """A trained agent, the same object live and replayed."""

    def __init__(self, weights: Floats, card: ModelCard, longest_wait_s: float = Objective().longest_wait_s,
                 choose: Choose | None = None) -> None:
        """Serve by ``weights``, or during training by ``choose``."""
        self.name, self.card, self.weights, self.longest_wait_s = card.model, card, weights, longest_wait_s
        self._choose = choose or self._best

    def decide(self, state: ClusterState) -> Actions:
        """Return which jobs to start or resize, and with how many GPUs; the state does not change."""
        if not len(state.waiting) and not _elastic(state):
            return ()
        return list(SchedulingRound(observe(state), self.longest_wait_s).actions(self._choose))

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the agent should abstain in this state; None when it should not."""
        return (wrong_size(self.card, state) or _unknown_sizes(state)
                or strange_jobs(self._outside(state), INPUTS[:OF_STEP]))

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside its training range; 0 when none waits."""
        return strange_share(self._outside(state))

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the known speeds of a waiting job at other sizes, the largest size first."""
        scheduling_round = SchedulingRound(observe(state), self.longest_wait_s)
        at = np.flatnonzero(scheduling_round.sizing.waits & (scheduling_round.sizing.rows == job))
        return tuple(scheduling_round.size_gains(int(at[0])))[:MOST_REASONS] if len(at) else ()

    def _best(self, now: float, rows: Floats) -> int:
        return int(NET.scores(self.weights, rows).argmax())

    def _outside(self, state: ClusterState) -> NDArray[np.bool_]:
        scheduling_round = SchedulingRound(observe(state), self.longest_wait_s)
        return outside(self.card, INPUTS[:OF_STEP], scheduling_round.starts())


class SizeLimits(NamedTuple):
    """The bounds on jobs' sizes, whether they wait, and their pools of nodes."""

    least: Longs
    most: Longs
    waits: Masks
    pool: Longs


@compiled_apart
def _changeable(limits: SizeLimits, free: Longs, given: Longs, direction: Longs, changes: Longs) -> int:
    """Fill in the possible changes of jobs' sizes now, growing ones first; return the number of changes."""
    count = 0
    for job in range(given.size):
        least = limits.least[job]
        up = max(1, least) if given[job] == 0 else min(limits.most[job], 2 * given[job])
        if up > given[job] and up - given[job] <= free[limits.pool[job]] and direction[job] >= 0:
            changes[0, count], changes[1, count] = job, up
            count += 1
    for job in range(given.size):
        down = max(limits.least[job], given[job] // 2)
        if not limits.waits[job] and down < given[job] and direction[job] <= 0:
            changes[0, count], changes[1, count] = job, down
            count += 1
    return count


class SchedulingRound:
    """One decision, while sizes are changed step by step."""

    def __init__(self, observation: Observation, longest_wait_s: float) -> None:
        running = observation.running
        moving = (running.minimum < running.maximum) & (observation.now - running.since >= SLOT_S)
        largest = np.argsort(-running.gpus, kind="stable")
        self._running = np.sort(largest[moving[largest]][:RUNNING])
        self.sizing = Sizing.of(observation, np.arange(min(WAITING, len(observation.waiting.rows))), self._running)
        self._observation, self._longest_wait_s = observation, longest_wait_s
        self._steps = Steps(observation, self.sizing)
        self.given = self.sizing.held.copy()
        """GPUs that each job is to have."""
        nodes, pools = observation.nodes, observation.eligible.astype(np.int64)
        self._free = pools @ (nodes.free[:, 0] * nodes.open)
        self._shared = (pools @ pools.T) > 0
        self._limits = SizeLimits(self.sizing.least, self.sizing.most, self.sizing.waits,
                                  self.sizing.demands[:, 0].copy())
        self._direction = np.zeros(len(self.given), np.int64)
        """[job] sign of the change of size: a job does not both grow and shrink within a decision."""

    def actions(self, choose: Choose) -> Iterator[Action]:
        """Yield the actions."""
        late = np.flatnonzero(self.sizing.wait > self._longest_wait_s).tolist()
        for job in late:
            self._give(job, int(self.sizing.least[job]))
        smallest = list(self._carried_out(late))
        if len(smallest) < len(late):
            yield from smallest
            return
        for _ in range(MOST_STEPS):
            if not self._step(choose):
                break
        decided = list(self._carried_out(late))
        yield from decided if len(decided) >= len(late) else smallest  # else a late job has grown into another's room

    def starts(self) -> Floats:
        """Return the inputs of starting each waiting job on the fewest GPUs it can use."""
        jobs = np.flatnonzero(self.sizing.waits)
        rows = self._steps.rows(jobs, np.zeros(len(jobs), np.int64), self.sizing.least[jobs], 0, self.given)
        return rows[:-1, :OF_STEP]

    def size_gains(self, job: int) -> Iterator[str]:
        """Yield the speeds of a waiting job at other sizes."""
        sizing, requested = self.sizing, int(self.sizing.requested[job])
        sizes = {int(size) for size in (sizing.least[job], sizing.most[job], 2 * requested, requested // 2)
                 if sizing.least[job] <= size <= sizing.most[job]} - {requested, 0}
        for size in sorted(sizes, reverse=True):
            every = sizing.requested.copy()
            every[job] = size
            before = sizing.speeds(self._observation, sizing.requested)
            ratio = float(sizing.speeds(self._observation, every)[job] / before[job])
            yield f"on {size} GPUs it would run {ratio:.2f} times as fast; only a pending job can get another size"

    def _step(self, choose: Choose) -> bool:
        """Take one step; tell whether another may follow."""
        jobs, after = self._possible()
        if not len(jobs):
            return False
        rows = self._steps.rows(jobs, self.given[jobs], after, int(self._free.max(initial=0)), self.given)
        idle = not len(self._observation.running.rows) and not self.given.any()  # then stopping gains nothing
        chosen = choose(self._observation.now, rows[:-1] if idle else rows)
        if chosen == len(jobs):
            return False
        self._give(int(jobs[chosen]), int(after[chosen]))
        return True

    def _possible(self) -> tuple[NDArray[np.intp], Longs]:
        """Return the jobs whose sizes could change now, and the new sizes."""
        changes = np.empty((2, 2 * len(self.given)), np.int64)
        count = _changeable(self._limits, self._free, self.given, self._direction, changes)
        return changes[0, :count], changes[1, :count]

    def _give(self, job: int, gpus: int) -> None:
        more = gpus - int(self.given[job])
        self._free[self._shared[self._pool(job)]] -= more
        self._direction[job], self.given[job] = np.sign(more), gpus

    def _pool(self, job: int) -> int:
        return int(self.sizing.demands[job, 0])

    def _carried_out(self, late: Sequence[int]) -> Iterator[Action]:
        """Yield the actions in order, up to the first late job without room; others without room stay as they are."""
        order = self._order(late)
        sizes = [list(self._sizes(job)) for job in order]
        if not order:
            return
        resources = FreeResources(self._observation, np.array([
            self.sizing.demand(job, size) for job, of_job in zip(order, sizes, strict=True) for size in of_job]))
        kinds = iter(resources.kind.tolist())
        for job, of_job in zip(order, sizes, strict=True):
            tried = [next(kinds) for _ in of_job]
            decided = self._started if self.sizing.waits[job] else self._resized
            actions = (decided(resources, kind, job) for kind in tried)
            action = next((one for one in actions if one is not None), None)
            if action is not None:
                yield action
            elif job in late:
                return  # no job may overtake one that has waited for too long

    def _order(self, late: Sequence[int]) -> list[int]:
        """Return the jobs to change: late ones, then those that shrink, then other starts, then those that grow."""
        changed = np.flatnonzero(self.given != self.sizing.held)
        more = self.given[changed] - self.sizing.held[changed]
        turn = np.where(more < 0, 0, np.where(self.sizing.waits[changed], 1, 2))
        turn[np.isin(changed, late)] = -1
        return [int(job) for job in changed[np.lexsort((changed, turn))]]

    def _sizes(self, job: int) -> Iterator[int]:
        """Yield the sizes to try for a job: a start may fall back to fewer GPUs where it finds no room for all."""
        size, least = int(self.given[job]), int(self.sizing.least[job])
        yield size
        while self.sizing.waits[job] and size > max(1, least):
            size = max(least, size // 2)
            yield size

    def _started(self, resources: FreeResources, kind: int, job: int) -> Action | None:
        placement = resources.placement(kind)
        return None if placement is None else resources.take(kind, placement, int(self.sizing.rows[job]))

    def _resized(self, resources: FreeResources, kind: int, job: int) -> Action | None:
        index = self._running[job - int(self.sizing.waits.sum())]
        shares = self._observation.running.shares
        shares_of_job = shares[shares[:, 0] == index, 1:]
        resources.give_back(shares_of_job)
        placement = resources.placement(kind)
        if placement is None:
            resources.hold(shares_of_job)
            return None
        start = resources.take(kind, placement, int(self.sizing.rows[job]))
        return Resize(start.job, start.nodes, start.gpus)


def _elastic(state: ClusterState) -> bool:
    """Tell whether a job runs whose size could change now."""
    jobs = state.arrays.jobs.view(np.ndarray)[state.running]
    return bool(((jobs["minimum"] < jobs["maximum"]) & (state.now - jobs["since"] >= SLOT_S)).any())


def _unknown_sizes(state: ClusterState) -> str | None:
    """Return the groups whose speeds at other sizes are unknown, where too many such jobs wait; else None."""
    waiting = state.waiting
    jobs = state.arrays.jobs[waiting]
    known = (of_application(state.known.size, jobs.model.astype(np.int64))[:, 1:] != 1.0).any(axis=1)
    if not len(waiting) or (~known).mean() <= STRANGE:
        return None if not len(waiting) or (jobs.minimum < jobs.maximum).any() else (
            "no waiting job may have another number of GPUs than it asks for")
    return f"the speed of {groups_of(state, waiting[~known])} on other numbers of GPUs is not known"


def save(folder: Path, weights: Floats, card: ModelCard, longest_wait_s: float) -> ModelCard:
    """Write weights and their card; return the card as written."""
    arrays = {"choice": weights.astype(np.float32), "longest_wait_s": np.array([longest_wait_s])}
    return checkpoint.save(folder, card, arrays, schema())


def load(folder: Path) -> DL2:
    """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
    like: dict[str, NDArray[np.generic]] = {"choice": np.zeros(NET.size, np.float32), "longest_wait_s": np.zeros(1)}
    arrays, card = checkpoint.load(folder, schema(), like=like)
    return DL2(arrays["choice"].astype(np.float64), card, float(arrays["longest_wait_s"][0]))
