"""What was changed on the scheduler to follow advice: noted before it is done, and until it is known to be over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, insert, select, update

from . import schema
from .values import TableRow, chunks, number, words

State = Literal["intended", "done", "pinned", "started", "taking_back",
                "taken_back", "edited", "refused", "lapsed", "ended"]
OPEN: tuple[State, ...] = ("intended", "done", "pinned", "started", "taking_back")
"""What may still stand on the scheduler; of the others nothing of ours does."""
CLOSED: tuple[State, ...] = ("taken_back", "edited", "refused", "lapsed", "ended")
"""``edited``: somebody else changed it, and it is theirs, be it that ours overtook it and it was set again; ``refused``
by the scheduler; ``lapsed``: it was intended and never seen there; ``ended`` with its job."""
Attribute = Literal["required_nodes", "nice"]
_CHANGING = ("state", "why", "found", "deadline_s", "done_s", "confirmed_s", "started_s", "taking_back_s", "ended_s")


@dataclass(frozen=True, slots=True)
class FollowChange:
    """One change to one pending job: times in seconds since the epoch, values as the scheduler writes them."""

    job_id: str
    submit_s: float
    user: str
    partition: str
    attribute: Attribute
    before: str
    """The value that is given back."""
    after: str
    policy: str
    issued_s: float
    snapshot_s: float
    intended_s: float
    deadline_s: float
    """When it is taken back unless the job has started."""
    process: str
    """Which process of ours did it: what another one did is not gone on with, but taken back."""
    dry_run: bool = False
    state: State = "intended"
    why: str = ""
    """Of the present state, in words."""
    found: str = ""
    """The value that was last read from the scheduler."""
    done_s: float | None = None
    confirmed_s: float | None = None
    started_s: float | None = None
    taking_back_s: float | None = None
    ended_s: float | None = None
    id: int | None = None

    @property
    def open(self) -> bool:
        """Tell whether it may still stand on the scheduler."""
        return self.state in OPEN

    @property
    def overtaken(self) -> str | None:
        """Return what its owner had set, ours has overwritten and is to be set again; None where there is nothing."""
        marked = self.state in ("done", "taking_back") and self.found not in ("", self.before, self.after)
        return self.found if marked else None

    def waited_s(self, now_s: float) -> float:
        """Return for how long its job waited under it."""
        until = [moment for moment in (self.started_s, self.ended_s) if moment is not None]
        return max(0.0, min(until, default=now_s) - self.intended_s)


def store(connection: Connection, change: FollowChange) -> int:
    """Write a new change and return its number."""
    values = {name: words(value) if isinstance(value, str) else value for name, value in _values(change).items()}
    written = connection.execute(insert(schema.follow_changes).values(values).returning(schema.follow_changes.c.id))
    return int(written.scalar_one())


def move(connection: Connection, change: FollowChange) -> bool:
    """Write how a change stands now; False where it is over already, which another process of ours found."""
    table = schema.follow_changes
    values = {name: value for name, value in _values(change).items() if name in _CHANGING}
    values = {name: words(value) if isinstance(value, str) else value for name, value in values.items()}
    written = connection.execute(update(table).where(table.c.id == change.id, table.c.state.in_(OPEN)).values(values))
    return written.rowcount > 0


def _values(change: FollowChange) -> dict[str, object]:
    row = {name: getattr(change, name) for name in change.__dataclass_fields__ if name != "id"}
    return row | {name: number(value) for name, value in row.items() if name.endswith("_s")}


def opened(connection: Connection) -> tuple[FollowChange, ...]:
    """Return the changes that may still stand, the oldest first."""
    table = schema.follow_changes
    return tuple(map(_change, connection.execute(select(table).where(table.c.state.in_(OPEN)).order_by(table.c.id))))


def read(connection: Connection, since_s: float, limit: int | None = None) -> tuple[FollowChange, ...]:
    """Return the changes that were intended since a moment, the newest first."""
    table = schema.follow_changes
    query = select(table).where(table.c.intended_s >= since_s).order_by(table.c.id.desc()).limit(limit)
    return tuple(map(_change, connection.execute(query)))


def read_of(connection: Connection, job_ids: Collection[str]) -> tuple[FollowChange, ...]:
    """Return the changes of some jobs, the oldest first."""
    table = schema.follow_changes
    found = (row for ids in chunks({words(job_id) for job_id in job_ids})
             for row in connection.execute(select(table).where(table.c.job_id.in_(ids))))
    return tuple(sorted(map(_change, found), key=lambda change: change.id or 0))


def _change(row: TableRow) -> FollowChange:
    return FollowChange(**row._mapping)
