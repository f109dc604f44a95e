"""What runs used of the CPUs and the memory that they held: what the next of their kind may need."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "uses",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("updated_s", sa.Double(), nullable=False),
        sa.Column("measured_s", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("cpus_mean", sa.Double(), nullable=False),
        sa.Column("cpus_p95", sa.Double(), nullable=False),
        sa.Column("at_limit_ratio", sa.Double(), nullable=False),
        sa.Column("memory_peak_bytes", sa.Double(), nullable=True),
        sa.Column("activity", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_uses"),
        sa.UniqueConstraint("job_id", "submit_s", "start_s", name="uq_uses_job_id_submit_s_start_s"),
    )
    op.create_index("ix_uses_updated_s", "uses", ["updated_s"])
