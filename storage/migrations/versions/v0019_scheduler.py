"""What the scheduler was configured to decide by: priorities, backfill, preemption, shares."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "scheduler_configurations",
        sa.Column("time_s", sa.Double(), nullable=False, autoincrement=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("time_s", name="pk_scheduler_configurations"))
