"""The report of ``idlewatt reproduce scorer``: all results, their intervals, and where the scorer misses its aim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....storage.records import ModelCard
from ...agents.doubts import STRANGE
from ...agents.kinds import Figures
from ...agents.scorer.agent import MEMBERS
from ...agents.scorer.network import SIZE
from ..packaged import TraceSite
from ..report import Section, Table
from .contest import BOUNDS, HEURISTICS, Cell, jct, p99

TITLE = "The scorer on generated sites and on real traces"
WORST = 0.02
"""Largest acceptable excess of mean completion time over the best heuristic's on the worst site."""
BARELY_S = 900.0
"""Waits below this are no long waits, s: a ratio of two 99th-percentile waits below it is random."""


@dataclass(frozen=True)
class RealSiteResult:
    """Results of one real trace."""

    site: TraceSite
    cell: Cell
    others: Mapping[str, Figures]
    """Figures of the other policies, by name."""
    strange: float
    """Share of jobs outside the training range of the scorers of generated sites."""


@dataclass(frozen=True)
class Findings:
    """All results of the report."""

    regimes: Sequence[Cell]
    apart: Mapping[str, Sequence[Cell]]
    """Results of the first model on the same sites with one part removed, by the name of the part."""
    real: Sequence[RealSiteResult]
    cards: Sequence[ModelCard]


def facts(findings: Findings) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {"title": TITLE, "preface": preface(findings), "sections": list(sections(findings))}


def preface(findings: Findings) -> list[str]:
    """Return the introduction of the report."""
    return [f"{len(findings.cards)} scorers, each of {MEMBERS} members with {SIZE:,} weights, each trained from "
            "another seed on generated sites of eight nodes and then replayed, unchanged, on sites of 4 to 128. Every "
            "policy but random-feasible, which is greedy, backfills as EASY does; all use the same traces. The best "
            "heuristic is the one that turns out best on the same site, which an operator cannot know beforehand. "
            "Intervals are 95 % bootstraps over traces and training seeds. random-feasible and sjf-oracle, which is "
            "shortest job first with the true run times, are shown for scale; neither is a bound.",
            "Small sites are judged by more traces than large ones, because figures of fewer jobs vary more. Where "
            "traces are few, as on the largest sites, a bootstrap's interval is narrower than it should be.",
            "The sites are generated: 40 users with 6 recurring kinds of jobs each, log-normal run times, bursts, "
            "every seventh job failing early; informative limits are one to three times a job's run time, lazy ones a "
            "day for nine of ten users. The traces for evaluation were drawn from other seeds than those for training."]


def sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of the report; sections without results are omitted."""
    if findings.regimes:
        yield verdict(findings)
        yield worst(findings.regimes)
        yield regimes(findings.regimes)
        yield tails(findings.regimes)
    if findings.apart:
        yield apart(findings)
    if findings.real:
        yield sites(findings.real)
    if findings.cards:
        yield training(findings.cards)


def verdict(findings: Findings) -> Section:
    """Return the section on whether the aim is reached."""
    cells = sorted(findings.regimes, key=lambda cell: -cell.regret().estimate)
    over = [cell for cell in cells if cell.regret().estimate > WORST]
    tail = [cell for cell in cells if _tail_is_worse(cell)]
    gained = float(np.mean([cell.regret().estimate for cell in cells]))
    paragraphs = [f"Worst regret: {_percent(cells[0].regret().estimate)} ({cells[0].name}); mean over sites "
                  f"{_percent(gained)}: below zero means better than the best heuristic of each site."]
    paragraphs.append(f"Reached: at most {WORST:.0%} on all {len(cells)} sites." if not over else
                      f"Not reached: more than {WORST:.0%} on {len(over)} of {len(cells)} sites: "
                      + "; ".join(f"{cell.name} ({_percent(cell.regret().estimate)})" for cell in over) + ".")
    single = [max(cell.regret_of(cell.models[seed]) for cell in cells) for seed in range(len(cells[0].models))]
    paragraphs.append("That is the mean over trainings; the worst regrets of single trainings are "
                      f"{_percent(min(single))} to {_percent(max(single))}.")
    paragraphs.append("No site has a 99 % wait that is worse and longer than a quarter of an hour." if not tail else
                      "A 99 % wait that is worse, and longer than a quarter of an hour: "
                      + "; ".join(f"{cell.name} (x {cell.tail():.2f})" for cell in tail) + ".")
    return Section("Verdict", paragraphs)


def _tail_is_worse(cell: Cell) -> bool:
    ours = float(np.mean([p99(model).mean() for model in cell.models]))
    return ours > BARELY_S and cell.tail() > 1.0


def worst(cells: Sequence[Cell]) -> Section:
    """Return the section on each policy's worst site."""
    rows = []
    for policy in (*HEURISTICS, *BOUNDS):
        cell = max(cells, key=lambda cell: cell.regret_of(cell.known[policy]))
        rows.append((policy, _percent(cell.regret_of(cell.known[policy])), cell.name))
    for seed in range(len(cells[0].models)):
        cell = max(cells, key=lambda cell: cell.regret_of(cell.models[seed]))
        rows.append((f"scorer, seed {seed}", _percent(cell.regret_of(cell.models[seed])), cell.name))
    return Section("The worst site of every policy", [
        "Mean completion time above that of the best heuristic of the site. A site that chooses one heuristic "
        "risks this much."], [Table(("Policy", "Regret", "On"), rows)])


def regimes(cells: Sequence[Cell]) -> Section:
    """Return the section on mean completion times on all sites."""
    headings = ("Site", *map(_short, (*HEURISTICS, *BOUNDS)), "scorer", "regret", "95 %")
    rows = []
    for cell in cells:
        regret, ours = cell.regret(), np.mean([jct(model).mean() for model in cell.models])
        rows.append((cell.name, *(_hours(jct(cell.known[policy]).mean(), policy == cell.best)
                                  for policy in (*HEURISTICS, *BOUNDS)), f"{ours / 3600:.2f}",
                     _percent(regret.estimate), f"{_percent(regret.low)} to {_percent(regret.high)}"))
    return Section("Mean completion time, hours", ["The best heuristic of each site is in brackets."],
                   [Table(headings, rows)])


def tails(cells: Sequence[Cell]) -> Section:
    """Return the section on 99th-percentile waits on all sites."""
    headings = ("Site", *map(_short, (*HEURISTICS, *BOUNDS)), "scorer", "scorer / best")
    rows = [(cell.name, *(_hours(p99(cell.known[policy]).mean(), policy == cell.best)
                          for policy in (*HEURISTICS, *BOUNDS)),
             f"{np.mean([p99(model).mean() for model in cell.models]) / 3600:.2f}", f"{cell.tail():.2f}")
            for cell in cells]
    return Section("99 % wait, hours", ["The heuristic with the lowest mean completion time is in brackets."],
                   [Table(headings, rows)])


def apart(findings: Findings) -> Section:
    """Return the section on the first model with one part removed."""
    whole = [cell.regret_of(cell.models[0]) for cell in findings.regimes]
    rows = [("whole", _percent(float(np.mean(whole))), _percent(max(whole)))]
    for name, cells in findings.apart.items():
        regrets = [cell.regret_of(cell.models[0]) for cell in cells]
        rows.append((name, _percent(float(np.mean(regrets))), _percent(max(regrets))))
    return Section("Effects of its parts", ["The first model, whole and with parts removed after training."],
                   [Table(("Model", "mean regret", "worst"), rows)])


def sites(real: Sequence[RealSiteResult]) -> Section:
    """Return the section on completion times on real traces beside published ones."""
    rows = []
    for trace in real:
        results = {**{policy: (jct(result)[0], p99(result)[0]) for policy, result in trace.cell.known.items()},
                   **{policy: (result.jct_mean_s, result.wait_p99_s) for policy, result in trace.others.items()},
                   **{f"scorer, seed {seed}": (jct(result)[0], p99(result)[0])
                   for seed, result in enumerate(trace.cell.models)}}
        rows += [(trace.site.name, policy, f"{mean:,.0f}", f"{tail / 3600:.1f}")
                 for policy, (mean, tail) in results.items()]
        rows += [(trace.site.name, f"{policy} as published", f"{value:,.0f}", "–")
                 for policy, value in trace.site.published.items()]
    return Section("Real traces: mean completion time and 99 % wait", [
        *_regrets(real), *_distances(real), *_strange(real),
        "Philly's trace has neither limits nor users: only the size of a job is known, and the recent run times of "
        "jobs of that size. 0e4a51 had one crowded week, in which 570 jobs were submitted within days; their order "
        "decides its mean, and random-feasible, an order without any knowledge, comes close to QSSF with its true run "
        "times."],
        [Table(("Site", "Policy", "mean JCT, s", "p99 wait, h"), rows)])


def _regrets(real: Sequence[RealSiteResult]) -> Iterator[str]:
    """Compare the scorers of generated sites with the best heuristic of each real site, in words."""
    for trace in real:
        cell, known = trace.cell, trace.cell.known[trace.cell.best]
        regrets = [cell.regret_of(model) for model in cell.models]
        tails = [float(p99(model).mean()) / 3600 for model in cell.models]
        yield (f"{trace.site.name}: the scorers are {_percent(min(regrets))} to {_percent(max(regrets))} from the best "
               f"heuristic, {_short(cell.best)}; 99 % wait {min(tails):.2f} to {max(tails):.2f} h against "
               f"{p99(known).mean() / 3600:.2f} h.")


def _distances(real: Sequence[RealSiteResult]) -> Iterator[str]:
    """Compare the scorer of Philly with published results, in words."""
    for trace in real:
        ours = trace.others.get(PHILLY_SCORER)
        if ours is None or not trace.site.published:
            continue
        published, bound = trace.site.published["QSSF"], trace.site.published["SRTF"]
        yield (f"{trace.site.name}: {ours.jct_mean_s:,.0f} s without run times and without preemption, "
               f"{_percent(ours.jct_mean_s / published - 1)} against QSSF as published "
               f"({published:,.0f} s, which was given true "
               f"run times with random errors) and {_percent(ours.jct_mean_s / bound - 1)} against SRTF ({bound:,.0f} "
               "s, true run times and preemption).")


def _strange(real: Sequence[RealSiteResult]) -> Iterator[str]:
    """Name the real sites on which the scorers of generated sites would have abstained."""
    for trace in real:
        if trace.strange > STRANGE:
            yield (f"{trace.site.name}: {trace.strange:.0%} of the jobs are unlike the training jobs of the scorers of "
                   "the generated sites; in service the scorers would abstain and the heuristic would decide.")


PHILLY_SCORER = "scorer, trained on Philly's other clusters for mean completion time"


def training(cards: Sequence[ModelCard]) -> Section:
    """Return the section on the training of the models."""
    rows = [(str(card.seed), f"{card.metrics.get('imitation_top1', float('nan')):.1%}",
             f"{card.metrics['objective_select']:.4f}", f"{card.metrics.get('wall_s', float('nan')):.0f}",
             f"{card.metrics.get('cpu_s', float('nan')):.0f}")
            for card in cards]
    return Section("Training", [
        "Top-1: the share of decisions in which the imitation, with which a training begins, makes the incumbent's "
        "choice. Objective: relative to the incumbent, on later traces, which can only reject a model."],
        [Table(("Seed", "top-1", "objective", "wall s", "CPU s"), rows)])


def _short(policy: str) -> str:
    return policy.split("+")[0]


def _percent(share: float) -> str:
    return f"{share:+.1%}"


def _hours(seconds: float, best: bool) -> str:
    return f"[{seconds / 3600:.2f}]" if best else f"{seconds / 3600:.2f}"
