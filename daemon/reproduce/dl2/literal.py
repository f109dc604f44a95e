"""DL2's own agent: the result of imitation, of reinforcement learning, and of the ablations of the paper's Table 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ...agents.kinds import TrainingError
from ...replay.arrays import Floats
from ...replay.outcome import Interval
from .. import plots
from ..plots import Plot
from .agent import PAPER, PUBLISHED, Ablations, PaperSettings
from .arena import HOPELESS, SlotPolicy, mean_jct, traces
from .baselines import Drf, MaxRelativeGain, Optimus, RandomFeasible, Tetris
from .kernel import ArenaCluster
from .train import Dl2TrainingConfig, SlotTraining, card_of
from .trial import TRACES, over_traces

TEACHERS: Mapping[str, SlotPolicy] = {"DRF": Drf(), "Tetris (oracle)": Tetris(), "Optimus (oracle)": Optimus(),
                                      "max-relative-gain (oracle)": MaxRelativeGain()}
WHOLE = "as in the paper"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to train the agent."""

    name: str
    options: Ablations = PAPER
    teacher: str = "DRF"
    """Name of the imitated policy; DRF is the paper's incumbent."""
    claimed: float | None = None
    """Relative increase of completion time over the full agent in the paper's Table 2; None if not published."""


VARIANTS = (
    Variant(WHOLE),
    Variant("as in the published code (no discount)", replace(PAPER, discount=0.0)),
    Variant("trained by max-relative-gain (oracle)", teacher="max-relative-gain (oracle)"),
    Variant("without supervised warm-up", replace(PAPER, warm_up=False)),
    Variant("without actor-critic", replace(PAPER, critic=False), claimed=0.211),
    Variant("without job-aware exploration", replace(PAPER, aware=False), claimed=0.288),
    Variant("without replay memory", replace(PAPER, replay=False), claimed=0.396),
)


@dataclass(frozen=True)
class ImitationResult:
    """Result of imitation alone: mean completion times in slots, one for each trace of the paper."""

    teacher: str
    taught: Floats
    learned: Floats
    spent_s: float


@dataclass(frozen=True)
class VariantResult:
    """Result of one variant of training."""

    variant: Variant
    curve: Sequence[tuple[int, float]]
    """(updates, mean completion time in slots) on the traces for selection."""
    jct: Floats
    """Mean completion time of each of the paper's traces, slots, with the policy that was best at selection."""
    spent_s: float

    @property
    def best(self) -> float:
        """Return the lowest mean completion time on the traces for selection, slots."""
        return min(score for _, score in self.curve)


@dataclass(frozen=True)
class AblationStudy:
    """Results of DL2's own agent: imitation, all variants and the random baseline."""

    imitations: Sequence[ImitationResult]
    outcomes: Sequence[VariantResult]
    random_jct: Floats
    """Mean completion time of each of the paper's traces, slots, with random tasks as long as one fits."""
    values: PaperSettings

    @property
    def whole(self) -> VariantResult:
        """Return the result of the full agent, with all parts of the paper."""
        return next(outcome for outcome in self.outcomes if outcome.variant.name == WHOLE)

    def longer(self, outcome: VariantResult) -> Interval:
        """Return the relative increase of completion time of a variant over the full agent, with its interval."""
        return longer_than(outcome.jct, self.whole.jct)

    @property
    def confirmed(self) -> list[VariantResult]:
        """Return the paper's ablations with longer completion times, as the paper claims."""
        return [outcome for outcome in self._claimed if self.longer(outcome).low > 0]

    @property
    def unconfirmed(self) -> list[VariantResult]:
        """Return the paper's ablations whose completion times are not significantly longer."""
        return [outcome for outcome in self._claimed if self.longer(outcome).low <= 0]

    @property
    def _claimed(self) -> list[VariantResult]:
        return [outcome for outcome in self.outcomes if outcome.variant.claimed is not None]

    @property
    def better_than_random(self) -> list[VariantResult]:
        """Return the variants that are significantly better than the random baseline."""
        return [outcome for outcome in self.outcomes if longer_than(outcome.jct, self.random_jct).high < 0]

    @property
    def improved(self) -> list[VariantResult]:
        """Return the variants in which reinforcement learning improved on its initial policy."""
        return [outcome for outcome in self.outcomes if outcome.best < outcome.curve[0][1]]

    @property
    def curves(self) -> Plot:
        """Draw the learning curve of each variant."""
        known = {outcome.variant.name: np.array([point for point in outcome.curve if point[1] < HOPELESS])
                 for outcome in self.outcomes}
        return plots.lines("Mean completion time on validation traces, slots", "updates",
                           {name: (points.reshape(-1, 2)[:, 0], points.reshape(-1, 2)[:, 1])
                            for name, points in known.items()})


ReportProgress = Callable[[str, float], None]
"""Receives the name of the present step and its completed share, 0..1."""


def carry_out(cluster: ArenaCluster, updates: int, seed: int, folder: Path, report: ReportProgress,
              values: PaperSettings = PUBLISHED) -> AblationStudy:
    """Train all variants; resume an interrupted run from ``folder`` and write the models there."""
    plain = Dl2TrainingConfig(cluster, Drf(), seed, values=values, updates=0)
    imitations = [_imitation(replace(plain, teacher=TEACHERS[name]), name, report) for name in TEACHERS]
    outcomes = [_outcome(replace(plain, updates=updates, teacher=TEACHERS[variant.teacher], options=variant.options,
                                 folder=folder / f"{number}"), variant, report)
                for number, variant in enumerate(VARIANTS)]
    random_jct = [mean_jct(cluster, RandomFeasible(0), [trace]) for trace in islice(traces(), TRACES)]
    return AblationStudy(imitations, outcomes, np.concatenate(random_jct), values)


def _imitation(config: Dl2TrainingConfig, teacher: str, report: ReportProgress) -> ImitationResult:
    training = _trained(config, f"imitates {teacher}", report)
    return ImitationResult(teacher, _on_ten(config.cluster, config.teacher), _on_ten(config.cluster, training.agent),
                  training.spent_s)


def _outcome(config: Dl2TrainingConfig, variant: Variant, report: ReportProgress) -> VariantResult:
    training = _trained(config, variant.name, report)
    if config.folder is not None:
        training.agent.save(config.folder, card_of(training))
    return VariantResult(variant, training.curve, _on_ten(config.cluster, training.agent), training.spent_s)


def _trained(config: Dl2TrainingConfig, name: str, report: ReportProgress) -> SlotTraining:
    training = SlotTraining(config).resume()
    try:
        for step in training.run():
            report(f"{name}: {step.jct:.3f} slots", step.update / max(config.updates, 1))
    except FloatingPointError as error:
        raise TrainingError(f"{name}: {error}") from error
    return training


def _on_ten(cluster: ArenaCluster, policy: SlotPolicy) -> Floats:
    return mean_jct(cluster, policy, islice(traces(), TRACES))


def longer_than(jct: Floats, whole: Floats) -> Interval:
    """Return the relative increase of mean completion time, with a paired 95 % interval over traces."""
    ratio = over_traces(jct, whole)
    return Interval(ratio.estimate - 1.0, ratio.low - 1.0, ratio.high - 1.0)
