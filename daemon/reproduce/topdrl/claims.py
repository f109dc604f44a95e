"""The report of ``idlewatt reproduce topdrl``: the paper's claim, the results of both benchmarks, and assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...replay.outcome import FEWEST_PAIRS
from ...replay.speed_priors import APPLICATIONS, NODE_GPUS, PER_CROSSING
from .. import plots
from ..report import Section, Table, interval
from . import predecessor
from .arena import JOBS_PER_GPU, LARGEST, LOADS, LONGEST_S, PER_LEAF, SIZES
from .kernel import WINDOW
from .literal.agent import WAITING_COSTS
from .literal.kernel import ROWS
from .sizefree.train import TRAINED_ON
from .trial import BETTER_ORDERS, BOUND, LITERAL, NEAREST, OURS, PAPER, RANDOM, STRICT, WAITING, Contest

TITLE = "TopDRL: who starts now, and close together, rebuilt"
Curve = Sequence[tuple[int, float]]
_HOUR_S = 3600.0
FACTOR = 2.0
"""Standard factor of the error of guessed run times."""


@dataclass(frozen=True)
class Findings:
    """All results of the report."""

    all_sizes: Contest
    """Results of generated held-out episodes on clusters of all sizes."""
    by_size: Sequence[Contest]
    with_literal: Contest
    """Results of the smallest clusters, on which the published network can also act."""
    real: Sequence[Contest]
    """Results of episodes cut from traces."""
    guessed: Contest
    """Results of generated held-out episodes with guessed run times."""
    curves: Mapping[str, Curve]
    """Training curves by agent and seed: (round, log ratio of the objective to its initial value)."""
    predecessor: predecessor.PredecessorFindings


def facts(findings: Findings) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {"title": TITLE, "preface": preface(findings), "sections": list(sections(findings))}


def preface(findings: Findings) -> list[str]:
    """Return the introduction of the report."""
    trainings = findings.all_sizes.found[OURS].shape[0]
    return ["The paper's claim, of which only the abstract is public: a network that picks the next job, and a "
            "heuristic that picks the GPUs closest together, beat six baselines. Which six is not said; the rows are "
            "every order of its predecessor (FCFS, SJF, smallest, random) with each of its placements, a superset of "
            "what the six can be without another trained model.",
            "random-feasible starts anybody anywhere; the bound is one machine of all GPUs that may interrupt and "
            "divide jobs. A result that only beats the paper's baselines is not a result: rules that wait for close "
            "GPUs are shown, too.",
            f"Ours is one network for all sizes, {trainings} trainings. What ours gains is the geometric mean of "
            "ratios over held-out episodes, those of all trainings averaged; intervals are 95 %, Student's t on the "
            f"logarithms of these pairs, {findings.all_sizes.episodes} in all. They tell how sure it is for "
            "these agents; "
            "how far trainings differ is told beside."]


def sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of the report."""
    yield verdict(findings.all_sizes)
    yield table(findings.all_sizes)
    yield sizes(findings.by_size)
    yield guessed(findings.guessed)
    yield literal(findings.with_literal)
    if findings.real:
        yield real(findings.real)
    yield training(findings.curves)
    yield predecessor.section(findings.predecessor)
    yield assumptions()


def verdict(contest: Contest) -> Section:
    """Return the section on whether our agent is better than the policies of the claim."""
    paragraphs = []
    for what, names in (("each baseline of the paper", list(PAPER)), ("random-feasible", [RANDOM]),
                        ("each heuristic order on the nearest GPUs", NEAREST),
                        ("each rule of ours that waits for close GPUs", list(WAITING))):
        lost = [f"{name} ({metric})" for name in names for column, metric in _METRICS
                if not contest.beats(name, column)]
        paragraphs.append(f"Better than {what}, in completion time and in throughput: {_verdict_text(contest, lost)}")
    for column, metric in _METRICS:
        for names, called in ((NEAREST, "best order on the nearest GPUs"), (list(WAITING), "best rule that waits")):
            best = contest.best(names, column)
            each = ", ".join(f"{gain.estimate:+.1%}" for gain in contest.gains(best, column))
            gain = interval(contest.gain(best, column))
            paragraphs.append(f"{metric.capitalize()} against the {called}, {best}: {gain}; "
                              f"by training {each}.")
    return Section("The contended bench: verdict", paragraphs)


def _verdict_text(contest: Contest, lost: Sequence[str]) -> str:
    if contest.episodes < FEWEST_PAIRS:
        return f"{contest.episodes} episodes are too few to tell."
    return f"not than {', '.join(lost)}." if lost else "yes, the interval is clear of zero for all."


_METRICS = (("jct_s", "completion time"), ("throughput", "throughput"))


def table(contest: Contest, mark: Sequence[str] = (OURS, LITERAL)) -> Section:
    """Return a table of all policies, the shortest completion time first."""
    rows = []
    for name in sorted(contest.found, key=lambda name: contest.mean(name, "jct_s")):
        figures = [f"{contest.mean(name, 'jct_s') / _HOUR_S:.2f}", f"{contest.mean(name, 'throughput'):.3f}"]
        kept = ["-", "-"] if name == BOUND else [f"{contest.mean(name, 'wait_p99_s') / _HOUR_S:.1f}",
                                                 f"{contest.mean(name, 'speed'):.3f}"]
        against = ["-", "-"] if name in mark else [interval(contest.gain(name, column)) for column, _ in _METRICS]
        rows.append((name, *figures, *kept, *against))
    return Section(f"{contest.name}: {contest.episodes} episodes", [
        f"{' and '.join(STRICT)}: the first in order keeps all others waiting until it fits; elsewhere the first that "
        "fits goes. Throughput: useful GPU time while jobs come, over all there is; a GPU of a job that runs at half "
        "its best speed counts half. Speed: mean of that over the GPU time spent."],
        [Table(("Policy", "Mean JCT, h", "Throughput", "99 % wait, h", "Speed", "Ours: JCT", "Ours: throughput"),
               rows)])


def sizes(contests: Sequence[Contest]) -> Section:
    """Return the section on our agent on clusters that it was not trained on."""
    known = " and ".join(map(str, sorted(set(TRAINED_ON))))
    paragraphs = [f"Trained on {known} GPUs; the larger ones it never saw."]
    if any(contest.episodes < FEWEST_PAIRS for contest in contests):
        paragraphs.append(f"Fewer than {FEWEST_PAIRS} episodes are too few to tell, whatever the interval.")
    return Section("By size of the cluster", paragraphs, [_beside_rules(contests)])


def _beside_rules(contests: Sequence[Contest]) -> Table:
    ours = "Ours: JCT", "Ours: throughput"
    rows = [(contest.name, str(contest.episodes), *_versus(contest, NEAREST), *_versus(contest, list(WAITING)))
            for contest in contests]
    return Table(("Cluster", "Episodes", "Best order + nearest", *ours, "Best rule that waits", *ours), rows)


def _versus(contest: Contest, names: Sequence[str]) -> list[str]:
    """Return the best of some policies by completion time, and our agent's difference to it."""
    best = contest.best(names, "jct_s")
    return [best, *(interval(contest.gain(best, column)) for column, _ in _METRICS)]


def guessed(contest: Contest) -> Section:
    """Return the section on our agent with guessed run times."""
    return Section("If lengths are only guessed", [
        f"Every policy, those of the rows above too, knew lengths. Here a guess is off by a factor of {FACTOR:g} as a "
        "standard deviation, for ours, which was trained with true ones, as for the rules."],
        [_beside_rules([contest])])


def literal(contest: Contest) -> Section:
    """Return the section that compares the published network with the size-invariant one."""
    shown = (BOUND, OURS, LITERAL, *WAITING, *BETTER_ORDERS, "SJF + nearest", "FCFS + nearest",
             "FCFS + first-available", RANDOM)
    rows = [(name, f"{contest.mean(name, 'jct_s') / _HOUR_S:.2f}", f"{contest.mean(name, 'throughput'):.3f}",
             *(["-", "-"] if name == LITERAL else [interval(contest.gain(name, column, LITERAL))
                                                   for column, _ in _METRICS]))
            for name in sorted(shown, key=lambda name: contest.mean(name, "jct_s"))]
    return Section("The literal network, 64 GPUs", [
        f"A canvas of nodes and GPUs, the first {ROWS} jobs of the queue and a summary, each convolved, then joined, "
        "and each job rated in the light of all. It imitates the rule SJF as near, close or wait, then learns by PPO: "
        f"paid for the job-hours that get done, at best speed, less {WAITING_COSTS:g} times those of waiting. One "
        "training; it can be asked about no other cluster."],
        [Table(("Policy", "Mean JCT, h", "Throughput", "Literal: JCT", "Literal: throughput"), rows)])


def real(contests: Sequence[Contest]) -> Section:
    """Return the section on episodes cut from traces, with jobs in their order and scaled gaps."""
    return Section("Jobs as they came", [
        "Cut from real traces: the jobs in their order and with the gaps between them, scaled to the same loads. Of "
        "Philly's clusters sizes and lengths were learned from; Lingjun and Venus were never seen. Episodes of one "
        "trace overlap, so these intervals are too narrow."], [_beside_rules(contests)])


def training(curves: Mapping[str, Curve]) -> Section:
    """Return the section with the training curves."""
    drawn, paragraphs = [], []
    for name, curve in curves.items():
        rounds = np.array([number for number, _ in curve], np.float64)
        worth = 100.0 * np.exp([value for _, value in curve])
        drawn.append(plots.lines(f"{name}: objective on episodes to choose by, the rule's = 100", "rounds",
                                 {name: (rounds, worth)}))
        paragraphs.append(f"{name}: from {worth[0]:.1f} to {worth.min():.1f} of the rule's 100.")
    return Section("Training", [
        "Seeds of the episodes to learn from, to choose by and to test on are different ones. Ours: completion time "
        "over throughput, relative to the rule that it sets out from. Literal: completion time.", *paragraphs],
        plots=drawn)


def assumptions() -> Section:
    """Return the section on assumptions and omissions."""
    return Section("What is assumed, and what is not here", [
        f"Clusters: {', '.join(map(str, SIZES))} GPUs, nodes of {NODE_GPUS} (as measured), {PER_LEAF} nodes "
        f"on a leaf switch, {PER_LEAF // 2} up to 128 GPUs. Jobs: {JOBS_PER_GPU} for each GPU, sizes and lengths of "
        f"Philly's two complete virtual clusters, cut at {LONGEST_S / _HOUR_S:g} hours; GPU time wanted is "
        f"{LOADS[0]:g} to {LOADS[1]:g} of what there is while jobs come, at random moments.",
        f"Jobs of more than one in {LARGEST} of a cluster's GPUs are left out.",
        f"Who goes first is chosen, by all rules and by ours, among the {WINDOW} jobs that have waited longest, by the "
        f"literal network among {ROWS}; on large clusters more than that often wait.",
        f"Speeds: Pollux's measurements of {', '.join(APPLICATIONS)} on one to four nodes. Split over two nodes, the "
        "first three take about twice as long, the others hardly longer. No trace tells applications: each is as "
        "likely. Nobody measured these machines across leaf switches; each further one prolongs what communication "
        f"costs by {PER_CROSSING:.0%}: our choice; the predecessor has so much for each further machine.",
        "But where it says so, all policies know how long a job runs on close GPUs. Ours, SJF as near and the rules "
        "that wait also know exactly how much slower each job would run apart; the paper's baselines do not, and no "
        "site's history tells it. Jobs are never interrupted or moved.",
        "Layers, sizes and rewards of the paper's network are not public; ours are our own. Its real jobs are not, "
        "either."])
