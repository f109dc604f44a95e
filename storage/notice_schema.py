"""The tables of notices: which user was, or would have been, notified of what about which run, and the opt-outs."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text, UniqueConstraint


def tables(metadata: MetaData) -> tuple[Table, Table]:
    """Return the tables ``notices`` and ``notice_opt_outs``."""
    notices = Table(
        "notices", metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("rule", Text, nullable=False),
        Column("stage", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("job_id", Text, nullable=False),
        Column("submit_s", Double, nullable=False),
        Column("start_s", Double, nullable=False),
        Column("kind", Text, nullable=False),
        Column("user", Text, nullable=False),
        Column("account", Text, nullable=False),
        Column("partition", Text, nullable=False),
        Column("state", Text, nullable=False),
        Column("why", Text, nullable=False),
        Column("words", Text, nullable=False),
        Column("fix", Text, nullable=False),
        Column("address", Text, nullable=False),
        Column("found_s", Double, nullable=False),
        Column("updated_s", Double, nullable=False),
        Column("sent_s", Double),
        Column("next_s", Double),
        Column("tries", BigInteger, nullable=False),
        Column("figures", JSON(none_as_null=True)),
        UniqueConstraint("rule", "stage", "channel", "job_id", "submit_s", "start_s"))
    Index("ix_notices_updated_s", notices.c.updated_s)
    Index("ix_notices_user_updated_s", notices.c.user, notices.c.updated_s)
    opt_outs = Table("notice_opt_outs", metadata, Column("user", Text, primary_key=True),
                     Column("since_s", Double, nullable=False), sqlite_with_rowid=False)
    return notices, opt_outs
