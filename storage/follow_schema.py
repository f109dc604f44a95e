"""The table of what ``idlewatt follow`` changed on the scheduler, before it was done and after."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, Table, Text


def table(metadata: MetaData) -> Table:
    """Return the table ``follow_changes``."""
    changes = Table(
        "follow_changes", metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("process", Text, nullable=False),
        Column("dry_run", Boolean, nullable=False),
        Column("job_id", Text, nullable=False),
        Column("submit_s", Double, nullable=False),
        Column("user", Text, nullable=False),
        Column("partition", Text, nullable=False),
        Column("attribute", Text, nullable=False),
        Column("before", Text, nullable=False),
        Column("after", Text, nullable=False),
        Column("found", Text, nullable=False),
        Column("policy", Text, nullable=False),
        Column("issued_s", Double, nullable=False),
        Column("snapshot_s", Double, nullable=False),
        Column("state", Text, nullable=False),
        Column("why", Text, nullable=False),
        Column("intended_s", Double, nullable=False),
        Column("deadline_s", Double, nullable=False),
        Column("done_s", Double),
        Column("confirmed_s", Double),
        Column("started_s", Double),
        Column("taking_back_s", Double),
        Column("ended_s", Double))
    Index("ix_follow_changes_intended_s", changes.c.intended_s)
    Index("ix_follow_changes_state", changes.c.state)
    return changes
