"""How fast runs were, by number of GPUs: what curves for elastic counsel are fitted over."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "speeds",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("last_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_speeds"),
        sa.UniqueConstraint("job_id", "submit_s", "start_s", "basis", name="uq_speeds_job_id_submit_s_start_s_basis"),
    )
    op.create_index("ix_speeds_last_s", "speeds", ["last_s"])
