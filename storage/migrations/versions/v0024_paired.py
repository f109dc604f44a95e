"""What policies saved beside the incumbent, over the windows in which both were replayed."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Totals before are of spans that nobody knows: '' is no incumbent, and what was saved is counted from now on.
    op.add_column("simulated", sa.Column("incumbent", sa.Text(), nullable=False, server_default=""))
    op.add_column("simulated", sa.Column("saved_joules", sa.Double(), nullable=False, server_default="0"))
    op.add_column("simulated", sa.Column("of_joules", sa.Double(), nullable=False, server_default="0"))
