"""The jobs that are replayed, as columns: what each requested, when, and how long it really ran."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage.eligibility import Constraint
from ...storage.records import Job
from .dependencies import parents

UNLIMITED_S = 30 * 86400.0
"""What a missing time limit counts as where an order needs a number."""

PREDICTED_COLUMNS = ("prediction", "prediction_low", "prediction_high", "use", "use_low", "use_high", "usual")
"""Columns of what is known of a run time when the job is submitted."""
WATTS = ("load", "draw")
"""Columns of what is known of a job's watts: neither policies nor agents see them."""
RuntimePredictor = Callable[[Sequence[Job]], Mapping[str, NDArray[np.float64]]]


@dataclass(frozen=True, slots=True)
class Charged:
    """What scheduling by priority needs to know of jobs beside their sizes, in the order of rows."""

    account: tuple[str, ...]
    qos: tuple[str, ...]
    nice: NDArray[np.float64]
    """What is taken off the priority of each."""
    waited: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """For how many seconds each had waited before ``Workload.submit``; none had where nothing is said of it."""

    def __post_init__(self) -> None:
        """Give each job its waiting, so that all fields have the same rows."""
        if not self.waited.size:
            object.__setattr__(self, "waited", np.zeros(len(self.account)))

    def of_rows(self, rows: NDArray[np.int64]) -> Charged:
        """Return what is known of the jobs in these rows, in their order."""
        places = rows.tolist()
        return Charged(tuple(self.account[row] for row in places), tuple(self.qos[row] for row in places),
                       self.nice[rows], self.waited[rows])


class WorkloadError(ValueError):
    """Columns that make no workload; the message names the column."""


@dataclass(frozen=True)
class Workload:
    """Jobs as a structure of arrays, sorted by (submit, id). Build it with :meth:`of` or :meth:`from_records`."""

    ids: tuple[str, ...] | range | NDArray[np.generic]
    """The ids as texts; those of a long trace stay as they came, plain numbers or fixed-width text."""
    submit: NDArray[np.float64]
    """Seconds."""
    run: NDArray[np.float64]
    """Seconds of work on the GPUs requested; never shown to a policy that is not an oracle."""
    limit: NDArray[np.float64]
    """Requested time limit in seconds; infinite when unlimited or unknown."""
    gpus: NDArray[np.int32]
    """Over all nodes."""
    nodes: NDArray[np.int32]
    """Nodes requested; 0 lets the scheduler choose."""
    cpus: NDArray[np.int64]
    """Over all nodes."""
    memory: NDArray[np.int64]
    """Bytes over all nodes."""
    partition: NDArray[np.int32]
    """Index into ``partition_names``."""
    model: NDArray[np.int32]
    """GPU model requested, index into ``model_names``; -1 for any."""
    application: NDArray[np.int32]
    """The row of the speed tables that the job follows."""
    user: NDArray[np.int32]
    priority: NDArray[np.float64]
    prediction: NDArray[np.float64]
    """Predicted run time in seconds, known at submission; NaN where none was made."""
    prediction_low: NDArray[np.float64]
    """Half of all like jobs ran for between this and ``prediction_high`` seconds; NaN where unknown."""
    prediction_high: NDArray[np.float64]
    use_low: NDArray[np.float64]
    """Shares of their time limits that like jobs ran for, as the predictions: lower quartile, median and upper."""
    use: NDArray[np.float64]
    use_high: NDArray[np.float64]
    usual: NDArray[np.float64]
    """Share of its user's last jobs that requested the same limit, which then tells little; NaN where unknown."""
    minimum: NDArray[np.int32]
    """Fewest and most GPUs an elastic job can use; equal to ``gpus`` for a rigid one."""
    maximum: NDArray[np.int32]
    dependency: NDArray[np.int32]
    """Row of the job that must end first; -1 for none."""
    preemptible: NDArray[np.int8]
    exclusive: NDArray[np.int8]
    """1 for a job that shares no node with others."""
    tasked: NDArray[np.int8]
    """1 for a job that wants GPUs and says how many tasks a node runs: Slurm counts no more CPUs for it than those."""
    eligible: NDArray[np.int32]
    """Row of ``constraints``; -1 for the whole partition."""
    load: NDArray[np.float32]
    """Mean activity of its GPUs, 0..1; NaN where it is not known."""
    draw: NDArray[np.float32]
    """How far its GPUs' watts are on the way from those of an idle context to those of full load; NaN as ``load``."""
    partition_names: tuple[str, ...] = ("default",)
    model_names: tuple[str, ...] = ()
    user_names: tuple[str, ...] = ("",)
    application_names: tuple[str, ...] = ()
    """The names of the rows of the speed tables; empty where nobody named them."""
    constraints: tuple[Constraint, ...] = ()
    charged: Charged | None = None
    """Account, QOS and nice value of each job, where they are known."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return int(self.submit.size)

    @classmethod
    def of(cls, submit: object, run: object, gpus: object, *, ids: Sequence[str] | NDArray[np.generic] | None = None,
           **columns: object) -> Workload:
        """Return a workload of numpy columns; missing ones get their harmless default.

        ``partition``, ``model`` and ``user`` may be texts or codes (with ``…_names``). Rows are sorted by
        (submit, position); ``dependency`` counts rows before sorting. Columns that are sorted already are not copied.
        """
        submit = np.asarray(submit, np.float64)
        ordered = bool((submit[1:] >= submit[:-1]).all())
        order = np.arange(submit.size) if ordered else np.argsort(submit, kind="stable")
        if not ordered and "charged" in columns:
            raise WorkloadError("who is charged is known of jobs in order of submission only")
        names: dict[str, Any] = {
            key: columns.pop(key) for key in ("partition_names", "model_names", "user_names", "application_names",
                                              "constraints", "charged") if key in columns}
        for text, many in (("partition", "partition_names"), ("model", "model_names"), ("user", "user_names")):
            if text in columns and np.asarray(columns[text]).dtype.kind in "USO":
                columns[text], names[many] = _coded(columns[text])
        made = _defaults(submit, run, gpus)
        unknown = set(columns) - set(made)
        if unknown:
            raise WorkloadError(f"unknown columns: {', '.join(sorted(unknown))}; known are {', '.join(sorted(made))}")
        for name, values in columns.items():
            made[name] = np.broadcast_to(np.asarray(values).astype(made[name].dtype, copy=False), submit.shape)
        if "dependency" in columns:
            made["dependency"] = _moved(made["dependency"], order)
        sorted_ids = range(submit.size) if ids is None else _named(ids, order)
        if any(column.shape != submit.shape for column in made.values()):
            raise WorkloadError("columns differ in length")
        rows: dict[str, Any] = made if ordered else made | {
            name: made[name][order] for name in ("submit", "run", "gpus", *columns)}
        for name in {"minimum", "maximum"} - set(columns):
            rows[name] = rows["gpus"]
        return cls(ids=sorted_ids, **rows, **names)

    @classmethod
    def from_records(cls, jobs: Sequence[Job], *, run: Mapping[tuple[str, float], float] | None = None,
                     predictor: RuntimePredictor | None = None) -> Workload:
        """Return the workload of recorded jobs; one that has not ended runs for its limit unless ``run`` knows better.

        Rows are those of :func:`in_order`; ``run`` maps ``Job.key`` to seconds, ``predictor`` jobs to the columns of
        ``PREDICTED_COLUMNS``.
        """
        jobs = in_order(jobs)
        known = run or {}
        runs = [known.get(job.key, _ran(job)) for job in jobs]
        terms = [Constraint.of(job.request) for job in jobs]
        numbers = {constraint: row for row, constraint in enumerate(dict.fromkeys(filter(None, terms)))}
        return cls.of(
            [waits_from(job) for job in jobs],
            runs,
            [max(job.request.gpus, _nodes(job) * (job.request.gpus_per_node or 0)) for job in jobs],
            ids=[job.job_id for job in jobs],
            limit=[np.inf if job.limit_s is None else job.limit_s for job in jobs],
            nodes=[_nodes(job) for job in jobs],
            cpus=[max(1, job.request.cpus) for job in jobs],  # no job runs without one
            memory=[job.request.memory_bytes for job in jobs],
            partition=[job.partition for job in jobs],
            user=[job.user for job in jobs],
            priority=[job.priority or 0.0 for job in jobs],
            dependency=parents(jobs, list(map(_expected_end, jobs, runs))),
            model=[job.request.gpu_model for job in jobs],
            exclusive=[job.request.exclusive for job in jobs],
            tasked=[job.request.gpus > 0 and job.request.details.tasks_per_node > 0 for job in jobs],
            eligible=[-1 if constraint is None else numbers[constraint] for constraint in terms],
            constraints=tuple(numbers), **(predictor(jobs) if predictor else {}),
            charged=Charged(tuple(job.account for job in jobs), tuple(job.qos for job in jobs),
                            np.array([job.nice or 0 for job in jobs], np.float64)),
        ) if jobs else cls.of([], [], [])


def _defaults(submit: NDArray[np.float64], run: object, gpus: object) -> dict[str, NDArray[np.generic]]:
    size = submit.size
    run, gpus = np.asarray(run, np.float64), np.asarray(gpus, np.int32)
    zeros = np.zeros(size, np.int32)
    return {
        "submit": submit, "run": run, "limit": np.full(size, np.inf), "gpus": gpus, "nodes": zeros,
        "cpus": np.zeros(size, np.int64), "memory": np.zeros(size, np.int64), "partition": zeros,
        "model": zeros - 1, "application": zeros, "user": zeros, "priority": np.zeros(size),
        "minimum": gpus, "maximum": gpus, "dependency": zeros - 1,
        "preemptible": np.ones(size, np.int8), "exclusive": np.zeros(size, np.int8), "tasked": np.zeros(size, np.int8),
        "eligible": zeros - 1,
        **dict.fromkeys(PREDICTED_COLUMNS, np.full(size, np.nan)),
        **dict.fromkeys(WATTS, np.full(size, np.nan, np.float32)),
    }


def _named(ids: Sequence[str] | NDArray[np.generic], order: NDArray[np.intp]) -> tuple[str, ...] | NDArray[np.generic]:
    return ids[order] if isinstance(ids, np.ndarray) else tuple(str(ids[row]) for row in order)


def _coded(texts: Any) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Number texts in order of appearance; '' is -1 and has no name."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(text, len(numbers)) if text else -1 for text in map(str, texts)]
    return np.array(codes, np.int32), tuple(numbers) or ("",)


def _moved(rows: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return row numbers as they are after sorting by ``order``, still in the old order of rows."""
    place = np.empty(order.size, np.int32)
    place[order] = np.arange(order.size, dtype=np.int32)
    return np.where(rows >= 0, place[np.clip(rows, 0, None)], -1).astype(np.int32)


def waits_from(job: Job) -> float:
    """Return since when a job waits: its submission, or later the moment from which it might begin."""
    return job.submit_s if job.eligible_s is None else max(job.submit_s, job.eligible_s)


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs in the order of a workload's rows: since when they wait, then by number."""
    named = sorted(jobs, key=lambda job: natural(job.job_id))
    return [named[row] for row in np.argsort([waits_from(job) for job in named], kind="stable")]


def natural(job_id: str) -> tuple[int, str]:
    """Return what a job's number sorts by."""
    digits = re.match(r"\d+", job_id)
    return (int(digits[0]) if digits else 0, job_id)


def _ran(job: Job) -> float:
    """Return how long a job ran, else its limit, else what unlimited counts as."""
    if job.start_s is not None and job.end_s is not None:
        return job.end_s - job.start_s
    return UNLIMITED_S if job.limit_s is None else job.limit_s


def _expected_end(job: Job, run_s: float) -> float:
    """Return when a job ended, or would if it starts at once where it has not."""
    if job.end_s is not None:
        return job.end_s
    return (waits_from(job) if job.start_s is None else job.start_s) + run_s


def _nodes(job: Job) -> int:
    """Return the nodes a job insists on; 0 where the scheduler may choose."""
    request = job.request
    if request.gpus_per_node:
        return max(1, request.nodes, -(-request.gpus // request.gpus_per_node))
    return request.nodes if request.nodes > 1 or request.gpus == 0 else 0


COLUMNS = tuple(column.name for column in fields(Workload) if column.name not in
                ("ids", "partition_names", "model_names", "user_names", "application_names", "constraints",
                 "charged"))
"""Names of the columns with one value per job."""
