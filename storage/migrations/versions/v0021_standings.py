"""Whom standings are measured against: those against a former incumbent say nothing of the one that decides now."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of what was recorded before nobody knows it any more: '' is no incumbent.
    op.add_column("standings", sa.Column("incumbent", sa.Text(), nullable=False, server_default=""))
