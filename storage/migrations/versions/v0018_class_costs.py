"""Money by class beside energy by class; a class of which a run took nothing has no room in its row."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

CLASSES = ("allocated_idle", "allocated_hung", "allocated_underused", "stranded", "idle_unallocated",
           "node_overhead_empty", "productive", "host_active", "planned", "outside_scheduler", "unavailable",
           "unmeasured")
TABLES = ("run_energy", "energy_days", "node_days")
SELDOM = (*(f"{name}_mj" for name in CLASSES), "shared_ms", "priced_mj", "cost_micro", "wasted_cost_micro",
          "gpu_cost_micro")
"""Sums of a run of which most runs have few."""


def upgrade() -> None:
    for table in TABLES:
        for name in CLASSES:
            op.add_column(table, sa.Column(f"{name}_cost_micro", sa.BigInteger(), nullable=True))
    with op.batch_alter_table("run_energy") as runs:
        for column in SELDOM:
            runs.alter_column(column, existing_type=sa.BigInteger(), nullable=True)
    # What was booked before is divided at the mean price of its row.
    costs = [f"{name}_cost_micro = CASE WHEN priced_mj > 0 AND energy_mj > 0 THEN "
             f"NULLIF(CAST(round(1.0 * {name}_mj * cost_micro / energy_mj) AS BIGINT), 0) END" for name in CLASSES]
    nothing = [f"{column} = NULLIF({column}, 0)" for column in SELDOM]
    for table in TABLES:
        changes = ", ".join(costs + nothing if table == "run_energy" else costs)
        op.execute(f"UPDATE {table} SET {changes}")  # noqa: S608 - names of ours
