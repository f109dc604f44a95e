"""Why the GPUs of runs were underused; of what was recorded before nobody knows."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_causes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("updated_s", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_run_causes"),
        sa.UniqueConstraint("job_id", "submit_s", "start_s", "cause",
                            name="uq_run_causes_job_id_submit_s_start_s_cause"))
    op.create_index("ix_run_causes_updated_s", "run_causes", ["updated_s"])
