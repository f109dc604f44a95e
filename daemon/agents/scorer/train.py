"""How the scorer learns: it imitates, then evolution strategies improve whole replays of bootstrapped history.

A step draws pairs of opposite changes to the weights, replays the same stretches with each (common random numbers), and
moves where replays became better (Salimans et al., arXiv 1703.03864). Later history, ``course.select``, picks the best.
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
from numpy.typing import NDArray

from ....storage.records import ModelCard
from ..checkpoint import CheckpointError, read_unfinished, schema_hash, write_unfinished
from ..kinds import Course, Progress, TrainingError
from .agent import MEMBERS, load, save, schema
from .arena import Arena
from .imitation import agreement, hindsight, imitate, initial, lesson, plain
from .network import INPUTS, SIZE, layer

Floats = NDArray[np.float64]

LESSONS, TRIALS = 4, 12
"""Stretches that are imitated; that are looked at in hindsight, and on which it is tried what to set out from."""
PAIRS, TOGETHER = 12, 2
"""Pairs of changes in a step, stretches that each is tried on."""
POOL = 48
"""Stretches that are drawn; memory for them is kept."""
SIGMA, STEP, MEMORY = 0.08, (0.02, 0.004), 0.9
"""Size of the changes; of the steps, first and last; weight of the past in the mean that is judged and kept."""
EVERY = 8
"""Steps between looks at later history."""
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
class Member:
    """One run of evolution strategies: where it is, and Adam's moments (Kingma & Ba 2015)."""

    weights: Floats
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    """Of the latest weights: most of a step is chance, and chance evens out (Polyak & Juditsky 1992)."""
    first: Floats = field(default_factory=lambda: np.zeros(SIZE))
    second: Floats = field(default_factory=lambda: np.zeros(SIZE))
    steps: int = 0

    def move(self, gradient: Floats, step: float) -> None:
        """Go a step against the gradient."""
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.99 * self.second + 0.01 * gradient ** 2
        unbiased = self.first / (1 - 0.9 ** self.steps), self.second / (1 - 0.99 ** self.steps)
        change = step * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        self.weights = self.weights - change * LEARNED
        self.mean = MEMORY * (self.mean if self.mean.size else self.weights) + (1 - MEMORY) * self.weights


class Ground:
    """The stretches of a course, each set up once, and the threads that replay them."""

    def __init__(self, course: Course, pool: ThreadPoolExecutor) -> None:
        self.course, self._pool = course, pool
        self._fit: dict[int, Arena] = {}
        self._lesson: list[Floats] | None = None
        self.select = [Arena(stretch, course.incumbent, course.objective) for stretch in course.select]
        if not self.select:
            raise TrainingError("no later history to choose by; give a longer one")

    def fit(self, number: int) -> Arena:
        """Return the stretch of this number, one of ``POOL``."""
        number %= POOL
        if number not in self._fit:
            self._fit[number] = Arena(self.course.fit(number), self.course.incumbent, self.course.objective)
        return self._fit[number]

    def seen(self) -> list[Arena]:
        """Return all stretches that were learned from."""
        return list(self._fit.values())

    def lesson(self) -> list[Floats]:
        """Return what the incumbent chose among in the first stretches."""
        if self._lesson is None:
            self._lesson = lesson([self.fit(number) for number in range(LESSONS)], self.course.incumbent)
        return self._lesson

    def scores(self, candidates: Sequence[Floats], arenas: Sequence[Arena]) -> Floats:
        """Return logarithms of objectives, [candidate, arena]: their mean is that of ratios."""
        jobs = [(arena, weights) for weights in candidates for arena in arenas]
        found = list(self._pool.map(lambda job: job[0].score(job[1]), jobs))
        return np.log(found).reshape(len(candidates), len(arenas))

    def worth(self, candidates: Sequence[Floats]) -> Floats:
        """Return the objective of each candidate on later history."""
        return np.asarray(np.exp(self.scores(candidates, self.select).mean(axis=1)))


@dataclass
class Training:
    """Where a training stands; goes on exactly where a saved one was left."""

    course: Course
    best: Floats = field(default_factory=lambda: np.zeros((0, SIZE)))
    """The best of each member so far, [member, weight]."""
    worth: list[float] = field(default_factory=list)
    """Their objectives on later history."""
    agreement: float = float("nan")
    spent_s: float = 0.0
    cpu_s: float = 0.0
    curve: list[tuple[float, float]] = field(default_factory=list)
    now: Member | None = None

    @property
    def plan(self) -> str:
        """Return the digest of what makes it this training and no other."""
        return schema_hash({**schema(), "seed": self.course.seed, "incumbent": self.course.incumbent,
                            "objective": asdict(self.course.objective)})

    def save(self) -> None:
        """Keep all that it needs to go on, in one file."""
        told = {"plan": self.plan, "worth": self.worth, "agreement": self.agreement, "spent_s": self.spent_s,
                "cpu_s": self.cpu_s, "curve": self.curve, "steps": self.now.steps if self.now else -1}
        arrays = {"best": self.best}
        if self.now is not None:
            arrays |= {"weights": self.now.weights, "mean": self.now.mean, "first": self.now.first,
                       "second": self.now.second}
        write_unfinished(self.course.folder / STATE, told, arrays)

    def resume(self) -> None:
        """Go on where :meth:`save` was called, if it was; ``CheckpointError`` for another or a damaged training."""
        path = self.course.folder / STATE
        if not path.exists():
            return
        told, arrays = read_unfinished(path)
        if told.get("plan") != self.plan:
            raise CheckpointError(f"{path}: of a training with another seed, incumbent or objective; move it away to "
                                  "start anew")
        self.best, self.worth = arrays["best"], told["worth"]
        self.agreement, self.spent_s, self.cpu_s = told["agreement"], told["spent_s"], told.get("cpu_s", 0.0)
        self.curve = [(share, score) for share, score in told["curve"]]
        if told["steps"] >= 0:
            self.now = Member(**{name: arrays[name] for name in ("weights", "mean", "first", "second")},
                              steps=told["steps"])


def train(course: Course) -> Iterator[Progress]:
    """Train one member after the other, each for its share of the budget; yield how far it has come.

    Every step is decided by the seed and its number; how many fit into the budget is decided by the machine.
    """
    training = Training(course)
    training.resume()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        ground = Ground(course, pool)
        _check(ground)
        while training.spent_s < course.budget_s:
            began, cpu = time.monotonic(), time.process_time()
            saved = _round(training, ground)
            training.spent_s += time.monotonic() - began
            training.cpu_s += time.process_time() - cpu
            done = min(1.0, training.spent_s / course.budget_s)
            if saved:
                _keep(training, ground)
            if training.worth:
                training.curve.append((done, min(training.worth)))
            training.save()
            yield Progress(done, min(training.worth, default=None), saved)


def _check(ground: Ground) -> None:
    """Raise ``TrainingError`` for history that nothing can be learned from."""
    first = ground.fit(0)
    for name, arena in (("history", first), ("later history, which chooses,", ground.select[0])):
        if (count := int(arena.counted.sum())) < FEWEST_JOBS:
            raise TrainingError(f"the {name} has {count} jobs that count; {FEWEST_JOBS} are needed")
    if (np.ptp(first.inputs[first.counted], axis=0) < 1e-9).all():
        raise TrainingError("all jobs are alike, so their order makes no difference; a heuristic serves as well")
    if not any(arena.incumbent.wait_mean_s > 1.0 for arena in (first, *ground.select)):
        raise TrainingError(f"nobody waits under {ground.course.incumbent}: there is nothing to gain; a heuristic "
                            "serves as well")


def _round(training: Training, ground: Ground) -> bool:
    """Set a member out, or take it some steps further; tell whether there is something better to be kept."""
    member, course = _whose_turn(training), training.course
    if training.now is None or len(training.worth) <= member:
        training.now = _set_out(training, ground, member)
        found = float(ground.worth([training.now.weights])[0])
        training.best = np.concatenate([training.best, training.now.weights[None]])
        training.worth.append(_finite(found, training.now))
        return True
    for _ in range(EVERY):
        done = (training.spent_s / course.budget_s * MEMBERS) % 1.0
        _step(training.now, ground, np.random.default_rng([course.seed, member, training.now.steps]),
              STEP[0] + (STEP[1] - STEP[0]) * done)
    found = _finite(float(ground.worth([training.now.mean])[0]), training.now)
    if found >= training.worth[member]:
        return False
    training.best[member], training.worth[member] = training.now.mean, found
    return True


def _whose_turn(training: Training) -> int:
    """Return the member that this part of the budget belongs to."""
    return min(MEMBERS - 1, int(MEMBERS * training.spent_s / training.course.budget_s), len(training.worth))


def _set_out(training: Training, ground: Ground, member: int) -> Member:
    """Return a member that chooses as the incumbent does, by what hindsight taught, or as a heuristic: what is best."""
    course = training.course
    random = np.random.default_rng([course.seed, member])
    fresh = initial(random, course.objective.longest_wait_s)
    trials = [ground.fit(number) for number in range(TRIALS)]
    starts = [imitate(fresh, ground.lesson()), hindsight(fresh, trials, random), *plain(fresh)]
    if course.start is not None:
        starts.append(load(course.start).members[member])
    if math.isnan(training.agreement):
        training.agreement = agreement(starts[0], lesson([ground.fit(LESSONS)], course.incumbent))
    return Member(starts[int(ground.scores(starts, trials).mean(axis=1).argmin())])


def _step(member: Member, ground: Ground, random: np.random.Generator, step: float) -> None:
    """Take one step of evolution strategies."""
    changes = random.standard_normal((PAIRS, SIZE)) * LEARNED
    arenas = [ground.fit(TOGETHER * member.steps + number) for number in range(TOGETHER)]
    both = [member.weights + sign * SIGMA * change for change in changes for sign in (1.0, -1.0)]
    scores = ground.scores(both, arenas).mean(axis=1)
    if not np.isfinite(scores).all():
        raise TrainingError(f"the objective is no number after {member.steps} steps; what was best before is kept")
    better = scores[0::2] - scores[1::2]
    member.move(better @ changes / (PAIRS * max(1e-9, float(better.std()))), step)


def _finite(score: float, member: Member) -> float:
    if not math.isfinite(score):
        raise TrainingError(f"the objective is no number after {member.steps} steps; what was best before is kept")
    return score


def _keep(training: Training, ground: Ground) -> None:
    """Write the members down, the best first, as a model that can serve."""
    order = np.argsort(training.worth, kind="stable")
    members = training.best[[*order, *[order[0]] * (MEMBERS - len(order))]]
    save(training.course.folder / "best", members, _card(training, ground))


def _card(training: Training, ground: Ground) -> ModelCard:
    arenas = [*ground.seen(), *ground.select]
    shown = np.concatenate([arena.inputs[arena.counted] for arena in arenas])
    low, high = np.quantile(shown, [0.005, 0.995], axis=0)
    margin = 0.1 * (high - low) + 0.05
    sizes = [len(arena.stretch.cluster) for arena in arenas]
    seen = {name: (float(low[row] - margin[row]), float(high[row] + margin[row])) for row, name in enumerate(INPUTS)}
    metrics = {"objective_select": min(training.worth), "objective_members_worst": max(training.worth),
               "imitation_top1": training.agreement, "wall_s": training.spent_s, "cpu_s": training.cpu_s}
    return ModelCard(
        "scorer", "1", time.time(), training.course.seed, version("idlewatt"), "", "", kind="scorer",
        metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
        seen={**seen, "nodes": (float(min(sizes)), float(max(sizes)))}, curve=tuple(training.curve))
