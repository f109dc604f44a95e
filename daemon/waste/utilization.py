"""The paper's utilisation, Eq. (2)-(5), per partition on a sliding window, and its inefficient power.

``U = sum of lambda_j * tau_j / (R * T)``. In GPUs: ``lambda_j * R_gpus`` is what job j holds, ``R * T`` is the
integral of the GPUs that could be used, so R shrinks while nodes are drained. T begins with our first observation
(Eq. (3) begins with the first job) and never reaches back more than the window.

On basis ``limit`` U may exceed 1. Eq. (2) counts a job that has ended with its whole limit, so the same GPUs count
twice once the next job has them: such an overrun says that limits are far from run times, not that more was used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...storage.records import Job, JobState, Node, SchedulerSnapshot
from ..settings.waste import WasteSettings
from . import hardware
from .assessment import Utilization

REFRESH_S = 60.0
CHECKPOINTS = 288
"""Points of the capacity curve that are kept over one window."""
MOST_GPUS = 2 ** 32 - 1
"""The most GPUs of a run that is remembered."""
SETTLED_S = 3600.0
"""A run that has ended and was not listed for so long does not change any more."""

_ROW = np.dtype([("start_s", np.float64), ("ran_s", np.float32), ("limit_s", np.float32), ("gpus", np.uint32)])
"""A run that does not change any more, in 20 bytes; the limit is the longer of its time limit and how long it ran."""
Rows = npt.NDArray[np.void]


@dataclass(slots=True)
class RecordedRun:
    """One run of a job, or the part of it with so many GPUs: its partition, its GPUs, and its times."""

    partition: str
    gpus: int
    start_s: float
    limit_s: float | None
    end_s: float | None
    seen_s: float


def run_time(run: RecordedRun, now_s: float, since_s: float, *, basis: str) -> float:
    """Return tau, Eq. (2), within ``[since_s, now_s]``, in seconds.

    A running job counts since its start. A completed one counts with its time limit on basis ``limit`` (as the paper
    has it: as if it still ran, which overstates U when jobs end early) and with its real end on ``actual``.
    """
    end_s = now_s if run.end_s is None else run.end_s
    if basis == "limit" and run.end_s is not None and run.limit_s is not None:
        end_s = max(end_s, run.start_s + run.limit_s)
    return max(0.0, min(end_s, now_s) - max(run.start_s, since_s))


class UtilizationWindow:
    """Remember runs and usable GPUs over the window, and answer with U per partition."""

    def __init__(self, settings: WasteSettings) -> None:
        self._settings = settings
        self._runs: dict[tuple[str, float, float], RecordedRun] = {}
        self._parts: list[RecordedRun] = []
        """What is over of runs that have gone on with other GPUs, until it is kept as rows."""
        self._past: dict[str, Rows] = {}
        """By partition; a row takes a fifteenth of the memory of a run."""
        self._capacity: dict[str, _Capacity] = {}
        self._answer: dict[str, Utilization] = {}
        self._answered_s: float | None = None

    def observe(self, snapshot: SchedulerSnapshot, now_s: float) -> dict[str, Utilization]:
        """Take in a snapshot and return U by partition; computed again once a minute."""
        self._note_runs(snapshot.jobs, now_s)
        nodes = _available(snapshot.nodes)
        partitions = {partition.name for partition in snapshot.partitions} | nodes.keys()
        for partition in partitions:
            gpus = sum(node.gpus for node in nodes.get(partition, ()))
            self._capacity.setdefault(partition, _Capacity()).note(now_s, gpus, self._settings.utilization_window)
        if self._answered_s is None or not 0.0 <= now_s - self._answered_s < REFRESH_S:
            self._answered_s = now_s
            self._forget(now_s)
            self._answer = self._reckon(sorted(partitions), nodes, now_s)
        return self._answer

    def _note_runs(self, jobs: Iterable[Job], now_s: float) -> None:
        for job in jobs:
            if job.start_s is None or job.state is JobState.PENDING:
                continue
            key = (*job.key, job.start_s)
            run = self._runs.get(key)
            held = sum(part.gpus for part in job.allocations) if run is None or job.state.active else 0
            if run is None:
                gpus = held or job.request.gpus
                if gpus <= 0:
                    continue
                run = self._runs[key] = RecordedRun(job.partition, gpus, job.start_s, job.limit_s, None, now_s)
            elif 0 < held != run.gpus:
                run = self._runs[key] = self._resized(run, held, now_s)
            run.seen_s = now_s
            run.end_s = None if job.state.active else (job.end_s if job.end_s is not None else run.end_s or now_s)
        for run in self._runs.values():
            # Gone without a word: it ended when it was last seen.
            if run.end_s is None and run.seen_s < now_s:
                run.end_s = run.seen_s

    def _resized(self, run: RecordedRun, gpus: int, now_s: float) -> RecordedRun:
        """Return the rest of a run whose GPUs have changed, as pods come and go; what was until now is a part."""
        change_s = max(now_s, run.start_s)
        self._parts.append(replace(run, limit_s=None, end_s=change_s))
        left_s = None if run.limit_s is None else max(0.0, run.start_s + run.limit_s - change_s)
        return replace(run, gpus=gpus, start_s=change_s, limit_s=left_s, end_s=None)

    def _forget(self, now_s: float) -> None:
        """Drop what ended before the window, also where its limit reaches into it: memory is a day of jobs."""
        since = now_s - self._settings.utilization_window
        settled: dict[str, list[tuple[float, float, float, int]]] = {partition: [] for partition in self._past}
        # Those that went without a word as well: a scheduler that forgets its jobs soon would let them pile up.
        over = [self._runs.pop(key) for key in [key for key, run in self._runs.items()
                                                if run.end_s is not None and run.seen_s < now_s - SETTLED_S]]
        for run in (*self._parts, *over):
            settled.setdefault(run.partition, []).append(_row(run))
        self._parts.clear()
        for partition, rows in settled.items():
            known = np.append(self._past.get(partition, np.empty(0, _ROW)), np.array(rows, _ROW))
            self._past[partition] = known[known["start_s"] + known["ran_s"] > since]
        self._past = {partition: rows for partition, rows in self._past.items() if len(rows)}
        self._runs = {key: run for key, run in self._runs.items() if run.end_s is None or run.end_s > since}

    def _reckon(self, partitions: list[str], nodes: Mapping[str, list[Node]],
                now_s: float) -> dict[str, Utilization]:
        since = {partition: self._capacity[partition].since_s for partition in partitions}
        limit, actual = dict.fromkeys(partitions, 0.0), dict.fromkeys(partitions, 0.0)
        for run in self._runs.values():
            since_s = since.get(run.partition)
            if since_s == now_s and run.end_s is None:
                # The first moment, T = 0: what is held now over what is there now.
                limit[run.partition] += run.gpus
                actual[run.partition] += run.gpus
            elif since_s is not None:
                limit[run.partition] += run.gpus * run_time(run, now_s, since_s, basis="limit")
                actual[run.partition] += run.gpus * run_time(run, now_s, since_s, basis="actual")
        for partition, rows in self._past.items():
            if partition in since:
                limit[partition] += _gpu_seconds(rows, "limit_s", now_s, since[partition])
                actual[partition] += _gpu_seconds(rows, "ran_s", now_s, since[partition])
        return {partition: self._ratio(partition, limit[partition], actual[partition], nodes.get(partition, []))
                for partition in partitions}

    def _ratio(self, partition: str, limit: float, actual: float, nodes: list[Node]) -> Utilization:
        gpu_seconds = self._capacity[partition].gpu_seconds
        rated = [hardware.rated_watts(node, self._settings.rated_node_watts) for node in nodes if node.gpus]
        known = [watts for watts in rated if watts is not None]
        # A GPU is not held for longer than there is time: more is left of nodes that went while their jobs ran.
        return Utilization(_share(limit, gpu_seconds), min(1.0, _share(actual, gpu_seconds)),
                           sum(known) if len(known) == len(rated) else None)


def _row(run: RecordedRun) -> tuple[float, float, float, int]:
    ran_s = (run.seen_s if run.end_s is None else run.end_s) - run.start_s
    return run.start_s, ran_s, max(ran_s, run.limit_s or 0.0), min(run.gpus, MOST_GPUS)


def _gpu_seconds(rows: Rows, basis: str, now_s: float, since_s: float) -> float:
    """Return the GPU time of runs within ``[since_s, now_s]``, as ``run_time`` has it of one."""
    lasted = np.minimum(rows["start_s"] + rows[basis], now_s) - np.maximum(rows["start_s"], since_s)
    return float(np.maximum(lasted, 0.0) @ rows["gpus"])


def _share(part: float, total: float) -> float:
    return part / total if total > 0.0 else 0.0


def _available(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Return the nodes of every partition that are not down, drained or off."""
    partitions: dict[str, list[Node]] = {}
    for node in nodes:
        for partition in node.partitions:
            members = partitions.setdefault(partition, [])
            if not node.state.unavailable:
                members.append(node)
    return partitions


class _Capacity:
    """The integral of usable GPUs over the window."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()
        self._total = 0.0
        self._last: tuple[float, int] | None = None

    def note(self, now_s: float, gpus: int, window_s: float) -> None:
        if self._last is not None:
            self._total += self._last[1] * max(0.0, now_s - self._last[0])
        if self._last is None or now_s > self._last[0]:
            self._last = (now_s, gpus)
        if not self._points or now_s - self._points[-1][0] >= window_s / CHECKPOINTS:
            self._points.append((now_s, self._total))
        while len(self._points) > 1 and self._points[1][0] <= now_s - window_s:
            self._points.popleft()

    @property
    def since_s(self) -> float:
        """Return where the window begins."""
        return self._points[0][0]

    @property
    def gpu_seconds(self) -> float:
        """Return the usable GPU-seconds since then; at the very first moment, of one second."""
        assert self._last is not None
        if self._last[0] == self.since_s:
            return float(self._last[1])
        return self._total - self._points[0][1]
