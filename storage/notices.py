"""Records which user was notified of what about which run, what waits, and which users opted out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, delete, select

from . import schema
from .database import upsert
from .values import TableRow, chunks, finite, number, whole, words

State = Literal["dry_run", "waiting", "sent", "left_out", "lapsed", "failed"]
STATES: tuple[State, ...] = ("dry_run", "waiting", "sent", "left_out", "lapsed", "failed")
"""``waiting`` is tried again; ``left_out`` is sent to nobody, for the reason that stands beside it; ``lapsed`` was over
before it could be sent; ``failed`` was given up."""
Stage = Literal["first", "second", "admins", "digest"]
Key = tuple[str, str, str, str, float, float]
"""Rule, stage, channel, job id, submission and start."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message that is sent once, by one channel, about one run of a job; a digest is about no job."""

    rule: str
    stage: Stage
    channel: str
    """``mail``, ``webhook``, ``alertmanager`` or ``hook``."""
    job_id: str
    submit_s: float
    start_s: float
    """Of the run; of a digest, a week before it was due."""
    kind: str
    user: str
    account: str
    partition: str
    state: State
    found_s: float
    updated_s: float
    words: str = ""
    fix: str = ""
    address: str = ""
    why: str = ""
    """Why it waits, was left out or failed."""
    sent_s: float | None = None
    next_s: float | None = None
    """When it is tried again."""
    tries: int = 0
    figures: Mapping[str, object] = field(default_factory=dict)
    """What the text says of the job."""

    @property
    def key(self) -> Key:
        """Return what identifies it."""
        return self.rule, self.stage, self.channel, self.job_id, self.submit_s, self.start_s

    @property
    def run(self) -> tuple[str, float, float]:
        """Return the run that it is about."""
        return self.job_id, self.submit_s, self.start_s


_TEXTS = ("rule", "stage", "channel", "job_id", "kind", "user", "account", "partition", "state", "why", "words", "fix",
          "address")
_CHANGING = ("state", "why", "words", "fix", "address", "found_s", "updated_s", "sent_s", "next_s", "tries", "figures")


def store(connection: Connection, notices: Iterable[Notice]) -> None:
    """Write notices; one that is there already changes its state."""
    rows = {notice.key: _row(notice) for notice in notices}
    upsert(connection, schema.notices, list(rows.values()), update=_CHANGING)


def _row(notice: Notice) -> dict[str, object]:
    row: dict[str, object] = {name: words(str(getattr(notice, name))) for name in _TEXTS}
    row |= {name: number(getattr(notice, name)) or 0.0 for name in ("submit_s", "start_s", "found_s", "updated_s")}
    row |= {name: number(getattr(notice, name)) for name in ("sent_s", "next_s")}
    return row | {"tries": whole(notice.tries), "figures": finite(dict(notice.figures))}


def read(connection: Connection, since_s: float, user: str = "", limit: int | None = None) -> tuple[Notice, ...]:
    """Return what changed since a moment, of one user where one is named, the newest first."""
    table = schema.notices
    query = select(table).where(table.c.updated_s >= since_s)
    if user:
        query = query.where(table.c.user == words(user))
    rows = connection.execute(query.order_by(table.c.updated_s.desc(), table.c.id.desc()).limit(limit))
    return tuple(map(_notice, rows))


def of_runs(connection: Connection, runs: set[tuple[str, float, float]]) -> tuple[Notice, ...]:
    """Return what was ever written of some runs."""
    table, notices = schema.notices, list[Notice]()
    for some in chunks(sorted({words(run[0]) for run in runs})):
        notices += map(_notice, connection.execute(select(table).where(table.c.job_id.in_(some))))
    return tuple(notice for notice in notices if notice.run in runs)


def _notice(row: TableRow) -> Notice:
    return Notice(
        row.rule, row.stage, row.channel, row.job_id, row.submit_s, row.start_s, row.kind, row.user, row.account,
        row.partition, row.state, row.found_s, row.updated_s, row.words, row.fix, row.address, row.why, row.sent_s,
        row.next_s, row.tries, row.figures or {})


def opted_out(connection: Connection) -> dict[str, float]:
    """Return the users who opted out, and since when."""
    return {row.user: row.since_s for row in connection.execute(select(schema.notice_opt_outs))}


def opt_out(connection: Connection, user: str, since_s: float) -> None:
    """Note that a user opted out; of one who did so before, the first time stays."""
    upsert(connection, schema.notice_opt_outs, [{"user": words(user), "since_s": since_s}])


def opt_in(connection: Connection, user: str) -> bool:
    """Note that a user wants to hear again; return whether that is new."""
    table = schema.notice_opt_outs
    return connection.execute(delete(table).where(table.c.user == words(user))).rowcount > 0
