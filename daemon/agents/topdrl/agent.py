"""TopDRL as a policy: it picks the next job or waits, places it close, and says when not to be believed, and why.

What the paper need not care about, for its episodes end, is added: the first that is picked though it does not fit is
promised its nodes, nobody delays that, and a job that has waited for too long goes first.
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
from ..observation import Observation, looked_at, observe, spread_known
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
        """Serve by ``weights``; ``choose`` chooses in their stead, as while it learns."""
        self.name, self.card, self.weights, self.longest_wait_s = card.model, card, weights, longest_wait_s
        self._choose = choose or self._best

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start now; the state stays as it is."""
        if not somebody_fits(state):
            return ()
        return list(SchedulingRound(observe(state), self.longest_wait_s).starts(self._choose))

    def doubt(self, state: ClusterState) -> str | None:
        """Return why its word should not be taken in this state; None when nothing speaks against it."""
        return (wrong_size(self.card, state) or _unknown_spread(state)
                or strange_jobs(self._outside(state), INPUTS[:OF_JOB]))

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside of what it was trained on; 0 when none waits."""
        return strange_share(self._outside(state))

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return what set this job apart from the others that it looks at, the weightiest first."""
        seen = observe(state)
        scheduling_round = SchedulingRound(seen, self.longest_wait_s)
        at = np.flatnonzero(seen.waiting.rows[scheduling_round.jobs] == job)
        if not len(at):
            return ()
        rows, row = scheduling_round.rows(), int(at[0])
        usual = np.median(rows[:-1], axis=0)
        trials = np.tile(rows[row], (OF_JOB, 1))
        trials[np.arange(OF_JOB), np.arange(OF_JOB)] = usual[:OF_JOB]
        shift = NET.scores(self.weights, rows[[row]]) - NET.scores(self.weights, trials)
        told = sorted(zip(shift.tolist(), INPUTS[:OF_JOB], strict=True), key=lambda reason: -abs(reason[0]))
        return tuple(f"{name}: {'earlier' if amount > 0 else 'later'} than others" for amount, name
                     in told[:MOST_REASONS] if abs(amount) > 1e-6)

    def _best(self, now: float, rows: Floats) -> int:
        return int(NET.scores(self.weights, rows).argmax())

    def _outside(self, state: ClusterState) -> NDArray[np.bool_]:
        """Return [job, input] whether an input of a job lies outside of what was seen in training."""
        seen = observe(state)
        if not len(seen.waiting.rows):
            return np.zeros((0, OF_JOB), bool)
        return outside(self.card, INPUTS[:OF_JOB], SchedulingRound(seen, self.longest_wait_s).rows()[:-1, :OF_JOB])


class SchedulingRound:
    """One moment as the agent sees it, while jobs are placed one by one."""

    def __init__(self, seen: Observation, longest_wait_s: float) -> None:
        self._seen, self._longest_wait_s = seen, longest_wait_s
        self.jobs = looked_at(seen)
        self._resources = FreeResources(seen, seen.waiting.demands[self.jobs])
        self._candidates = Candidates(seen, self._resources, self.jobs)
        self._promised_s: float | None = None
        """When the one that was picked without fitting gets its nodes."""
        self._left = np.ones(len(self.jobs), bool)
        self._idle = not len(seen.running.rows)
        self._places = Places(self._resources, np.zeros(len(self.jobs), bool))

    def rows(self) -> Floats:
        """Return the inputs of the candidates as things are."""
        return self._candidates.rows(self._places, self._places.found(self._left))

    def starts(self, choose: Choose) -> Iterator[Action]:
        """Yield what to start now."""
        for row in self._late():
            placement = self._places.placement(row)
            if placement is None:
                return  # nobody overtakes a job that has waited for so long
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
        """Return the row that is chosen of those that are allowed; None for letting nobody go."""
        allowed = self._left if self._promised_s is None else self._left & fit
        shown = np.flatnonzero(np.append(allowed, not self._idle))  # of an idle cluster nothing is to be waited for
        chosen = shown[choose(self._seen.now, self._candidates.rows(self._places, fit)[shown])]
        return None if chosen == len(self.jobs) else int(chosen)

    def _start(self, row: int, placement: CandidatePlacement) -> Action:
        self._left[row], self._idle = False, False
        return self._resources.take(int(self._resources.kind[row]), placement,
                                    int(self._seen.waiting.rows[self.jobs[row]]))

    def _promise(self, row: int) -> None:
        """Keep free what a job gets first; a job that would still run then keeps off."""
        self._promised_s = self._resources.reserve(int(self._resources.kind[row]))
        self._left[row] = False
        self._places = Places(self._resources, self._seen.now + self._seen.waiting.limit[self.jobs] > self._promised_s)

    def _late(self) -> list[int]:
        """Return the rows of the jobs that have waited for too long, the oldest first."""
        wait = self._seen.now - self._seen.waiting.submit[self.jobs]
        return [int(row) for row in np.argsort(-wait, kind="stable") if wait[row] > self._longest_wait_s]


def _unknown_spread(state: ClusterState) -> str | None:
    """Return for which groups it is not known what distance costs, where too many such jobs wait."""
    waiting = state.waiting
    several = waiting[state.arrays.jobs.gpus[waiting] > 1]
    unknown = ~spread_known(state.known, state.arrays.jobs.model[several].astype(np.int64))
    if not len(several) or unknown.mean() <= STRANGE:
        return None
    return f"the speed of {groups_of(state, several[unknown])} when scattered is not known"


def save(folder: Path, weights: Floats, card: ModelCard, longest_wait_s: float) -> ModelCard:
    """Write weights and their card; return the card as written."""
    arrays = {"choice": weights.astype(np.float32), "longest_wait_s": np.array([longest_wait_s])}
    return checkpoint.save(folder, card, arrays, schema())


def load(folder: Path) -> TopDRL:
    """Return a saved agent; ``CheckpointError`` when its weights are not whole or not for this agent."""
    like: dict[str, NDArray[np.generic]] = {"choice": np.zeros(NET.size, np.float32), "longest_wait_s": np.zeros(1)}
    arrays, card = checkpoint.load(folder, schema(), like=like)
    return TopDRL(arrays["choice"].astype(np.float64), card, float(arrays["longest_wait_s"][0]))
