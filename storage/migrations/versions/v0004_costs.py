"""What a placement costs in communication, and which GPUs it is on."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("recommendations", sa.Column("communication_cost", sa.Double(), nullable=True))
    op.add_column("recommendations", sa.Column("gpu_indexes", sa.JSON(none_as_null=True), nullable=True))
