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
from .elsewhere import LOOK_S, Served
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


def facts(sites: Sequence[str], found: Sequence[Judged], setting: Setting,
          served: Sequence[Served] = ()) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {"title": TITLE, "preface": [
        "The jobs are those of public traces. What they ran is not in the traces: each is given one of the "
        "applications of Pollux' tables, drawn by the seed, and may take from half to twice its GPUs, eight at most. "
        "So speeds are published figures, and no figure here is of a real site.",
        f"Each agent learned from the first weeks for {setting.budget_s:g} s at most and is judged on the last, with "
        f"{setting.seeds} seeds; the incumbent is {INCUMBENT}. Figures are means over seeds, least and most in "
        "brackets. The bound is no policy: all GPUs as one machine that interrupts and resizes jobs for nothing."],
        "sections": [section for number, site in enumerate(sites)
                     for section in _site(site, [one for one in found if one.site == number])]
        + ([_elsewhere(served, setting)] if served else [])}


def _elsewhere(found: Sequence[Served], setting: Setting) -> Section:
    """Return the results of scorers on other sites than their own, with and without abstaining."""
    alone, doubting = (max(getattr(one, which) for one in found) for which in ("alone", "doubting"))
    harmed = sum(one.doubting > HARM for one in found)
    return Section("Scorers on sites that they were not made for", [
        f"Each scorer learned for {setting.elsewhere_s:g} s. Where it has a doubt, asked every {LOOK_S / 60:.0f} min "
        f"while somebody waits, {FIRST_COME} decides. Figures are mean JCT over that of {FIRST_COME} alone.",
        f"Of {len(found)} pairs {sum(one.alone > HARM for one in found)} are more than 1 % worse without doubts, "
        f"{alone:.3f} at worst, and {harmed} with them, {doubting:.3f} at worst."],
        [Table(("learned on", "asked on", "random-feasible", "without doubts", "with doubts", "rounds", "abstained",
                "for"), [_served(one) for one in found])])


def _served(one: Served) -> tuple[str, ...]:
    abstained, reasons = sum(one.doubts.values()), sorted(one.doubts.items(), key=lambda pair: -pair[1])
    return (one.home, one.site, f"{one.chance:.3f}", f"{one.alone:.3f}", f"{one.doubting:.3f}", str(one.rounds),
            f"{abstained / max(1, one.rounds):.0%}",
            ", ".join(f"{about} {count / one.rounds:.0%}" for about, count in reasons))


def _site(name: str, found: Sequence[Judged]) -> Iterator[Section]:
    evaluated = [one for one in found if one.rows]
    if not evaluated:
        yield Section(name, [f"Nothing could be judged: {'; '.join(sorted({one.reason for one in found}))}."])
        return
    kinds = list(dict.fromkeys(sorted(one.kind for one in found)))
    best = sorted({one.best for one in evaluated})
    rows = [_row(policy, evaluated, policy in kinds) for policy in (*kinds, INCUMBENT, *HEURISTICS, *ALWAYS)
            if any(policy in one.rows for one in evaluated)]
    bounds = np.array([one.bound_s / max(1.0, one.rows[INCUMBENT][0]) for one in evaluated if one.bound_s is not None])
    if len(bounds):
        rows.append(("bound", _spread(bounds), "", "", "", ""))
    missing = sorted({f"{one.kind}: {one.reason}" for one in found if not one.rows})
    yield Section(name, [
        f"{evaluated[0].jobs} jobs of the last {evaluated[0].days:.1f} days. The best heuristic in hindsight: "
        f"{', '.join(best)}.",
        *(f"Not judged: {reason}." for reason in missing), *_methods(evaluated)],
        [Table(("policy", "mean JCT of incumbent", "p99 wait of incumbent", "kWh of incumbent", "interval by blocks",
                "verdict"), rows)])


def _methods(found: Sequence[Judged]) -> Iterator[str]:
    """Yield the result of each training method by seed, for kinds with more than one method."""
    for one in found:
        if len(one.ways) > 1:
            objectives = ", ".join(f"{name.replace('_', ' ')} {worth:.4f}" for name, worth in sorted(one.ways.items()))
            yield (f"{one.kind}, seed {one.seed}, objective on the weeks that choose: {objectives}; the better one "
                   "serves.")


def _row(policy: str, found: Sequence[Judged], agent: bool) -> tuple[str, ...]:
    own = [one for one in found if policy in one.rows and (one.kind == policy or not agent)]
    ratios = np.array([np.divide(one.rows[policy], np.maximum(one.rows[INCUMBENT], (1.0, 1.0, 1.0))) for one in own])
    if not agent:
        return (policy, *(_spread(column) for column in ratios.T), "", "")
    intervals = "; ".join(_interval(one.interval) for one in own)
    return (policy, *(_spread(column) for column in ratios.T), intervals,
            ", ".join(sorted({one.decision for one in own})))


def _interval(found: tuple[float, float] | None) -> str:
    if found is None or not np.isfinite(found).all():
        return "too few blocks"
    return f"{found[0]:.3f} to {found[1]:.3f}"


def _spread(ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    if np.ptp(ratios) < 5e-4:
        return f"{ratios.mean():.3f}"
    return f"{ratios.mean():.3f} ({ratios.min():.3f} to {ratios.max():.3f})"
