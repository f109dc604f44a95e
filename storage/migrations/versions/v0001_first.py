"""The first schema: jobs with their runs, the inventory, energy, advice."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LIST = sa.JSON(none_as_null=True)


def upgrade() -> None:
    create_jobs()
    create_runs()
    create_nodes()
    create_energy()
    create_advice()


def create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("qos", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("eligible_s", sa.Double(), nullable=True),
        sa.Column("start_s", sa.Double(), nullable=True),
        sa.Column("end_s", sa.Double(), nullable=True),
        sa.Column("limit_s", sa.Double(), nullable=True),
        sa.Column("priority", sa.Double(), nullable=True),
        sa.Column("dependency", sa.Text(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("tasks", sa.BigInteger(), nullable=False),
        sa.Column("raw_id", sa.BigInteger(), nullable=True),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("changed_s", sa.Double(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("job_id", "submit_s", name="uq_jobs_job_id_submit_s")
    )
    op.create_index("ix_jobs_end_s", "jobs", ["end_s"])
    op.create_index("ix_jobs_open", "jobs", ["id"], sqlite_where=sa.text("open"), postgresql_where=sa.text("open"))
    op.create_index("ix_jobs_submit_s", "jobs", ["submit_s"])
    op.create_table(
        "job_changes",
        sa.Column("job", ROW_ID, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_changes_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job", "time_s", "state", name="pk_job_changes"),
        sqlite_with_rowid=False,
    )


def create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("job", ROW_ID, nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("end_s", sa.Double(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_runs_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("job", "start_s", name="uq_runs_job_start_s")
    )
    op.create_table(
        "allocations",
        sa.Column("run", ROW_ID, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("gpu_indexes", LIST, nullable=True),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_allocations_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "node", name="pk_allocations"),
        sqlite_with_rowid=False,
    )


def create_nodes() -> None:
    op.create_table(
        "node_changes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("partitions", LIST, nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("gpu_model", sa.Text(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("features", LIST, nullable=False),
        sa.Column("reservation", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("leaf", sa.Text(), nullable=False),
        sa.Column("spine", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_node_changes"),
        sa.UniqueConstraint("name", "time_s", name="uq_node_changes_name_time_s")
    )
    op.create_index("ix_node_changes_time_s", "node_changes", ["time_s"])


def create_energy() -> None:
    op.create_table(
        "boards",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_boards"),
        sa.UniqueConstraint("uuid", "node", "index", name="uq_boards_uuid_node_index")
    )
    op.create_table(
        "rollups",
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("board", ROW_ID, nullable=False),
        sa.Column("measured_ms", sa.BigInteger(), nullable=False),
        sa.Column("allocated_ms", sa.BigInteger(), nullable=False),
        sa.Column("energy_mj", sa.BigInteger(), nullable=True),
        sa.Column("activity_mean", sa.Double(), nullable=True),
        sa.Column("activity_max", sa.Double(), nullable=True),
        sa.Column("power_mean_watts", sa.Double(), nullable=True),
        sa.Column("power_max_watts", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["board"], ["boards.id"], name="fk_rollups_board"),
        sa.PrimaryKeyConstraint("start_s", "seconds", "board", name="pk_rollups"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "waste",
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("power_class", sa.Text(), nullable=False),
        sa.Column("energy_mj", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("start_s", "seconds", "partition", "node", "power_class", name="pk_waste"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "floors",
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("watts", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("updated_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("board", "kind", name="pk_floors")
    )


def create_advice() -> None:
    op.create_table(
        "recommendations",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("shadow", sa.Boolean(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("nodes", LIST, nullable=True),
        sa.Column("gpus", LIST, nullable=True),
        sa.Column("expected_start_s", sa.Double(), nullable=True),
        sa.Column("alternatives", LIST, nullable=False),
        sa.Column("interval_s", LIST, nullable=True),
        sa.Column("issued_s", sa.Double(), nullable=False),
        sa.Column("last_issued_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recommendations"),
        sa.UniqueConstraint("job_id", "submit_s", "policy", "issued_s",
                            name="uq_recommendations_job_id_submit_s_policy_issued_s")
    )
    op.create_index("ix_recommendations_last_issued_s", "recommendations", ["last_issued_s"])
    op.create_table(
        "verdicts",
        sa.Column("run", ROW_ID, nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("shadow", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("start_s", sa.Double(), nullable=False),
        sa.Column("recommendation", ROW_ID, nullable=True),
        sa.ForeignKeyConstraint(["recommendation"], ["recommendations.id"], name="fk_verdicts_recommendation",
                                ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_verdicts_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "policy", name="pk_verdicts")
    )
    op.create_index("ix_verdicts_recommendation", "verdicts", ["recommendation"])
