"""Decisions on trained agents, when they abstained, how they did in closed time; and what their advice rests on."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LIST = sa.JSON(none_as_null=True)


def upgrade() -> None:
    create_promotions()
    create_standings()
    with op.batch_alter_table("recommendations") as table:
        table.add_column(sa.Column("wait_change_s", sa.Double(), nullable=True))
        table.add_column(sa.Column("reasons", LIST, nullable=False, server_default="[]"))
        table.add_column(sa.Column("instead", LIST, nullable=True))


def create_promotions() -> None:
    op.create_table(
        "promotions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("figures", LIST, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_promotions")
    )
    op.create_index("ix_promotions_time_s", "promotions", ["time_s"])
    op.create_table(
        "abstentions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("first_s", sa.Double(), nullable=False),
        sa.Column("last_s", sa.Double(), nullable=False),
        sa.Column("rounds", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_abstentions")
    )
    op.create_index("ix_abstentions_model_last_s", "abstentions", ["model", "last_s"])


def create_standings() -> None:
    op.create_table(
        "standings",
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("since_s", sa.Double(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.Column("system_s", sa.Double(), nullable=False),
        sa.Column("incumbent_system_s", sa.Double(), nullable=False),
        sa.Column("wait_s", sa.Double(), nullable=False),
        sa.Column("incumbent_wait_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "since_s", name="pk_standings"),
        sqlite_with_rowid=False,
    )
