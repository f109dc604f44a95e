"""The table of what the scheduler was configured to decide by."""

from __future__ import annotations

from sqlalchemy import Column, Double, LargeBinary, MetaData, Table


def table(metadata: MetaData) -> Table:
    """Return the table ``scheduler_configurations``."""
    return Table(
        "scheduler_configurations", metadata,
        Column("time_s", Double, primary_key=True, autoincrement=False),
        Column("packed", LargeBinary, nullable=False))  # see scheduler_configuration.py
