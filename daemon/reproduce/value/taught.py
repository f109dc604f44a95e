"""A scorer that is trained on the first weeks of a trace, as on a site."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...agents.histories import Material, split
from ...agents.kinds import TrainingConfig
from ...replay.cluster import Cluster
from ...replay.engine import Policy
from ...replay.workload import Workload
from .task import ReplayTask

TAUGHT_BY = "fifo+best-fit+easy"
"""Policy that is imitated first: it has the incumbent's order and its replay is much faster."""


def taught(task: ReplayTask, cluster: Cluster, work: Workload, quantiles: NDArray[np.float64]) -> tuple[Policy, float]:
    """Return an agent and the end of its training data, s; ``TrainingError`` if the history does not suffice."""
    from ...learning.training import kind_of  # loads what trains, which replays do without

    # Limits that are made of run times would tell them: it sees quantiles of what is predicted in their place.
    seen = Workload.of(work.submit, work.run, work.gpus, user=work.user, user_names=work.user_names,
                       limit=np.where(np.isfinite(quantiles[:, 3]), quantiles[:, 3], work.limit),
                       prediction=quantiles[:, 1], prediction_low=quantiles[:, 0], prediction_high=quantiles[:, 2])
    parts = split(Material(str(task.site), cluster, seen), seed=task.seed)
    kind = kind_of("scorer")
    folder = task.result.with_suffix("")
    for _ in kind.train(TrainingConfig(parts.fit, parts.select, TAUGHT_BY, task.seed, task.setting.budget_s, folder)):
        pass
    return kind.load(folder / "best"), parts.until_s
