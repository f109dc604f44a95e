"""How the scorer learns: it imitates, then evolution strategies improve whole replays of bootstrapped history.

A step draws pairs of opposite changes to the weights, replays the same windows with each (common random numbers), and
moves where replays became better (Salimans et al., arXiv 1703.03864). Three members are trained one after the other;
what serves is the sum of their scores. Later history, ``config.select``, only vetoes: the luckiest of forty looks at it
is no better than the last, and often worse.

Better means: less regret against the best known order of each window, and regret hurts more than the same gain
pleases. Nobody can tell beforehand which order suits a site; a policy that is never much worse than any need not be
chosen.
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
"""Windows that are imitated; that are looked at in hindsight, and on which it is tried what to set out from."""
PAIRS, TOGETHER = 8, 4
"""Pairs of changes in a step, windows that each is tried on."""
KEPT_JOBS, FEWEST, MOST = 400_000, 48, 256
"""Windows are kept ready to be replayed: as many as have so many jobs together, within bounds. From few of them their
peculiarities are learned."""
AVERSION = 10.0
"""A regret of 10 % hurts e times as much as none (exponential utility)."""
SIGMA, STEP, MEMORY = 0.08, (0.02, 0.004), 0.9
"""Size of the changes; of the steps, first and last; weight of the past in the mean that is judged and kept."""
EVERY, STEPS = 10, 400
"""Steps between looks at later history; of a member, unless the budget ends before: what comes of them then depends on
the machine."""
FEWEST_JOBS = 20
OUTER = ("order.traits", "order.linear", "mood.factors", "mood.base", "place.score", "place.linear")
"""What evolution changes. Hidden layers stay as imitation, or chance, made them: a dozen pairs tell more about 170
directions than about 600."""
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
    """One run of evolution strategies: where it is, and what it has been through."""

    weights: Floats
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    """Of the latest weights: most of a step is chance, and chance evens out (Polyak & Juditsky 1992)."""
    adam: Adam = field(default_factory=lambda: Adam.of(SIZE))

    @property
    def steps(self) -> int:
        """Return how many steps it has gone."""
        return self.adam.steps

    def move(self, gradient: Floats, step: float) -> None:
        """Go a step against the gradient."""
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
        self._count = int(np.clip(KEPT_JOBS // max(1, len(first.workload)), FEWEST, MOST))

    def _arena(self, window: TraceWindow) -> Arena:
        return Arena(window, self.config.incumbent, self.config.objective)

    def fit(self, number: int) -> Arena:
        """Return the window of this number, the same one again after some hundred."""
        number %= self._count
        if number not in self._fit:
            self._fit[number] = self._arena(self.config.fit(number))
        return self._fit[number]

    def seen(self) -> list[Arena]:
        """Return all windows that were learned from."""
        return list(self._fit.values())

    def incumbent_choices(self) -> list[Floats]:
        """Return what the incumbent chose among in the first windows."""
        if self._incumbent_choices is None:
            arenas = [self.fit(number) for number in range(RULE_WINDOWS)]
            self._incumbent_choices = choices_by(arenas, self.config.incumbent)
        return self._incumbent_choices

    def regrets(self, candidates: Sequence[Floats], arenas: Sequence[Arena]) -> Floats:
        """Return regrets, logarithms, [candidate, arena]."""
        jobs = [(arena, weights) for weights in candidates for arena in arenas]
        found = list(self._pool.map(lambda job: job[0].regret(job[1]), jobs))
        return np.reshape(found, (len(candidates), len(arenas)))

    def losses(self, candidates: Sequence[Floats], arenas: Sequence[Arena]) -> Floats:
        """Return how much each candidate hurts: the regret that would hurt as much everywhere, a logarithm."""
        regrets = self.regrets(candidates, arenas)
        return np.asarray(logsumexp(AVERSION * regrets, axis=1, b=1.0 / len(arenas)) / AVERSION)

    def worth(self, candidate: Floats) -> float:
        """Return the objective of a candidate on later history, relative to the incumbent's."""
        bar = np.mean([arena.bar for arena in self.select])
        return float(np.exp(bar + self.losses([candidate], self.select)[0]))

    def later(self, candidate: Floats) -> Floats:
        """Return its regrets on later history."""
        found = self.regrets([candidate], self.select)[0]
        if not np.isfinite(found).all():
            raise TrainingError("the objective is no number; what was kept before stays")
        return np.asarray(found)


@dataclass
class EnsembleTraining:
    """Where a training stands; goes on exactly where a saved one was left."""

    config: TrainingConfig
    kept: Floats = field(default_factory=lambda: np.zeros((0, SIZE)))
    """The latest of each member that later history says nothing against, [member, weight]."""
    regrets: Floats | None = None
    """On later history, of what is kept of the member that is trained now; None until somebody asks."""
    worth: float = float("nan")
    """Objective of their sum on later history."""
    agreement: float = float("nan")
    spent_s: float = 0.0
    cpu_s: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)
    now: EvolutionRun | None = None

    @property
    def turns(self) -> float:
        """Return how many members' shares of the budget are used up, of time or of steps: 0..``MEMBERS``."""
        gone = len(self.kept) - 1 + self.now.steps / self.steps_each if self.now is not None else 0.0
        if self.config.steps is not None:
            return min(float(MEMBERS), gone)
        return min(float(MEMBERS), max(MEMBERS * self.spent_s / max(1e-9, self.config.budget_s), gone))

    @property
    def steps_each(self) -> int:
        """Return how many steps a member goes at most; those of a config are shared out."""
        return STEPS if self.config.steps is None else max(1, -(-self.config.steps // MEMBERS))

    @property
    def members(self) -> Floats:
        """Return what serves, [member, weight]; while too few are trained, some stand for two."""
        return self.kept[np.arange(MEMBERS) % len(self.kept)]

    @property
    def plan(self) -> str:
        """Return the digest of what makes it this training and no other."""
        speeds = [window.speeds.identity for window in self.config.select if window.speeds.identity]
        return schema_hash({**schema(), "seed": self.config.seed, "incumbent": self.config.incumbent,
                            "objective": asdict(self.config.objective), **({"speeds": speeds} if speeds else {})})

    def save(self) -> None:
        """Keep all that it needs to go on, in one file."""
        told = {"plan": self.plan, "worth": self.worth, "agreement": self.agreement, "spent_s": self.spent_s,
                "cpu_s": self.cpu_s, "curve": self.curve, "steps": self.now.steps if self.now else -1}
        arrays = {"kept": self.kept}
        if self.now is not None:
            arrays |= {"weights": self.now.weights, "mean": self.now.mean, "first": self.now.adam.first,
                       "second": self.now.adam.second}
        write_unfinished(self.config.folder / STATE, told, arrays)

    def resume(self) -> None:
        """Go on where :meth:`save` was called, if it was; ``CheckpointError`` for another or a damaged training."""
        path = self.config.folder / STATE
        if not path.exists():
            return
        told, arrays = read_unfinished(path, self.plan, "another seed, incumbent, objective or speeds")
        self.kept, self.worth = arrays["kept"], told["worth"]
        self.agreement, self.spent_s, self.cpu_s = told["agreement"], told["spent_s"], told.get("cpu_s", 0.0)
        self.curve = [(share, score) for share, score in told["curve"]]
        if told["steps"] >= 0:
            self.now = EvolutionRun(arrays["weights"], arrays["mean"],
                                    Adam(arrays["first"], arrays["second"], told["steps"]))


def train(config: TrainingConfig) -> Iterator[Progress]:
    """Train one member after the other, each for its share of the budget; yield how far it has come.

    Every step is decided by the seed and its number: a run that ends within the budget finds the same on any machine.
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
                _keep(training, environment)
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
    """Set a member out, or take it some steps further; tell whether there is something else to be kept."""
    member = min(MEMBERS - 1, int(training.turns), len(training.kept))
    if training.now is None or len(training.kept) <= member:
        training.now = _set_out(training, environment, member)
        training.kept, training.regrets = np.concatenate([training.kept, training.now.weights[None]]), None
        return True
    for _ in range(min(EVERY, training.steps_each - training.now.steps)):
        _step(training.now, environment, np.random.default_rng([training.config.seed, member, training.now.steps]),
              STEP[0] + (STEP[1] - STEP[0]) * (training.turns % 1.0))
    found = environment.later(training.now.mean)
    if training.regrets is None:
        training.regrets = environment.later(training.kept[member])
    if worse(found, training.regrets):
        return False
    training.kept[member], training.regrets = training.now.mean, found
    return True


def worse(regrets: Floats, than: Floats) -> bool:
    """Tell whether some regrets are larger by more than a standard error, window by window; of one, by anything."""
    more = regrets - than
    return bool(more.mean() > more.std() / np.sqrt(len(more)))


def _set_out(training: EnsembleTraining, environment: ScorerEnvironment, member: int) -> EvolutionRun:
    """Return a member that chooses as the incumbent does, by what hindsight taught, or as a heuristic: what is best."""
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
    """Return what the members are worth together on later history."""
    found = environment.worth(training.members.ravel())
    if not math.isfinite(found):
        raise TrainingError("the objective is no number; what was kept before stays")
    return found


def _keep(training: EnsembleTraining, environment: ScorerEnvironment) -> None:
    """Write the members down as a model that can serve."""
    save(training.config.folder / "best", training.members, _card(training, environment))


def _card(training: EnsembleTraining, environment: ScorerEnvironment) -> ModelCard:
    arenas = [*environment.seen(), *environment.select]
    shown = np.concatenate([arena.inputs[arena.counted] for arena in arenas])
    low, high = np.quantile(shown, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    seen = {name: (float(low[row] - margin[row]), float(high[row] + margin[row])) for row, name in enumerate(INPUTS)}
    metrics = {"objective_select": training.worth, "imitation_top1": training.agreement,
               "wall_s": training.spent_s, "cpu_s": training.cpu_s}
    return ModelCard(
        "scorer", "1", time.time(), training.config.seed, version("idlewatt"), "", "", kind="scorer",
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        seen={**seen, **sizes_seen(arena.window.cluster for arena in arenas),
              **queues_seen(arena.queue for arena in arenas)}, curve=tuple(training.curve))
