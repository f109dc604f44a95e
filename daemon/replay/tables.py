"""What became of every job, and of every user and partition, as tables: Parquet or CSV by the file's suffix."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from . import arrays as a
from .engine import Run
from .outcome import QUANTILES, Floats, times

JOBS = ("job", "user", "partition", "submit_s", "start_s", "end_s", "gpus", "wait_s", "jct_s", "bounded_slowdown",
        "preemptions", "status", "nodes")
_MEASURES = ("jct_s", "wait_s", "bounded_slowdown")
GROUPS = ("group", "name", "jobs", "gpu_hours", *(f"{measure}_{figure}" for measure in _MEASURES
                                                  for figure in ("mean", *QUANTILES)))
ROWS = 100_000
"""The rows of a Parquet file that are in memory at a time."""
_STATUS = {a.WAITING: "waiting", a.RUNNING: "running", a.ENDED: "ended", a.FUTURE: "not submitted", a.HELD: "held",
           a.REJECTED: "rejected"}

Rows = Iterator[tuple[object, ...]]


def jobs(run: Run) -> Rows:
    """Yield one row per job, columns as in ``JOBS``; None where a figure is not known."""
    work, measured = run.workload, times(run)
    waited, slowed = np.full(len(work), np.nan), np.full(len(work), np.nan)
    waited[measured.jobs], slowed[measured.jobs] = measured.wait, measured.slowdown
    users, partitions = (*work.user_names, ""), (*work.partition_names, "")
    for job, facts in enumerate(run.state.arrays.jobs):
        ended = facts.status == a.ENDED
        yield (str(work.ids[job]), users[work.user[job]], partitions[work.partition[job]], float(facts.submit),
               _known(facts.start), float(facts.end) if ended else None, int(facts.gpus), _known(waited[job]),
               float(facts.end - facts.submit) if ended else None, _known(slowed[job]), int(facts.preempted),
               _STATUS[int(facts.status)], str(run.state.placement(job)))


def groups(run: Run) -> Rows:
    """Yield one row per user and per partition that has a job which ended, columns as in ``GROUPS``."""
    work, measured = run.workload, times(run)
    figures = (measured.jct, measured.wait, measured.slowdown)
    held = run.state.arrays.jobs.attained[measured.jobs] / 3600
    for group, codes, names in (("user", work.user, work.user_names), ("partition", work.partition,
                                                                       work.partition_names)):
        mine = codes[measured.jobs]
        order = np.argsort(mine, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(mine[order])) + 1) if len(order) else ():
            statistics = [value for figure in figures for value in _summary(figure[members])]
            yield (group, (*names, "")[mine[members[0]]], len(members), float(held[members].sum()), *statistics)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _summary(values: Floats) -> list[float]:
    return [float(values.mean()), *map(float, np.quantile(values, list(QUANTILES.values())))]


def write(columns: Sequence[str], rows: Rows, path: Path) -> None:
    """Write rows as Parquet or CSV; ValueError for another suffix."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        _write_parquet(columns, rows, path)
    else:
        raise ValueError(f"{path}: a table is written as .csv or .parquet")


def _write_parquet(columns: Sequence[str], rows: Rows, path: Path) -> None:
    import pyarrow as pa  # heavy, and only wanted here
    import pyarrow.parquet

    texts, counts = {"job", "user", "partition", "status", "nodes", "group", "name"}, {"gpus", "preemptions", "jobs"}
    schema = pa.schema([(name, pa.string() if name in texts else pa.int64() if name in counts else pa.float64())
                        for name in columns])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, ROWS)):
            parts = [pa.array(column, kind) for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)]
            writer.write_table(pa.table(parts, schema=schema))
