"""The traces of the comparison, with assumed time limits, because no trace contains them.

Every limit is a multiple of the true run time (see the setting). A policy that orders by limits therefore knows run
times and is no candidate here. Only the backfill uses limits, as the latest ends of running jobs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...agents.histories import subset
from ...replay.arrays import Floats
from ...replay.cluster import Cluster
from ...replay.priority.site import Scheduling
from ...replay.runtime_prediction import JobFeatures, predict
from ...replay.workload import Workload
from ..packaged import GPUS, LINGJUN, OPENB, PHILLY, TraceSite, workload_of
from ..scorer.sites import SITES

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)
TRACES = (
    *SITES,
    TraceSite("Philly 0e4a51 on 20 nodes", PHILLY, "0e4a51", 20),
    TraceSite("Philly 7f04ca on 22 nodes", PHILLY, "7f04ca", 22),
    TraceSite("Philly 11cb48 on 3 nodes", PHILLY, "11cb48", 3),
    TraceSite("Lingjun on 128 nodes", LINGJUN, "", 128),
    TraceSite("openb on 4 nodes", OPENB, "", 4),
)
"""Traces on their whole clusters first, then on fewer nodes, so that many jobs wait, or few with the last one."""
SLURM = {"PriorityType": "priority/multifactor", "PriorityWeightAge": "1000", "PriorityWeightFairShare": "10000",
         "PriorityMaxAge": "7-00:00:00", "PriorityDecayHalfLife": "7-00:00:00"}
"""Slurm settings of the incumbent; others have Slurm's defaults. Without users in the trace they order by arrival."""


def _chosen(trace: TraceSite, traces: Path) -> Workload:
    """Return the rows of a trace's jobs that are replayed."""
    work = workload_of(traces / trace.file)
    rows = trace.rows(work)
    return subset(work, rows[(work.gpus[rows] <= trace.nodes * GPUS) & (work.gpus[rows] > 0) & (work.run[rows] > 0)])


def jobs_of(trace: TraceSite, traces: Path, limit_factor: float) -> tuple[Cluster, Workload]:
    """Return the cluster and the jobs of a trace, without predicted run times."""
    work = _chosen(trace, traces)
    made = Workload.of(work.submit, work.run, work.gpus, user=np.maximum(work.user, 0), user_names=work.user_names,
                       limit=limit_factor * np.maximum(work.run, 1.0))
    return replace(Cluster.from_spec(f"{trace.nodes}x{GPUS}"), scheduling=Scheduling.of_config_lines(SLURM)), made


def load(cluster: Cluster, work: Workload) -> float:
    """Return the ratio of requested to available GPU time between the first and the last submission."""
    return float((work.run * work.gpus).sum() / (cluster.gpus.sum() * max(1.0, float(np.ptp(work.submit)))))


def predicted(work: Workload, start: Floats, end: Floats) -> Floats:
    """Return predicted run times [job, quantile], s, from jobs that had ended at submission under the incumbent."""
    known = predict(submit_s=work.submit, run_s=work.run, ended_s=end, started_s=start,
                    features=JobFeatures(work.gpus, work.user), quantiles=QUANTILES)
    return known.quantiles
