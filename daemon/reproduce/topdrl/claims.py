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

TITLE = "TopDRL: which job starts now, and close together, rebuilt"
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
            "heuristic that picks the GPUs closest together, beat six baselines. The abstract does not name the six; "
            "the rows are every order of its predecessor (FCFS, SJF, smallest, random) with each of its placements, "
            "which include the six unless one of them is another trained model.",
            "random-feasible starts any job on any free GPUs; the bound is one machine of all GPUs that may interrupt "
            "and divide jobs. A result that only beats the paper's baselines is not a result: rules that wait for "
            "close GPUs are also shown.",
            f"Ours is one network for all sizes, {trainings} trainings. Its gain is the geometric mean of ratios over "
            "held-out episodes, averaged over all trainings; intervals are 95 %, Student's t on the logarithms of "
            f"these pairs, {findings.all_sizes.episodes} in all. The intervals hold for these agents; the difference "
            "between trainings is shown separately."]


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
    return Section("The contended benchmark: verdict", paragraphs)


def _verdict_text(contest: Contest, lost: Sequence[str]) -> str:
    if contest.episodes < FEWEST_PAIRS:
        return f"{contest.episodes} episodes are too few for a verdict."
    return f"not better than {', '.join(lost)}." if lost else "yes, no interval contains zero."


_METRICS = (("jct_s", "completion time"), ("throughput", "throughput"))


def table(contest: Contest, mark: Sequence[str] = (OURS, LITERAL)) -> Section:
    """Return a table of all policies, the shortest completion time first."""
    rows = []
    for name in sorted(contest.found, key=lambda name: contest.mean(name, "jct_s")):
        figures = [f"{contest.mean(name, 'jct_s') / _HOUR_S:.2f}", f"{contest.mean(name, 'throughput'):.3f}"]
        waits = ["-", "-"] if name == BOUND else [f"{contest.mean(name, 'wait_p99_s') / _HOUR_S:.1f}",
                                                  f"{contest.mean(name, 'speed'):.3f}"]
        against = ["-", "-"] if name in mark else [interval(contest.gain(name, column)) for column, _ in _METRICS]
        rows.append((name, *figures, *waits, *against))
    return Section(f"{contest.name}: {contest.episodes} episodes", [
        f"{' and '.join(STRICT)}: the first job in order makes all others wait until it fits; elsewhere the first "
        "job that fits starts. Throughput: useful GPU time while jobs are submitted, over all GPU time; a GPU of a job "
        "that runs at half its best speed counts half. Speed: the mean of this factor over the GPU time spent."],
        [Table(("Policy", "Mean JCT, h", "Throughput", "99 % wait, h", "Speed", "Ours: JCT", "Ours: throughput"),
               rows)])


def sizes(contests: Sequence[Contest]) -> Section:
    """Return the section on our agent on clusters that it was not trained on."""
    known = " and ".join(map(str, sorted(set(TRAINED_ON))))
    paragraphs = [f"Trained on {known} GPUs; the larger clusters are new to it."]
    if any(contest.episodes < FEWEST_PAIRS for contest in contests):
        paragraphs.append(f"Fewer than {FEWEST_PAIRS} episodes are too few for a verdict, whatever the interval.")
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
    return Section("If run times are only guessed", [
        f"Every policy in the rows above knew run times. Here a guess is off by a factor of {FACTOR:g} as a "
        "standard deviation, for the rules and for ours, which was trained with true run times."],
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
        f"A canvas of nodes and GPUs, the first {ROWS} jobs of the queue and a summary, each convolved, then joined; "
        "the rating of each job takes all others into account. It imitates the rule SJF as near, close or wait, then "
        f"learns by PPO: the reward is the finished job-hours at best speed less {WAITING_COSTS:g} times the waiting "
        "ones. One training; the network fits no other cluster."],
        [Table(("Policy", "Mean JCT, h", "Throughput", "Literal: JCT", "Literal: throughput"), rows)])


def real(contests: Sequence[Contest]) -> Section:
    """Return the section on episodes cut from traces, with jobs in their order and scaled gaps."""
    return Section("Jobs as submitted", [
        "Cut from real traces: the jobs in their order and with the gaps between them, scaled to the same loads. The "
        "training used sizes and run times of Philly's clusters; Lingjun and Venus are new. Episodes of one "
        "trace overlap, so these intervals are too narrow."], [_beside_rules(contests)])


def training(curves: Mapping[str, Curve]) -> Section:
    """Return the section with the training curves."""
    drawn, paragraphs = [], []
    for name, curve in curves.items():
        rounds = np.array([number for number, _ in curve], np.float64)
        worth = 100.0 * np.exp([value for _, value in curve])
        drawn.append(plots.lines(f"{name}: objective on validation episodes, the rule's = 100", "rounds",
                                 {name: (rounds, worth)}))
        paragraphs.append(f"{name}: from {worth[0]:.1f} to {worth.min():.1f} of the rule's 100.")
    return Section("Training", [
        "The episodes for training, validation and test have different seeds. Ours: completion time over throughput, "
        "relative to the rule with which the training begins. Literal: completion time.", *paragraphs],
        plots=drawn)


def assumptions() -> Section:
    """Return the section on assumptions and omissions."""
    return Section("Assumptions and omissions", [
        f"Clusters: {', '.join(map(str, SIZES))} GPUs, nodes of {NODE_GPUS} (as measured), {PER_LEAF} nodes "
        f"on a leaf switch, {PER_LEAF // 2} up to 128 GPUs. Jobs: {JOBS_PER_GPU} for each GPU, sizes and run times of "
        f"Philly's two complete virtual clusters, cut at {LONGEST_S / _HOUR_S:g} hours; the requested GPU time is "
        f"{LOADS[0]:g} to {LOADS[1]:g} of the available time while jobs are submitted, at random moments.",
        f"Jobs of more than one in {LARGEST} of a cluster's GPUs are left out.",
        f"All rules and ours choose the next job among the {WINDOW} jobs that have waited longest, the literal network "
        f"among {ROWS}; on large clusters more jobs than that often wait.",
        f"Speeds: Pollux's measurements of {', '.join(APPLICATIONS)} on one to four nodes. Split over two nodes, the "
        "first three take about twice as long, the others hardly longer. No trace contains applications: each has "
        "the same probability. There are no measurements of these machines across leaf switches; we assume that each "
        f"further switch adds {PER_CROSSING:.0%} to the communication time, as the predecessor does for each further "
        "machine.",
        "Unless stated otherwise, all policies know how long a job runs on close GPUs. Ours, SJF as near and the rules "
        "that wait also know exactly how much slower each job would run apart; the paper's baselines do not, and no "
        "site's history contains it. Jobs are never interrupted or moved.",
        "Layers, sizes and rewards of the paper's network are not public; ours are our own. Its real jobs are "
        "not public either."])
