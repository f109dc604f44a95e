"""Training data of agents: a history, split by time, whose first part is bootstrapped into any number of windows.

The split walks forward: an agent trains on the first part, is validated on later weeks and tested on the last ones,
which it has not seen in any way. A bootstrapped window has random days of the first part, random users, 0.8-1.3 times
the usual GPU hours, jittered run times and failing nodes: an agent could memorise a single path through history, but
not a thousand variants of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...storage.reading import HistoryReader
from ..recorded_scheduling import SchedulingHistory
from ..recorded_speeds import unplaced
from ..recorded_watts import CATALOGUED, SiteWatts
from ..recorded_window import past
from ..replay.arrays import Floats
from ..replay.cluster import Cluster, NodeEvent
from ..replay.feasibility import pools, rejections, shape
from ..replay.power import PowerModel
from ..replay.runtime_prediction import JobFeatures, predicted_columns, template
from ..replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from ..replay.time_limits import without_leaking
from ..replay.timeline import Reserved
from ..replay.workload import COLUMNS, Workload
from ..settings.training import TRIAL_S, WARM_UP_S
from .excerpts import events_within, reserved_within
from .kinds import TraceWindow, TrainingError

Rows = NDArray[np.int64]

DAY_S = 86400.0
LEAST_S, FEWEST_JOBS = 4 * DAY_S, 200
"""A shorter history is refused: four days leave one day for the test."""
FEWEST_JUDGED = 20
TEST, TEST_LEAST, TEST_LEAST_S, TEST_MOST_S = 0.25, 0.4, 5 * DAY_S, 14 * DAY_S
"""Share of the history for the test; the largest share up to which the test still lasts five days, since shorter ones
prove nothing; the shortest and the longest test."""
SELECT, SELECT_MOST_S = 0.2, 7 * DAY_S
RUNNABLE = 0.5
"""Share of the jobs that must fit the cluster; with fewer, the cluster is probably the wrong one."""

WINDOW_JOBS, WINDOW_MOST_DAYS = 3000, 14
"""A bootstrapped window has about so many jobs in at most so many days: training replays thousands of windows."""
DRAWS, FEWEST_DRAWN = 50, 40
"""A bursty history has empty days: a window with fewer jobs after the warm-up is drawn again up to so many times."""
REDRAWS, FEWEST_COUNTED = 8, 20
"""Users are drawn, too: a window that then has too few jobs for training is drawn again up to so many times."""
LOAD = (0.8, 1.3)
JITTER = 0.2
"""Standard deviation of the logarithm by which run times differ from what was recorded."""
COPY_S = 3600.0
"""The jobs of a user who is drawn twice are shifted by up to so much."""
OUTSTANDING_S = 7 * DAY_S
"""The time for which a job that has not ended holds back what its history proves; a longer job is not waited for."""
FEWEST_USERS = 4
OUTAGE_EVERY_S, OUTAGE_S, OUTAGE_SPREAD = 30 * DAY_S, 4 * 3600.0, 1.0
"""A node fails once a month, for four hours or so (median of a log-normal, and the deviation of its logarithm)."""


class TooLittle(TrainingError):
    """A history that is too small to train or test on; the message says why and what to do."""


@dataclass(frozen=True)
class Material:
    """A history to train or test on."""

    source: str
    """For people: the path of a trace, or the database."""
    cluster: Cluster
    workload: Workload
    notes: tuple[str, ...] = ()
    """How the workload deviates from the recorded data."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """How fast its jobs run by placement; run times in the workload are the work at these speeds."""
    power: PowerModel = PowerModel()
    """The power of its nodes; what its jobs add is in the workload."""
    settled_s: float = float("inf")
    """Jobs that were submitted earlier have ended: what comes later is without those that still run."""
    scheduling: SchedulingHistory | None = None
    """How the site's own scheduler decided when; without it always as the cluster says."""
    reserved: tuple[Reserved, ...] = ()
    """Which reservation each node was for, by time."""

    def cluster_at(self, at_s: float) -> Cluster:
        """Return the cluster with its scheduler, and what users had used, as of a moment."""
        return self.cluster if self.scheduling is None else replace(self.cluster, scheduling=self.scheduling.at(at_s))

    def since(self, since_s: float) -> Material:
        """Return what was submitted from a moment on."""
        rows = np.flatnonzero(self.workload.submit >= since_s)
        return replace(self, workload=subset(self.workload, rows))

    def until(self, until_s: float) -> Material:
        """Return what was submitted before a moment."""
        rows = np.flatnonzero(self.workload.submit < until_s)
        return replace(self, workload=subset(self.workload, rows))


@dataclass(frozen=True)
class Split:
    """A history in three consecutive parts."""

    fit: Bootstrap
    select: tuple[TraceWindow, ...]
    test: tuple[TraceWindow, ...]
    """Held out from training; agents are evaluated on it."""
    since_s: float
    until_s: float
    """Training and validation data lie between these times; ``test`` comes after."""
    known: Mapping[str, tuple[str, ...]]
    """Names in the training data by attribute, for example ``partition``; the agent knows no others."""
    notes: tuple[str, ...]


def recorded(history: HistoryReader, since_s: float, until_s: float, source: str,
             speeds: SiteSpeeds = FLAT_SPEEDS, watts: SiteWatts = CATALOGUED) -> Material:
    """Return the recorded history of jobs that have ended; ClusterError when no node is recorded."""
    window = past(history, since_s, until_s, speeds, watts)
    jobs, work = window.jobs, window.workload
    ran_s = np.array([np.nan if job.end_s is None or job.start_s is None else job.end_s - job.start_s for job in jobs])
    ended_s = np.array([np.nan if job.end_s is None else job.end_s for job in jobs])
    group_numbers: dict[str, int] = {}
    groups = np.array([group_numbers.setdefault(template(job.name), len(group_numbers)) if job.name else -1
                       for job in jobs], np.int64)
    image_numbers: dict[str, int] = {}
    images = np.array([image_numbers.setdefault(job.image, len(image_numbers)) if job.image else -1
                       for job in jobs], np.int64)
    features = JobFeatures(work.gpus, work.user, groups, images, work.partition)
    limit_s = without_leaking(work.limit, ran_s, work.user)
    started_s = [np.nan if job.start_s is None else job.start_s for job in jobs]
    predicted = predicted_columns(submit_s=work.submit, run_s=ran_s, ended_s=ended_s, features=features,
                                  limit_s=limit_s, started_s=started_s)
    # Jobs that ran into the window are cut and tied to their nodes, so they cannot be learned from.
    rows = np.flatnonzero(np.isfinite(ended_s) & (work.submit >= since_s))
    work = subset(work, rows, **{name: column[rows] for name, column in predicted.items()})
    least, most = speeds.sizes(work.application, work.gpus)
    free = work.nodes == 0  # a job that requests a number of nodes needs that shape
    work = replace(work, minimum=np.where(free, least, work.gpus), maximum=np.where(free, most, work.gpus))
    outstanding = window.workload.submit[~np.isfinite(ended_s)]
    outstanding = outstanding[outstanding >= max(since_s, until_s - OUTSTANDING_S)]
    notes = [*unplaced(window.unplaced)]
    if len(outstanding):
        notes.append(f"{len(outstanding)} jobs of the last days have not ended: what is proved rests on the time "
                     f"before the first of them, {(until_s - outstanding.min()) / DAY_S:.1f} days ago")
    return Material(source, window.cluster, work, tuple(notes), speeds, window.power,
                    float(outstanding.min(initial=np.inf)), SchedulingHistory.of(history, since_s, until_s),
                    window.reserved)


def split(material: Material, *, seed: int = 0) -> Split:
    """Return the history in three parts; ``TooLittle`` says why nothing can be learned from it."""
    work, notes = _runnable(material)
    since_s, until_s = _span(work)
    days = f"{(until_s - since_s) / DAY_S:.1f} days with {len(work)} jobs"
    if until_s - since_s < LEAST_S or len(work) < FEWEST_JOBS:
        raise TooLittle(f"{material.source} is too short to learn from: {days}, and {LEAST_S / DAY_S:.0f} days with "
                        f"{FEWEST_JOBS} jobs are the least; let the daemon watch on, or name a longer trace")
    select_s, test_s = _cuts(since_s, until_s)
    fit_jobs = subset(work, np.flatnonzero((work.submit >= since_s) & (work.submit < select_s)))
    _refuse_alike(fit_jobs, material.source)
    select, test = _counted(material, work, select_s, test_s), _counted(material, work, test_s, until_s)
    names_met, unseen_notes = _names_met(material.cluster, fit_jobs)
    # Days are drawn from all of the part, so that they have the scheduler that comes next.
    fit = Bootstrap(material.cluster_at(select_s), fit_jobs, since_s, select_s, seed, material.speeds, material.power,
                    material.reserved)
    return Split(fit, (select,), (test,), since_s, test_s, names_met, (*material.notes, *notes, *unseen_notes))


def held_out(material: Material, after_s: float) -> tuple[TraceWindow, ...]:
    """Return the history after an agent's training data; ``TooLittle`` when it is too short.

    The evidence of every night begins at this fixed time, and is never dropped because it is old. When the agent was
    not trained on this history, the last two weeks are returned.
    """
    work, _ = _runnable(material)
    until_s = _span(work)[1]
    first_s, last_s = (after_s, min(until_s, after_s + TRIAL_S)) if np.isfinite(after_s) else (until_s - TEST_MOST_S,
                                                                                               until_s)
    return (_counted(material, work, first_s, last_s),)


def subset(work: Workload, rows: Rows, **columns: object) -> Workload:
    """Return some jobs of a workload in this order, which must be that of submission; ``columns`` replace columns."""
    place = np.full(len(work) + 1, -1, np.int32)  # the last one stands for "depends on none"
    place[rows] = np.arange(len(rows), dtype=np.int32)
    selected = {name: getattr(work, name)[rows] for name in COLUMNS} | {"dependency": place[work.dependency[rows]]}
    charged = work.charged and work.charged.of_rows(rows)
    return replace(work, ids=tuple(str(work.ids[row]) for row in rows.tolist()), charged=charged, **selected | columns)


@dataclass(frozen=True)
class Bootstrap:
    """Draws bootstrapped windows; the same number gives the same window. It can be pickled for other processes."""

    cluster: Cluster
    workload: Workload
    since_s: float
    until_s: float
    seed: int = 0
    speeds: SiteSpeeds = FLAT_SPEEDS
    power: PowerModel = PowerModel()
    reserved: tuple[Reserved, ...] = ()

    @cached_property
    def days(self) -> int:
        """Return how many days there are to draw from."""
        return max(1, int((self.until_s - self.since_s) / DAY_S))

    @cached_property
    def drawn(self) -> int:
        """Return how many days a window has, including the warm-up."""
        daily = max(1.0, len(self.workload) / self.days)
        return 1 + min(WINDOW_MOST_DAYS, self.days, int(np.ceil(WINDOW_JOBS / daily)))

    def __call__(self, number: int) -> TraceWindow:
        """Return the window of that number."""
        rng = np.random.default_rng((self.seed, number))
        begins, rows, submit = self._made_up(rng)
        time_scale = self._time_scale(rows) / rng.uniform(*LOAD)
        submit = self.since_s + time_scale * (submit - self.since_s)
        order = np.argsort(submit, kind="stable")
        rows, submit = rows[order], submit[order]
        no_dependency = np.full(len(rows), -1, np.int32)  # what a job waited for is hardly drawn with it
        work = subset(self.workload, rows, submit=submit, run=self._jittered(rng, rows), dependency=no_dependency)
        events = [*self._recorded_events(begins, time_scale), *self._outages(rng, time_scale)]
        cluster = self.cluster.with_events(events)
        return TraceWindow(cluster, work, self.since_s + time_scale * DAY_S, self.speeds, power=self.power,
                           reserved=tuple(self._reserved(begins, time_scale)))

    def _made_up(self, rng: np.random.Generator) -> tuple[Floats, Rows, Floats]:
        """Return when the drawn days begin, their jobs, and the submission times of these.

        Whether a history has enough jobs must not depend on a draw: its fullest days decide. They are also returned
        where several draws have hardly any jobs.
        """
        rows, submit = self._days(self._fullest)
        for _ in range(REDRAWS if self._counted(submit) >= FEWEST_COUNTED else 0):
            begins = self._begins(rng)
            drawn = self._jobs(rng, begins)
            if self._counted(drawn[1]) >= FEWEST_COUNTED:
                return begins, *drawn
        return self._fullest, rows, submit

    def _counted(self, submit: Floats) -> int:
        """Return how many jobs come after the warm-up."""
        return int((submit >= self.since_s + DAY_S).sum())

    @cached_property
    def _fullest(self) -> Floats:
        """Return when the days with the most jobs begin, the emptiest of them first: it is the warm-up."""
        begins = self.since_s + DAY_S * np.arange(self.days)
        first, last = np.searchsorted(self.workload.submit, [begins, begins + DAY_S])
        fullest = begins[np.argsort(first - last, kind="stable")][:self.drawn]
        return np.resize(np.roll(fullest, 1), self.drawn)

    def _days(self, begins: Floats) -> tuple[Rows, Floats]:
        """Return the jobs of some days, and their submission times when these days follow each other."""
        edges = np.searchsorted(self.workload.submit, [begins, begins + DAY_S])
        rows = np.concatenate([np.arange(first, last) for first, last in edges.T])
        place = np.repeat(np.arange(self.drawn), edges[1] - edges[0])
        return rows, self.workload.submit[rows] - begins[place] + self.since_s + place * DAY_S

    def _begins(self, rng: np.random.Generator) -> Floats:
        """Return when the drawn days begin; draws with hardly any jobs are repeated a limited number of times."""
        for _ in range(DRAWS):
            begins = np.asarray(self.since_s + DAY_S * rng.integers(self.days, size=self.drawn), np.float64)
            first, last = np.searchsorted(self.workload.submit, [begins[1:], begins[1:] + DAY_S])
            if (last - first).sum() >= FEWEST_DRAWN:
                break
        return begins

    def _jobs(self, rng: np.random.Generator, begins: Floats) -> tuple[Rows, Floats]:
        """Return the jobs of the drawn days and of the drawn users, and their submission times."""
        rows, submit = self._days(begins)
        copies = self._copies(rng)[self.workload.user[rows]]
        if not copies.any():
            return rows, submit
        first = np.repeat(np.cumsum(copies) - copies, copies)
        again = np.arange(len(first)) > first
        submit = np.repeat(submit, copies)
        moved = submit + again * rng.uniform(-COPY_S, COPY_S, len(submit))
        return np.repeat(rows, copies), np.clip(moved, self.since_s, self.since_s + self.drawn * DAY_S)

    def _copies(self, rng: np.random.Generator) -> Rows:
        """Return how often each user was drawn; the last place is for unknown users, who are drawn once."""
        users = np.unique(self.workload.user[self.workload.user >= 0])
        copies = np.ones(int(self.workload.user.max(initial=-1)) + 2, np.int64)
        if len(users) >= FEWEST_USERS:
            copies[users] = rng.multinomial(len(users), np.full(len(users), 1 / len(users)))
        return copies

    def _time_scale(self, rows: Rows) -> float:
        """Return the factor on time that gives the drawn days the usual GPU hours an hour, clipped to 0.5..2."""
        work = self.workload.run * np.maximum(self.workload.gpus, 1)
        usual = work.sum() / (self.until_s - self.since_s)
        drawn = work[rows].sum() / (self.drawn * DAY_S)
        return float(np.clip(drawn / usual, 0.5, 2.0)) if usual > 0 else 1.0

    def _jittered(self, rng: np.random.Generator, rows: Rows) -> Floats:
        """Return jittered run times; a job that ended at its time limit still does."""
        run, limit = self.workload.run[rows], self.workload.limit[rows]
        return np.where(run < limit, np.minimum(run * np.exp(JITTER * rng.standard_normal(len(run))), limit), run)

    def _recorded_events(self, begins: Floats, time_scale: float) -> Iterator[NodeEvent]:
        """Yield what happened to nodes on the drawn days."""
        for place, begin in enumerate(begins.tolist() if self.cluster.events else ()):
            for event in events_within(self.cluster.events, begin, begin + DAY_S):
                yield replace(event, time=self.since_s + time_scale * (event.time - begin + place * DAY_S))

    def _reserved(self, begins: Floats, time_scale: float) -> Iterator[Reserved]:
        """Yield how nodes were reserved on the drawn days."""
        for place, begin in enumerate(begins.tolist() if self.reserved else ()):
            for change in reserved_within(self.reserved, begin, begin + DAY_S):
                yield replace(change, time_s=self.since_s + time_scale * (change.time_s - begin + place * DAY_S))

    def _outages(self, rng: np.random.Generator, time_scale: float) -> Iterator[NodeEvent]:
        """Yield random failures of nodes without recorded events, of half of all nodes at most."""
        span_s = time_scale * self.drawn * DAY_S
        troubled = {event.node for event in self.cluster.events}
        healthy = [name for name in self.cluster.names if name not in troubled]
        failures = min(int(rng.poisson(len(healthy) * span_s / OUTAGE_EVERY_S)), len(self.cluster) // 2, len(healthy))
        for node in rng.choice(healthy, failures, replace=False).tolist() if failures else ():
            begin = self.since_s + float(rng.uniform(0, span_s))
            yield NodeEvent(begin, node, "down")
            yield NodeEvent(begin + OUTAGE_S * float(np.exp(OUTAGE_SPREAD * rng.standard_normal())), node, "up")


def _span(work: Workload) -> tuple[float, float]:
    """Return when the first job was submitted, and the moment after the last was."""
    return float(work.submit.min(initial=np.inf)), float(np.nextafter(work.submit.max(initial=-np.inf), np.inf))


def _cuts(since_s: float, until_s: float) -> tuple[float, float]:
    """Return when the second and the third part of a history begin."""
    span_s = until_s - since_s
    least_s = max(DAY_S, min(TEST_LEAST_S, TEST_LEAST * span_s))
    test_s = until_s - max(least_s, min(TEST_MOST_S, TEST * span_s))
    return test_s - max(DAY_S, min(SELECT_MOST_S, SELECT * span_s)), test_s


def _runnable(material: Material) -> tuple[Workload, list[str]]:
    """Return the jobs that fit the cluster, and notes on the others."""
    work, cluster = material.workload, material.cluster
    pool, matrix = pools(cluster, work)
    never = rejections(cluster, work, pool, matrix, shape(cluster, work, pool, matrix))
    if not never:
        return work, []
    first = next(iter(never.values()))
    if len(never) > (1 - RUNNABLE) * len(work):
        raise TooLittle(f"{len(never)} of {len(work)} jobs of {material.source} can never run on this cluster "
                        f"({first}); is it the right one?")
    rows = np.setdiff1d(np.arange(len(work)), np.fromiter(never, np.int64))
    return subset(work, rows), [f"{len(never)} jobs are left out, as they can never run here: {first}"]


def _refuse_alike(work: Workload, source: str) -> None:
    """Raise ``TooLittle`` when the order of the jobs makes no difference."""
    if not len(work):
        raise TooLittle(f"{source} holds no jobs in the part to learn from; its jobs lie too far apart")
    low, high = np.quantile(work.run, [0.05, 0.95])
    if high - low <= 0.01 * high and np.ptp(work.gpus) == 0 and len(np.unique(work.limit)) == 1:
        raise TooLittle(f"all jobs of {source} are alike ({work.gpus[0]} GPUs for {high:.0f} s): no order of them is "
                        "better than another, so there is nothing to learn")


def _counted(material: Material, work: Workload, begin_s: float, end_s: float) -> TraceWindow:
    """Return a part of what can run with its warm-up; ``TooLittle`` when it has too few jobs after the warm-up."""
    warm_s = begin_s - WARM_UP_S
    counted = int(((work.submit >= begin_s) & (work.submit < end_s)).sum())
    if counted < FEWEST_JUDGED:
        raise TooLittle(f"only {counted} jobs of {material.source} lie in the part that judges, and {FEWEST_JUDGED} "
                        "are the least; wait until more have ended, or name a longer history")
    rows = np.flatnonzero((work.submit >= warm_s) & (work.submit < end_s))
    first_s = max(warm_s, float(work.submit[rows[0]]))
    cluster = material.cluster_at(first_s).with_events(events_within(material.cluster.events, first_s, np.inf))
    return TraceWindow(cluster, subset(work, rows), begin_s, material.speeds, power=material.power,
                       settled_s=material.settled_s,
                       reserved=tuple(reserved_within(material.reserved, first_s, np.inf)))


def _names_met(cluster: Cluster, work: Workload) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the names in the training jobs by attribute, and notes on partitions without jobs."""
    names: dict[str, tuple[str, ...]] = {}
    if any(cluster.model):
        names["gpu_model"] = tuple(sorted(set(filter(None, cluster.model))))
    if work.partition_names == ("default",):
        return names, []
    used = np.unique(work.partition[work.partition >= 0]).tolist()
    with_jobs = {name for row in used for name in work.partition_names[row].split(",")} & set(cluster.partitions)
    names["partition"] = tuple(sorted(with_jobs))
    return names, [f"partition {name} has no jobs to learn from: the agent will give no advice there"
                   for name in cluster.partitions if name not in with_jobs]
