"""The report of ``idlewatt reproduce maifs``: the abstract's claim, our results, and what is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats
from ...replay.outcome import FEWEST_PAIRS, Interval, alike_ratio
from ...replay.speed_priors import PER_CROSSING
from .. import plots
from ..evolution import EvolutionProgress
from ..plots import Plot
from ..report import Section, Table, interval
from . import network
from .models import SHARES
from .observation import SURVEYED
from .train import WORTH, order_only
from .trial import INDEPENDENT, OURS, PROGRAMME, Contest, less
from .windows import LARGE, LARGE_JOBS, LARGE_NODES, LOAD, LONGEST_S, NODES, PHILLY

TITLE = "MAIFS: placement and fungible allocation, rebuilt"
CLAIMED = {"makespan": 0.44, "JCT": 0.46}
"""Largest reductions against "state-of-the-art scheduling algorithms" that the abstract claims."""
TEACHER = "Synergy tune, SRSF"
BETTER, WORSE, NOT_APART, TOO_FEW = "better", "worse", "indistinguishable", "too few"


@dataclass(frozen=True)
class Findings:
    """All results of the report."""

    contests: Sequence[Contest]
    training: EvolutionProgress
    """Progress of the agent's training."""
    shares: Floats
    """Our agent's share of the linear programmes' throughput, [window, bound or Synergy's]."""
    complete: Mapping[str, Mapping[str, tuple[float, ...]]]
    """``FIGURES`` on complete virtual clusters, by their name and policy."""
    ablations: Sequence[str]
    """Names of the agents without training or without one part, as in the contests."""
    seed: int
    """Seed of the training."""

    @property
    def ratio(self) -> Floats:
        """Return the geometric mean ratio to the teacher's figures (see ``WORTH``) at each step of training."""
        return np.exp([score for _, score in self.training.curve])

    @property
    def learned(self) -> bool:
        """Return whether training improved on its initial weights."""
        return bool(self.ratio.min() < self.ratio[0])

    @property
    def only_order(self) -> bool:
        """Return whether only the weights of the order differ from the initial weights."""
        first, best = (weights[order_only() == 0] for weights in (self.training.first, self.training.best))
        return bool(np.array_equal(first, best))


def facts(findings: Findings) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {"title": TITLE, "preface": preface(findings), "sections": list(sections(findings))}


def preface(findings: Findings) -> list[str]:
    """Return the introduction of the report."""
    split = ", ".join(f"{share:.0%} {task}" for task, share in SHARES.items())
    return ["Only the abstract of MAIFS is public: not its traces (two large production ones), nor its cluster sizes, "
            "nor its network. The results below are of our interpretation, on later days of Philly than those "
            "of the training, and on all of Helios, which the training did not use. Neither trace contains the models "
            f"that its jobs train; they are drawn by Synergy's split ({split}).",
            f"A window holds consecutive jobs with {LOAD:g} times the work that the nodes can do in a day, submitted "
            "over a day, or all at once; no two windows of a setting share a job. Jobs of more than "
            f"{LONGEST_S / 3600:.0f} h are cut to that. Servers are Synergy's (8 GPUs, 24 CPUs, 500 GB), rounds take "
            "300 s, a job that is moved or resumed loses 7, 30 or 60 s. SRTF, SRSF, Optimus and ours know the "
            "remaining work; FIFO, LAS and Tiresias do not.",
            f"Ours is one set of {network.SIZE} weights for every size. {_came_about(findings)} "
            "The seed of training is "
            f"{findings.seed}, that of the random baseline 0, and each window draws its models by its own number. A "
            "result that only beats random-feasible, or FIFO, is not a result."]


def _came_about(findings: Findings) -> str:
    """Return a text on the origin of the weights."""
    lessons = (f"days {PHILLY.first} to {PHILLY.held_out - 1} of Philly, {NODES[0]} to {LARGE_NODES[1] - 1} nodes, in "
               f"{LARGE:.0%} of the windows with {LARGE_JOBS:.0%} of the jobs made larger, from a node to all of them")
    if findings.learned:
        rest = (" Apart from the order of jobs no improvement was found: of the coordination graph only the rule has "
                "an effect that nodes at one leaf switch belong together.")
        return (f"Evolution strategies that began with shortest remaining service found them on {lessons}."
                f"{rest if findings.only_order else ''}")
    return (f"They are a rule of thumb: evolution strategies on {lessons}, found no improvement.")


def sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of the report."""
    yield verdict(findings)
    yield from alike(findings)
    yield claim(findings)
    yield parts(findings)
    yield optimum(findings)
    for contest in findings.contests:
        yield table(contest)
    if findings.complete:
        yield complete(findings)
    yield curve(findings)
    yield missing(findings)


def verdict(findings: Findings) -> Section:
    """Return the section on the settings in which our agent is better than each of Synergy-tune's orders."""
    tunes = [name for name in findings.contests[0].figures if name.startswith("Synergy tune")]
    rows = []
    for contest in findings.contests:
        for figure in CLAIMED:
            best = contest.best(tunes, figure)
            ours = contest.less_than(best, figure)
            rows.append((contest.setting.name, str(contest.windows), figure, best, interval(ours),
                         verdict_of(ours, contest.windows), interval(contest.less_than(TEACHER, figure))))
    won, lost, few = (sum(row[5] == word for row in rows) for word in (BETTER, WORSE, TOO_FEW))
    return Section("Against Synergy-tune", [
        f"In {won} of {len(rows)} comparisons ours is below the best of tune's orders for that figure (each order "
        f"is best in one of them), in {lost} above; {few} have fewer than {FEWEST_PAIRS} windows, which are too few. "
        f"The last column compares it with {TEACHER}, the teacher. Intervals are Student's t on the logarithms of the "
        "ratios, window by window; windows of one trace are not fully independent. The first table counts the settings "
        "with enough windows, order by order; the plots show these by trace and nodes (d: neighbours disturb, s: "
        "several leaf switches)."],
        [*_order_by_order(findings, tunes),
         Table(("Setting", "Windows", "Figure", "Best tune", "Ours is less by (95 %)", "", f"Than {TEACHER}"), rows)],
        plots=_drawn(findings))


def _drawn(findings: Findings) -> list[Plot]:
    """Draw the reductions of our agent against the teacher, for settings with enough windows."""
    drawn = []
    for at_once in (False, True):
        rows = [(contest.setting.label, {figure: contest.less_than(TEACHER, figure) for figure in reversed(CLAIMED)})
                for contest in findings.contests
                if contest.windows >= FEWEST_PAIRS and contest.setting.at_once == at_once]
        if rows:
            how = "all at once" if at_once else "as submitted"
            drawn.append(plots.forest(f"Ours is less than {TEACHER}, with 95 % intervals: jobs {how}", "less by", rows))
    return drawn


def alike(findings: Findings) -> Iterator[Section]:
    """Compare our agent with Synergy-tune over all traces with enough windows under the same conditions."""
    together: dict[str, list[Contest]] = {}
    for contest in findings.contests:
        if contest.windows >= FEWEST_PAIRS:
            together.setdefault(contest.setting.circumstances, []).append(contest)
    rows = []
    for circumstances, contests in together.items():
        for figure in CLAIMED if len(contests) > 1 else ():
            ours = less(alike_ratio([contest.pairs(TEACHER, figure) for contest in contests]))
            counted = " + ".join(f"{contest.windows} {contest.setting.history.name}" for contest in contests)
            rows.append((circumstances, counted, figure, interval(ours), verdict_of(ours, FEWEST_PAIRS)))
    if rows:
        yield Section("Both traces together", [
            f"Ours against {TEACHER} where both traces have {FEWEST_PAIRS} windows; both traces have the same "
            "weight, whatever their numbers of windows."],
            [Table(("Setting", "Windows", "Figure", "Ours is less by (95 %)", ""), rows)])


def _order_by_order(findings: Findings, tunes: Sequence[str]) -> list[Table]:
    """Count for each trace the settings in which our agent is better and worse than each of Synergy-tune's orders."""
    rows = []
    for trace in dict.fromkeys(contest.setting.history.name for contest in findings.contests):
        enough = [contest for contest in findings.contests
                  if contest.setting.history.name == trace and contest.windows >= FEWEST_PAIRS]
        rows += [(trace, name, *(cell for figure in reversed(CLAIMED) for cell in _counted(enough, name, figure)))
                 for name in tunes if enough]
    headings = [f"{figure} {word}" for figure in reversed(CLAIMED) for word in (BETTER, WORSE, NOT_APART)]
    return [Table(("Trace", "Against", *headings), rows)] if rows else []


def _counted(contests: Sequence[Contest], name: str, figure: str) -> list[str]:
    """Return the numbers of settings in which our agent is better, worse and indistinguishable, as text."""
    verdicts = [verdict_of(contest.less_than(name, figure), contest.windows) for contest in contests]
    return [str(verdicts.count(word)) for word in (BETTER, WORSE, NOT_APART)]


def verdict_of(reduction: Interval, windows: int) -> str:
    """Return a word for the sign of our agent's reduction."""
    if windows < FEWEST_PAIRS:
        return TOO_FEW
    return BETTER if reduction.low > 0 else WORSE if reduction.high < 0 else NOT_APART


def claim(findings: Findings) -> Section:
    """Return the section that compares the abstract's two numbers with our largest and mean reductions by baseline."""
    names = [name for name in findings.contests[0].figures if name not in (OURS, PROGRAMME, *findings.ablations)]
    return Section("The abstract's numbers", [
        f"The paper is below \"state-of-the-art scheduling algorithms by up to\" {CLAIMED['makespan']:.0%} in makespan "
        f"and {CLAIMED['JCT']:.0%} in job completion time; it does not name them. Ours, over all settings:"],
        [_over_all(findings, "Baseline", names)])


def parts(findings: Findings) -> Section:
    """Return the section on the effects of training and of each part."""
    return Section("Effects of training and of each part", [
        "The reduction against ours without the part, over all settings: a part with a value near 0 has no effect."],
        [_over_all(findings, "Ours without", [*findings.ablations, INDEPENDENT])])


def _over_all(findings: Findings, heading: str, names: Sequence[str]) -> Table:
    """Return our agent's mean and largest reduction against some policies over all settings."""
    rows = []
    for name in names:
        cells = []
        for figure in CLAIMED:
            all_ = [(contest.less_than(name, figure).estimate, contest.setting.name) for contest in findings.contests]
            most, where = max(all_)
            cells += [f"{np.mean([estimate for estimate, _ in all_]):+.1%}", f"{most:+.1%} ({where})"]
        rows.append((name, *cells))
    return Table((heading, "Makespan, mean", "at most", "JCT, mean", "at most"), rows)


def optimum(findings: Findings) -> Section:
    """Return the section that compares our agent with the linear programmes."""
    bound, synergy = findings.shares.T
    paragraphs = [
        f"For the jobs that ours places in a round it does {bound.mean():.1%} (window by window {bound.min():.1%} "
        f"to {bound.max():.1%}) of the most work that can be done when the CPUs and the memory of all nodes are "
        f"pooled and no job has neighbours, and {synergy.mean():.1%} of what Synergy's linear programme does, "
        "which leaves no job less than the fair share."]
    for contest in findings.contests:
        if PROGRAMME in contest.figures:
            jct, makespan = (-contest.less_than(PROGRAMME, figure).estimate for figure in ("JCT", "makespan"))
            paragraphs.append(f"{contest.setting.name}: ours has a mean JCT {jct:+.1%} and a makespan {makespan:+.1%} "
                              "against those of Synergy's programme with shortest remaining service first, which is no "
                              "bound: another order may be better.")
    return Section("Against linear programmes", paragraphs)


def table(contest: Contest) -> Section:
    """Return the section with a table of every policy in a setting."""
    rows = []
    for name in sorted(contest.figures, key=lambda name: contest.mean(name, "JCT")):
        compared = ["-" if name == OURS else interval(contest.less_than(name, figure)) for figure in CLAIMED]
        rows.append((name, f"{contest.mean(name, 'JCT') / 3600:.3f}", compared[1],
                     f"{contest.mean(name, 'makespan') / 3600:.2f}", compared[0],
                     f"{contest.mean(name, 'utilization'):.1%}", f"{contest.mean(name, 'energy') / 3.6e9:.3f}"))
    return Section(contest.setting.name, [f"Mean over {contest.windows} windows."], [Table(
        ("Policy", "JCT, h", "ours is less by (95 %)", "Makespan, h", "ours is less by (95 %)", "GPU time held",
         "Energy, MWh"), rows)])


def complete(findings: Findings) -> Section:
    """Return the section on complete virtual clusters from the first held-out day on, without intervals."""
    tables = []
    for name, figures in findings.complete.items():
        rows = [(policy, f"{jct:,.0f}", f"{makespan / 3600:,.1f}", f"{used:.1%}", f"{joules / 3.6e9:.2f}")
                for policy, (jct, makespan, used, joules) in sorted(figures.items(), key=lambda item: item[1][0])]
        tables.append(Table((name, "JCT, s", "Makespan, h", "GPU time held", "Energy, MWh"), rows))
    return Section("Complete virtual clusters, unchanged", [
        "No job is cut or stretched, and the training used none of these days; the cluster is empty before the first. "
        "The makespan means little here: it is that of the last long job."], tables)


def curve(findings: Findings) -> Section:
    """Return the section with the training curve."""
    rounds, ratio = np.array([number for number, _ in findings.training.curve], np.float64), findings.ratio
    drawn = plots.lines(f"Completion time and makespan over those of {TEACHER}, on validation windows", "rounds",
                        {OURS: (rounds, ratio)})
    outcome = "It began with" if findings.learned else "No improvement was found over the initial weights"
    return Section("Training", [
        f"From {ratio[0]:.3f} to {ratio.min():.3f}, completion time counting {WORTH[0]:.0%}. {outcome}: Synergy-tune's "
        "best fit and best share where the node gains most, shortest remaining service first. The row \"ours, "
        "untrained\" shows the effect of these alone."], plots=[drawn])


def missing(findings: Findings) -> Section:
    """Return the section on omissions."""
    return Section("Our assumptions and omissions", [
        "The abstract names attention between agents and a dynamic coordination graph. Here the agents are nodes; each "
        "rates four tasks at a time, attends to at most 32 others in two heads, is joined to the four that it attends "
        "to most among those that could take the same task, and max-plus decides which node takes it. The order of "
        f"jobs is {'learned' if findings.learned else 'a rule of thumb'}, the division of a node is "
        f"{'a rule of thumb' if findings.only_order else 'learned'}; the abstract describes neither for MAIFS.",
        "Jobs of more than 8 GPUs take whole nodes with all their resources: the heuristics take the emptiest; ours "
        f"rates at least {SURVEYED}, joins those at one leaf switch, and takes exactly as many as are needed. Neither "
        "trace contains switches; the settings with several are ours. There Pollux' measurements give the time of "
        f"communication between nodes; we assume that each further switch adds {PER_CROSSING:.0%}.",
        "The interference is DeepShare's, measured on jobs that all span nodes; for jobs within a node that is an "
        "upper estimate, and only the worst neighbour counts.",
        f"\"{INDEPENDENT}\", and the other agents without a part, are ours with that part removed after training; "
        "--set ablations=true also trains them so.",
        "The experiments on a Kubernetes cluster are not repeated."])
