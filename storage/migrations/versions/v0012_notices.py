"""Notices: which user was told what about which run, and which users opted out."""

from typing import TypeVar

import sqlalchemy as sa
from alembic import op

Kind = TypeVar("Kind")

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        *_columns(sa.Text(), "rule", "stage", "channel", "job_id"), *_columns(sa.Double(), "submit_s", "start_s"),
        *_columns(sa.Text(), "kind", "user", "account", "partition", "state", "why", "words", "fix", "address"),
        *_columns(sa.Double(), "found_s", "updated_s"),
        sa.Column("sent_s", sa.Double(), nullable=True), sa.Column("next_s", sa.Double(), nullable=True),
        *_columns(sa.BigInteger(), "tries"),
        sa.Column("figures", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sa.UniqueConstraint("rule", "stage", "channel", "job_id", "submit_s", "start_s",
                            name="uq_notices_rule_stage_channel_job_id_submit_s_start_s"))
    op.create_index("ix_notices_updated_s", "notices", ["updated_s"])
    op.create_index("ix_notices_user_updated_s", "notices", ["user", "updated_s"])
    op.create_table(
        "notice_opt_outs", *_columns(sa.Text(), "user"), *_columns(sa.Double(), "since_s"),
        sa.PrimaryKeyConstraint("user", name="pk_notice_opt_outs"), sqlite_with_rowid=False)


def _columns(kind: sa.types.TypeEngine[Kind], *names: str) -> list[sa.Column[Kind]]:
    return [sa.Column(name, kind, nullable=False) for name in names]
