"""What each job runs: container image, framework and CUDA, as far as its scheduler told."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("image", "framework", "cuda"):
        op.add_column("jobs", sa.Column(name, sa.Text(), nullable=False, server_default=""))
