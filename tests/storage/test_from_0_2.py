"""The database that version 0.2.0 recorded, brought to the schema of today: what was recorded is there."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from idlewatt.storage.energy_schema import SELDOM
from idlewatt.storage.history import History

RECORDED = Path(__file__).parents[1] / "recorded/idlewatt-0.2.0.sql.gz"
EVER = (0.0, 1e10)


@pytest.fixture
def former():
    """The database as 0.2.0 left it."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(gzip.decompress(RECORDED.read_bytes()).decode())
        yield database


@pytest.fixture
def url(former, tmp_path):
    with closing(sqlite3.connect(tmp_path / "idlewatt.db")) as copy:
        former.backup(copy)
    return f"sqlite:///{tmp_path}/idlewatt.db"


def columns(database, table):
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def rows(database, table, names, seldom=()):
    """Return the rows of a table in words; what is ``seldom`` there is NULL where it was 0."""
    quoted = ", ".join(f'NULLIF("{name}", 0)' if name in seldom else f'"{name}"' for name in names)
    return sorted(map(repr, database.execute(f"SELECT {quoted} FROM {table}")))



def test_every_row_of_every_table_is_there_as_it_was(former, url):
    History.open(url).close()
    tables = [name for name, in former.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
              if name not in ("alembic_version", "sqlite_sequence")]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as now:
        for table in tables:
            shared = [name for name in columns(former, table) if name in columns(now, table)]
            assert shared, table
            seldom = SELDOM if table == "run_energy" else ()
            assert rows(now, table, shared) == rows(former, table, shared, seldom), table
        assert now.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_jobs_and_their_joules_are_read_as_they_were_written(former, url):
    written = dict(former.execute("SELECT job_id, energy_mj FROM run_energy"))
    with History.open(url) as history:
        read = {job: sum(run.sums["energy_mj"] for run in history.runs_of(job)) for job in written}
        jobs = {job.job_id for job in history.jobs(*EVER)}
    assert read == written
    assert jobs == {job for job, in former.execute("SELECT job_id FROM jobs")}


def test_the_watts_of_all_classes_are_read_as_they_were_written(former, url):
    (written_mj,), = former.execute("SELECT sum(energy_mj) FROM node_days")
    with History.open(url) as history:
        read = sum(reading.energy_joules for reading in history.waste(*EVER))
    assert read == pytest.approx(written_mj / 1000, rel=0.01)
