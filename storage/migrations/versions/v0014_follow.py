"""What was changed on the scheduler to follow advice, before and after."""

from typing import TypeVar

import sqlalchemy as sa
from alembic import op

Kind = TypeVar("Kind")

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "follow_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        *_columns(sa.Text(), "process"), *_columns(sa.Boolean(), "dry_run"),
        *_columns(sa.Text(), "job_id"), *_columns(sa.Double(), "submit_s"),
        *_columns(sa.Text(), "user", "partition", "attribute", "before", "after", "found", "policy"),
        *_columns(sa.Double(), "issued_s", "snapshot_s"), *_columns(sa.Text(), "state", "why"),
        *_columns(sa.Double(), "intended_s", "deadline_s"),
        *(sa.Column(name, sa.Double(), nullable=True)
          for name in ("done_s", "confirmed_s", "started_s", "taking_back_s", "ended_s")),
        sa.PrimaryKeyConstraint("id", name="pk_follow_changes"))
    op.create_index("ix_follow_changes_intended_s", "follow_changes", ["intended_s"])
    op.create_index("ix_follow_changes_state", "follow_changes", ["state"])


def _columns(kind: sa.types.TypeEngine[Kind], *names: str) -> list[sa.Column[Kind]]:
    return [sa.Column(name, kind, nullable=False) for name in names]
