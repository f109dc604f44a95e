"""The scorer as a policy: it orders the queue and chooses nodes, and abstains with a reason where it is unsure.

Its inputs of a waiting job are numbers of about -1..1 that mean the same on any site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from ....storage.records import ModelCard
from ...durations import span
from ...policies.registry import never
from ...replay import engine
from ...replay.arrays import Floats, Masks, State
from ...replay.rules import Rules, pointer_to
from ...replay.state import Actions, ClusterState
from ...replay.workload import UNLIMITED_S
from .. import checkpoint
from ..doubts import outside, strange_jobs, strange_share, wrong_queue, wrong_size
from . import network
from .network import BLOCK, FEATURES, FIRST, HOUR_S, INPUTS, LAYERS, MEAN_WAIT, SIZE, TRAITS, blocks, layer

USUAL_LOG_USE = -0.8
"""Logarithm of the share of its limit that a job usually runs for."""
UNKNOWN_SPREAD = 2.5
"""Spread of the logarithm between quartiles where nothing is known: half of all jobs lie within a factor of 12."""


def inputs_of(state: ClusterState) -> Floats:
    """Return the inputs of the order head, [job, input], for all jobs of a state."""
    work, jobs = state.workload, state.arrays.jobs
    limit = np.log(np.clip(work.limit, 1.0, UNLIMITED_S) / HOUR_S)
    runs, run_spread = _quantiles(work.prediction, work.prediction_low, work.prediction_high)
    uses, use_spread = _quantiles(work.use, work.use_low, work.use_high)
    by_limit = np.where(np.isnan(uses) | ~np.isfinite(work.limit), np.nan, limit + uses)
    unpredicted = np.isnan(runs) & np.isnan(by_limit)
    runs = np.where(np.isnan(runs), np.where(np.isnan(by_limit), limit, by_limit), runs - np.log(HOUR_S))
    by_limit = np.where(np.isnan(by_limit), runs, by_limit)
    gpus = np.maximum(jobs.gpus, 1)
    total = max(1, int(state.arrays.nodes.gpus.sum()))
    usual = np.where(np.isnan(work.usual), np.where(np.isfinite(work.limit), 0.5, 1.0), work.usual)
    # The limit of a user who always asks for the same one is no information; other limits say more than a few runs.
    limit_estimate = limit + 0.5 * (USUAL_LOG_USE + np.where(np.isnan(uses), USUAL_LOG_USE, uses))
    guess = usual * runs + (1.0 - usual) * limit_estimate
    columns = (runs / 3, run_spread / 3, by_limit / 3, use_spread / 3, guess / 3,
               limit / 3, np.log2(gpus) / 3, np.minimum(1.0, gpus / total), (jobs.chunks + (jobs.rest > 0)) > 1,
               usual, unpredicted)
    return np.ascontiguousarray(np.stack(columns, axis=1, dtype=np.float64))


def seconds(inputs: Floats) -> Floats:
    """Return the best estimate of each job's run time, seconds."""
    return np.asarray(np.exp(3 * inputs[:, INPUTS.index("best guess")]) * HOUR_S)


def _quantiles(middle: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of the median, and the spread, which is ``UNKNOWN_SPREAD`` where it is unknown."""
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.log(np.maximum(middle, 1e-4))
        spread = np.log(np.maximum(high, 1e-4) / np.maximum(low, 1e-4))
    return centre, np.where(np.isfinite(spread), np.clip(spread, 0.0, 2 * UNKNOWN_SPREAD), UNKNOWN_SPREAD)


MEMBERS = 3
"""Trained from different seeds. The agent serves the sum of their scores, which averages out the noise of training;
their agreement is its confidence."""
AGREEMENT = 0.7
"""Rank correlation of two members' orders below which the agent abstains."""
FEW = 5
"""Waiting jobs below which an order is too short to disagree about."""
DISTINGUISHED = 0.75
"""Expected run times that differ by less than this share of their own spread, as logarithms, give no order: without
limits and users agents were up to 80 % worse than first come, first served (``idlewatt reproduce agents``)."""
MOST_REASONS = 3


def schema() -> dict[str, object]:
    """Return what weights must have been trained for to fit here."""
    return {"agent": "scorer", "inputs": list(INPUTS), "surroundings": network.SURROUNDINGS,
            "layers": {name: list(shape) for name, shape in LAYERS.items()}, "members": MEMBERS, "serves": "their sum"}


def ready(weights: Floats, state: ClusterState) -> State:
    """Return the arrays of a state with the traits of its jobs by these weights."""
    return outfit(weights, inputs_of(state), state.arrays)


def outfit(weights: Floats, inputs: Floats, arrays: State) -> State:
    """Return arrays with the traits of their jobs, and the weights to use them by."""
    job_columns = np.column_stack([seconds(inputs), network.traits(weights, inputs)])
    return arrays._replace(weights=weights, traits=job_columns, scratch=np.zeros(FIRST + weights.size // SIZE * BLOCK))


def rules_of(weights: Floats) -> Rules:
    """Return the compiled rules over the weights of one member, or of several."""
    return Rules(pointer_to("key", network.score), pointer_to("place", network.place),
                 pointer_to("walk", network.walk), pointer_to("wake", never), moving=False, one_at_a_time=False,
                 waking=False, patient=False, estimates=True, own_order=True, ready=partial(ready, weights))


class Scorer:
    """A trained scorer, the same object live and replayed."""

    def __init__(self, weights: Floats, card: ModelCard) -> None:
        """Serve by ``weights``, [member, weight]."""
        self.name, self.card, self.members = card.model, card, weights
        self._all = weights.ravel()
        self.rules = rules_of(self._all)

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start now; the state stays as it is."""
        return engine.act(state.copy(), self.rules)

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the agent should abstain in this state; None when it should not."""
        return next((reason for _, reason in self.doubts(state)), None)

    def doubts(self, state: ClusterState) -> Iterator[tuple[str, str]]:
        """Yield the reasons to abstain in this state, each with its topic."""
        cheap = {"size": wrong_size(self.card, state), "queue": wrong_queue(self.card, state)}
        yield from ((about, reason) for about, reason in cheap.items() if reason)
        inputs = inputs_of(state)
        strange = strange_jobs(outside(self.card, INPUTS, inputs[state.waiting]), INPUTS)
        alike = _alike(inputs[np.concatenate([state.waiting, state.running])])
        yield from ((about, reason) for about, reason in (("jobs", strange), ("run times", alike)) if reason)
        if (reason := self._disagreement(state)) is not None:
            yield "members", reason

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs, 0..1, that lie outside its training range; 0 when none waits."""
        return strange_share(self._outside(state))

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the inputs by which this job's score differs from the rest of the queue, the strongest first."""
        inputs, waiting = inputs_of(state), state.waiting
        if job not in waiting:
            return ()
        usual = np.median(inputs[waiting], axis=0)
        trials = np.tile(inputs[job], (len(INPUTS), 1))
        np.fill_diagonal(trials, usual)
        arrays = _scored(self._all, state)
        factors = blocks(arrays.scratch)[:, FEATURES:FEATURES + TRAITS].ravel()
        shift = (network.traits(self._all, inputs[[job]]) - network.traits(self._all, trials)) @ factors
        reasons = [(float(shift[column]), _described(name, inputs[job, column], usual[column]))
                   for column, name in enumerate(INPUTS)]
        reasons.append(self._by_waiting(arrays, state, job))
        reasons.sort(key=lambda reason: -abs(reason[0]))
        return tuple(f"{reason}: {'later' if amount > 0 else 'earlier'}" for amount, reason in reasons[:MOST_REASONS]
                     if abs(amount) > 1e-6)

    def _by_waiting(self, arrays: State, state: ClusterState, job: int) -> tuple[float, str]:
        """Return the difference in score between a job's wait and the median wait of the queue, and its description."""
        wait = state.now - arrays.jobs.submit
        usual = float(np.median(wait[state.waiting]))
        pull, relative = blocks(arrays.scratch)[:, FEATURES + TRAITS:].sum(axis=0)
        mean = arrays.scratch[MEAN_WAIT] + network.SHORT_S
        def worth(seconds: float) -> float:
            return float(-pull * math.log1p(seconds / network.SHORT_S) - relative * min(8.0, seconds / mean))

        return worth(wait[job]) - worth(usual), f"has waited {span(wait[job])} (queue {span(usual)})"

    def _outside(self, state: ClusterState) -> Masks:
        """Return [job, input] whether an input of a waiting job lies outside its range in training."""
        return outside(self.card, INPUTS, inputs_of(state)[state.waiting])

    def _disagreement(self, state: ClusterState) -> str | None:
        waiting = state.waiting
        if len(waiting) < FEW:
            return None
        orders = np.array([_ranks(_scored(weights, state).keys[waiting]) for weights in self.members])
        if np.isnan(orders).any():
            return "it has no score for a job"
        agreement = min(_correlation(one, other) for one, other in combinations(orders, 2))
        if agreement >= AGREEMENT:
            return None
        return f"its members disagree on the order (rank correlation {agreement:.2f})"


def _alike(inputs: Floats) -> str | None:
    """Return that the jobs' expected run times differ by less than their own errors; None where they do not."""
    if len(inputs) < 2:
        return None
    guess, by_run, by_use = (inputs[:, INPUTS.index(name)] for name in ("best guess", "spread of run times",
                                                                        "spread of use"))
    spread = float(np.subtract(*np.quantile(guess, (0.75, 0.25))))
    error = float(np.median(np.minimum(by_run, by_use)))
    if spread >= DISTINGUISHED * error:
        return None
    return (f"what is known of run times hardly tells the jobs apart: the middle half are expected within "
            f"{math.exp(3 * spread):.1f}x of one another, and half of all may be off by {math.exp(3 * error):.1f}x")


def _scored(weights: Floats, state: ClusterState) -> State:
    """Return a state's arrays with the scores of its waiting jobs in ``keys``."""
    arrays = ready(weights, state.copy())
    network.score_all(arrays)
    return arrays


def _ranks(scores: Floats) -> Floats:
    if not np.isfinite(scores).all():
        return np.full(len(scores), np.nan)
    return np.argsort(np.argsort(scores, kind="stable"), kind="stable").astype(np.float64)


def _correlation(one: Floats, other: Floats) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def _described(name: str, value: float, usual: float) -> str:
    shape = _FORMATS.get(name, "{:.2f}".format)
    return f"{name} {shape(value)} (queue {shape(usual)})"


def _duration(value: float) -> str:
    return span(3600 * math.exp(3 * value))


def _times(value: float) -> str:
    return f"{math.exp(3 * value):.1f}x"


_FORMATS: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("predicted run time", "run time by limit", "best guess", "requested limit"), _duration),
    **dict.fromkeys(("spread of run times", "spread of use"), _times),
    **dict.fromkeys(("several nodes", "unforeseen"), lambda value: "yes" if value > 0.5 else "no"),
    **dict.fromkeys(("share of the cluster", "usual limit"), "{:.0%}".format),
    "GPUs": lambda value: f"{2 ** (3 * value):.0f}"}


def save(folder: Path, weights: Floats, card: ModelCard) -> ModelCard:
    """Write weights, [member, weight], and their card; return the card as written."""
    named = {name: layer(weights, name).astype(np.float32) for name in LAYERS}
    return checkpoint.save(folder, card, named, schema())


def load(folder: Path) -> Scorer:
    """Return a saved scorer; ``CheckpointError`` when its weights are not whole or not for this agent."""
    like = {name: np.zeros((MEMBERS, *shape), np.float32) for name, shape in LAYERS.items()}
    named, card = checkpoint.load(folder, schema(), like=like)
    weights = np.zeros((MEMBERS, SIZE))
    for name in LAYERS:
        layer(weights, name)[:] = named[name]
    return Scorer(weights, card)
