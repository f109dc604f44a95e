"""The interface of recommendations beyond "start this job here": those about running jobs, and about how jobs run.

To add a recommender, write one file in the folder ``recommenders``. Its name is the recommender's, everywhere; the
first line of its docstring is the help of the command line and of the API, a sentence that begins in upper case and
ends with a dot. It holds:

* a class with the one method of ``Recommender`` (and that of ``RunListener``, where it learns from accounts), made by
  ``open(settings, history)`` and kept until its section of the configuration changes;
* at its end ``register(RecommenderKind("<name>", ...))``.

What follows from that without another line: a cycle of its own of the same name (what it raises is logged, counted
in ``cycle_failures_total`` and hides nothing else; earlier recommendations stay, with its age in
``recommendation_timestamp_seconds``), ``/api/v1/<name>`` with its place in the OpenAPI document,
``idlewatt advise --<name>``, the configuration, and metrics.

What stands elsewhere because it must: what a site may set, a section of ``settings.recommenders``; the row, a frozen
dataclass in a file of its own in ``storage`` (and a table, where it is kept); the metrics, as fields of
``exporters.metrics.Published``; the defaults in ``config.sample.yml``; a panel in ``grafana/builders/advice.py``. Facts
that only this recommender needs come from a source with a role of its own (``exporters.source.Role``) that it names in
``reads``: it is read in the recommender's cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from ...exporters.metrics.declared import Scalar, Series
    from ...exporters.source import Facts, Role
    from ...storage.history import History
    from ...storage.records import Job, SchedulerSnapshot
    from ...storage.telemetry import Telemetry
    from ..runtime_history import RuntimeHistory
    from ..waste import Assessment
    from .advisor import Advice


class RecommendationRow(Protocol):
    """The least that a recommendation holds; it is shown as JSON, field by field."""

    @property
    def job_id(self) -> str:
        """Return the job that would gain."""

    @property
    def submit_s(self) -> float:
        """Return when that job was submitted: ids come again."""

    @property
    def partition(self) -> str:
        """Return the partition of that job."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the row is about."""

    @property
    def snapshot_s(self) -> float | None:
        """Return when the scheduler was read that the row rests on; a recommender leaves it to the service."""


@dataclass(frozen=True, slots=True)
class RecommenderContext:
    """What is known at the time of a recommendation."""

    now_s: float
    snapshot: SchedulerSnapshot
    telemetry: Telemetry
    advice: Advice | None = None
    """What starts are advised; None before the first round."""
    facts: tuple[Facts, ...] = ()
    """The last good data of the sources that the recommender reads, some of it perhaps old."""
    predictor: RuntimeHistory | None = None
    """Run times of like jobs; None before the first round of advice."""
    assessment: Assessment | None = None
    """Where the watts went at the last look; None before the first."""


@dataclass(frozen=True, slots=True)
class Recommendations:
    """The recommendations of one kind at one time."""

    issued_s: float
    rows: tuple[RecommendationRow, ...] = ()
    """What is worth most first."""
    metrics: Mapping[str, Scalar | Series] = field(default_factory=dict)
    """Fields of ``Published``; of rows no more than the first ``metrics.declared.ADVICE``."""
    snapshot_s: float | None = None
    """When the cluster was seen that it rests on."""
    withdrawn: bool = False
    """Whether it was taken back since, because the cluster has not been seen for too long."""

    def resting_on(self, snapshot_s: float) -> Recommendations:
        """Return the recommendations with the time of the snapshot they rest on, in each row too."""
        rows = tuple(replace(row, snapshot_s=snapshot_s) for row in self.rows)  # type: ignore[type-var]
        return replace(self, rows=rows, snapshot_s=snapshot_s)


class Recommender(Protocol):
    """Makes recommendations of one kind again and again, in one thread at a time."""

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return the recommendations now; whatever this raises ends this round of this recommender only."""


@runtime_checkable
class RunListener(Protocol):
    """A recommender that learns from the accounts, too."""

    def finished(self, jobs: Iterable[Job]) -> None:
        """Take in jobs that ended, some of them again, in another thread than ``recommend``; StoreError is logged.

        Anything else that it raises ends this round of accounting.
        """


Row = TypeVar("Row", bound=RecommendationRow)


def told_apart(rows: Iterable[Row], jobs: Iterable[Job]) -> list[Row]:
    """Return the rows whose job is the only one of its id and partition among jobs: what labels can tell apart.

    Where two schedulers gave one id, a series of either would be taken for the other's, also where only one has a row.
    Jobs that have finished do not count: a job that is queued again may be a new submission.
    """
    times = Counter((job_id, partition) for job_id, _, partition in
                    {(job.job_id, job.submit_s, job.partition) for job in jobs if not job.state.finished})
    return [row for row in rows if times[row.job_id, row.partition] <= 1]


def _as_it_is(row: Mapping[str, object]) -> Mapping[str, object]:
    return row


@dataclass(frozen=True, slots=True)
class RecommenderKind:
    """A kind of recommendation."""

    name: str
    """The name of the recommender's file."""
    row: type
    """The type of its rows, of which pydantic makes JSON."""
    open: Callable[[Any, History], Recommender]
    """Makes the recommender of these settings; ValueError when they cannot be."""
    columns: Mapping[str, str]
    """Headings of the table by key of a row."""
    cells: Callable[[Mapping[str, object]], Mapping[str, object]] = _as_it_is
    """Makes of a row as JSON one for the table, with every key of ``columns``."""
    empty: str = "nothing to advise"
    """The text of a table without rows."""
    reads: tuple[Role, ...] = ()
    """Roles of the sources that are read for it alone."""


REGISTERED: dict[str, RecommenderKind] = {}
"""What the files that were imported so far have registered; ``recommenders.subjects`` imports them all."""


def register(kind: RecommenderKind) -> RecommenderKind:
    """Register a kind of recommendation; called by its own file."""
    REGISTERED[kind.name] = kind
    return kind
