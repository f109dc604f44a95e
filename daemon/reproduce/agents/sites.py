"""Public traces as histories of a site whose jobs have the speeds of published applications.

The traces do not name the programs, so the seed draws one of the applications of Pollux' tables for each job. Each job
may use from half to twice its GPUs. Speeds are therefore published figures, not the site's: every row says *prior*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...agents.histories import Material
from ...recorded_speeds import published
from ...replay.cluster import Cluster
from ...replay.site_speeds import SiteSpeeds
from ...replay.speed_priors import APPLICATIONS
from ..packaged import TraceSite
from ..scorer.sites import SITES, stretch_of

MOST_GPUS = 8
"""Number of GPUs of a node. Jobs that could grow beyond one node are rigid, because no such sizes were measured."""
LEAST, MOST = 0.5, 2
"""Least and greatest number of GPUs of an elastic job, relative to its request."""


@dataclass(frozen=True, slots=True)
class SiteHistory:
    """A trace as one site's history: the replayed jobs and their cluster."""

    name: str
    site: TraceSite
    nodes: int
    days: float
    """Length of the history from the first job, days."""

    @property
    def file(self) -> str:
        """Return the path of the trace in the folder of traces."""
        return self.site.file


_PHILLY, _OTHER, _VENUS = (next(site for site in SITES if part in site.name) for part in ("0e4a51", "7f04ca", "vcvGl"))
HISTORIES = (
    # Hardly anybody waits in the weeks after: nothing could be told.
    SiteHistory("Philly 0e4a51, 32 nodes", _PHILLY, 32, 36.0),
    # On its own 32 nodes nobody waits after the second week, on Venus' 20 there is nothing that a policy could change.
    SiteHistory("Philly 7f04ca on 22 nodes", _OTHER, 22, 24.5),
    SiteHistory("Venus vcvGl on 16 nodes", _VENUS, 16, 30.0),
)


def material_of(history: SiteHistory, traces: Path, seed: int) -> Material:
    """Return a history whose jobs have the speeds of applications drawn by ``seed``.

    Recorded run times count as those of the closest placement, because the traces do not name the placements.
    """
    work = stretch_of(history.site, traces).workload
    random = np.random.default_rng([17, seed])
    groups = tuple(published(name, name) for name in APPLICATIONS)
    drawn = random.integers(0, len(groups), len(work))
    apart = np.array([group.spread["leaf"].factor for group in groups])[drawn]
    elastic = work.gpus <= MOST_GPUS // MOST
    material = Material(history.name, Cluster.from_spec(f"{history.nodes}x8"), replace(
        work, run=work.run * np.where(work.gpus > MOST_GPUS, apart, 1.0), application=(drawn + 1).astype(np.int32),
        minimum=np.where(elastic, np.maximum(1, np.ceil(LEAST * work.gpus)), work.gpus).astype(np.int32),
        maximum=np.where(elastic, MOST * work.gpus, work.gpus).astype(np.int32)),
        speeds=SiteSpeeds("published tables", groups))
    return material.until(float(work.submit[0]) + history.days * 86400.0)
