"""When a run that shrank gave a node back."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of runs that were recorded before, nobody knows: they keep their nodes to their ends.
    op.add_column("allocations", sa.Column("until_s", sa.Double(), nullable=True))
