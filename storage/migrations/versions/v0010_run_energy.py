"""Energy by class of every run, and by day of users and nodes; what was recorded before has none."""

from typing import TypeVar

import sqlalchemy as sa
from alembic import op

Kind = TypeVar("Kind")

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

CLASSES = ("allocated_idle", "allocated_hung", "allocated_underused", "stranded", "idle_unallocated",
           "node_overhead_empty", "productive", "host_active", "planned", "outside_scheduler", "unavailable",
           "unmeasured")
SUMS = ("energy_mj", "wasted_mj", *(f"{name}_mj" for name in CLASSES), "gpu_ms", "measured_ms", "active_ms",
        "priced_mj", "cost_micro", "wasted_cost_micro", "gpu_cost_micro")


def upgrade() -> None:
    op.create_table(
        "run_energy",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        *_columns(sa.Text(), "job_id"), *_columns(sa.Double(), "submit_s", "start_s"),
        *_columns(sa.Text(), "user", "account", "partition", "gpu_model"),
        *_columns(sa.Double(), "first_s", "last_s", "gpus"), *_columns(sa.BigInteger(), "seen_ms", "shared_ms"),
        sa.Column("power_max_mw", sa.BigInteger(), nullable=True),
        sa.Column("memory_max_bytes", sa.BigInteger(), nullable=True),
        sa.Column("idle", sa.JSON(none_as_null=True), nullable=True),
        *_columns(sa.BigInteger(), *SUMS),
        sa.PrimaryKeyConstraint("id", name="pk_run_energy"),
        sa.UniqueConstraint("job_id", "submit_s", "start_s", name="uq_run_energy_job_id_submit_s_start_s"))
    op.create_index("ix_run_energy_last_s", "run_energy", ["last_s"])
    op.create_index("ix_run_energy_user_last_s", "run_energy", ["user", "last_s"])
    op.create_table(
        "run_windows", *_columns(sa.Double(), "start_s", "seconds"),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("start_s", "seconds", name="pk_run_windows"))
    op.create_table(
        "energy_days", *_columns(sa.Double(), "day_s"), *_columns(sa.Text(), "partition", "account", "user"),
        *_columns(sa.BigInteger(), *SUMS),
        sa.PrimaryKeyConstraint("day_s", "partition", "account", "user", name="pk_energy_days"),
        sqlite_with_rowid=False)
    op.create_table(
        "node_days", *_columns(sa.Double(), "day_s"), *_columns(sa.Text(), "node"), *_columns(sa.BigInteger(), *SUMS),
        sa.PrimaryKeyConstraint("day_s", "node", name="pk_node_days"), sqlite_with_rowid=False)


def _columns(kind: sa.types.TypeEngine[Kind], *names: str) -> list[sa.Column[Kind]]:
    return [sa.Column(name, kind, nullable=False) for name in names]
