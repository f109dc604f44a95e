"""The packaged traces as jobs, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from ...storage.traces import read_trace
from ..replay.arrays import Longs
from ..replay.workload import Workload
from ..replay.workload_builder import from_trace

PHILLY, VENUS = "philly/philly_jobs.csv.gz", "helios_venus/helios_venus_2vc_sept.csv"
LINGJUN, OPENB = "alibaba_lingjun_2023/crux_jobs.csv", "alibaba_openb_2023/openb_pod_list_default.csv.gz"
FIRST_JOB = datetime(2017, 8, 14, 23, 27, tzinfo=UTC)
"""Submission of the first job of Philly's trace, taken as UTC because the trace names no time zone."""
SINCE_S, UNTIL_S = ((datetime(2017, month, 1, tzinfo=UTC) - FIRST_JOB).total_seconds() for month in (10, 12))
GPUS = 8
"""Number of GPUs of each node of the clusters below."""


@dataclass(frozen=True, slots=True)
class TraceSite:
    """A part of a trace's jobs, and the number of nodes of 8 GPUs on which they are replayed."""

    name: str
    file: str
    partition: str
    """Name of the trace's partition; '' takes all jobs."""
    nodes: int
    published: Mapping[str, float] = field(default_factory=dict)
    """Published mean completion times by policy, s; empty where none are published."""

    def rows(self, work: Workload) -> Longs:
        """Return the rows of the site's jobs; of Philly's trace only October and November 2017 count."""
        selected = np.ones(len(work), bool)
        if self.partition:
            selected &= work.partition == work.partition_names.index(self.partition)
        if self.file == PHILLY:
            selected &= (work.submit - work.submit[0] >= SINCE_S) & (work.submit - work.submit[0] < UNTIL_S)
        return np.flatnonzero(selected)


@cache
def workload_of(path: Path) -> Workload:
    """Return the jobs of a trace file as a workload; the result is cached."""
    return from_trace(read_trace(path)).workload
