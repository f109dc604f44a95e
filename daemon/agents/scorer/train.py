"""Training of the scorer: imitation, then evolution strategies on whole replays of bootstrapped history.

A step draws pairs of opposite changes to the weights, replays the same windows with each (common random numbers), and
moves where replays became better (Salimans et al., arXiv 1703.03864). Three members are trained one after the other;
the agent serves the sum of their scores. Validation on later history, ``config.select``, only vetoes: the luckiest of
forty validations is no better than the last one, and often worse.

The loss is the regret against the best known order of each window, with risk aversion. The best order for a site is
not known beforehand; a policy that is never much worse than any of them makes that choice unnecessary.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

import numpy as np
from scipy.special import logsumexp

from ....storage.records import ModelCard
from ...replay.arrays import Floats
from ..adam import Adam
from ..checkpoint import read_unfinished, schema_hash, write_unfinished
from ..doubts import queues_seen, sizes_seen
from ..kinds import Progress, TraceWindow, TrainingConfig, TrainingError
from .agent import MEMBERS, load, save, schema
from .arena import Arena, initial, plain
from .imitation import agreement, choices_by, hindsight, imitate
from .network import INPUTS, SIZE, layer

RULE_WINDOWS, TRIALS = 4, 12
"""Windows for imitation; windows for the regression and for the choice of the first weights."""
PAIRS, TOGETHER = 8, 4
"""Pairs of changes in a step, and windows on which each is tried."""
READY_JOBS, FEWEST, MOST = 400_000, 48, 256
"""Total jobs of the windows that are prepared for replays, and bounds on the number of windows. With few windows
training overfits."""
AVERSION = 10.0
"""A regret of 10 % hurts e times as much as none (exponential utility)."""
SIGMA, STEP, MEMORY = 0.08, (0.02, 0.004), 0.9
"""Size of the changes; step size, first and last; weight of the past in the mean of weights that is validated."""
EVERY, STEPS = 10, 400
"""Steps between validations on later history; the most steps of a member. Where the budget ends earlier, the result
depends on the machine."""
FEWEST_JOBS = 20
OUTER = ("order.traits", "order.linear", "mood.factors", "mood.base", "place.score", "place.linear")
"""Layers that evolution changes. Hidden layers stay as imitation, or initialisation, left them: a dozen pairs estimate
170 directions better than 600."""
STATE = "training.safetensors"


def _learned() -> Floats:
    """Return 1 for each weight that evolution changes, 0 for the others."""
    mask = np.zeros(SIZE)
    for name in OUTER:
        layer(mask, name)[...] = 1.0
    return mask


LEARNED = _learned()


@dataclass
class EvolutionRun:
    """The state of one run of evolution strategies."""

    weights: Floats
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    """Mean of the latest weights, which averages out the noise of steps (Polyak & Juditsky 1992)."""
    adam: Adam = field(default_factory=lambda: Adam.of(SIZE))

    @property
    def steps(self) -> int:
        """Return how many steps it has taken."""
        return self.adam.steps

    def move(self, gradient: Floats, step: float) -> None:
        """Take a step against the gradient."""
        self.weights = self.weights - step * self.adam.direction(gradient) * LEARNED
        self.mean = MEMORY * (self.mean if self.mean.size else self.weights) + (1 - MEMORY) * self.weights


class ScorerEnvironment:
    """The windows of a config, each set up once, and the threads that replay them."""

    def __init__(self, config: TrainingConfig, pool: ThreadPoolExecutor) -> None:
        self.config, self._pool = config, pool
        self._fit: dict[int, Arena] = {}
        self._incumbent_choices: list[Floats] | None = None
        self.select = [self._arena(window) for window in config.select]
        if not self.select:
            raise TrainingError("no later history to choose by; give a longer one")
        first = config.fit(0)
        self._fit[0] = self._arena(first)
        self._count = int(np.clip(READY_JOBS // max(1, len(first.workload)), FEWEST, MOST))

    def _arena(self, window: TraceWindow) -> Arena:
        return Arena(window, self.config.incumbent, self.config.objective)

    def fit(self, number: int) -> Arena:
        """Return the training window of this number; numbers repeat after some dozens or hundreds."""
        number %= self._count
        if number not in self._fit:
            self._fit[number] = self._arena(self.config.fit(number))
        return self._fit[number]

    def training_windows(self) -> list[Arena]:
        """Return all windows of the training so far."""
        return list(self._fit.values())

    def incumbent_choices(self) -> list[Floats]:
        """Return the candidates of the incumbent's choices in the first windows."""
        if self._incumbent_choices is None:
            arenas = [self.fit(number) for number in range(RULE_WINDOWS)]
            self._incumbent_choices = choices_by(arenas, self.config.incumbent)
        return self._incumbent_choices

    def regrets(self, candidates: Sequence[Floats], arenas: Sequence[Arena]) -> Floats:
        """Return regrets, logarithms, [candidate, arena]."""
        jobs = [(arena, weights) for weights in candidates for arena in arenas]
        regrets = list(self._pool.map(lambda job: job[0].regret(job[1]), jobs))
        return np.reshape(regrets, (len(candidates), len(arenas)))

    def losses(self, candidates: Sequence[Floats], arenas: Sequence[Arena]) -> Floats:
        """Return each candidate's certainty-equivalent regret over the windows, a logarithm."""
        regrets = self.regrets(candidates, arenas)
        return np.asarray(logsumexp(AVERSION * regrets, axis=1, b=1.0 / len(arenas)) / AVERSION)

    def worth(self, candidate: Floats) -> float:
        """Return the objective of a candidate on later history, relative to the incumbent's."""
        bar = np.mean([arena.bar for arena in self.select])
        return float(np.exp(bar + self.losses([candidate], self.select)[0]))

    def later(self, candidate: Floats) -> Floats:
        """Return the candidate's regrets on later history."""
        regrets = self.regrets([candidate], self.select)[0]
        if not np.isfinite(regrets).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return np.asarray(regrets)


@dataclass
class EnsembleTraining:
    """The state of a training, which resumes exactly where a saved one stopped."""

    config: TrainingConfig
    accepted: Floats = field(default_factory=lambda: np.zeros((0, SIZE)))
    """The latest weights of each member that validation accepted, [member, weight]."""
    regrets: Floats | None = None
    """Regrets on later history of the accepted weights of the current member; None until they are computed."""
    worth: float = float("nan")
    """Objective of their sum on later history."""
    agreement: float = float("nan")
    spent_s: float = 0.0
    cpu_s: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)
    current: EvolutionRun | None = None

    @property
    def turns(self) -> float:
        """Return how many members' shares of the budget are used up, of time or of steps: 0..``MEMBERS``."""
        members_done = 0.0
        if self.current is not None:
            members_done = len(self.accepted) - 1 + self.current.steps / self.steps_each
        if self.config.steps is not None:
            return min(float(MEMBERS), members_done)
        return min(float(MEMBERS), max(MEMBERS * self.spent_s / max(1e-9, self.config.budget_s), members_done))

    @property
    def steps_each(self) -> int:
        """Return the most steps of a member; those of a config are divided among the members."""
        return STEPS if self.config.steps is None else max(1, -(-self.config.steps // MEMBERS))

    @property
    def members(self) -> Floats:
        """Return the members to serve, [member, weight]; while too few are trained, some are repeated."""
        return self.accepted[np.arange(MEMBERS) % len(self.accepted)]

    @property
    def plan(self) -> str:
        """Return the digest of the settings that identify this training."""
        speeds = [window.speeds.identity for window in self.config.select if window.speeds.identity]
        return schema_hash({**schema(), "seed": self.config.seed, "incumbent": self.config.incumbent,
                            "objective": asdict(self.config.objective), **({"speeds": speeds} if speeds else {})})

    def save(self) -> None:
        """Save the state for a later :meth:`resume`, in one file."""
        state = {"plan": self.plan, "worth": self.worth, "agreement": self.agreement, "spent_s": self.spent_s,
                 "cpu_s": self.cpu_s, "curve": self.curve, "steps": self.current.steps if self.current else -1}
        arrays = {"kept": self.accepted}
        if self.current is not None:
            arrays |= {"weights": self.current.weights, "mean": self.current.mean, "first": self.current.adam.first,
                       "second": self.current.adam.second}
        write_unfinished(self.config.folder / STATE, state, arrays)

    def resume(self) -> None:
        """Resume a saved state, if there is one; ``CheckpointError`` for another or a damaged training."""
        path = self.config.folder / STATE
        if not path.exists():
            return
        state, arrays = read_unfinished(path, self.plan, "another seed, incumbent, objective or speeds")
        self.accepted, self.worth = arrays["kept"], state["worth"]
        self.agreement, self.spent_s, self.cpu_s = state["agreement"], state["spent_s"], state.get("cpu_s", 0.0)
        self.curve = [(share, score) for share, score in state["curve"]]
        if state["steps"] >= 0:
            self.current = EvolutionRun(arrays["weights"], arrays["mean"],
                                        Adam(arrays["first"], arrays["second"], state["steps"]))


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train one member after the other, each for its share of the budget; yield progress.

    Every step depends only on the seed and its number: a run that ends within the budget is reproducible anywhere.
    """
    training = EnsembleTraining(config)
    training.resume()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        environment = ScorerEnvironment(config, pool)
        _check(environment)
        while training.turns < MEMBERS:
            began, cpu = time.monotonic(), time.process_time()
            saved = _round(training, environment)
            if saved:
                training.worth = _worth(training, environment)
            training.spent_s += time.monotonic() - began
            training.cpu_s += time.process_time() - cpu
            done = training.turns / MEMBERS
            if saved:
                _save_best(training, environment)
            training.curve.append((done, training.worth))
            training.save()
            yield Progress(done, training.worth, saved)


def _check(environment: ScorerEnvironment) -> None:
    """Raise ``TrainingError`` for history that nothing can be learned from."""
    first = environment.fit(0)
    for name, arena in (("history", first), ("later history, which chooses,", environment.select[0])):
        if (count := int(arena.counted.sum())) < FEWEST_JOBS:
            raise TrainingError(f"the {name} has {count} jobs that count; {FEWEST_JOBS} are needed")
    if (np.ptp(first.inputs[first.counted], axis=0) < 1e-9).all():
        raise TrainingError("all jobs are alike, so their order makes no difference; a heuristic serves as well")
    if not any(arena.incumbent.wait_mean_s > 1.0 for arena in (first, *environment.select)):
        raise TrainingError(f"nobody waits under {environment.config.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def _round(training: EnsembleTraining, environment: ScorerEnvironment) -> bool:
    """Begin a member, or train it for some steps; tell whether the weights to keep have changed."""
    member = min(MEMBERS - 1, int(training.turns), len(training.accepted))
    if training.current is None or len(training.accepted) <= member:
        training.current = _initialise(training, environment, member)
        training.accepted, training.regrets = np.concatenate([training.accepted, training.current.weights[None]]), None
        return True
    for _ in range(min(EVERY, training.steps_each - training.current.steps)):
        random = np.random.default_rng([training.config.seed, member, training.current.steps])
        _step(training.current, environment, random, STEP[0] + (STEP[1] - STEP[0]) * (training.turns % 1.0))
    regrets = environment.later(training.current.mean)
    if training.regrets is None:
        training.regrets = environment.later(training.accepted[member])
    if worse(regrets, training.regrets):
        return False
    training.accepted[member], training.regrets = training.current.mean, regrets
    return True


def worse(regrets: Floats, than: Floats) -> bool:
    """Tell whether regrets are larger by more than a standard error over windows; with one window, by any amount."""
    more = regrets - than
    return bool(more.mean() > more.std() / np.sqrt(len(more)))


def _initialise(training: EnsembleTraining, environment: ScorerEnvironment, member: int) -> EvolutionRun:
    """Return a member with the best of these weights: imitation, regression, heuristics, and a given model's."""
    config = training.config
    random = np.random.default_rng([config.seed, member])
    fresh = initial(random, config.objective.longest_wait_s)
    trials = [environment.fit(number) for number in range(TRIALS)]
    starts = [imitate(fresh, environment.incumbent_choices()), hindsight(fresh, trials, random), *plain(fresh)]
    if config.start is not None:
        starts.append(load(config.start).members[member])
    if math.isnan(training.agreement):
        training.agreement = agreement(starts[0], choices_by([environment.fit(RULE_WINDOWS)], config.incumbent))
    return EvolutionRun(starts[int(environment.losses(starts, trials).argmin())])


def _step(member: EvolutionRun, environment: ScorerEnvironment, random: np.random.Generator, step: float) -> None:
    """Take one step of evolution strategies."""
    changes = random.standard_normal((PAIRS, SIZE)) * LEARNED
    arenas = [environment.fit(TOGETHER * member.steps + number) for number in range(TOGETHER)]
    both = [member.weights + sign * SIGMA * change for change in changes for sign in (1.0, -1.0)]
    losses = environment.losses(both, arenas)
    if not np.isfinite(losses).all():
        raise TrainingError(f"the objective is no number after {member.steps} steps; what was kept before stays")
    better = losses[0::2] - losses[1::2]
    member.move(better @ changes / (PAIRS * max(1e-9, float(better.std()))), step)


def _worth(training: EnsembleTraining, environment: ScorerEnvironment) -> float:
    """Return the objective of all members together on later history."""
    objective = environment.worth(training.members.ravel())
    if not math.isfinite(objective):
        raise TrainingError("the objective is no number; what was kept before stays")
    return objective


def _save_best(training: EnsembleTraining, environment: ScorerEnvironment) -> None:
    """Write the members as a model that can serve."""
    save(training.config.folder / "best", training.members, _card(training, environment))


def _card(training: EnsembleTraining, environment: ScorerEnvironment) -> ModelCard:
    arenas = [*environment.training_windows(), *environment.select]
    inputs = np.concatenate([arena.inputs[arena.counted] for arena in arenas])
    low, high = np.quantile(inputs, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    ranges = {name: (float(low[row] - margin[row]), float(high[row] + margin[row])) for row, name in enumerate(INPUTS)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement,
               "wall_s": training.spent_s, "cpu_s": training.cpu_s}
    return ModelCard(
        "scorer", "1", time.time(), training.config.seed, version("idlewatt"), "", "", kind="scorer",
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        seen={**ranges, **sizes_seen(arena.window.cluster for arena in arenas),
              **queues_seen(arena.queue for arena in arenas)}, curve=tuple(training.curve))
