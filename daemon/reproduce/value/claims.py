"""The report of ``idlewatt reproduce value``: a table of policies and a table of energy for each trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...learning.evidence import Comparison
from ...replay.cluster import Cluster
from ...replay.lower_bound import lower_bound
from ...replay.outcome import jain
from ...replay.workload import Workload
from ..packaged import TraceSite
from ..report import Section, Table
from .idle_forecast import checked, in_use
from .outcomes import ReplayOutcome, compare, compare_energy
from .setting import Setting
from .sites import TRACES, jobs_of, load
from .task import AT_ONCE, EVEN, FORECAST, OFF, ON, ReplayTask
from .tried import GATE, HEEDED, INCUMBENT, ORACLES, RANDOM, SCORER, TRIED, Try

TITLE = "Gains over Slurm's own policy"
WORTH = 0.02
"""Least gain of the best oracle; below it no policy can gain anything relevant."""
HARM = 1.01
FLOOR_S = 300.0
"""Lower bound of 99th-percentile waits in ratios, s."""
PACKED = next(tried for tried in TRIED if tried.name == "multifactor+best-fit+slurm-backfill")
POWERED = ((TRIED[0], ON), (TRIED[0], OFF), (PACKED, ON), (PACKED, OFF), (TRIED[0], EVEN), (PACKED, EVEN),
           (TRIED[0], FORECAST), (PACKED, FORECAST), (TRIED[0], AT_ONCE), (PACKED, AT_ONCE))
"""(policy, power option) of the energy table: the first two are the incumbent's, the last two are unattainable."""
OURS = ((PACKED, OFF), (PACKED, EVEN), (PACKED, FORECAST))
LOADED, SAVED = 0.7, 0.9
"""Load below which power-down is expected to pay, and the expected share of the energy with all nodes on."""
SUMMARY = ("trace", "load", "best oracle order gains", "which", "bound", "best of all tested, in hindsight",
           "which", "of the oracle's gain")
GROUPS = ((1, 1, "1 GPU"), (2, 8, "2 to 8 GPUs"), (9, 1 << 30, "more GPUs"))


@dataclass(frozen=True)
class TraceOutcomes:
    """All outcomes on one trace, and comparisons of them."""

    trace: TraceSite
    cluster: Cluster
    work: Workload
    found: Mapping[tuple[str, str], Sequence[ReplayOutcome]]
    """Outcomes by (name, power option), one for each seed."""

    @property
    def incumbent(self) -> ReplayOutcome:
        """Return the outcome of the site's own scheduler with all nodes on."""
        return self.found[INCUMBENT, ON][0]

    def jct(self, ours: ReplayOutcome, reference: ReplayOutcome) -> Comparison:
        """Return completion times over another's, in blocks that share no queue."""
        return compare(self.work.submit, ours, reference)

    def energy(self, ours: ReplayOutcome, reference: ReplayOutcome) -> Comparison:
        """Return the ratio of energy to another outcome's in the same blocks."""
        return compare_energy(self.work.submit, ours, reference)

    def total(self, outcome: ReplayOutcome) -> float:
        """Return the ratio of the mean completion time to the incumbent's, over all jobs."""
        return float(np.mean(outcome.end - self.work.submit) / np.mean(self.incumbent.end - self.work.submit))

    def tail(self, outcome: ReplayOutcome) -> float:
        """Return the ratio of the 99th-percentile wait to the incumbent's."""
        waits = [max(FLOOR_S, float(np.quantile(each.wait, 0.99))) for each in (outcome, self.incumbent)]
        return waits[0] / waits[1]

    @property
    def groups(self) -> Mapping[str, NDArray[np.bool_]]:
        """Return the rows of users with enough jobs, or of job sizes if the trace has no users."""
        user, gpus = self.work.user, self.work.gpus
        if len(np.unique(user)) > 1:
            some = {f"user {self.work.user_names[code]}": user == code for code in np.unique(user).tolist()}
        else:
            some = {words: (gpus >= least) & (gpus <= most) for least, most, words in GROUPS}
        return {name: members for name, members in some.items() if members.sum() >= 30}

    def jain(self, outcome: ReplayOutcome) -> float:
        """Return Jain's index of the groups' mean bounded slowdowns."""
        return jain(np.array([outcome.slowdown[members].mean() for members in self.groups.values()]))

    def worst(self, outcome: ReplayOutcome) -> float:
        """Return the ratio of mean completion time to the incumbent's for the group with the largest ratio."""
        mean = [[float(np.mean((each.end - self.work.submit)[members])) for each in (outcome, self.incumbent)]
                for members in self.groups.values()]
        return max(ours / reference for ours, reference in mean)


@dataclass(frozen=True)
class TraceTables:
    """Parts of the report on one trace: rows of the tables over all traces, and its own tables."""

    summary: Sequence[str]
    power: Sequence[Sequence[str]]
    forecast: Sequence[str]
    section: Section


def tables(site: int, outcomes_by_task: Mapping[ReplayTask, ReplayOutcome], setting: Setting,
           traces: Path) -> TraceTables:
    """Return all parts of the report on one trace."""
    outcomes = _outcomes(TRACES[site], outcomes_by_task, setting, traces)
    forecasts = checked(in_use(outcomes.cluster, outcomes.work), len(outcomes.cluster))
    return TraceTables(_summary(outcomes), [verdict(outcomes, tried, power) for tried, power in OURS],
                       (outcomes.trace.name, *forecasts.cells),
                       _section(outcomes, setting))


def facts(known: Sequence[TraceTables], setting: Setting) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    return {"title": TITLE, "preface": list(_preface(setting)),
            "sections": [Section("All traces", [], [Table(SUMMARY, [tables.summary for tables in known])]),
                         _powers([row for tables in known for row in tables.power]),
                         _forecasts([tables.forecast for tables in known]), *(tables.section for tables in known)]}


def _preface(setting: Setting) -> Iterator[str]:
    yield (f"Jobs of public traces under {INCUMBENT}: Slurm's order, placement and backfill by its defaults, "
           "weights 1,000 for age and 10,000 for fair-share (where a trace has no users the order is first come, "
           f"first served). No trace has time limits: each is {setting.limit_factor:g} times the run time, so "
           "orders by limit would know run times and are not tested. Run times are predicted from the jobs that had "
           "ended under the incumbent when a job was submitted.")
    yield ("Figures are ratios to the incumbent's; below 1 is less. Brackets: 95 % for one evaluation, Student's t on "
           "the logarithms of blocks that share no queue; *total* weighs all jobs equally. The random baseline and "
           f"agents: means of {setting.seeds} seeds; nothing else here is random. An oracle is an order that gets true "
           "run times, also as limits; the best of all oracle orders is shown beside the bound, which no policy "
           "without preemption can exceed.")
    yield (f"*{GATE.name[0].upper()}{GATE.name[1:]}*: the daemon's own shortlist, evidence, bounds and demotion "
           "decide, on the jobs that had ended by each night. Two conditions differ: whether the incumbent's replay is "
           "faithful is not checked, as no trace was recorded under it, and energy is that with all nodes on, also "
           "where empty nodes are powered down.")


def _outcomes(trace: TraceSite, outcomes_by_task: Mapping[ReplayTask, ReplayOutcome], setting: Setting,
              traces: Path) -> TraceOutcomes:
    cluster, work = jobs_of(trace, traces, setting.limit_factor)
    mine: dict[tuple[str, str], list[ReplayOutcome]] = {}
    for task, outcome in sorted(outcomes_by_task.items(), key=lambda pair: pair[0].seed):
        mine.setdefault((task.tried.name, task.power), []).append(outcome)
    return TraceOutcomes(trace, cluster, work, mine)


def _replayed(outcomes: TraceOutcomes, tried: Sequence[Try]) -> list[Try]:
    """Return the names that were replayed, the best last."""
    return sorted((policy for policy in tried if (policy.name, ON) in outcomes.found),
                  key=lambda policy: -outcomes.total(outcomes.found[policy.name, ON][0]))


def _bound(outcomes: TraceOutcomes) -> float | None:
    least = lower_bound(outcomes.cluster, outcomes.work).uninterrupted_s
    return None if least is None else least / float(np.mean(outcomes.incumbent.end - outcomes.work.submit))


def _summary(outcomes: TraceOutcomes) -> tuple[str, ...]:
    oracle, best, bound = _replayed(outcomes, ORACLES)[-1], _replayed(outcomes, TRIED)[-1], _bound(outcomes)
    gain, ours = (1.0 - outcomes.total(outcomes.found[tried.name, ON][0]) for tried in (oracle, best))
    return (outcomes.trace.name, f"{load(outcomes.cluster, outcomes.work):.2f}", f"{gain:.1%}", oracle.name,
            "" if bound is None else f"{1 - bound:.1%}", f"{ours:.1%}", best.name,
            "nothing to gain" if gain <= WORTH else f"{ours / gain:.0%}")


def verdict(outcomes: TraceOutcomes, tried: Try, power: str) -> tuple[str, ...]:
    """Return a row with three figures on whether power-down reaches the expected saving."""
    outcome, busy = outcomes.found[tried.name, power][0], load(outcomes.cluster, outcomes.work)
    all_on = outcomes.energy(outcome, outcomes.found[INCUMBENT, ON][0])
    second = outcomes.found[INCUMBENT, OFF][0]
    timer, least = outcomes.energy(outcome, second), outcomes.energy(outcomes.found[tried.name, AT_ONCE][0], second)
    jct = outcomes.total(outcome)
    failed = [name for name, holds in (("all nodes on", all_on.total <= SAVED), ("power-down", timer.high < 1.0),
                                       ("JCT", jct <= HARM)) if not holds]
    said = "busy" if busy >= LOADED else f"not met: {', '.join(failed)}" if failed else "met"
    return (outcomes.trace.name, f"{busy:.2f}", f"{tried.name}, {power}", f"{all_on.total:.3f}", timer.said,
            f"{least.total:.4f}", f"{jct:.4f}", outcomes.jct(outcome, outcomes.incumbent).said, said)


def _powers(rows: Sequence[Sequence[str]]) -> Section:
    return Section("Savings by power-down", [
        f"The target on histories below {LOADED:.0%} load: total energy at most {SAVED:g} of the incumbent's with all "
        "nodes on, below the incumbent's with power-down by its interval, and a mean completion time of at most "
        f"{HARM:g} of the incumbent's with all nodes on. The last column names the parts that are not met; *busy* "
        "histories have no target. *At best* is the energy of the same placement, relative to the incumbent's with "
        "power-down, if nodes powered down and up instantly: no timer and no forecast can need less."],
        [Table(("trace", "load", "ours", "kWh, of all nodes on", "of the incumbent's with power-down, by block",
                "at best", "mean JCT, total", "by block", "target"), rows)])


def _forecasts(rows: Sequence[Sequence[str]]) -> Section:
    return Section("When idle nodes are needed again", [
        "The forecast behind the advice to power nodes down, requested every two hours for the first, the middle and "
        "the last of the nodes that are empty under the incumbent. It abstains before a week is recorded, and where so "
        "many more nodes were rarely available. Nine in ten nodes should stay idle within their interval."],
        [Table(("trace", "requested", "advised", "stayed within the interval", "needed earlier, later"), rows)])


def _section(outcomes: TraceOutcomes, setting: Setting) -> Section:
    work, incumbent = outcomes.work, outcomes.incumbent
    mean, tail = float(np.mean(incumbent.end - work.submit)), float(np.quantile(incumbent.wait, 0.99))
    groups = f"the {len(outcomes.groups)} users with 30 jobs" if len(np.unique(work.user)) > 1 else \
        "sizes of jobs, because the trace has no users"
    return Section(outcomes.trace.name, [
        f"{len(work)} jobs of {np.ptp(work.submit) / 86400:.0f} days, load {load(outcomes.cluster, work):.2f}. "
        f"Under the incumbent the mean completion time is {mean:,.0f} s, the 99 % wait {tail:,.0f} s. "
        f"Groups are {groups}."],
        [_policies(outcomes), _energies(outcomes, setting)])


def _policies(outcomes: TraceOutcomes) -> Table:
    rows = [_row(outcomes, tried.name, tried.family) for tried in (*TRIED, GATE, SCORER, HEEDED, RANDOM)
            if (tried.name, ON) in outcomes.found]
    rows += [_row(outcomes, tried.name, "oracle") for tried in _replayed(outcomes, ORACLES)]
    bound = _bound(outcomes)
    if bound is not None:
        rows.append(("bound", "", f"{bound:.3f}", "", "", "", "", "", ""))
    return Table(("policy", "kind", "mean JCT, total", "by block", "p99 wait", "Jain", "worst group", "kWh",
                  "harms"), rows)


def _row(outcomes: TraceOutcomes, name: str, family: str) -> tuple[str, ...]:
    seeds = outcomes.found[name, ON]
    jct, against = outcomes.jct(seeds[0], outcomes.incumbent), outcomes.incumbent

    def mean(figures: Sequence[float]) -> str:
        return f"{np.mean(figures):.3f}"

    total, tail = [outcomes.total(outcome) for outcome in seeds], [outcomes.tail(outcome) for outcome in seeds]
    worst, even = [outcomes.worst(outcome) for outcome in seeds], [outcomes.jain(outcome) for outcome in seeds]
    drawn = [outcomes.energy(outcome, against).total for outcome in seeds]
    if name == INCUMBENT:
        return name, family, "1", "", "1", mean(even), "1", "1", ""
    harms = [words for words, harm in (("JCT", np.mean(total) > HARM), ("p99", np.mean(tail) > HARM),
             ("Jain", np.mean(even) < outcomes.jain(against) - 0.005), ("group", np.mean(worst) > HARM)) if harm]
    return (name, family, mean(total), jct.said, mean(tail), mean(even), mean(worst), mean(drawn), ", ".join(harms))


def _energies(outcomes: TraceOutcomes, setting: Setting) -> Table:
    first, second = outcomes.found[INCUMBENT, ON][0], outcomes.found[INCUMBENT, OFF][0]
    rows = []
    for tried, power in POWERED:
        outcome = outcomes.found[tried.name, power][0]
        until = max(other.marks[-1] for (_, _), others in outcomes.found.items() for other in others[:1])
        jct, saved = outcomes.jct(outcome, first), outcomes.energy(outcome, first)
        beside = outcomes.energy(outcome, second)
        rows.append((tried.name, power, f"{np.interp(until, outcome.marks, outcome.joules) / 3.6e6:,.0f}", saved.said,
                     beside.said, f"{outcomes.total(outcome):.4f}", jct.said, str(outcome.woken)))
    return Table((f"policy; a node boots in {setting.wake_s:g} s", "empty nodes", "kWh",
                  "of the first row, by block", "of the second row, by block", "mean JCT, total", "by block",
                  "wake-ups"), rows)
