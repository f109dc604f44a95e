"""The traces that everything is tried on, with the time limits that none of them tells.

Every limit is a multiple of the true run time, as in the setting: a policy that orders by limits therefore knows run
times, and is no candidate here. Limits only tell the backfill when running jobs are gone at the latest.
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
"""Those of whole clusters first; then on so many nodes that jobs wait, or, of the last one, that few do."""
SLURM = {"PriorityType": "priority/multifactor", "PriorityWeightAge": "1000", "PriorityWeightFairShare": "10000",
         "PriorityMaxAge": "7-00:00:00", "PriorityDecayHalfLife": "7-00:00:00"}
"""The incumbent's settings; all else is Slurm's default. Where a trace tells no users they order by arrival."""


def _chosen(trace: TraceSite, traces: Path) -> Workload:
    """Return the jobs of a trace that are replayed."""
    work = workload_of(traces / trace.file)
    rows = trace.rows(work)
    return subset(work, rows[(work.gpus[rows] <= trace.nodes * GPUS) & (work.gpus[rows] > 0) & (work.run[rows] > 0)])


def jobs_of(trace: TraceSite, traces: Path, limit_factor: float) -> tuple[Cluster, Workload]:
    """Return the nodes and the jobs of a trace; nothing is known of run times yet."""
    work = _chosen(trace, traces)
    made = Workload.of(work.submit, work.run, work.gpus, user=np.maximum(work.user, 0), user_names=work.user_names,
                       limit=limit_factor * np.maximum(work.run, 1.0))
    return replace(Cluster.from_spec(f"{trace.nodes}x{GPUS}"), scheduling=Scheduling.of_config_lines(SLURM)), made


def load(cluster: Cluster, work: Workload) -> float:
    """Return GPU time wanted over what there is from the first submission to the last."""
    return float((work.run * work.gpus).sum() / (cluster.gpus.sum() * max(1.0, float(np.ptp(work.submit)))))


def predicted(work: Workload, start: Floats, end: Floats) -> Floats:
    """Return [job, quantile] of run times, told from what had ended when a job came under the site's own scheduler."""
    known = predict(submit_s=work.submit, run_s=work.run, ended_s=end, started_s=start,
                    features=JobFeatures(work.gpus, work.user), quantiles=QUANTILES)
    return known.quantiles
