"""The one source of energy by job, user and node: page, API and command line ask it, so that their figures agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ...storage.energy_queries import Dimension, Order, RunFilter, RunRow
from ...storage.packed import Window
from ...storage.power_classes import WASTED, PowerClass
from ...storage.reading import HistoryReader, JobDetail
from ...storage.records import Allocation, Job
from ...storage.underuse import CauseTally
from ...storage.uses import Use
from ..causes import evidence_text, label, remedy, reported_causes
from ..pricing import Costing
from .findings import long_enough
from .namesakes import EVERY, holds, of_several_clusters
from .notes import Used, notes
from .rows import CauseRow, ChartSeries, EnergyRow, HolderRow, JobReport, JobRow, energy_row, job_row
from .timelines import MOST_POINTS, GpuTimelines
from .wasters import WastePart, wasters

MOST_TASKS = 100


class EnergyBook:
    """Questions about energy, to a history and the prices that are set."""

    def __init__(self, history: HistoryReader, costing: Costing, now: Callable[[], float],
                 timelines: GpuTimelines | None = None) -> None:
        self._history, self._costing, self._now = history, costing, now
        self._timelines = timelines or GpuTimelines(None, now)

    @property
    def history(self) -> HistoryReader:
        """Return the history that is read."""
        return self._history

    @property
    def now(self) -> Callable[[], float]:
        """Return the clock."""
        return self._now

    @property
    def costing(self) -> Costing:
        """Return the prices that are set."""
        return self._costing

    @property
    def timelines(self) -> GpuTimelines:
        """Return what tells the timelines of a job's GPUs."""
        return self._timelines

    def runs(self, wanted: RunFilter, order: Order, limit: int, offset: int = 0) -> tuple[tuple[JobRow, ...], int]:
        """Return runs in an order, the most first, and how many there are in all."""
        runs, total = self._history.runs(wanted, order, limit, offset)
        return tuple(job_row(run, self._costing, wanted.wasted) for run in runs), total

    def by(self, dimension: Dimension, wanted: RunFilter, limit: int | None = None) -> tuple[EnergyRow, ...]:
        """Return the sums of whole days (UTC) by a dimension, the most wasteful first; by job those of whole runs."""
        if dimension == "job":
            return tuple(replace(energy_row(job_id, sums, self._costing, wanted.wasted), partition=partition)
                         for job_id, partition, sums in self._history.energy_by_job(wanted, limit))
        return tuple(energy_row(name, sums, self._costing, wanted.wasted)
                     for name, sums in self._history.energy_by(dimension, wanted, limit))

    def wasters(self, parts: Iterable[WastePart], jobs: Sequence[Job], most: int) -> tuple[tuple[HolderRow, ...], int]:
        """Return the running jobs that waste most power now with what they took so far, and how many waste any."""
        rows = wasters(parts, jobs)
        known = {row.run: (job_id, submit_s, submit_s if start_s is None else start_s)
                 for row in rows[:most] if row.run is not None for job_id, submit_s, start_s in (row.run,)}
        runs = self._history.energy_of(set(known.values()))
        return tuple(self._with_energy(row, None if row.run is None else runs.get(known[row.run]))
                     for row in rows[:most]), len(rows)

    def _with_energy(self, row: HolderRow, run: RunRow | None) -> HolderRow:
        if run is None:
            return row
        energy = job_row(run, self._costing, WASTED)
        return replace(row, energy_joules=energy.energy_joules, wasted_joules=energy.wasted_joules, cost=energy.cost)

    def reports(self, job_id: str, live: Sequence[Job] = (), wanted: RunFilter = EVERY) -> tuple[JobReport, ...]:
        """Return the report of a job, its last run first, or of the tasks of an array; () of one that is unknown.

        Where several clusters have a job of that id, there is a report of each. ``live`` are the jobs that the
        scheduler lists now: one that was just submitted is in no history. Of ``wanted`` user, account and partition
        count.
        """
        runs = self._history.runs_of(job_id)
        recorded = of_several_clusters(job for job in self._history.jobs_of(job_id) if holds(job, wanted))
        if recorded:
            return tuple(report for job in recorded for report in self._reports_of(job, runs))
        if not runs:
            now = [job for job in live if job_id in (job.job_id, job.array) and holds(job, wanted)]
            return tuple(self._report(JobDetail(job, (), ()), None, drawn=False) for job in now[:MOST_TASKS])
        details = {(run.job_id, run.submit_s): self._history.job(run.job_id, run.submit_s) for run in runs[:MOST_TASKS]}
        return tuple(self._report(detail, run, drawn=False) for run in runs[:MOST_TASKS]
                     if (detail := details[run.job_id, run.submit_s]) is not None and holds(detail.job, wanted))

    def _reports_of(self, job: Job, runs: Sequence[RunRow]) -> Iterator[JobReport]:
        """Yield the reports of one submission, the last run first; one without energy where nothing was recorded."""
        detail = self._history.job(job.job_id, job.submit_s) or JobDetail(job, (), ())
        job_runs: list[RunRow | None] = [run for run in runs if (run.job_id, run.submit_s) == job.key]
        for run in job_runs or [None]:
            yield self._report(detail, run, drawn=True)

    def _report(self, detail: JobDetail, run: RunRow | None, *, drawn: bool) -> JobReport:
        job, row = detail.job, None if run is None else job_row(run, self._costing, WASTED)
        held = next((entry for entry in detail.runs if run is not None and entry.start_s == run.start_s), None)
        allocations = held.present if held is not None else job.allocations
        use = self._use(run)
        tallies = () if run is None else self._history.causes_of_run(run.job_id, run.submit_s, run.start_s)
        causes = _causes(tallies, 0.0 if row is None else row.gpus)
        judged = sum(tally.gpu_seconds for tally in tallies)
        used = Used(use, causes, self._node_gpus(allocations))
        now_s = self._now()
        ran_s = 0.0 if run is None else (now_s if run.end_s is None else run.end_s) - run.start_s
        whole = use if use is not None and long_enough(use, ran_s) else None
        job_notes = notes(replace(job, allocations=allocations), row, used, now_s)
        series, source = (self._timelines.of(self._history, held, run)
                           if drawn and run is not None and held is not None else ((), ""))
        start_s = run.start_s if run is not None else job.start_s
        ready_s = max(job.submit_s, job.eligible_s or job.submit_s)
        return JobReport(
            job=replace(job, allocations=allocations), run=row, notes=job_notes, causes=causes,
            judged_ratio=min(1.0, judged / row.gpu_seconds) if row and row.gpu_seconds and judged else None,
            waited_s=None if start_s is None else max(0.0, start_s - ready_s), reasons=_reasons(detail),
            cpus_used=None if whole is None else whole.cpus_mean,
            memory_used_bytes=None if whole is None else whole.memory_peak_bytes,
            classes=_classes(self._history.classes_of(run, MOST_POINTS), run) if drawn and run is not None else (),
            series=series, series_source=source)

    def _node_gpus(self, allocations: Sequence[Allocation]) -> int | None:
        """Return the GPUs of the largest node of a job that is on several, as telemetry knows them."""
        nodes = {part.node for part in allocations if part.gpus}
        if len(nodes) < 2:
            return None
        sizes = Counter(node for _, node, _ in self._history.held_gpus(dict.fromkeys(nodes)))
        return max(sizes.values()) if sizes.keys() == nodes else None

    def _use(self, run: RunRow | None) -> Use | None:
        if run is None:
            return None
        return self._history.use_of_run(run.job_id, run.submit_s, run.start_s)


def _causes(tallies: Sequence[CauseTally], gpus: float) -> tuple[CauseRow, ...]:
    """Return why GPUs were underused, with texts."""
    return tuple(CauseRow(tally.cause, label(tally.cause), share, tally.confidence, evidence_text(tally.evidence),
                          remedy(tally.cause)) for tally, share in reported_causes(tallies, gpus))


def _reasons(detail: JobDetail) -> tuple[str, ...]:
    """Return why a job waited, one after the other, each once in a row."""
    reasons: list[str] = []
    for change in detail.changes:
        reason = change.reason_text or change.reason.value.replace("_", " ")
        if change.state.value == "pending" and reason and reason not in reasons[-1:]:
            reasons.append(reason)
    return tuple(reasons[-8:])


def _classes(windows: Sequence[tuple[Window, dict[PowerClass, int]]], run: RunRow) -> tuple[ChartSeries, ...]:
    """Return mean watts of each class that occurs, window by window.

    The first window of a run that was found running is left out: nobody knows how much of it was looked at.
    """
    job_windows = [(start, length, energies) for (start, length), energies in windows
                   if start > run.first_s or run.start_s >= run.first_s]
    starts, lengths = tuple(start for start, _, _ in job_windows), tuple(length for _, length, _ in job_windows)
    return tuple(ChartSeries(power_class.value, starts, lengths, tuple(
        energies.get(power_class, 0) / 1000 / length for _, length, energies in job_windows))
        for power_class in PowerClass if any(power_class in energies for _, _, energies in job_windows))
