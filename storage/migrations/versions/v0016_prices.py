"""What electricity cost and meant by quarters of an hour; carbon is booked with the energy, as money is."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("run_energy", "energy_days", "node_days"):
        for name in ("intensity_mj", "carbon_mg"):
            op.add_column(table, sa.Column(name, sa.BigInteger(), nullable=True))
    op.create_table(
        "energy_prices",
        sa.Column("start_s", sa.Double(), nullable=False, autoincrement=False),
        sa.Column("per_kwh", sa.Double()),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("grams_per_kwh", sa.Double()),
        sa.PrimaryKeyConstraint("start_s", name="pk_energy_prices"))
