"""What judging a candidate came to: the decision, its reasons, and every figure that they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ...storage.promotions import Decision
from ..replay.outcome import SpeedCoverage
from ..simulator_error import Fidelity
from .evidence import Comparison
from .promotion_criteria import ASSUMED, PromotionCriteria


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
    """At the wall, all nodes on."""
    energy_down_joules: float
    """The same with empty nodes powered down."""
    jct_ratio: Comparison
    """Mean JCT over the incumbent's."""
    energy_ratio: Comparison
    """Energy at the wall over the incumbent's, all nodes on."""
    energy_down_ratio: Comparison
    utilization: float
    """Mean over partitions of the share of GPU time that jobs held while jobs came, Eq. (5) of the GIST AI-X paper."""
    makespan_s: float
    """From when jobs count to the last end, summed over windows."""
    utilization_ratio: Comparison
    """Over the incumbent's: above 1 is better."""


@dataclass(frozen=True)
class Verdict:
    """What came of it, with every figure it rests on."""

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
    """From the first held-out submission to the last."""
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
        """Return by what it may be promoted, each with its share of the error."""
        return self.terms.ways(self.objective)

    def figures(self) -> dict[str, object]:
        """Return all of it as JSON may hold it."""
        return {name: value for name, value in asdict(self).items() if name not in ("model", "decision")}
