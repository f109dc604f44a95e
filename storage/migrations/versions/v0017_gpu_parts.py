"""Parts of GPUs that jobs held, and the whole place of a node: levels above its spine, its NVLink domain."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("allocations", sa.Column("parts", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("node_changes", sa.Column("above", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("node_changes", sa.Column("domain", sa.Text(), nullable=False, server_default=""))
