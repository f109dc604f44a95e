"""What is taken off the priority of each job, as far as its scheduler told."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("nice", sa.BigInteger(), nullable=True))
