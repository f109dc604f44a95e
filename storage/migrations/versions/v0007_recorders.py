"""Which daemons recorded, one after the other, and which parts of accounting were brought in."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "recorders",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("since_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recorders"),
    )
    op.create_table(
        "imports",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("part", sa.Double(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("done_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("source", "part", name="pk_imports"),
    )
