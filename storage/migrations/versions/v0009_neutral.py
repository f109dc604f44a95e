"""No scheduler's own words: states and reasons of jobs are ours, the scheduler's word is kept beside the reason.

Renamed columns and one pass over each table: a million jobs take well under a minute.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from idlewatt.storage.former import NO_REASON, REASONS, STATES, USES

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
STATE, WORD, ID = (sa.column(name, sa.Text()) for name in ("state", "reason_text", "job_id"))
CHANGE = ("job", "time_s", "state", "reason", "reason_text")
CHANGES, CHANGES_NOW = (sa.table(name, *map(sa.column, CHANGE)) for name in ("job_changes", "job_changes_now"))
USED = sa.table("uses", sa.column("source"))


def upgrade() -> None:
    for table in ("jobs", "job_changes"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN reason TO reason_text")
        op.add_column(table, sa.Column("reason", sa.Text(), nullable=False, server_default=""))
    for name, default in (("array", ""), ("owner_kind", "batch"), ("owner", "")):
        op.add_column("jobs", sa.Column(name, sa.Text(), nullable=False, server_default=default))
    state, reason = sa.case(STATES, value=STATE, else_=sa.func.lower(STATE)), _reason()
    rewrite("jobs", state=state, reason=reason, array=_array())
    rewrite("runs", state=state)
    if _postgresql():
        rewrite("job_changes", state=state, reason=reason)
    else:
        copy_changes(state, reason)
    for old, new in USES.items():
        op.execute(USED.update().where(USED.c.source == old).values(source=new))


def rewrite(table: str, **values: Any) -> None:
    """Give columns of text other values on every row."""
    if not _postgresql():
        op.execute(sa.table(table, *map(sa.column, values)).update().values(values))
        return
    # One new copy of the table; an update would leave the old one beside it and write to every index row by row.
    parts = [f"ALTER COLUMN \"{name}\" TYPE TEXT USING {_written(value)}" for name, value in values.items()]
    op.execute(sa.text(f"ALTER TABLE {table} {', '.join(parts)}"))


def copy_changes(state: Any, reason: Any) -> None:
    """Copy the changes in SQLite: their state is part of the key, and keys that change one by one take far longer."""
    op.create_table(
        "job_changes_now",
        sa.Column("job", ROW_ID, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, server_default=""),
        sa.Column("reason_text", sa.Text(), nullable=False, server_default=""),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_changes_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "time_s", "state", name="pk_job_changes"),
        sqlite_with_rowid=False)
    now = sa.select(CHANGES.c.job, CHANGES.c.time_s, state, reason, CHANGES.c.reason_text).select_from(CHANGES)
    op.execute(CHANGES_NOW.insert().from_select(CHANGE, now.order_by(CHANGES.c.job, CHANGES.c.time_s)))
    op.drop_table("job_changes")
    op.rename_table("job_changes_now", "job_changes")


def _postgresql() -> bool:
    return bool(op.get_bind().dialect.name == "postgresql")


def _written(value: Any) -> str:
    compiled = value.compile(dialect=op.get_bind().dialect, compile_kwargs={"literal_binds": True})
    return str(compiled).replace(":", "\\:")


def _reason() -> Any:
    """Return what a word means: by patterns, since words that name nodes may be as many as jobs."""
    meanings = [(WORD.regexp_match(pattern), meaning.value) for pattern, meaning in REASONS]
    meaning = sa.case((WORD.in_(NO_REASON), ""), *meanings, else_="other")
    return sa.case((STATE.in_(["PENDING", "UNKNOWN"]), meaning), else_="")


def _array() -> Any:
    """Return the array that an id of a task tells of; nothing else told it."""
    mark = (sa.func.strpos if _postgresql() else sa.func.instr)(ID, "_")
    return sa.case((mark > 0, sa.func.substr(ID, 1, mark - 1)), else_="")
