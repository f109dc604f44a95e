"""What policies would have taken in closed windows: totals that outlive a restart."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "simulated",
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.Column("joules", sa.Double(), nullable=False),
        sa.Column("wait_s", sa.Double(), nullable=False),
        sa.Column("error_ratio", sa.Double(), nullable=True),
        sa.Column("wait_error_ratio", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("policy", name="pk_simulated")
    )
