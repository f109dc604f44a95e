"""Keeps the waiting jobs of a replay in the order of their priorities, calculated as seldom as by the scheduler.

Slurm calculates priorities when a job arrives and every PriorityCalcPeriod. Between two calculations the order stands
still, so the replay runs compiled from one to the next: jobs that arrive meanwhile are ranked beforehand, with no age
and their users' present standing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import arrays as a
from ..compiled import only_version
from ..queue import queue_up
from .billing import Bill, requested_and_available
from .booking import add_up, book, keep_those_left, note_runs
from .factors import Claims, Machine, fixed_sum, weighted, whole
from .fair_share import ShareNode, Tree, decayed, standing
from .ranking import ranking_of
from .site import Scheduling

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..workload import Workload

Floats = NDArray[np.float64]


class PriorityCalculator:
    """Ranks jobs by priority/multifactor, and books what each job used."""

    def __init__(self, cluster: Cluster, workload: Workload, arrays: a.State) -> None:
        self._scheduling: Scheduling = cluster.scheduling
        self._settings = self._scheduling.priority
        self._weights = (float(self._settings.age), float(self._settings.fair_share), float(self._settings.max_age_s))
        claims = _claims(cluster, workload, arrays)
        machine = Machine(len(cluster), max(1.0, float(np.minimum(cluster.cpus, 1 << 40).sum())))
        self._facts = claims, machine
        self.since, self._fixed = claims.since, fixed_sum(self._settings, claims, machine)
        self._comes = workload.submit
        self._tree, self._row = _seats(self._scheduling, workload)
        self._usage = _booked(self._scheduling, self._tree)
        self._bill = Bill.of(cluster, workload, claims, _usage_factors(self._scheduling, workload))
        self._ranking = ranking_of(self._scheduling, workload)
        self._ran, self._active, self._next = -np.inf, np.zeros(0, np.int64), 0
        self.until = -np.inf
        """When priorities are calculated again."""
        self.priority = np.zeros(len(workload))
        """The priorities that were calculated last."""
        self._reported_priority = workload.priority if self._scheduling.current else np.zeros(len(workload))
        self._lead = np.zeros(len(workload))
        """What the scheduler's own priorities are above ours, where it reported them: it knows what had been used."""

    def copy(self) -> PriorityCalculator:
        """Return a calculator that can go on without changing this one."""
        other = object.__new__(PriorityCalculator)
        other.__dict__.update(self.__dict__)
        other._usage, other.priority = self._usage.copy(), self.priority.copy()
        return other

    def factors(self, now: float) -> dict[str, Floats]:
        """Return every job's weighted factors as they are at a moment, by the names that ``sprio`` has for them."""
        claims, machine = self._facts
        shares = standing(self._settings, self._tree, self._usage).factor[self._row]
        return weighted(self._settings, replace(claims, fair_share=shares), machine, now)

    def update(self, arrays: a.State, next_s: float) -> float:
        """Put the jobs that wait when the next thing happens in order; return until when that holds."""
        if next_s > self.until and math.isfinite(next_s):
            self._reckon(arrays, self._due(next_s))
        return self.until

    def _due(self, next_s: float) -> float:
        """Return the last moment of calculation before something happens."""
        period = max(1.0, self._settings.calc_period_s)
        if not math.isfinite(self._ran):
            known = self._scheduling.reckoned_s
            return next_s if known is None else known + math.floor((next_s - known) / period) * period
        return self._ran + math.floor((next_s - self._ran) / period) * period

    def _reckon(self, arrays: a.State, now: float) -> None:
        self._book(arrays, now)
        self._ran, self.until = now, now + max(1.0, self._settings.calc_period_s)
        first, self._next = self._next, int(np.searchsorted(self._comes, self.until, side="right"))
        rows = np.concatenate([self._active, np.arange(first, self._next)])
        self._active = rows = rows[:only_version(keep_those_left)(arrays.jobs, rows)]
        since, total = self._eligible(arrays, rows), np.zeros(rows.size)
        shares = standing(self._settings, self._tree, self._usage).factor if self._weights[1] else total
        only_version(add_up)(rows, self._weights, now, self._fixed, since, shares, self._row, total)
        if first == 0:
            self._lead[rows] = np.where(self._reported_priority[rows] > 0, self._reported_priority[rows] - total, 0.0)
        self.priority[rows] = whole(total + self._lead[rows])
        ordered = self._ranking(rows, self.priority[rows], since)
        only_version(queue_up)(arrays.jobs, arrays.order, (arrays.leaves, arrays.branches, arrays.roots), ordered)

    def _eligible(self, arrays: a.State, rows: NDArray[np.intp]) -> Floats:
        """Return from when on jobs gain age; one that was requeued gains it from when it may start again."""
        if not self._scheduling.preemption.takes_place:
            return self.since[rows]
        jobs = arrays.jobs[rows]
        again = (jobs.preempted > 0) & ((jobs.status == a.WAITING) | (jobs.status == a.HELD)) & (jobs.since == jobs.end)
        return np.where(again, jobs.end, self.since[rows])

    def _book(self, arrays: a.State, now: float) -> None:
        """Let usage decay, and book what ran since the last time."""
        if not self._settings.fair_share:
            return
        if not math.isfinite(self._ran):
            then = self._scheduling.used_until_s
            self._usage = self._usage if then is None else decayed(self._settings, self._usage, max(0.0, now - then))
            return
        who, ran = np.zeros_like(self._active), np.zeros(self._active.size)
        count = only_version(note_runs)(
            arrays.jobs, self._active, self._ran, now, self._scheduling.books_ends, who, ran)
        who, ran = who[:count], ran[:count]
        spent = ran * self._settings.decay ** ran * self._bill.where_held(arrays, who)
        own_usage, total = np.zeros((2, len(self._tree)))
        only_version(book)(self._tree.chains, self._row[who], spent, own_usage, total)
        self._usage = decayed(self._settings, self._usage, now - self._ran) + total


def _claims(cluster: Cluster, workload: Workload, arrays: a.State) -> Claims:
    scheduling, size = cluster.scheduling, len(workload)
    parts = np.maximum(arrays.jobs.chunks + arrays.jobs.rests, 1).astype(np.float64)
    charged = workload.charged
    qos = np.zeros(size) if charged is None else np.array([scheduling.qos.get(name, 0.0) for name in charged.qos])
    association = np.array([scheduling.associations.get(key, 0.0) for key in _accounts(workload)])
    factor = np.array([scheduling.partition_factor(name) for name in workload.partition_names])
    cpus = workload.cpus.astype(np.float64)
    claims = Claims(
        workload.submit - (0.0 if charged is None else charged.waited), np.zeros(size), parts, cpus,
        np.where(np.isfinite(workload.limit), workload.limit, 60.0),
        factor[workload.partition], qos, association,
        nice=np.zeros(size) if charged is None else charged.nice)
    return replace(claims, resources=requested_and_available(cluster, workload, claims))


def _seats(scheduling: Scheduling, workload: Workload) -> tuple[Tree, NDArray[np.int64]]:
    """Return the account tree, and the association of each job; those it does not know stand below the root."""
    keys = _accounts(workload)
    known = {(member.account, member.user) for member in scheduling.members}
    named = dict.fromkeys(keys)
    more = [ShareNode(account, user or "-", "", 1) for account, user in named if (account, user) not in known]
    tree = Tree((*scheduling.members, *more))
    seats = {(account, user): tree.rows[account, user if (account, user) in known else user or "-"]
             for account, user in named}
    return tree, np.array([seats[key] for key in keys], np.int64)


def _accounts(workload: Workload) -> list[tuple[str, str]]:
    """Return the account and the user of each job, "" where unknown."""
    users = [workload.user_names[code] if code >= 0 else "" for code in range(-1, len(workload.user_names))]
    accounts = [""] * len(workload) if workload.charged is None else workload.charged.account
    return list(zip(accounts, (users[code + 1] for code in workload.user.tolist()), strict=True))


def _booked(scheduling: Scheduling, tree: Tree) -> Floats:
    usage = np.zeros(len(tree))
    for key, amount in scheduling.usage.items():
        if key in tree.rows:
            tree.add(usage, tree.rows[key], amount)
    return usage


def _usage_factors(scheduling: Scheduling, workload: Workload) -> Floats | float:
    if workload.charged is None:
        return 1.0
    return np.array([scheduling.usage_factor.get(name, 1.0) for name in workload.charged.qos])
