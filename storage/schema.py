"""The tables of the history. A change here needs a migration beside ``migrations/versions``; a test compares them.

Energy is kept in whole millijoules and measured time in whole milliseconds, so that sums stay exact however the
windows are merged. NULL is unmeasured.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from . import configuration_schema, energy_schema, follow_schema, notice_schema, promotion_schema

metadata = MetaData(naming_convention={
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s", "pk": "pk_%(table_name)s",
})

# SQLite numbers rows by itself only in a column of exactly the type INTEGER.
_Id = BigInteger().with_variant(Integer, "sqlite")
_List = JSON(none_as_null=True)


def _of(table: str) -> ForeignKey:
    return ForeignKey(f"{table}.id", ondelete="CASCADE")


jobs = Table(
    "jobs", metadata,
    Column("id", _Id, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("qos", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("reason_text", Text, nullable=False, server_default=""),  # in the scheduler's own word
    Column("eligible_s", Double),
    Column("start_s", Double),
    Column("end_s", Double),
    Column("limit_s", Double),
    Column("priority", Double),
    Column("nice", BigInteger),  # NULL: unknown
    Column("dependency", Text, nullable=False),
    Column("restarts", BigInteger, nullable=False),
    Column("exit_code", BigInteger),
    Column("tasks", BigInteger, nullable=False),
    Column("raw_id", BigInteger),
    Column("array", Text, nullable=False, server_default=""),
    Column("owner_kind", Text, nullable=False, server_default="batch"),
    Column("owner", Text, nullable=False, server_default=""),
    Column("flavour", Text),  # NULL: not known yet; '' of none
    Column("image", Text, nullable=False, server_default=""),
    Column("framework", Text, nullable=False, server_default=""),
    Column("cuda", Text, nullable=False, server_default=""),
    Column("source", Text),  # of the job, where several schedulers are read; NULL: of the only one, or not known
    Column("gpus", BigInteger, nullable=False),
    Column("nodes", BigInteger, nullable=False),
    Column("cpus", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("request", JSON, nullable=False),  # the rarer wishes: features, required nodes, ...
    Column("changed_s", Double, nullable=False),  # when the newest fact about it was seen
    Column("open", Boolean, nullable=False),  # not seen finished
    UniqueConstraint("job_id", "submit_s"),
)
Index("ix_jobs_submit_s", jobs.c.submit_s)
Index("ix_jobs_end_s", jobs.c.end_s)
Index("ix_jobs_open", jobs.c.id, sqlite_where=jobs.c.open, postgresql_where=jobs.c.open)
_WITHOUT_FLAVOUR = jobs.c.flavour.is_(None)
Index("ix_jobs_flavour_untold", jobs.c.id, sqlite_where=_WITHOUT_FLAVOUR, postgresql_where=_WITHOUT_FLAVOUR)
_WITH_SOURCE = jobs.c.source.is_not(None)
Index("ix_jobs_with_source", jobs.c.id, sqlite_where=_WITH_SOURCE, postgresql_where=_WITH_SOURCE)

job_changes = Table(
    "job_changes", metadata,
    Column("job", _Id, _of("jobs"), primary_key=True),
    Column("time_s", Double, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("reason", Text, nullable=False, server_default=""),
    Column("reason_text", Text, nullable=False, server_default=""),
    sqlite_with_rowid=False,
)

runs = Table(
    "runs", metadata,
    Column("id", _Id, primary_key=True),
    Column("job", _Id, _of("jobs"), nullable=False),
    Column("start_s", Double, nullable=False),
    Column("end_s", Double),
    Column("state", Text, nullable=False),
    UniqueConstraint("job", "start_s"),
)

allocations = Table(
    "allocations", metadata,
    Column("run", _Id, _of("runs"), primary_key=True),
    Column("node", Text, primary_key=True),
    Column("gpus", BigInteger, nullable=False),
    Column("gpu_indexes", _List),
    Column("cpus", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("parts", _List),  # of GPUs, see gpu_parts.py
    Column("until_s", Double),  # when a run that goes on gave the node back
    sqlite_with_rowid=False,
)

node_changes = Table(
    "node_changes", metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("time_s", Double, nullable=False),
    Column("present", Boolean, nullable=False),  # false: the scheduler no longer lists it
    Column("state", Text, nullable=False),
    Column("partitions", _List, nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("gpu_model", Text, nullable=False),
    Column("cpus", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("features", _List, nullable=False),
    Column("reservation", Text, nullable=False), Column("reason", Text, nullable=False),
    Column("leaf", Text, nullable=False), Column("spine", Text, nullable=False),
    Column("above", _List, nullable=False, server_default="[]"),
    Column("domain", Text, nullable=False, server_default=""),
    UniqueConstraint("name", "time_s"),
)
Index("ix_node_changes_time_s", node_changes.c.time_s)

boards = Table(
    "boards", metadata,
    Column("id", _Id, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("index", BigInteger, nullable=False),
    UniqueConstraint("uuid", "node", "index"),
)

gpu_windows = Table(
    "gpu_windows", metadata,
    Column("start_s", Double, primary_key=True),
    Column("seconds", Double, primary_key=True),
    Column("packed", LargeBinary, nullable=False),  # all GPUs, see windows.py
)

waste_windows = Table(
    "waste_windows", metadata,
    Column("start_s", Double, primary_key=True),
    Column("seconds", Double, primary_key=True),
    Column("packed", LargeBinary, nullable=False),  # the classes of all nodes, see waste.py
)

run_energy, run_windows, energy_days, node_days = energy_schema.tables(metadata)
run_causes, energy_prices = energy_schema.causes(metadata), energy_schema.prices(metadata)
notices, notice_opt_outs = notice_schema.tables(metadata)
promotions, abstentions, standings = promotion_schema.tables(metadata)
follow_changes, scheduler_configurations = follow_schema.table(metadata), configuration_schema.table(metadata)

# Written by versions before 0008 only: retention moves its rows into gpu_windows.
rollups = Table(
    "rollups", metadata,
    Column("start_s", Double, primary_key=True),
    Column("seconds", Double, primary_key=True),
    Column("board", _Id, ForeignKey("boards.id"), primary_key=True),
    Column("measured_ms", BigInteger, nullable=False),
    Column("allocated_ms", BigInteger, nullable=False),
    Column("energy_mj", BigInteger),
    Column("activity_mean", Double),
    Column("activity_max", Double),
    Column("power_mean_watts", Double),
    Column("power_max_watts", Double),
    sqlite_with_rowid=False,
)

# Rows with a node were written by versions before 0008 only: retention moves them into waste_windows.
waste = Table(
    "waste", metadata,
    Column("start_s", Double, primary_key=True),
    Column("seconds", Double, primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("power_class", Text, primary_key=True),
    Column("energy_mj", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

floors = Table(
    "floors", metadata,
    Column("board", Text, primary_key=True),  # a UUID, or a model
    Column("kind", Text, primary_key=True),  # bare or context
    Column("watts", Double, nullable=False),
    Column("source", Text, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("updated_s", Double),
)

# Sentences and names that come again and again, the figures in them replaced by #.
phrases = Table(
    "phrases", metadata,
    Column("id", _Id, primary_key=True),
    Column("text", Text, nullable=False),
    UniqueConstraint("text"),
)

# The advice in force: one row for each waiting job and policy, overwritten, and moved to verdicts when the job starts.
recommendations = Table(
    "recommendations", metadata,
    Column("id", _Id, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("partition", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("shadow", Boolean, nullable=False),
    Column("objective", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("nodes", _List),
    Column("gpus", _List),
    Column("expected_start_s", Double),
    Column("alternatives", _List, nullable=False),
    Column("interval_s", _List),
    Column("wait_change_s", Double),
    Column("reasons", _List, nullable=False, server_default="[]"),
    Column("instead", _List),  # [policy, action, nodes, gpus, expected_start_s] of the heuristic
    Column("communication_cost", Double),
    Column("gpu_indexes", _List),
    Column("issued_s", Double, nullable=False),  # since when action and placement are these
    Column("last_issued_s", Double, nullable=False),
    Column("before", _List, nullable=False, server_default="[]"),  # what stood in the minutes before, oldest first
    Column("noted", _Id),  # phrase and time of the last row in advice_changes
    Column("noted_s", Double),
    UniqueConstraint("job_id", "submit_s", "policy"),
)

advice_changes = Table(
    "advice_changes", metadata,
    Column("time_s", Double, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("submit_s", Double, primary_key=True),
    Column("policy", _Id, primary_key=True),  # a phrase, as is the reason
    Column("action", Text, nullable=False),
    Column("reason", _Id, nullable=False),
    Column("figures", Text, nullable=False),
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts", metadata,
    Column("run", _Id, _of("runs"), primary_key=True),
    Column("policy", _Id, primary_key=True),  # a phrase; that of '' when nobody advised
    Column("shadow", Boolean, nullable=False),
    Column("verdict", Text, nullable=False),  # followed, elsewhere, earlier, later or not advised
    # The advice that was in force when the run started, NULL without any.
    Column("action", Text),
    Column("objective", _Id),
    Column("reason", _Id),
    Column("figures", Text),
    Column("nodes", _List),
    Column("gpus", _List),
    Column("expected_start_s", Double),
    Column("issued_s", Double),
    Column("last_issued_s", Double),
    sqlite_with_rowid=False,
)

# How many runs fared how, since recording began: runs go in time, these stay.
adherence = Table(
    "adherence", metadata,
    Column("policy", Text, primary_key=True),
    Column("shadow", Boolean, primary_key=True),
    Column("action", Text, primary_key=True),  # '' without advice
    Column("verdict", Text, primary_key=True),
    Column("runs", BigInteger, nullable=False),
)

simulated = Table(
    "simulated", metadata,
    Column("policy", Text, primary_key=True),
    Column("until_s", Double, nullable=False),
    Column("joules", Double, nullable=False),
    Column("wait_s", Double, nullable=False),
    Column("error_ratio", Double),
    Column("wait_error_ratio", Double),
    Column("incumbent", Text, nullable=False, server_default=""),
    Column("saved_joules", Double, nullable=False, server_default="0"),
    Column("of_joules", Double, nullable=False, server_default="0"),
)

speeds = Table(
    "speeds", metadata,
    Column("id", _Id, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("start_s", Double, nullable=False),
    Column("user", Text, nullable=False),
    Column("template", Text, nullable=False),
    Column("gpu_model", Text, nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("nodes", BigInteger, nullable=False),
    Column("basis", Text, nullable=False),  # throughput or activity
    Column("rate", Double, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("last_s", Double, nullable=False),
    UniqueConstraint("job_id", "submit_s", "start_s", "basis"),
)
Index("ix_speeds_last_s", speeds.c.last_s)

uses = Table(
    "uses", metadata,
    Column("id", _Id, primary_key=True),
    Column("job_id", Text, nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("start_s", Double, nullable=False),
    Column("user", Text, nullable=False),
    Column("template", Text, nullable=False),
    Column("gpus", BigInteger, nullable=False),  # held on each node, as are CPUs and memory
    Column("cpus", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("updated_s", Double, nullable=False),
    Column("measured_s", Double, nullable=False),
    Column("source", Text, nullable=False),  # cgroup, node or accounts
    Column("cpus_mean", Double, nullable=False),
    Column("cpus_p95", Double, nullable=False),
    Column("at_limit_ratio", Double, nullable=False),
    Column("memory_peak_bytes", Double),
    Column("activity", Double),
    UniqueConstraint("job_id", "submit_s", "start_s"),
)
Index("ix_uses_updated_s", uses.c.updated_s)

recorders = Table(
    "recorders", metadata,
    Column("id", _Id, primary_key=True),
    Column("token", Text, nullable=False),
    Column("place", Text, nullable=False),  # process and host, for a person
    Column("since_s", Double, nullable=False),
)

imports = Table(
    "imports", metadata,
    Column("source", Text, primary_key=True),  # sacct, or the digest of a file
    Column("part", Double, primary_key=True),  # start of the day, or rows of the file
    Column("runs", BigInteger, nullable=False),
    Column("done_s", Double, nullable=False),
)

CLOCKS = {
    "jobs": "submit_s", "job_changes": "time_s", "runs": "start_s", "node_changes": "time_s",
    "gpu_windows": "start_s", "waste_windows": "start_s", "run_energy": "last_s", "run_windows": "start_s",
    "energy_days": "day_s", "node_days": "day_s", "rollups": "start_s", "waste": "start_s",
    "floors": "updated_s", "recommendations": "issued_s", "advice_changes": "time_s", "verdicts": "issued_s",
    "promotions": "time_s", "abstentions": "first_s", "standings": "since_s", "simulated": "until_s",
    "speeds": "last_s", "uses": "updated_s", "run_causes": "updated_s", "recorders": "since_s", "imports": "done_s",
    "notices": "updated_s", "notice_opt_outs": "since_s", "follow_changes": "intended_s",
    "energy_prices": "start_s", "scheduler_configurations": "time_s",
}
"""The column that tells a row's age, by table."""
