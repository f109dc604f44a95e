"""The flavour that each job is of; those of the past are told by and by, from what they asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("flavour", sa.Text(), nullable=True))
    untold = sa.text("flavour IS NULL")
    op.create_index("ix_jobs_flavour_untold", "jobs", ["id"], sqlite_where=untold, postgresql_where=untold)
