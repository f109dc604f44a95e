"""What ``idlewatt reproduce dl2`` says: the paper's claims, what came of them, and what does not reproduce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .. import plots
from ..report import Section, Table
from .agent import PUBLISHED
from .sizefree.kernel import INPUTS, SIZE
from .speeds import FIT_ERROR, MODELS
from .trial import BOUND, OURS, PLAIN, RULE, TRACES, UNTRAINED, Contest

TITLE = "DL2: elastic jobs, rebuilt"
CLAIMED = 0.441
"""Mean completion time below DRF's that the paper claims."""
EXPECTED: Mapping[str, float] = {"DRF": 10.033, "DRF, any node": 10.03, "FIFO": 15.46, "SRTF as coded": 15.46,
                                 "Optimus (oracle)": 6.870, "Optimus (oracle), any node": 6.35,
                                 "SRTF (oracle)": 8.51, "random-feasible": 6.22}
"""Slots: what the authors' own environment gives on these traces when it is run."""
EXPECTED_FOR = 8
"""Most workers of a job there."""
PAPER = {"DRF": 10.246, "Tetris as coded": 8.955, "Optimus (oracle)": 7.318, OURS: 5.724}
"""Slots, as in the paper; its traces and its limit of workers are others."""
RANDOM = "random-feasible"
HEURISTICS = ("DRF", "FIFO", "SRTF (oracle)", "Tetris (oracle)", "Tetris as coded", "Optimus (oracle), any node",
              "equal share", "max-relative-gain (oracle)")


def preface(contests: Sequence[Contest]) -> list[str]:
    """Return what the reader should know first."""
    speeds = ("the authors' measurements" if contests[0].measured else
              f"our fit of the authors' measurements (median error {max(FIT_ERROR):.1%} on the worst of "
              f"{len(MODELS)} models)")
    return [f"48 nodes, 60 jobs, Alibaba's arrivals, slots of 20 minutes, {TRACES} traces that are the same for every "
            f"row; speeds are {speeds}. Ours is one network of {SIZE} weights for every job, trained by evolution "
            "strategies on other traces of the same generator. (oracle) marks rules that read the true speeds or "
            "lengths; ours reads the true speeds and what is left of each job, too.",
            *([f"In each slot ours tries {contests[0].plans} plans that favour some jobs and tasks more than its "
               "network does, plays each on with the jobs that are there, and takes the one under which they end "
               "soonest. Who comes later it does not know."] if contests[0].plans else []),
            "random-feasible gives tasks to anybody while one fits. A result that only beats DRF is not a result."]


def sections(contests: Sequence[Contest]) -> Iterator[Section]:
    """Yield the report's parts."""
    for contest in contests:
        yield verdict(contest)
        yield table(contest)
        yield curve(contest)


def verdict(contest: Contest) -> Section:
    """Say whether the paper's claim holds for ours, and what it is worth."""
    drf, bound = contest.less_than("DRF"), contest.mean(BOUND)
    best = min(HEURISTICS, key=contest.mean)
    told = [f"Ours takes {contest.mean(OURS):.3f} slots, {drf.estimate:.1%} less than DRF ({contest.mean('DRF'):.3f}); "
            f"the paper claims {CLAIMED:.1%}: {'reached' if drf.estimate >= CLAIMED else 'not reached'}.",
            *([f"Of the {EXPECTED['DRF']:.3f} that the authors' own DRF takes on these traces it is "
               f"{1.0 - contest.mean(OURS) / EXPECTED['DRF']:.1%} less."] if contest.most == EXPECTED_FOR else []),
            f"Were every job alone on the cluster from its arrival, that would be {bound:.3f}, "
            f"{1.0 - bound / contest.mean('DRF'):.1%} less than DRF."]
    told += [_against(contest, name) for name in (RANDOM, "Optimus (oracle)", best)]
    return Section(f"At most {contest.most} workers: verdict", [*told, *worth(contest)])


def _against(contest: Contest, name: str) -> str:
    less = contest.less_than(name)
    judged = "better" if less.low > 0 else "worse" if less.high < 0 else "not told apart"
    return (f"Against {name} ({contest.mean(name):.3f}): {less.estimate:+.1%} less, 95 % interval {less.low:+.1%} to "
            f"{less.high:+.1%}: {judged}.")


def worth(contest: Contest) -> Iterator[str]:
    """Yield what looking ahead and training are good for, each."""
    if contest.plans:
        yield f"What looking ahead is worth ({contest.plans} plans a slot): {_against(contest, PLAIN)}"
    if UNTRAINED not in contest.jct:
        found = "Training found nothing better" if len(contest.steps) > 1 else "Nothing was trained"
        yield f"{found}: ours is the rule that it sets out from."
        return
    yield f"What training is worth: {_against(contest, UNTRAINED)}"
    if contest.plans:
        yield (f"Neither trained nor looking ahead, the rule that it sets out from takes {contest.mean(RULE):.3f}, "
               f"{1.0 - contest.mean(RULE) / contest.mean('DRF'):.1%} less than DRF.")


def table(contest: Contest) -> Section:
    """Return every policy beside what was expected of it."""
    rows = []
    for name, jct in sorted(contest.jct.items(), key=lambda item: float(item[1].mean())):
        less = contest.less_than(name)
        known = EXPECTED.get(name) if contest.most == EXPECTED_FOR else None
        rows.append((name, f"{jct.mean():.3f}", "-" if known is None else f"{known:.2f}",
                     f"{PAPER[name]:.3f}" if name in PAPER else "-",
                     "-" if name == OURS else f"{less.estimate:+.1%} ({less.low:+.1%} to {less.high:+.1%})"))
    return Section(f"At most {contest.most} workers: mean completion time, slots",
                   ["Authors' code: what their environment gives on these traces. Paper: as printed, on other traces."],
                   [Table(("Policy", "Here", "Authors' code", "Paper", "Ours is less by (95 %)"), rows)])


def curve(contest: Contest) -> Section:
    """Draw how the agent came about."""
    rounds = np.array([step.round for step in contest.steps], np.float64)
    jct = np.array([step.jct for step in contest.steps])
    drawn = plots.lines("Mean completion time on traces to choose by, slots", "rounds", {OURS: (rounds, jct)})
    return Section(f"At most {contest.most} workers: training", [
        f"From {jct[0]:.3f}, the rule that it sets out from (most slots to come saved for what a task takes), to "
        f"{jct.min():.3f}, without looking ahead."], plots=[drawn])


def differing(contests: Sequence[Contest]) -> str:
    """Say how far figures are from the authors' environment; nothing where it was not run with as many workers."""
    found = [abs(contest.mean(name) / known - 1.0) for contest in contests if contest.most == EXPECTED_FOR
             for name, known in EXPECTED.items()]
    return f", within {max(found):.1%} in every row that has both" if found else ""


def missing(contests: Sequence[Contest]) -> Section:
    """Say what is not in here."""
    shape = PUBLISHED.shape
    return Section("What does not reproduce, and what is not here", [
        "The setting: the demands of the released code (2 CPU and 4 GPU slots for a worker, 2 CPU slots for a server) "
        "and its lengths do not give the figures of these traces. Those of the authors' earlier tree do (workers 2 and "
        f"2, servers 4 CPU slots, long jobs of other models){differing(contests)}.",
        "Tetris as coded takes the job with *most* work left first and closes a node at the first job that it has no "
        "room for. The other Tetris is as published: of the bundles that fit a node, it takes the one that suits what "
        "is free there best, less its job's work left (GPU and CPU slots times the time that one bundle would take).",
        f"DL2's own agent has {shape.hidden} units in each layer where the paper has 256, no batch normalisation, a "
        "policy ratio that is clipped (PPO) where the code takes old chances for new ones, and no federation. What its "
        "training varies by from seed to seed was not measured.",
        f"What ours sees of a task: {', '.join(INPUTS)}."])
