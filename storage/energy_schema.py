"""The tables of energy by run, day and node: what each job took, in which class, and what that cost.

Energy is in whole millijoules, time in whole milliseconds and money in millionths of the currency, so that sums stay
exact in whatever order windows arrive.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from .power_classes import PowerClass

CLASS_COLUMNS = {power_class: f"{power_class.value}_mj" for power_class in PowerClass}
"""The column of each class in every table here."""
COST_COLUMNS = {power_class: f"{power_class.value}_cost_micro" for power_class in PowerClass}
"""What the energy of each class cost, as far as its price was known."""
SUMS = ("energy_mj", "wasted_mj", *CLASS_COLUMNS.values(), "gpu_ms", "measured_ms", "active_ms", "priced_mj",
        "cost_micro", "wasted_cost_micro", "gpu_cost_micro", "intensity_mj", "carbon_mg", *COST_COLUMNS.values())
"""Columns that add up over runs: energy; time of GPUs held, with activity measured, and active; energy with a price,
and what it cost, of which wasted; the price of the GPU-hours; energy with a known carbon intensity, and its carbon;
the price of each class."""

NULLABLE_SUMS = ("intensity_mj", "carbon_mg", *COST_COLUMNS.values())
"""Sums that are NULL where no carbon intensity, or no price of the class, was ever known: no row has room for them."""
SELDOM = (*CLASS_COLUMNS.values(), "shared_ms", "priced_mj", "cost_micro", "wasted_cost_micro", "gpu_cost_micro")
"""Sums of which most runs have few: NULL stands for none of it, as a number takes eight bytes and NULL a bit."""


def _sums(seldom: tuple[str, ...] = ()) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=name in NULLABLE_SUMS or name in seldom) for name in SUMS]


def tables(metadata: MetaData) -> tuple[Table, Table, Table, Table]:
    """Return the tables ``run_energy``, ``run_windows``, ``energy_days`` and ``node_days``."""
    runs = Table(
        "run_energy", metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("job_id", Text, nullable=False),
        Column("submit_s", Double, nullable=False),
        Column("start_s", Double, nullable=False),
        Column("user", Text, nullable=False),
        Column("account", Text, nullable=False),
        Column("partition", Text, nullable=False),
        Column("gpu_model", Text, nullable=False),
        Column("first_s", Double, nullable=False),
        Column("last_s", Double, nullable=False),  # end of the last window with a part of it
        Column("gpus", Double, nullable=False),
        Column("seen_ms", BigInteger, nullable=False),  # how long it was looked at
        Column("shared_ms", BigInteger),  # of gpu_ms, on GPUs that others held too
        Column("power_max_mw", BigInteger),
        Column("memory_max_bytes", BigInteger),  # of the fullest GPU
        Column("idle", JSON(none_as_null=True)),  # GPUs that were never used, NULL where that is not known
        *_sums(SELDOM),
        UniqueConstraint("job_id", "submit_s", "start_s"))
    Index("ix_run_energy_last_s", runs.c.last_s)
    Index("ix_run_energy_user_last_s", runs.c.user, runs.c.last_s)
    # All runs of a window in one packed row; while it is there, the window is not added a second time.
    windows = Table("run_windows", metadata, Column("start_s", Double, primary_key=True),
                    Column("seconds", Double, primary_key=True), Column("packed", LargeBinary, nullable=False))
    # What nobody holds is in the rows of user ''.
    days = Table("energy_days", metadata, Column("day_s", Double, primary_key=True),
                 Column("partition", Text, primary_key=True), Column("account", Text, primary_key=True),
                 Column("user", Text, primary_key=True), *_sums(), sqlite_with_rowid=False)
    nodes = Table("node_days", metadata, Column("day_s", Double, primary_key=True),
                  Column("node", Text, primary_key=True), *_sums(), sqlite_with_rowid=False)
    return runs, windows, days, nodes


def prices(metadata: MetaData) -> Table:
    """Return the table ``energy_prices``: what a kWh cost, and what carbon it meant, by quarters of an hour."""
    return Table(
        "energy_prices", metadata, Column("start_s", Double, primary_key=True, autoincrement=False),
        Column("per_kwh", Double),  # NULL where nobody knew it
        Column("currency", Text, nullable=False),
        Column("grams_per_kwh", Double))


def causes(metadata: MetaData) -> Table:
    """Return the table ``run_causes``: how long which cause of underused GPUs was seen in a run."""
    table = Table(
        "run_causes", metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("job_id", Text, nullable=False),
        Column("submit_s", Double, nullable=False),
        Column("start_s", Double, nullable=False),
        Column("cause", Text, nullable=False),
        Column("updated_s", Double, nullable=False),
        Column("gpu_seconds", Double, nullable=False),
        Column("confidence", Double, nullable=False),
        Column("evidence", Text, nullable=False),  # JSON: means by what was measured
        UniqueConstraint("job_id", "submit_s", "start_s", "cause"))
    Index("ix_run_causes_updated_s", table.c.updated_s)
    return table
