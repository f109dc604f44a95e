"""The policies of the comparison, by name, with their knowledge of limits and run times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...replay.arrays import Floats
from ...replay.workload import Workload
from .sites import QUANTILES

SITE, TRUTH = "site", "truth"
INCUMBENT = "multifactor+slurm-placement+slurm-backfill"
CHANCE = "random-feasible"


@dataclass(frozen=True, slots=True)
class Try:
    """One policy, with its knowledge of limits and run times."""

    name: str
    policy: str
    limits: str = SITE
    """The ends of jobs that the backfill assumes: by limits, by a quantile of predictions, or the true ones."""
    family: str = "heuristic"


def _of(order: str, limits: str, family: str) -> tuple[Try, ...]:
    suffix = {SITE: "", TRUTH: ", true run times"}.get(limits, f", limits learned ({limits})")
    return tuple(Try(f"{order}+{rest}{suffix}", f"{order}+{rest}", limits, family)
                 for rest in ("slurm-placement+slurm-backfill", "best-fit+easy"))


TRIED = (
    Try(INCUMBENT, INCUMBENT, family="incumbent"),
    Try("multifactor+best-fit+slurm-backfill", "multifactor+best-fit+slurm-backfill"),
    Try("fifo+best-fit+easy", "fifo+best-fit+easy"),
    *(policy for order in ("sjf-prediction", "qssf", "prediction-aged") for policy in _of(order, SITE, "heuristic")),
    *(policy for order in ("sampled", "sampled-aged") for policy in _of(order, SITE, "heuristic")),
    *(Try(f"{order}+best-fit+greedy", f"{order}+best-fit+greedy")
      for order in ("fifo", "sjf-prediction", "qssf", "sampled")),
    *(Try(f"{INCUMBENT}, limits learned ({quantile})", INCUMBENT, quantile, "learned limits")
      for quantile in ("0.5", "0.75", "0.9", "0.95")),
    *(policy for order in ("sjf-prediction", "qssf", "prediction-aged")
      for policy in _of(order, "0.9", "learned limits")),
)
"""Policies that a site could run, without knowledge of true run times."""
ORACLES = tuple(policy for order in ("sjf-prediction", "qssf", "prediction-aged", "wfp3", "multifactor")
                for policy in _of(order, TRUTH, "oracle"))
"""The same orders with true run times, as predictions and as limits."""
GATE = Try("the policies that the gate promotes", INCUMBENT, family="idlewatt")
SCORER = Try("scorer, once trained", "scorer", family="agent")
HEEDED = Try("scorer, once trained, with abstention", "scorer", family="agent")
RANDOM = Try(CHANCE, CHANCE, family="chance")


def with_limits(work: Workload, quantiles: Floats, limits: str) -> Workload:
    """Return the jobs with the limits that a policy assumes; a job without a prediction keeps its limit."""
    if limits == TRUTH:
        return replace(work, prediction=work.run, limit=np.maximum(work.run, 1.0))
    known = replace(work, prediction=quantiles[:, QUANTILES.index(0.5)])
    if limits == SITE:
        return known
    learned = quantiles[:, QUANTILES.index(float(limits))]
    return replace(known, limit=np.where(np.isfinite(learned), np.maximum(learned, 1.0), work.limit))
