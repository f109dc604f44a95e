"""Real traces as sites that the scorer was not trained on: Philly's complete virtual clusters and Venus' slice.

These traces have no time limits, so EASY cannot reserve and starts every job that fits; Philly's traces have no users
either. Run times are predicted from similar jobs that had ended before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...agents.histories import subset
from ...agents.kinds import TraceWindow
from ...replay.cluster import Cluster
from ...replay.workload import Workload
from ..packaged import PHILLY, VENUS, TraceSite, workload_of

OTHERS = {"6214e9": 64, "b436b2": 64, "6c71a0": 32, "11cb48": 16, "e13805": 16, "ed69ec": 8, "103959": 8}
"""Numbers of nodes of Philly's other virtual clusters. Their traces are incomplete, so they serve for training only."""
WINDOW, LOADS = 1200, (0.8, 1.2)


# HeliosArtifact, "QSSF Service/plot/result_plot.ipynb"; all but SRTF without preemption, SJF and SRTF with the true run
# times, QSSF with true run times and random errors.
SITES = (
    TraceSite("Philly 0e4a51, 32 nodes", PHILLY, "0e4a51", 32,
              {"FIFO": 233539, "SJF": 168747, "QSSF": 196886, "SRTF": 146023}),
    TraceSite("Philly 7f04ca, 32 nodes", PHILLY, "7f04ca", 32,
              {"FIFO": 133826, "SJF": 133271, "QSSF": 133941, "SRTF": 132980}),
    TraceSite("Venus vcvGl, 20 nodes", VENUS, "vcvGl", 20),
    TraceSite("Venus vcvlY, 2 nodes", VENUS, "vcvlY", 2),
)


def stretch_of(site: TraceSite, traces: Path) -> TraceWindow:
    """Return a site's jobs; FileNotFoundError if its trace is missing."""
    work = workload_of(traces / site.file)
    return TraceWindow(Cluster.from_spec(f"{site.nodes}x8"), _alone(work, site.rows(work)), -np.inf)


def other_clusters(traces: Path, number: int) -> TraceWindow:
    """Return a part of one of Philly's other virtual clusters, compressed in time to make up for missing jobs."""
    work, random = workload_of(traces / PHILLY), np.random.default_rng([11, number])
    name = str(random.choice(list(OTHERS)))
    rows = np.flatnonzero(work.partition == work.partition_names.index(name))
    first = int(random.integers(0, max(1, len(rows) - WINDOW)))
    some = _alone(work, rows[first:first + WINDOW])
    some = subset(some, np.flatnonzero(some.gpus <= 8 * OTHERS[name]))
    wanted_s = float((some.run * np.maximum(some.gpus, 1)).sum()) / (8 * OTHERS[name] * random.uniform(*LOADS))
    submit = (some.submit - some.submit[0]) * wanted_s / max(1.0, float(np.ptp(some.submit)))
    cluster = Cluster.from_spec(f"{OTHERS[name]}x8")
    return TraceWindow(cluster, replace(some, submit=submit), float(submit[len(some) // 8]))


def _alone(work: Workload, rows: NDArray[np.int64]) -> Workload:
    """Return some jobs as the jobs of a cluster with one partition."""
    some = subset(work, rows)
    return replace(some, partition=np.zeros(len(some), np.int32), partition_names=("default",))
