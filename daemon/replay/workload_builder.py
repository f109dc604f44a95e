"""Turn a history, an outside trace's or the daemon's own, into a workload, and report all that is left out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...storage.columns import JobColumns
from .cluster import Cluster
from .power import PowerModel
from .runtime_prediction import (
    JobFeatures,
    ProgressCallback,
    ignore_progress,
    known_codes,
    predicted_columns,
    template_codes,
)
from .site_speeds import FLAT_SPEEDS, SiteSpeeds
from .time_limits import leaking, made_of, without_leaking
from .workload import COLUMNS, Workload

if TYPE_CHECKING:  # it needs pyarrow: 30 MB that a daemon without outside traces does without
    from ...storage.traces import Trace

EXAMPLES = 5
WHOLE_GPU = 1000


class HistoryError(ValueError):
    """A history of which nothing can be replayed; the message says why."""


@dataclass(frozen=True)
class WorkloadBuilder:
    """A workload, and what of the history is not in it."""

    workload: Workload
    started: NDArray[np.float64]
    """When each job really started; NaN where the history does not say. Rows are those of the workload."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that are not replayed, counted by reason."""
    examples: tuple[str, ...] = ()
    """Some of them, each with its line or id."""
    notes: tuple[str, ...] = ()
    """What was taken differently from how it is written."""
    lines: NDArray[np.int32] | None = None
    """The line of each job in its file; None for the daemon's own history."""
    name: NDArray[np.int32] | None = None
    """What each job is called, index into ``names``; -1 for none."""
    names: tuple[str, ...] = ()
    submitted: NDArray[np.float64] | None = None
    """When each job was submitted, as it is recorded: a workload's jobs come when they might begin."""
    speeds: SiteSpeeds = FLAT_SPEEDS
    """The speeds by which run times became work."""
    unplaced: int = 0
    """Jobs whose run times could not be turned into work, as their nodes are not recorded."""
    power: PowerModel = PowerModel()
    """What the cluster's nodes draw; what its jobs do is in the workload."""
    watts: str = ""
    """What the watts rest on."""


def from_trace(trace: Trace, progress: ProgressCallback = ignore_progress) -> WorkloadBuilder:
    """Return the jobs of an outside trace; ``HistoryError`` when none can be replayed.

    ``progress`` is called with how many run times are predicted, and of how many.
    """
    if len(trace) and np.isnan(trace.run_s).all():
        raise HistoryError("its jobs are elastic: they have no run time of their own, so there is nothing to replay")
    limit_s, leaked = _limits(trace)
    shared, parents = (trace.gpu_milli >= 0) & (trace.gpu_milli < WHOLE_GPU), _parents(trace)
    workload = Workload.of(
        trace.submit_s, trace.run_s, np.maximum(trace.gpus, 0), ids=trace.id, dependency=parents,
        limit=_unlimited(limit_s), nodes=np.maximum(trace.nodes, 0), cpus=np.maximum(trace.cpus, 0),
        memory=np.nan_to_num(trace.mem_bytes), partition=trace.partition, partition_names=_names(trace, "partition"),
        model=trace.gpu_model, model_names=_names(trace, "gpu_model"), user=trace.user,
        user_names=_names(trace, "user"),
        **_predicted_columns(trace.submit_s, trace.run_s, trace.start_s, limit_s, JobFeatures(
            trace.gpus, trace.user, template_codes(trace.name.astype(np.int64), trace.vocabularies["name"]),
            partition=trace.partition), progress))
    notes = {"jobs have their very run time for a limit, which nobody knew beforehand: they are given none": leaked,
             "jobs ask for a part of a GPU and get a whole one": shared,
             "jobs do not wait for one that the history does not have": (trace.after >= 0) & (parents < 0)}
    return _checked(WorkloadBuilder(workload, np.asarray(trace.start_s), {**trace.rejections, **trace.set_aside},
                           tuple(f"line {row.line}: {row.reason}{f' ({row.value})' if row.value else ''}"
                                 for row in trace.rejected[:EXAMPLES]),
                           tuple(f"{int(which.sum())} {note}" for note, which in notes.items() if which.any()),
                           trace.line, trace.name, tuple(trace.vocabularies["name"])))


def _limits(trace: Trace) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return limits, and which jobs lost their limit: those whose limit is the run time, where many limits are.

    Some published traces (the packaged slice of Helios) were written so; an order by limit would be an oracle.
    """
    limit_s, run_s = np.asarray(trace.limit_s, np.float64), np.asarray(trace.run_s, np.float64)
    leak = leaking(limit_s, run_s, trace.user)
    if leak is None or not leak.exact:
        return limit_s, np.zeros(len(limit_s), bool)
    made = made_of(limit_s, run_s, leak)
    return np.where(made, np.nan, limit_s), made


def _parents(trace: Trace) -> NDArray[np.int32]:
    """Return the row that each job waits for; -1 for none, and for one that is not there."""
    wanted = np.array(trace.vocabularies["after"], str)
    if not len(wanted):
        return np.full(len(trace), -1, np.int32)
    ids = trace.id.astype(str)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    rows = np.where(ids[order][place] == wanted, order[place], -1)
    return np.append(rows, -1)[trace.after].astype(np.int32)


def from_columns(jobs: JobColumns, progress: ProgressCallback = ignore_progress) -> WorkloadBuilder:
    """Return the jobs of the daemon's own history that ended; those that never ran are counted.

    ``progress`` is called with how many run times are predicted, and of how many.
    """
    run = jobs.end_s - jobs.start_s
    reasons = {"never started": np.isnan(jobs.start_s), "has not ended": np.isnan(jobs.end_s),
               "ended before it started": run < 0}
    kept, left_out = np.ones(len(jobs), bool), dict[str, int]()
    for reason, wrong in reasons.items():
        left_out[reason] = int((kept & wrong).sum())
        kept &= ~wrong
    vocabularies = jobs.vocabularies
    submit = np.fmax(jobs.submit_s, jobs.eligible_s)[kept]
    order = np.argsort(submit, kind="stable")
    known = _predicted_columns(submit, run[kept], jobs.start_s[kept], jobs.limit_s[kept], JobFeatures(
        jobs.gpus[kept], jobs.user[kept], template_codes(jobs.name.astype(np.int64), vocabularies["name"])[kept],
        known_codes(vocabularies["image"])[jobs.image][kept], jobs.partition[kept]), progress)
    workload = Workload.of(
        submit, run[kept], jobs.gpus[kept], ids=jobs.job_id[kept].tolist(), limit=_unlimited(jobs.limit_s[kept]),
        nodes=np.where(jobs.nodes > 1, jobs.nodes, 0)[kept], cpus=jobs.cpus[kept],
        memory=np.nan_to_num(jobs.memory_bytes)[kept], partition=jobs.partition[kept],
        partition_names=vocabularies["partition"] or ("",), user=jobs.user[kept],
        user_names=vocabularies["user"] or ("",), **known)
    return _checked(WorkloadBuilder(workload, jobs.start_s[kept][order],
                           {reason: count for reason, count in left_out.items() if count},
                                    name=jobs.name[kept][order], names=vocabularies["name"],
                                    submitted=jobs.submit_s[kept][order]))


def fitted(prepared: WorkloadBuilder, cluster: Cluster) -> WorkloadBuilder:
    """Return the workload without partitions or GPU models where the cluster's description has none."""
    work, notes = prepared.workload, list(prepared.notes)
    if tuple(cluster.partitions) == ("default",) and work.partition_names != ("default",):
        if any(work.partition_names):
            notes.append(f"the cluster has no partitions: the jobs' ({_some(work.partition_names)}) are ignored")
        work = replace(work, partition=np.zeros(len(work), np.int32), partition_names=("default",))
    if not any(cluster.model) and (work.model >= 0).any():
        notes.append(f"the cluster has no GPU models: the jobs' ({_some(work.model_names)}) are ignored")
        work = replace(work, model=np.full(len(work), -1, np.int32))
    return replace(prepared, workload=work, notes=tuple(notes))


def digest(cluster: Cluster, workload: Workload) -> str:
    """Return the digest of everything that a replay depends on but the policy and its options."""
    hasher = hashlib.sha256()
    for column in COLUMNS:
        hasher.update(_bytes(getattr(workload, column)))
    for array in (cluster.gpus, cluster.cpus, cluster.memory, cluster.leaf, cluster.spine, cluster.up):
        hasher.update(array.tobytes())
    if cluster.joined.max() > 1:
        hasher.update(cluster.joined.tobytes())
    for member in cluster.partitions.values():
        hasher.update(member.tobytes())
    hasher.update(repr((workload.partition_names, workload.model_names, workload.user_names, workload.constraints,
                        cluster.names, cluster.model, tuple(cluster.partitions), cluster.events,
                        tuple(cluster.islands.items()))).encode())
    hasher.update(_canonical((cluster.features, cluster.scheduling, workload.charged)).encode())
    if isinstance(workload.ids, np.ndarray):
        hasher.update(_bytes(workload.ids))
    else:
        hasher.update("\n".join(map(str, workload.ids)).encode(errors="surrogatepass"))
    return hasher.hexdigest()[:16]


def _canonical(value: object) -> str:
    """Return a text that equal values share in every process; the order of sets and mappings is not in it."""
    if isinstance(value, np.ndarray):
        return value.tobytes().hex()  # the text of a long array leaves rows out
    if isinstance(value, tuple):
        return f"({','.join(map(_canonical, value))})"
    if isinstance(value, frozenset):
        return f"<{','.join(sorted(map(_canonical, value)))}>"
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{_canonical(key)}:{_canonical(item)}' for key, item in value.items()))}}}"
    if is_dataclass(value):
        return _canonical({part.name: getattr(value, part.name) for part in fields(value)})
    return repr(value)


def _bytes(column: NDArray[np.generic]) -> memoryview:
    """Return a column as it lies in memory, which for a long one is not copied."""
    return np.ascontiguousarray(column).view(np.uint8).data


def _checked(prepared: WorkloadBuilder) -> WorkloadBuilder:
    if not len(prepared.workload):
        why = "; ".join(f"{count} x {reason}" for reason, count in prepared.left_out.items())
        first = f"; first: {prepared.examples[0]}" if prepared.examples else ""
        raise HistoryError(f"no job can be replayed ({why or 'there is none'}{first})")
    return prepared


def _unlimited(limit_s: object) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(limit_s, np.float64), nan=np.inf)


def _names(trace: Trace, column: str) -> tuple[str, ...]:
    return tuple(trace.vocabularies[column]) or ("",)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, …" if len(names) > 3 else shown


def _predicted_columns(submit_s: NDArray[np.float64], run_s: NDArray[np.float64], start_s: NDArray[np.float64],
                       limit_s: NDArray[np.float64], features: JobFeatures,
                       progress: ProgressCallback) -> dict[str, NDArray[np.float64]]:
    """Return what is known at submission; run times become known at recorded ends, else at submission + run at best.

    Limits that reveal run times have no part in it: no prediction exceeds a limit, and would be an oracle by them.
    """
    limit_s = without_leaking(limit_s, run_s, np.asarray(features.user))
    started_s = np.where(np.isnan(start_s), submit_s, start_s)
    return predicted_columns(submit_s=submit_s, run_s=run_s, ended_s=started_s + run_s, features=features,
                             started_s=started_s, limit_s=limit_s, progress=progress)
