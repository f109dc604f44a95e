"""The daemon as one user may see it: the cluster's watts without names, and of jobs only the user's own.

What is not listed here is hidden: a question that is new to the view answers nothing until somebody decides on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ...exporters.metrics import METRICS, Published
from ...exporters.metrics.declared import PREFIX
from ...storage.energy_queries import Dimension, Order, RunFilter
from ...storage.notices import Notice
from ...storage.recommendations import Recommendation
from ...storage.records import Job, Node
from ..advice.job_wait_estimate import JobWaitEstimate
from ..advice.recommender import RecommendationRow
from ..degraded import Degradation
from ..efficiency import EnergyBook, EnergyRow, HolderRow, JobReport, JobRow
from ..efficiency.digest import Saved
from ..efficiency.namesakes import EVERY
from ..efficiency.wasters import WastePart
from ..flavour_rows import FlavourRow
from ..pseudonyms import names_in
from ..waste.assessment import EnclosureVerdict
from .view import DecisionRow, ModelRow, NodeRow, ReloadError, SourceRow, Status, TargetGroup, View, WasteRow

if TYPE_CHECKING:
    from ...exporters.kubernetes.extender import PodQuestion

PERSONAL = frozenset(("user", "account", "job_id", "for_job_id"))
"""Labels of series that name a user, an account or a job."""
OTHER = "another user"
_RESERVATION = re.compile(rf"{OTHER}_\d+")
"""What is left of the name that Slurm gives to a reservation: bob_12."""


class OwnBook(EnergyBook):
    """Answers about one user's energy; sums of nodes and days that nobody is named in are everybody's."""

    def __init__(self, book: EnergyBook, user: str) -> None:
        super().__init__(book.history, book.costing, book.now, book.timelines)
        self._user = user

    def _own(self, wanted: RunFilter) -> RunFilter | None:
        """Return the same question about the user; None for one about somebody else."""
        return replace(wanted, user=self._user) if wanted.user in ("", self._user) else None

    def runs(self, wanted: RunFilter, order: Order, limit: int, offset: int = 0) -> tuple[tuple[JobRow, ...], int]:
        """Return the user's runs."""
        rows = self._own(wanted)
        return ((), 0) if rows is None else super().runs(rows, order, limit, offset)

    def by(self, dimension: Dimension, wanted: RunFilter, limit: int | None = None) -> tuple[EnergyRow, ...]:
        """Return the user's sums; those of nodes are of everybody."""
        rows = self._own(wanted)
        return () if rows is None else super().by(dimension, wanted if dimension == "node" else rows, limit)

    def wasters(self, parts: Iterable[WastePart], jobs: Sequence[Job], most: int) -> tuple[tuple[HolderRow, ...], int]:
        """Return the user's running jobs that waste."""
        return super().wasters(parts, [job for job in jobs if job.user == self._user], most)

    def reports(self, job_id: str, live: Sequence[Job] = (), wanted: RunFilter = EVERY) -> tuple[JobReport, ...]:
        """Return the reports of the user's own jobs of that id."""
        rows = self._own(wanted)
        return () if rows is None else super().reports(job_id, live, rows)


class OwnView(View):
    """Answers one user, of another view."""

    def __init__(self, view: View, user: str) -> None:
        self._view, self._user = view, user

    def published(self) -> Published:
        """Return the metrics without any series that names a user, an account or a job."""
        return anonymous(self._view.published())

    def recommendations(self) -> Sequence[Recommendation]:
        """Return advice on the user's jobs, in words that name no other user."""
        keys, hidden = self._keys(), self._hidden()
        return [_told(row, hidden) for row in self._view.recommendations() if (row.job_id, row.submit_s) in keys]

    def recommended(self, subject: str) -> Sequence[RecommendationRow]:
        """Return rows that are about the user's jobs and name nobody else's."""
        keys = self._keys()
        names = {job_id for job_id, _ in keys}
        return [row for row in self._view.recommended(subject) if (row.job_id, row.submit_s) in keys
                and _named(row) <= names | {self._user, ""}]

    def waste(self) -> Sequence[WasteRow]:
        """Return where every watt goes, without the names of other holders: the rows still add up."""
        return [row if row.user == self._user else replace(row, user="", account="", job_id="", run=None)
                for row in self._view.waste()]

    def nodes(self) -> Sequence[NodeRow]:
        """Return every node, without the names of other users it is kept for."""
        hidden = self._hidden()
        return [replace(row, node=_kept(row.node, self._user, hidden)) for row in self._view.nodes()]

    def racks(self) -> Sequence[EnclosureVerdict]:
        """Return the racks: they do not tell whose jobs are in them."""
        return self._view.racks()

    def jobs(self) -> Sequence[Job]:
        """Return the user's jobs."""
        return [job for job in self._view.jobs() if job.user == self._user]

    def users(self) -> Collection[str]:
        """Return the user: others are named in no text."""
        return {self._user}

    def book(self) -> EnergyBook:
        """Return the book of what the user's jobs took."""
        return OwnBook(self._view.book(), self._user)

    def saved(self) -> Saved | None:
        """Return what advice would have saved: it is about nobody."""
        return self._view.saved()

    def wait_estimates(self, job_id: str, within_s: float | None = None) -> Sequence[JobWaitEstimate]:
        """Return when a job of the user starts; other users are not named, nor are the ids of their jobs before it."""
        keys, hidden = self._keys(), self._hidden()
        names = {name for name, _ in keys}
        return tuple(replace(estimate, ahead=tuple(job if job.job_id in names else replace(job, job_id="")
                                                   for job in estimate.ahead),
                             reason=hidden(estimate.reason),
                             shapes=tuple(replace(one, reason=hidden(one.reason)) for one in estimate.shapes))
                     for estimate in self._view.wait_estimates(job_id, within_s)
                     if (estimate.job_id, estimate.submit_s) in keys)

    def models(self) -> Sequence[ModelRow]:
        """Return the candidates: they are about nobody."""
        return self._view.models()

    def decisions(self) -> Sequence[DecisionRow]:
        """Return the decisions on them."""
        return self._view.decisions()

    def notices(self, since_s: float, user: str = "") -> Sequence[Notice]:
        """Return the notices to the user; those to administrators about the user's jobs are not the user's."""
        notices = self._view.notices(since_s, self._user) if user in ("", self._user) else ()
        return [notice for notice in notices if notice.stage != "admins"]

    def flavours(self, since_s: float) -> Sequence[FlavourRow]:
        """Return the flavours: they are about nobody."""
        return self._view.flavours(since_s)

    def sources(self) -> Sequence[SourceRow]:
        """Return how each source fares, without its targets."""
        return [replace(row, targets=()) for row in self._view.sources()]

    def targets(self) -> Sequence[TargetGroup]:
        """Return no exporter: Prometheus asks as an administrator."""
        return ()

    def now(self) -> float:
        """Return the daemon's time."""
        return self._view.now()

    def status(self) -> Status:
        """Return whether what is shown can be believed, without what a mail server says of others' addresses."""
        status = self._view.status()
        return replace(status, degraded=tuple(_unnamed(condition) for condition in status.degraded))

    def missing(self) -> Sequence[str]:
        """Return what is missing before the daemon is ready."""
        return self._view.missing()

    def prioritize(self, question: PodQuestion) -> Mapping[str, int]:
        """Return nothing: schedulers ask as administrators."""
        return {}

    def reload(self) -> None:
        """Refuse: that is for administrators."""
        raise ReloadError("only an administrator may do that")

    def _keys(self) -> set[tuple[str, float]]:
        return {job.key for job in self.jobs()}

    def _hidden(self) -> Callable[[str], str]:
        """Return what takes the names of other users out of a text."""
        # Of ann-marie, ann is no part: names are looked for with the user's own among them.
        return partial(_without_others, users={*self._view.users(), self._user}, own=self._user)


def anonymous(published: Published) -> Published:
    """Return a page without the series that are about somebody."""
    personal = {metric.name.removeprefix(PREFIX) for metric in METRICS if not PERSONAL.isdisjoint(metric.labels)}
    return replace(published, **{field.name: {} for field in fields(published) if field.name in personal})  # type: ignore[arg-type]


def _told(row: Recommendation, hidden: Callable[[str], str]) -> Recommendation:
    """Return advice in words from which names are taken out."""
    return replace(row, reason=hidden(row.reason), reasons=tuple(map(hidden, row.reasons)),
                   alternatives=tuple(replace(one, reason=hidden(one.reason)) for one in row.alternatives))


def _kept(node: Node, own: str, hidden: Callable[[str], str]) -> Node:
    """Return a node without the names of other users in what it is kept for, or out of use for."""
    # Names are looked for in sentences: a name by itself may be a code.
    reservation = hidden(f"for {node.reservation}").removeprefix("for ")
    owner, reason = node.owner if node.owner == own else "", hidden(node.reason)
    same = (owner, reservation, reason) == (node.owner, node.reservation, node.reason)
    return node if same else replace(node, owner=owner, reservation=reservation, reason=reason)


def _without_others(text: str, users: Collection[str], own: str) -> str:
    """Return a text that calls every user but one ``OTHER``, also where a reservation is called by the user's name."""
    names = names_in(text, users)
    if names is None:
        return text
    return _RESERVATION.sub(f"{OTHER}'s", names.sub(lambda found: own if found[0] == own else OTHER, text))


def _unnamed(condition: Degradation) -> Degradation:
    """Return what is degraded without the words of others' mail servers and hooks, which may name anybody."""
    if condition.cause != "notices_behind":
        return condition
    return replace(condition, words=condition.words.partition(" (")[0] + condition.words.rpartition(")")[2])


def _named(row: object) -> set[str]:
    """Return the jobs and users that a row names, at any depth."""
    names: set[str] = set()
    if is_dataclass(row):
        for field in fields(row):
            value = getattr(row, field.name)
            if field.name in ("job_id", "user") and isinstance(value, str):
                names.add(value)
            elif field.name == "helps":
                names |= set(value)
            else:
                names |= _named(value)
    elif isinstance(row, tuple | list):
        for part in row:
            names |= _named(part)
    return names
