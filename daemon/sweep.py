"""Replay one history under many policies side by side; what is done stays done when it is interrupted.

An engine is a function ``(plan, policies, workers) -> outcomes as they come``: processes of this machine, or a Ray
cluster. Whichever it is, an outcome is kept under the digest of everything it depends on.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from .memory_mapped_workload import MappedWorkload
from .replay.cluster import Cluster
from .replay.compiled import code_digest
from .replay.power import Occupation, PowerModel, joules
from .replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from .replay.workload import Workload
from .replay.workload_builder import digest

if TYPE_CHECKING:
    from .replay.lower_bound import LowerBound

ORACLES = ("sjf-oracle+best-fit+easy", "qssf-oracle+best-fit+easy")
"""Orders that know true run times. None is a bound; the best of them stands beside it."""
ALWAYS = ("random-feasible", ORACLES[0])
"""Rows of every judgement: chance, and one order that knows true run times."""
DAY_S = 86400.0
NAMED = 20
"""The most rejected jobs that are named."""
KEPT = 256
"""The most outcomes that are kept; older ones make room."""
ENGINES = {"processes": "idlewatt.daemon.sweep", "ray": "idlewatt.daemon.sweep_ray"}

_SPENT = ("busy", "empty", "down", "gpu", "since", "known", "load", "draw")
"""Columns of :class:`.replay.power.Occupation` by node."""

Arrays = dict[str, NDArray[Any]]


class SweepError(Exception):
    """A sweep that cannot be carried out; the message says why."""


@dataclass(frozen=True)
class SweepPlan:
    """What is the same for all policies of a sweep."""

    cluster: Cluster
    workload: Workload
    seed: int = 0
    preemption_s: float = 0.0
    power_down_s: float = float("inf")
    model: PowerModel = PowerModel()
    jobs_out: Path | None = None
    """Where tables of jobs go; with the policy's name before the suffix."""
    groups_out: Path | None = None
    """Where tables of users and partitions go; with the policy's name before the suffix."""
    spool: MappedWorkload | None = None
    """Where the workload's columns are on disk, so that workers need no copy of them."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """How fast jobs run wherever they are placed; run times are work by these."""
    unplaced: int = 0
    """Jobs whose run times are none, as where they ran is not recorded."""
    watts: str = ""
    """What the model rests on, in words."""

    @property
    def writes(self) -> tuple[Path, ...]:
        """Return the tables that are written beside the outcomes."""
        return tuple(path for path in (self.jobs_out, self.groups_out) if path is not None)

    @cached_property
    def history(self) -> str:
        """Return the digest of the cluster and its jobs."""
        return digest(self.cluster, self.workload)

    def key(self, policy: str) -> str:
        """Return the digest of all that the policy's outcome depends on, our own code included."""
        parts = (self.history, policy, self.seed, self.preemption_s, self.power_down_s,
                 self.model.as_numbers, code_digest(), self.speeds.identity, self.unplaced)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class PolicyOutcome:
    """What came of one policy."""

    policy: str
    figures: dict[str, Any]
    """The figures that :func:`.replay.outcome.row` returns."""
    rejected: dict[str, dict[str, Any]]
    """By reason: ``count`` and the first ``jobs``."""
    arrays: Arrays
    """``end`` by job, the timeline, the bars, and how nodes spent their time."""

    @property
    def occupation(self) -> Occupation:
        """Return how the nodes spent their time."""
        until, delay = self.arrays["span"].tolist()
        return Occupation(until, **{name: self.arrays[f"node_{name}"] for name in _SPENT}, delay=delay)


def replay(plan: SweepPlan, policy: str) -> PolicyOutcome:
    """Replay one policy; ``SweepError`` when there is no such policy."""
    from .policies import named  # compiled code is loaded where it runs, not where the command is typed
    from .replay import outcome, tables, timeline
    from .replay.outcome import coverage
    from .replay.power import occupation

    try:
        chosen = named(policy)
    except ValueError as error:
        raise SweepError(str(error)) from error
    run, over_time = timeline.follow(plan.cluster, plan.workload, chosen, model=plan.model, seed=plan.seed,
                                   preemption_s=plan.preemption_s, power_down_s=plan.power_down_s,
                                   speed=plan.speeds.table_for(chosen))
    if plan.jobs_out is not None:
        tables.write(tables.JOBS, tables.jobs(run), table_path(plan.jobs_out, policy))
    if plan.groups_out is not None:
        tables.write(tables.GROUPS, tables.groups(run), table_path(plan.groups_out, policy))
    spent = occupation(run)
    arrays = {f"node_{name}": getattr(spent, name) for name in _SPENT}
    arrays |= {name: getattr(over_time, name) for name in ("time", "waiting", "used", "watts")}
    arrays |= {"span": np.array([spent.until, spent.delay]), "end": run.end, "bars": timeline.bars(run)}
    figures = outcome.row(run, plan.model) | {"policy": policy, "fragmentation_ratio": over_time.fragmentation}
    figures |= coverage(run, plan.speeds, plan.unplaced).row()
    return PolicyOutcome(policy, figures, _rejections(run.rejected, plan), arrays)


def table_path(path: Path, policy: str) -> Path:
    """Return where a policy's per-job table goes: ``jobs.csv`` becomes ``jobs.fifo.csv``."""
    return path.with_name(f"{path.stem}.{policy}{path.suffix}")


def _rejections(rejected: Sequence[Any], plan: SweepPlan) -> dict[str, dict[str, object]]:
    counts, named = Counter(rejection.reason for rejection in rejected), dict[str, list[str]]()
    for rejection in rejected:
        job_ids = named.setdefault(rejection.reason, [])
        if len(job_ids) < NAMED:
            job_ids.append(str(plan.workload.ids[rejection.job]))
    return {reason: {"count": count, "jobs": named[reason]} for reason, count in counts.items()}


@dataclass(frozen=True, slots=True)
class Shelf:
    """Outcomes on disk, each under its key: figures as JSON, arrays beside them."""

    folder: Path

    def get(self, key: str) -> PolicyOutcome | None:
        """Return an outcome; None when there is none, or a damaged one."""
        try:
            stored = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            with np.load(self.folder / f"{key}.npz", allow_pickle=False) as arrays:
                return PolicyOutcome(stored["policy"], stored["figures"], stored["rejected"], dict(arrays))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, EOFError, BadZipFile):
            return None

    def put(self, key: str, outcome: PolicyOutcome) -> None:
        """Keep an outcome; the JSON comes last, so that half an outcome is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"{key}.{os.getpid()}.part"
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **outcome.arrays)
        partial.replace(self.folder / f"{key}.npz")
        stored = {"policy": outcome.policy, "figures": outcome.figures, "rejected": outcome.rejected}
        partial.write_text(json.dumps(stored), encoding="utf-8")
        partial.replace(self.folder / f"{key}.json")
        self._make_room()

    def _make_room(self) -> None:
        newest = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest[KEPT:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".npz").unlink(missing_ok=True)


@dataclass
class Sweep:
    """The policies of a plan, and which of them are done."""

    plan: SweepPlan
    policies: Sequence[str]
    shelf: Shelf
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows of the source that are not replayed, by reason."""
    lines: NDArray[np.int32] | None = None
    """Where each job stands in its file, if there is one."""
    done: dict[str, PolicyOutcome] = field(default_factory=dict)

    def called(self, job: str) -> str:
        """Return a job as its owner finds it: by its id, and by its line where there is a file."""
        ids = self.plan.workload.ids
        if self.lines is None or not isinstance(ids, np.ndarray):
            return job
        rows = np.flatnonzero(ids == (int(job) if ids.dtype.kind == "i" else job))
        return f"{job} in line {self.lines[rows[0]]}" if len(rows) else job

    def carry_out(self, engine: str, workers: int, progress: Callable[[int, int], None]) -> None:
        """Replay what is not done yet, and call ``progress`` with how many are; done ones survive an interrupt."""
        keys = {policy: self.plan.key(policy) for policy in self.policies}
        if not self.plan.writes:
            self.done = {policy: stored for policy, key in keys.items() if (stored := self.shelf.get(key)) is not None}
        left = [policy for policy in self.policies if policy not in self.done]
        progress(len(self.done), len(self.policies))
        if not left:
            return
        side_by_side = importlib.import_module(ENGINES[engine]).side_by_side
        with contextlib.closing(side_by_side(self.plan, left, workers)) as outcomes:
            for outcome in outcomes:
                self.done[outcome.policy] = outcome  # before it is seen on disk, where somebody may wait to interrupt
                self.shelf.put(keys[outcome.policy], outcome)
                progress(len(self.done), len(self.policies))

    def outcomes(self) -> list[PolicyOutcome]:
        """Return what is done, in the requested order."""
        return [self.done[policy] for policy in self.policies if policy in self.done]


_PLAN: list[SweepPlan] = []


def _begin(plan: SweepPlan) -> None:
    """Keep the plan in a worker: it is sent once, not with every policy, and without what is on disk."""
    # The command hears of Ctrl-C and says how to go on; a worker just ends, whatever compiled code it is in.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _PLAN[:] = [plan if plan.spool is None else replace(plan, workload=plan.spool.workload())]


def _replay(policy: str) -> PolicyOutcome:
    return replay(_PLAN[0], policy)


def side_by_side(plan: SweepPlan, policies: Sequence[str], workers: int) -> Iterator[PolicyOutcome]:
    """Replay policies in processes of this machine and yield outcomes as they come."""
    fresh = multiprocessing.get_context("spawn")
    sent = plan if plan.spool is None else replace(plan, workload=plan.spool.rest)
    with ProcessPoolExecutor(min(workers, len(policies)), fresh, _begin, (sent,)) as pool:
        try:
            for future in as_completed([pool.submit(_replay, policy) for policy in policies]):
                yield future.result()
        except BrokenProcessPool as error:
            raise SweepError("a worker was killed, perhaps for want of memory; try fewer --workers") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()


def rows(outcomes: Sequence[PolicyOutcome], plan: SweepPlan, baseline: str) -> list[dict[str, object]]:
    """Return one row per policy: energies up to a common end, mean JCT against the baseline and the lower bound."""
    from .replay.lower_bound import lower_bound  # compiled code, not for a command that only shows its help

    if not outcomes:
        return []
    # Nobody is faster than at the greatest speed that there is.
    fastest = max(1.0, float(plan.speeds.table.spread.max()))
    least = lower_bound(plan.cluster, replace(plan.workload, run=plan.workload.run / fastest))
    least = replace(least, exact=least.exact and plan.speeds.flat)
    until = max(outcome.occupation.until for outcome in outcomes)
    against = next((outcome for outcome in outcomes if outcome.policy == baseline), None)
    return [outcome.figures | _energies(outcome, plan, until) | _compared(outcome, against, plan)
            | _distance(outcome.figures, least) for outcome in outcomes]


def _distance(figures: Mapping[str, Any], least: LowerBound) -> dict[str, object]:
    """Return how far a policy is from the lower bound, unless it left jobs behind: the mean is then of other jobs."""
    return least.row(figures["jct_mean_s"], preemptions=figures["preemptions"], ended=not figures["jobs_unfinished"])


def _energies(outcome: PolicyOutcome, plan: SweepPlan, until: float) -> dict[str, Any]:
    from .replay.outcome import energies  # as above

    if not np.isfinite(until):
        return {}  # nothing ever happened
    spent = joules(outcome.occupation.later(until), plan.cluster.gpus, plan.model)
    return energies(spent) | {"energy_until_s": until}


def _compared(outcome: PolicyOutcome, baseline: PolicyOutcome | None, plan: SweepPlan) -> dict[str, object]:
    from .replay.outcome import ratio_interval  # as above

    if baseline is None:
        return {}
    ends, baseline_ends, submit = outcome.arrays["end"], baseline.arrays["end"], plan.workload.submit
    shared = ~np.isnan(ends) & ~np.isnan(baseline_ends)
    interval = ratio_interval(submit[shared], ends[shared] - submit[shared], baseline_ends[shared] - submit[shared],
                              seed=plan.seed)
    if outcome.policy != baseline.policy and shared.any() and submit[shared].max() - submit[shared].min() < DAY_S:
        # Whole days are drawn, and one day has no spread.
        interval = replace(interval, low=float("nan"), high=float("nan"))
    return {"baseline": baseline.policy, "jct_ratio": interval.estimate, "jct_ratio_low": interval.low,
            "jct_ratio_high": interval.high}


def json_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row as JSON may hold it: None where a figure is no number."""
    return {key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in row.items()}
