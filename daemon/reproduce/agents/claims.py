"""The report of ``idlewatt reproduce agents``: agents beside heuristics, the random baseline and oracles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...learning.promotion import HEURISTICS
from ...learning.training import INCUMBENT
from ...sweep import ALWAYS
from ..report import Section, Table
from ..scorer.regimes import INCUMBENT as FIRST_COME
from .elsewhere import EACH, LOOK_S, MOVED_S, Served
from .setting import Setting

TITLE = "The agents on public traces"
HARM = 1.01
Figures = tuple[float, float, float]
"""Mean completion time (s), 99th-percentile wait (s), and wall energy with all nodes on (J)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Evaluation of one agent of one seed on one site."""

    site: int
    seed: int
    kind: str
    reason: str
    """Reason of the verdict, or the reason why there is no verdict."""
    decision: str = ""
    days: float = 0.0
    jobs: int = 0
    rows: Mapping[str, Figures] = field(default_factory=dict)
    """Figures by policy; the agent's key is its kind."""
    best: str = ""
    """The best heuristic in hindsight."""
    interval: tuple[float, float] | None = None
    """95 % interval of the ratio of the mean completion time to the incumbent's."""
    bound_s: float | None = None
    """Lower bound of the mean completion time, s; None if it was not computed."""
    ways: Mapping[str, float] = field(default_factory=dict)
    """Objective on later history by training method; empty if the kind has only one method."""


def facts(sites: Sequence[str], evaluations: Sequence[Judged], setting: Setting,
          served: Sequence[Served] = ()) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {
        "title": TITLE, "preface": _preface(setting) if sites else [
            "The jobs are generated, or those of public traces: no figure here is from a real site."],
        "sections": [section for number, site in enumerate(sites)
                     for section in _site(site, [judged for judged in evaluations if judged.site == number])]
        + ([_elsewhere(served, setting)] if served else [])}


def _preface(setting: Setting) -> list[str]:
    """Return how agents are trained and judged on later weeks of public traces."""
    return [
        "The jobs are those of public traces. The traces do not contain their programs: each job gets one of the "
        "applications of Pollux' tables, drawn by the seed, and may take from half to twice its GPUs, eight at most. "
        "Speeds are therefore published figures, and no figure here is from a real site.",
        f"Each agent learned from the first weeks for {setting.budget_s:g} s at most and is judged on the last, with "
        f"{setting.seeds} seeds; the incumbent is {INCUMBENT}. Figures are means over seeds, with the least "
        "and the greatest in brackets. The bound is no policy: it takes all GPUs as one machine that interrupts and "
        "resizes jobs at no cost."]


def _elsewhere(results: Sequence[Served], setting: Setting) -> Section:
    """Return the results of scorers on other sites than their own, with and without abstaining."""
    alone, doubting, worst = (max(getattr(result, which) for result in results)
                              for which in ("alone", "doubting", "worst"))
    return Section("Scorers on sites that they were not trained for", [
        f"Each scorer learned for {setting.elsewhere_s:g} s and decides every {LOOK_S / 60:.0f} min while a job "
        f"waits. Where it abstains, {FIRST_COME} decides. Figures are mean JCT over that of {FIRST_COME} alone: the "
        f"geometric mean over {EACH} histories of each site, with its 95 % interval; those of a trace are itself and "
        f"copies of it in which each job comes up to {MOVED_S / 60:.0f} min earlier or later. The worst is the "
        "greatest ratio of one history: where a queue is long, a few other starts change its mean JCT by several per "
        "cent, for better or worse.",
        f"Of {len(results)} pairs {sum(result.alone > HARM for result in results)} are more than 1 % worse without "
        f"abstention, {alone:.3f} at worst, and {sum(result.doubting > HARM for result in results)} with it, "
        f"{doubting:.3f} at worst. In {sum(result.worst > HARM for result in results)} pairs a single history is, with "
        f"abstention, {worst:.3f} at worst."],
        [Table(("trained on", "evaluated on", "random-feasible", "without abstention", "with abstention", "worst",
                "rounds", "abstained", "for"), [_served(result) for result in results])])


def _served(result: Served) -> tuple[str, ...]:
    abstained, reasons = sum(result.doubts.values()), sorted(result.doubts.items(), key=lambda pair: -pair[1])
    over = f" ({result.interval[0]:.3f} to {result.interval[1]:.3f})" if result.interval else ""
    return (result.home, result.site, f"{result.chance:.3f}", f"{result.alone:.3f}", f"{result.doubting:.3f}{over}",
            f"{result.worst:.3f}", f"{result.rounds:,}",
            f"{abstained / max(1, result.rounds):.0%}",
            ", ".join(f"{about} {count / result.rounds:.0%}" for about, count in reasons))


def _site(name: str, evaluations: Sequence[Judged]) -> Iterator[Section]:
    evaluated = [agent for agent in evaluations if agent.rows]
    if not evaluated:
        yield Section(name, [f"Nothing could be judged: {'; '.join(sorted({agent.reason for agent in evaluations}))}."])
        return
    kinds = list(dict.fromkeys(sorted(agent.kind for agent in evaluations)))
    best = sorted({agent.best for agent in evaluated})
    rows = [_row(policy, evaluated, policy in kinds) for policy in (*kinds, INCUMBENT, *HEURISTICS, *ALWAYS)
            if any(policy in agent.rows for agent in evaluated)]
    bounds = np.array([agent.bound_s / max(1.0, agent.rows[INCUMBENT][0]) for agent in evaluated
                       if agent.bound_s is not None])
    if len(bounds):
        rows.append(("bound", _spread(bounds), "", "", "", ""))
    missing = sorted({f"{agent.kind}: {agent.reason}" for agent in evaluations if not agent.rows})
    yield Section(name, [
        f"{evaluated[0].jobs} jobs of the last {evaluated[0].days:.1f} days. The best heuristic in hindsight: "
        f"{', '.join(best)}.",
        *(f"Not judged: {reason}." for reason in missing), *_methods(evaluated)],
        [Table(("policy", "mean JCT of incumbent", "p99 wait of incumbent", "kWh of incumbent", "interval by blocks",
                "verdict"), rows)])


def _methods(evaluations: Sequence[Judged]) -> Iterator[str]:
    """Yield the result of each training method by seed, for kinds with more than one method."""
    for agent in evaluations:
        if len(agent.ways) > 1:
            objectives = ", ".join(f"{name.replace('_', ' ')} {worth:.4f}"
                                   for name, worth in sorted(agent.ways.items()))
            yield (f"{agent.kind}, seed {agent.seed}, objective on the validation weeks: {objectives}; the better one "
                   "serves.")


def _row(policy: str, evaluations: Sequence[Judged], agent: bool) -> tuple[str, ...]:
    results = [result for result in evaluations if policy in result.rows and (result.kind == policy or not agent)]
    ratios = np.array([np.divide(result.rows[policy], np.maximum(result.rows[INCUMBENT], (1.0, 1.0, 1.0)))
                       for result in results])
    if not agent:
        return (policy, *(_spread(column) for column in ratios.T), "", "")
    intervals = "; ".join(_interval(result.interval) for result in results)
    return (policy, *(_spread(column) for column in ratios.T), intervals,
            ", ".join(sorted({result.decision for result in results})))


def _interval(ratio: tuple[float, float] | None) -> str:
    if ratio is None or not np.isfinite(ratio).all():
        return "too few blocks"
    return f"{ratio[0]:.3f} to {ratio[1]:.3f}"


def _spread(ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    if np.ptp(ratios) < 5e-4:
        return f"{ratios.mean():.3f}"
    return f"{ratios.mean():.3f} ({ratios.min():.3f} to {ratios.max():.3f})"
