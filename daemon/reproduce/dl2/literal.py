"""DL2's own agent: how well it imitates, what reinforcement learning adds, and the ablations of the paper's Table 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ...agents.kinds import TrainingError
from ...replay.arrays import Floats
from ...replay.outcome import Interval
from .. import plots
from ..report import Section, Table
from .agent import PAPER, PUBLISHED, Hyperparameters, Options
from .arena import HOPELESS, Policy, mean_jct, traces
from .baselines import Drf, MaxRelativeGain, Optimus, RandomFeasible, Tetris
from .kernel import Cluster
from .train import Course, Training, card_of
from .trial import TRACES, over_traces

TEACHERS: Mapping[str, Policy] = {"DRF": Drf(), "Tetris (oracle)": Tetris(), "Optimus (oracle)": Optimus(),
                                  "max-relative-gain (oracle)": MaxRelativeGain()}
WHOLE = "as in the paper"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to train the agent."""

    name: str
    options: Options = PAPER
    teacher: str = "DRF"
    """The paper's incumbent."""
    claimed: float | None = None
    """By how much longer jobs take than with all of it, as the paper's Table 2 has it."""


VARIANTS = (
    Variant(WHOLE),
    Variant("as in the published code (no discount)", replace(PAPER, discount=0.0)),
    Variant("taught by max-relative-gain (oracle)", teacher="max-relative-gain (oracle)"),
    Variant("without supervised warm-up", replace(PAPER, warm_up=False)),
    Variant("without actor-critic", replace(PAPER, critic=False), claimed=0.211),
    Variant("without job-aware exploration", replace(PAPER, aware=False), claimed=0.288),
    Variant("without replay memory", replace(PAPER, replay=False), claimed=0.396),
)


@dataclass(frozen=True)
class Lesson:
    """What imitation alone gives; slots, a mean per trace of the paper's."""

    teacher: str
    taught: Floats
    learned: Floats
    spent_s: float


@dataclass(frozen=True)
class Outcome:
    """What came of one variant."""

    variant: Variant
    curve: Sequence[tuple[int, float]]
    """Mean completion time in slots on the traces to choose by, after so many updates."""
    jct: Floats
    """Of each of the paper's traces, by the policy that was best on the traces to choose by."""
    spent_s: float


@dataclass(frozen=True)
class Literal:
    """All about DL2's own agent."""

    lessons: Sequence[Lesson]
    outcomes: Sequence[Outcome]
    chance: Floats
    """Of each of the paper's traces, by giving tasks at random while one fits."""
    values: Hyperparameters


Tell = Callable[[str, float], None]
"""Is told what goes on, and how much of it is done, 0..1."""


def carry_out(cluster: Cluster, updates: int, seed: int, folder: Path, tell: Tell,
              values: Hyperparameters = PUBLISHED) -> Literal:
    """Train all of it; what ``folder`` holds of an interrupted run goes on from there, and models are left in it."""
    plain = Course(cluster, Drf(), seed, values=values, updates=0)
    lessons = [_lesson(replace(plain, teacher=TEACHERS[name]), name, tell) for name in TEACHERS]
    outcomes = [_outcome(replace(plain, updates=updates, teacher=TEACHERS[variant.teacher], options=variant.options,
                                 folder=folder / f"{number}"), variant, tell)
                for number, variant in enumerate(VARIANTS)]
    chance = [mean_jct(cluster, RandomFeasible(0), [trace]) for trace in islice(traces(), TRACES)]
    return Literal(lessons, outcomes, np.concatenate(chance), values)


def _lesson(course: Course, teacher: str, tell: Tell) -> Lesson:
    training = _trained(course, f"imitates {teacher}", tell)
    return Lesson(teacher, _on_ten(course.cluster, course.teacher), _on_ten(course.cluster, training.agent),
                  training.spent_s)


def _outcome(course: Course, variant: Variant, tell: Tell) -> Outcome:
    training = _trained(course, variant.name, tell)
    if course.folder is not None:
        training.agent.save(course.folder, card_of(training))
    return Outcome(variant, training.curve, _on_ten(course.cluster, training.agent), training.spent_s)


def _trained(course: Course, name: str, tell: Tell) -> Training:
    training = Training(course).resume()
    try:
        for step in training.run():
            tell(f"{name}: {step.jct:.3f} slots", step.update / max(course.updates, 1))
    except FloatingPointError as error:
        raise TrainingError(f"{name}: {error}") from error
    return training


def _on_ten(cluster: Cluster, policy: Policy) -> Floats:
    return mean_jct(cluster, policy, islice(traces(), TRACES))


def sections(literal: Literal) -> Iterator[Section]:
    """Yield what the report says of DL2's own agent."""
    yield warm_up(literal.lessons, literal.values)
    yield ablations(literal)
    yield curves(literal.outcomes)


def warm_up(lessons: Sequence[Lesson], values: Hyperparameters) -> Section:
    """Tell how close imitation comes to each teacher."""
    rows = [(lesson.teacher, f"{lesson.taught.mean():.3f}", f"{lesson.learned.mean():.3f}",
             f"{lesson.learned.mean() / lesson.taught.mean() - 1.0:+.1%}", f"{lesson.spent_s:.0f} s")
            for lesson in lessons]
    return Section("DL2's own agent: supervised warm-up", [
        f"A flat network of two layers of {values.shape.hidden} units sees the oldest {values.shape.window} jobs that "
        "may have more and gives one of them a worker, a server or both, or ends the slot. It imitates every grant of "
        "a scheduler beyond the first bundle, which it gives to everybody. Actions without room are masked before the "
        "softmax; the likeliest is taken.",
        "An agent that is better than its teacher goes on where the teacher stops: it is never shown the end of a "
        "slot, and gives what room there is."],
        [Table(("Teacher", "Teacher's slots", "After imitation", "Difference", "Warm-up took"), rows)])


def ablations(literal: Literal) -> Section:
    """Tell what reinforcement learning gives, and what it needs."""
    outcomes = literal.outcomes
    whole = next(outcome for outcome in outcomes if outcome.variant.name == WHOLE)
    rows = []
    for outcome in outcomes:
        claimed, longer = outcome.variant.claimed, longer_than(outcome.jct, whole.jct)
        best = min(score for _, score in outcome.curve)
        rows.append((outcome.variant.name, f"{outcome.curve[0][1]:.3f}", f"{best:.3f}", f"{outcome.jct.mean():.3f}",
                     "-" if outcome is whole else f"{longer.estimate:+.1%} ({longer.low:+.1%} to {longer.high:+.1%})",
                     "-" if claimed is None else f"{claimed:+.1%}", f"{outcome.spent_s:.0f} s"))
    return Section("DL2's own agent: reinforcement learning, and Table 2", [
        f"One update of {literal.values.batch} decisions per slot, of all that a slot's reward (the sum of what jobs "
        f"made of their epochs) is given to. The paper discounts later slots by {PAPER.discount:g}; the published code "
        "looks at the slot alone. Weights are those that were best on the traces to choose by, which are not the "
        "paper's ten. One training each: what training itself varies by is not in the interval.",
        _verdict(outcomes, whole), _worth(outcomes, literal.chance)],
        [Table(("Variant (teacher DRF)", "Set out with", "Best", "The ten traces", "Longer than the whole (95 %)",
                "Paper", "Training took"), rows)])


def _verdict(outcomes: Sequence[Outcome], whole: Outcome) -> str:
    """Say which of the paper's ablations come out as it has them."""
    claimed = {outcome.variant.name: longer_than(outcome.jct, whole.jct) for outcome in outcomes
               if outcome.variant.claimed is not None}
    kept = [f"{name} ({longer.estimate:+.1%})" for name, longer in claimed.items() if longer.low > 0]
    lost = [f"{name} ({longer.estimate:+.1%})" for name, longer in claimed.items() if longer.low <= 0]
    return (f"Jobs take longer, as in the paper: {', '.join(kept) or 'nowhere'}. "
            f"Not so, or not told apart: {', '.join(lost) or 'nowhere'}.")


def _worth(outcomes: Sequence[Outcome], chance: Floats) -> str:
    """Say what training was good for at all."""
    better = [outcome.variant.name for outcome in outcomes if longer_than(outcome.jct, chance).high < 0]
    gained = [outcome.variant.name for outcome in outcomes
              if min(score for _, score in outcome.curve) < outcome.curve[0][1]]
    return (f"Giving tasks at random while one fits takes {chance.mean():.3f} slots; below that with a 95 % interval: "
            f"{', '.join(better) or 'none'}. Reinforcement learning improves on what it set out with: "
            f"{', '.join(gained) or 'nowhere'}; the others are best before it.")


def longer_than(jct: Floats, whole: Floats) -> Interval:
    """Return by how much longer jobs take, with a paired 95 % interval over traces."""
    ratio = over_traces(jct, whole)
    return Interval(ratio.estimate - 1.0, ratio.low - 1.0, ratio.high - 1.0)


def curves(outcomes: Sequence[Outcome]) -> Section:
    """Draw how each variant learns."""
    series = {outcome.variant.name: np.array([point for point in outcome.curve if point[1] < HOPELESS]).reshape(-1, 2).T
              for outcome in outcomes}
    return Section("DL2's own agent: learning curves", plots=[plots.lines(
        "Mean completion time on traces to choose by, slots", "updates",
        {name: (updates, slots) for name, (updates, slots) in series.items()})])
