"""TopDRL as a policy: it picks the next job or waits, places it close together, and abstains where it is unsure.

Beyond the paper, whose episodes end: the first picked job that does not fit gets a reservation that no other job may
delay, and a job that has waited for too long goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....storage.records import ModelCard
from ...replay.arrays import Floats
from ...replay.state import Action, Actions, ClusterState
from .. import checkpoint
from ..candidate_placement import CandidatePlacement
from ..doubts import STRANGE, groups_of, outside, strange_jobs, strange_share, wrong_size
from ..free_resources import FreeResources, somebody_fits
from ..kinds import Objective
from ..observation import Observation, considered_jobs, observe, spread_known
from .network import INPUTS, NET, OF_JOB, Candidates, Places

Choose = Callable[[float, Floats], int]
"""(now, rows) -> the candidate that is chosen."""

MOST_REASONS = 3
NEVER = -1e300


def schema() -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "topdrl", "inputs": list(INPUTS), "hidden": NET.hidden, "actions": "a job, or none"}


class TopDRL:
    """A trained agent, the same object live and replayed."""

    def __init__(self, weights: Floats, card: ModelCard, longest_wait_s: float = Objective().longest_wait_s,
                 choose: Choose | None = None) -> None:
        """Serve by ``weights``, or during training by ``choose``."""
        self.name, self.card, self.weights, self.longest_wait_s = card.model, card, weights, longest_wait_s
        self._choose = choose or self._best

    def decide(self, state: ClusterState) -> Actions:
        """Return which jobs to start now; the state does not change."""
        if not somebody_fits(state):
            return ()
        return list(SchedulingRound(observe(state), self.longest_wait_s).starts(self._choose))

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the agent should abstain in this state; None when it should not."""
        return (wrong_size(self.card, state) or _unknown_spread(state)
                or strange_jobs(self._outside(state), INPUTS[:OF_JOB]))

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside its training range; 0 when none waits."""
        return strange_share(self._outside(state))

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the inputs by which this job's score differs from the other candidates, the strongest first."""
        observation = observe(state)
        scheduling_round = SchedulingRound(observation, self.longest_wait_s)
        at = np.flatnonzero(observation.waiting.rows[scheduling_round.jobs] == job)
        if not len(at):
            return ()
        rows, row = scheduling_round.rows(), int(at[0])
        usual = np.median(rows[:-1], axis=0)
        trials = np.tile(rows[row], (OF_JOB, 1))
        trials[np.arange(OF_JOB), np.arange(OF_JOB)] = usual[:OF_JOB]
        shift = NET.scores(self.weights, rows[[row]]) - NET.scores(self.weights, trials)
        shifts = sorted(zip(shift.tolist(), INPUTS[:OF_JOB], strict=True), key=lambda reason: -abs(reason[0]))
        return tuple(f"{name}: {'earlier' if amount > 0 else 'later'} than others" for amount, name
                     in shifts[:MOST_REASONS] if abs(amount) > 1e-6)

    def _best(self, now: float, rows: Floats) -> int:
        return int(NET.scores(self.weights, rows).argmax())

    def _outside(self, state: ClusterState) -> NDArray[np.bool_]:
        """Return [job, input] whether an input of a job lies outside its range in training."""
        observation = observe(state)
        if not len(observation.waiting.rows):
            return np.zeros((0, OF_JOB), bool)
        rows = SchedulingRound(observation, self.longest_wait_s).rows()
        return outside(self.card, INPUTS[:OF_JOB], rows[:-1, :OF_JOB])


class SchedulingRound:
    """One decision, while jobs are placed one by one."""

    def __init__(self, observation: Observation, longest_wait_s: float) -> None:
        self._observation, self._longest_wait_s = observation, longest_wait_s
        self.jobs = considered_jobs(observation)
        self._resources = FreeResources(observation, observation.waiting.demands[self.jobs])
        self._candidates = Candidates(observation, self._resources, self.jobs)
        self._promised_s: float | None = None
        """When the picked job that does not fit gets its nodes."""
        self._left = np.ones(len(self.jobs), bool)
        self._idle = not len(observation.running.rows)
        self._places = Places(self._resources, np.zeros(len(self.jobs), bool))

    def rows(self) -> Floats:
        """Return the inputs of the candidates in the present state."""
        return self._candidates.rows(self._places, self._places.found(self._left))

    def starts(self, choose: Choose) -> Iterator[Action]:
        """Yield the jobs to start now."""
        for row in self._late():
            placement = self._places.placement(row)
            if placement is None:
                return  # no job may overtake one that has waited for too long
            yield self._start(row, placement)
        while True:
            fit = self._places.found(self._left)
            if not fit.any():
                return
            picked = self._picked(fit, choose)
            if picked is None:
                return
            placement = self._places.placement(picked) if fit[picked] else None
            if placement is None:
                self._promise(picked)
            else:
                yield self._start(picked, placement)

    def _picked(self, fit: NDArray[np.bool_], choose: Choose) -> int | None:
        """Return the row that is chosen among the allowed ones; None for waiting."""
        allowed = self._left if self._promised_s is None else self._left & fit
        candidates = np.flatnonzero(np.append(allowed, not self._idle))  # in an idle cluster waiting gains nothing
        chosen = candidates[choose(self._observation.now, self._candidates.rows(self._places, fit)[candidates])]
        return None if chosen == len(self.jobs) else int(chosen)

    def _start(self, row: int, placement: CandidatePlacement) -> Action:
        self._left[row], self._idle = False, False
        return self._resources.take(int(self._resources.kind[row]), placement,
                                    int(self._observation.waiting.rows[self.jobs[row]]))

    def _promise(self, row: int) -> None:
        """Reserve the nodes that a job gets first; jobs that would still run then must not use them."""
        self._promised_s = self._resources.reserve(int(self._resources.kind[row]))
        self._left[row] = False
        ends_s = self._observation.now + self._observation.waiting.limit[self.jobs]
        self._places = Places(self._resources, ends_s > self._promised_s)

    def _late(self) -> list[int]:
        """Return the rows of the jobs that have waited for too long, the oldest first."""
        wait = self._observation.now - self._observation.waiting.submit[self.jobs]
        return [int(row) for row in np.argsort(-wait, kind="stable") if wait[row] > self._longest_wait_s]


def _unknown_spread(state: ClusterState) -> str | None:
    """Return the groups whose slowdown by distance is unknown, where too many such jobs wait; else None."""
    waiting = state.waiting
    multi_gpu = waiting[state.arrays.jobs.gpus[waiting] > 1]
    unmeasured = ~spread_known(state.known, state.arrays.jobs.model[multi_gpu].astype(np.int64))
    if not len(multi_gpu) or unmeasured.mean() <= STRANGE:
        return None
    return f"the speed of {groups_of(state, multi_gpu[unmeasured])} when scattered is not known"


def save(folder: Path, weights: Floats, card: ModelCard, longest_wait_s: float) -> ModelCard:
    """Write weights and their card; return the card as written."""
    arrays = {"choice": weights.astype(np.float32), "longest_wait_s": np.array([longest_wait_s])}
    return checkpoint.save(folder, card, arrays, schema())


def load(folder: Path) -> TopDRL:
    """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
    like: dict[str, NDArray[np.generic]] = {"choice": np.zeros(NET.size, np.float32), "longest_wait_s": np.zeros(1)}
    arrays, card = checkpoint.load(folder, schema(), like=like)
    return TopDRL(arrays["choice"].astype(np.float64), card, float(arrays["longest_wait_s"][0]))
