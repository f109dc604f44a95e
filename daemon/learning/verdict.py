"""What judging a candidate came to: the decision, its reasons, the figures behind them, and what earned it its place.

A candidate may earn it by completion time, energy or utilisation. Three ways are three chances to be wrong. By
Bonferroni's inequality, the error that one candidate is given is shared out in equal parts among the ways that are open
to it: all of them together are wrong no more often than one alone. What every way but the first asks besides, that
nobody be slower, takes the whole error: it is required of all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from ...storage.promotions import Decision
from ..replay.outcome import SpeedCoverage
from ..simulator_error import Fidelity
from .evidence import Comparison
from .promotion_criteria import ASSUMED, ENERGY, UTILIZATION, PromotionCriteria


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """How one policy did on all held-out jobs that ended under it."""

    policy: str
    jobs: int
    unfinished: int
    jct_mean_s: float
    jct_p99_s: float
    wait_mean_s: float
    wait_p99_s: float
    slowdown_mean: float
    energy_joules: float
    """The energy at the wall, all nodes on."""
    energy_down_joules: float
    """The energy at the wall with empty nodes powered down."""
    jct_ratio: Comparison
    """Mean JCT over the incumbent's."""
    energy_ratio: Comparison
    """Energy at the wall over the incumbent's, all nodes on."""
    energy_down_ratio: Comparison
    utilization: float
    """Mean over partitions of the share of GPU time that jobs held while jobs came, Eq. (5) of the GIST AI-X paper."""
    makespan_s: float
    """The time from when jobs count to the last end, summed over windows."""
    utilization_ratio: Comparison
    """Utilisation over the incumbent's: above 1 is better."""


@dataclass(frozen=True)
class Verdict:
    """The result of judging a candidate, with every figure that it rests on."""

    model: str
    decision: Decision
    reasons: tuple[str, ...]
    """Why not, sentence by sentence; or why."""
    incumbent: str
    best: str
    """The best of the heuristics that are candidates."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Heuristics that nobody is held to, as they are no candidates on this history, and why."""
    rows: tuple[PolicyFigures, ...] = ()
    """The candidate's, the incumbent's, the other heuristics', chance, shortest run first."""
    against: Mapping[str, Comparison] = field(default_factory=dict)
    """Mean JCT over the incumbent's and over the best heuristic's, by their names, held to ``terms.alike``."""
    groups: Mapping[str, Comparison] = field(default_factory=dict)
    """Mean JCT over the incumbent's by partition and class of users."""
    energy: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)
    """Energy at the wall over that of others, by their names and by how it is counted."""
    tail: Comparison | None = None
    """p99 wait over the incumbent's, by block."""
    utilization: Mapping[str, Comparison] = field(default_factory=dict)
    """U over the incumbent's and over the best heuristic's, by their names; above 1 is better."""
    objective: str = ""
    """What the candidate is after; '' where unknown."""
    since_s: float | None = None
    until_s: float | None = None
    """The last held-out submission; ``since_s`` is the first."""
    days: float = 0.0
    jobs: int = 0
    seed: int = 0
    speeds: tuple[SpeedCoverage, ...] = ()
    """What the incumbent's replays went by, window by window."""
    fidelity: Fidelity | None = None
    """How far the incumbent's replay is from what really happened; None where the history is not this site's."""
    terms: PromotionCriteria = ASSUMED

    @property
    def reason(self) -> str:
        """Return the reasons as one text."""
        return "; ".join(self.reasons)

    @property
    def ways(self) -> tuple[str, ...]:
        """Return the figures by which a candidate may be promoted, each with its share of the error."""
        return self.terms.ways(self.objective)

    def figures(self) -> dict[str, object]:
        """Return all figures of the verdict as JSON may hold them."""
        return {name: value for name, value in asdict(self).items() if name not in ("model", "decision")}


def share(judgement: Verdict) -> float:
    """Return the error that each way of a verdict may have."""
    return judgement.terms.error / len(judgement.ways)


def not_better(judgement: Verdict) -> Iterator[str]:
    """Yield why a candidate does not beat a policy, for each policy that it does not beat."""
    for name, jct in judgement.against.items():
        if not (jct.below(share(judgement)) or _saves(judgement, name) or _fills(judgement, name)):
            yield f"mean JCT is {jct.said} of that under {name}: {verdict(jct, share(judgement))}"
            if _takes_less(judgement, name):
                yield f"its energy would earn it, but mean JCT is {unbounded(jct, judgement.terms)}"


def verdict(jct: Comparison, error: float) -> str:
    """Return why a ratio does not earn it: worse, alike, or better in a look at it and not yet at all of a year's."""
    if jct.words != "better":
        return jct.words
    if jct.total >= 1.0:
        return f"better in most blocks, and {jct.total:.3f} of it in all: not better"
    return (f"better at this look, not yet surely if one looks every night (evidence {np.exp(jct.evidence):.3g}, "
            f"{1.0 / error:.0f} needed)")


def unbounded(comparison: Comparison, terms: PromotionCriteria) -> str:
    """Return why a ratio is not surely within its bound."""
    if not comparison.total < comparison.bound:
        return f"{comparison.total:.2f} of it in all, and less than {comparison.bound:.2f} is required"
    return (f"not yet surely less than {comparison.bound:.2f} of it if one looks every night (evidence "
            f"{np.exp(comparison.within):.3g}, {1.0 / terms.error:.0f} needed)")


def why(judgement: Verdict, name: str) -> str:
    """Return by which figure a candidate has earned its place over another policy."""
    jct = judgement.against[name]
    if jct.below(share(judgement)):
        return f"mean JCT is {jct.said} of that under {name}: better"
    if _fills(judgement, name):
        return (f"utilisation is {judgement.utilization[name].said} of that under {name}: better, "
                f"and mean JCT is {jct.said}")
    counted, _ = judgement.terms.counted
    return (f"energy at the wall, {counted}, is {judgement.energy[name][counted].said} of that under {name}: better, "
            f"and mean JCT is {jct.said} of it")


def _saves(judgement: Verdict, name: str) -> bool:
    """Tell whether a candidate surely takes less energy at the wall and costs nobody time."""
    return judgement.against[name].bounded(judgement.terms.error) and _takes_less(judgement, name)


def _takes_less(judgement: Verdict, name: str) -> bool:
    """Tell whether a candidate surely takes less energy as the site counts it, and not surely more in the other way."""
    energy, terms = judgement.energy[name], judgement.terms
    counted, other = terms.counted
    return (ENERGY in judgement.ways and energy[counted].below(share(judgement))
            and energy[counted].high <= terms.saving and not energy[other].above(terms.error))


def _fills(judgement: Verdict, name: str) -> bool:
    """Tell whether a candidate that is after utilisation surely has more of it, and costs nobody time."""
    return (UTILIZATION in judgement.ways and judgement.against[name].bounded(judgement.terms.error)
            and judgement.utilization[name].above(share(judgement)))
