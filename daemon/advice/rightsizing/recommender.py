"""Considers shares round by round: measures use, records it, makes a plan for each node and tells it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from ....exporters.metrics.declared import ADVICE
from ....storage.errors import StoreError
from ....storage.history import History
from ....storage.records import Job
from ....storage.shares import ShareAdvice
from ...settings.recommenders import AllocationSettings
from ..recommender import Recommendations, RecommenderContext, told_apart
from .accounts import accounted
from .node_view import Insight, NodeView, Past, candidates, node_view
from .rows import ShareRows
from .tune import Key, tune
from .usage_meter import UsageMeter

log = logging.getLogger(__name__)

RECORD_S = 300.0
"""How often uses are recorded: a run that ends in between is recorded the next time."""
OVERLAP_S = 2 * RECORD_S
"""How far back is read again what was recorded: the last reading of a run is older than its record."""
BOUNDS = ("estimate", "low", "high")
REMEMBERED_S = 90 * 86400.0
"""How far back like runs are looked for."""
PAST = 20_000
"""Runs that are read back at most."""


class ShareRecommender:
    """Recommends which job should have which share of a node's CPUs and memory."""

    def __init__(self, settings: AllocationSettings, history: History) -> None:
        self._settings, self._history = settings, history
        self._meter, self._past = UsageMeter(settings.window, settings.starved), Past()
        self._recorded_s, self._unread_s, self._change = float("-inf"), float("-inf"), Lock()

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return a row for every job that runs on a GPU node, and for each that could start on what others leave."""
        self._meter.observe(context.snapshot, context.telemetry)
        self._remember(context.now_s)
        insight = Insight(self._meter.windows(), self._past, self._settings.models, self._settings.margin,
                          self._settings.starved)
        advice = context.advice.recommendations if context.advice else ()
        view = node_view(context.snapshot, advice, insight, context.now_s)
        rows = tuple(sorted(self._rows(view, context, insight), key=_urgency))
        top = [row for row in told_apart(rows, context.snapshot.jobs) if row.gains][:ADVICE]
        return Recommendations(context.now_s, rows, _metrics(rows, top, view))

    def finished(self, jobs: Iterable[Job]) -> None:
        """Record what accounting tells of jobs; it may tell late, so that is read from the first of their ends on."""
        uses = list(accounted(jobs, self._settings.starved))
        try:
            self._history.record_uses(uses)
        finally:  # what cannot be written now is kept, and written later
            self._read_from(min((use.updated_s for use in uses), default=float("inf")))

    def _read_from(self, time_s: float) -> None:
        with self._change:
            self._unread_s = min(self._unread_s, time_s)

    def _remember(self, now_s: float) -> None:
        """Read what there is of like runs, and write what was measured; without a database what is known must do."""
        if now_s < self._recorded_s + RECORD_S:
            return
        self._recorded_s = now_s
        with self._change:
            since_s, self._unread_s = self._unread_s, now_s - OVERLAP_S
        try:
            self._history.record_uses(())  # what waits to be written is to be read, too
            # Read first: what was measured before a restart goes on and is not replaced by minutes.
            known = self._history.uses(max(now_s - REMEMBERED_S, since_s), PAST)
            self._meter.resume(known)
            self._past.learn(known)
            self._history.record_uses(self._meter.unrecorded())
        except StoreError as error:
            self._read_from(since_s)
            log.error("what runs used cannot be recorded or read now", extra={"error": str(error)})

    def _rows(self, view: NodeView, context: RecommenderContext, insight: Insight) -> Iterator[ShareAdvice]:
        seen: set[Key] = set()
        # The fullest nodes first: what fits there leaves whole nodes to jobs that need them.
        for node in sorted(context.snapshot.nodes, key=lambda node: (node.gpus - node.gpus_allocated, node.name)):
            if node.name not in view.nodes:
                continue
            here = view.nodes[node.name]
            waiting = [tenant for tenant in candidates(node, view, insight, context.now_s) if tenant.key not in seen]
            shares = ShareRows(node.name, here, waiting, tune(here, waiting), view, context.now_s)
            for row in shares.rows(self._settings.window):
                if (row.job_id, row.submit_s) not in seen:  # of a job on several nodes: the row of the first
                    seen.add((row.job_id, row.submit_s))
                    yield row


def _urgency(row: ShareAdvice) -> tuple[bool, bool, float, str, float]:
    """Put jobs that could start first, then those that gain most, then those that only give or keep."""
    return not row.gains, row.state != "pending", -(row.sooner_ratio or 0.0), row.job_id, row.submit_s


def _metrics(rows: Sequence[ShareAdvice], top: Sequence[ShareAdvice],
             view: NodeView) -> dict[str, Mapping[Any, float | None]]:
    """Return metrics of the rows at the top, and sums over all."""
    unused: Counter[tuple[str, str]] = Counter()
    for node in view.nodes.values():
        for tenant in node.tenants:
            if tenant.gives:
                partition, known = view.jobs[tenant.key].partition, tenant.speed_estimate
                has, least = known.has, known.least
                unused[partition, "cpus"] += has.cpus - least.cpus
                unused[partition, "memory"] += has.memory_bytes - least.memory_bytes
    return {
        "allocation_cpus": {(row.partition, row.job_id, which): value for row in top for which, value in (
            ("held", float(row.cpus)), ("used", row.cpus_used), ("advised", float(row.cpus_advised)))},
        "allocation_memory_bytes": {(row.partition, row.job_id, which): value for row in top for which, value in (
            ("held", float(row.memory_bytes)), ("used", row.memory_used_bytes),
            ("advised", float(row.memory_advised_bytes)))},
        "allocation_sooner_ratio": {
            (row.partition, row.job_id, bound): value for row in top if row.sooner_interval is not None
            for bound, value in zip(BOUNDS, (row.sooner_ratio, *row.sooner_interval), strict=True)},
        "allocation_starts_sooner_seconds": {(row.partition, row.job_id): row.starts_sooner_s for row in top},
        "allocation_info": {(row.partition, row.job_id, row.state, row.nodes[0], row.basis, row.reason): 1.0
                            for row in top},
        "allocation_jobs": {basis: float(sum(row.basis == basis for row in rows))
                            for basis in ("measured", "prior", "fair-share")},
        "unused_cpus": {partition: float(amount) for (partition, resource), amount in unused.items()
                        if resource == "cpus"},
        "unused_memory_bytes": {partition: float(amount) for (partition, resource), amount in unused.items()
                                if resource == "memory"},
    }
