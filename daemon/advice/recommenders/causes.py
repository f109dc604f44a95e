"""Why GPUs of running jobs are underused: what they and their hosts did, five minutes at a time, held against rules.

The rules are in ``daemon.causes``. What is unknown has no row; how long each cause was seen is recorded
with the run, and stays on the job's page after its end.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....storage.errors import StoreError
from ....storage.history import History
from ....storage.records import Job
from ....storage.underuse import Cause, CauseTally, Underuse
from ...causes import CauseWatch, evidence_text, label, remedy, reported_causes
from ...settings.recommenders import CausesSettings
from ..held_gpus import HeldGpus
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register

if TYPE_CHECKING:
    from ....exporters.metrics.declared import Labelled

log = logging.getLogger(__name__)

RECORD_S = 300.0


class CauseRecommender:
    """Watches GPUs and hosts of running jobs, and says why they are underused."""

    def __init__(self, settings: CausesSettings, history: History) -> None:
        self._history, self._watch = history, CauseWatch()
        self._recorded_s = float("-inf")

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return a row for each running job with a known cause, and count the GPUs of all."""
        held = HeldGpus(context.telemetry.gpus, context.snapshot.nodes)
        self._watch.observe(context.snapshot, context.telemetry, held.of, context.now_s)
        self._remember(context.now_s)
        rows, counts = [], Counter[tuple[str, str]]()
        for job, tallies, activity in self._watch.running(context.now_s):
            gpus = sum(part.gpus for part in job.allocations)
            causes = reported_causes(tallies, gpus)
            row = _row(job, gpus, causes, tallies, activity, context.now_s)
            counts[job.partition, row.cause.value] += gpus
            if causes:
                rows.append(row)
        rows.sort(key=lambda row: (-row.gpus * row.share_ratio, row.job_id))
        return Recommendations(context.now_s, tuple(rows), _metrics(counts))

    def _remember(self, now_s: float) -> None:
        """Record what is new, of runs that are new after what was recorded of them before is read."""
        if now_s < self._recorded_s + RECORD_S:
            return
        self._recorded_s = now_s
        for step in (self._resume, lambda: self._history.record_causes(self._watch.unrecorded(now_s))):
            try:
                step()
            except StoreError as error:
                log.error("causes cannot be recorded or read now", extra={"error": str(error)})

    def _resume(self) -> None:
        new = self._watch.unresumed()
        if new:
            self._history.record_causes(())  # what waits to be written is to be read, too
            self._watch.resume(self._history.causes_of(new))


def _row(job: Job, gpus: int, causes: tuple[tuple[CauseTally, float], ...], tallies: Iterable[CauseTally],
         activity: float | None, now_s: float) -> Underuse:
    judged = sum(tally.gpu_seconds for tally in tallies)
    well = sum(tally.gpu_seconds for tally in tallies if tally.cause is Cause.NONE)
    main, share = causes[0] if causes else (None, 0.0)
    cause = main.cause if main else Cause.NONE if 2 * well >= judged else Cause.UNKNOWN
    return Underuse(job.job_id, job.submit_s, job.partition, job.user, now_s,
                    tuple(part.node for part in job.allocations), gpus, cause, share,
                    main.confidence if main else None, evidence_text(main.evidence) if main else (), remedy(cause),
                    judged / max(1, gpus), activity)


def _metrics(counts: Mapping[tuple[str, str], int]) -> dict[str, Labelled]:
    return {"underused_gpus": {place: float(count) for place, count in counts.items() if place[1] != Cause.NONE}}


def _cells(row: Mapping[str, Any]) -> Mapping[str, object]:
    return {**row, "what": label(Cause(row["cause"])), "share": f"{100 * row['share_ratio']:.0f} %",
            "sure": f"{100 * (row['confidence'] or 0):.0f} %", "why": "; ".join(row["evidence"])}


register(RecommenderKind("causes", Underuse, CauseRecommender, {
    "job_id": "job", "partition": "partition", "gpus": "GPUs", "what": "cause", "share": "of the time",
    "sure": "confidence", "why": "evidence", "remedy": "remedy"}, _cells,
    "it is known of no running job why its GPUs are underused"))
