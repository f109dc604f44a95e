"""Which source lists a job, where several schedulers are read."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of jobs that were recorded before, nobody knows.
    op.add_column("jobs", sa.Column("source", sa.Text(), nullable=True))
    known = sa.text("source IS NOT NULL")
    op.create_index("ix_jobs_with_source", "jobs", ["id"], sqlite_where=known, postgresql_where=known)
