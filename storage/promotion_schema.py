"""The tables of who may advise: decisions, abstentions, and how policies did beside the scheduler's own."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text

_ID = BigInteger().with_variant(Integer, "sqlite")


def tables(metadata: MetaData) -> tuple[Table, Table, Table]:
    """Return the tables ``promotions``, ``abstentions`` and ``standings``."""
    promotions = Table(
        "promotions", metadata,
        Column("id", _ID, primary_key=True),
        Column("time_s", Double, nullable=False),
        Column("model", Text, nullable=False),  # kind@version
        Column("decision", Text, nullable=False),  # promote, shadow, demote or refuse
        Column("by", Text, nullable=False),
        Column("reason", Text, nullable=False),
        Column("figures", JSON(none_as_null=True), nullable=False),
    )
    Index("ix_promotions_time_s", promotions.c.time_s)
    abstentions = Table(
        "abstentions", metadata,
        Column("id", _ID, primary_key=True),
        Column("model", Text, nullable=False),
        Column("cause", Text, nullable=False),
        Column("words", Text, nullable=False),
        Column("first_s", Double, nullable=False),
        Column("last_s", Double, nullable=False),
        Column("rounds", BigInteger, nullable=False),
    )
    Index("ix_abstentions_model_last_s", abstentions.c.model, abstentions.c.last_s)
    standings = Table(
        "standings", metadata,
        Column("policy", Text, primary_key=True),
        Column("since_s", Double, primary_key=True),
        Column("until_s", Double, nullable=False),
        Column("system_s", Double, nullable=False),  # seconds of jobs waiting or running, summed over jobs
        Column("incumbent_system_s", Double, nullable=False),
        Column("wait_s", Double, nullable=False),
        Column("incumbent_wait_s", Double, nullable=False),
        Column("incumbent", Text, nullable=False, server_default=""),  # '': recorded before it was
        sqlite_with_rowid=False,
    )
    return promotions, abstentions, standings
