"""The door: locks, versions, failures of the database, and what is kept meanwhile."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from idlewatt.storage import database
from idlewatt.storage import history as history_module
from idlewatt.storage.errors import (
    SchemaTooNew,
    SchemaTooOld,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    explain,
)
from idlewatt.storage.history import History
from idlewatt.storage.records import GpuRollup, SchedulerSnapshot


def test_a_second_daemon_on_the_same_database_is_refused_with_a_clear_message(history, url):
    with pytest.raises(StoreLocked, match="another idlewatt daemon records into .*history.* stop it first"):
        History.open(url)


def test_the_next_daemon_may_record_once_the_first_has_closed(url):
    History.open(url).close()
    History.open(url).close()


def test_readers_read_while_the_daemon_records(history, url, make):
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    with History.read_only(url) as reader:
        assert [job.job_id for job in reader.jobs(0, 1e9)] == ["1"]


def test_readers_cannot_write(history, url):
    with History.read_only(url) as reader, pytest.raises(StoreUnavailable, match="read-only"), \
            reader._reading() as connection:
        connection.execute(text("DELETE FROM jobs"))


def test_a_newer_schema_is_refused_and_left_alone(url):
    History.open(url).close()
    ours = _set_version(url, "9999")
    for door in (History.open, History.read_only):
        with pytest.raises(SchemaTooNew, match="9999.*newer.*install the newer version"):
            door(url)
    _set_version(url, ours)
    History.open(url).close()


def test_a_reader_does_not_migrate(url):
    History.open(url).close()
    _set_version(url, None)
    with pytest.raises(SchemaTooOld, match="db upgrade"):
        History.read_only(url)


def _set_version(url: str, version: str | None) -> str:
    """Change the recorded version of the schema; return the one before."""
    engine = history_module.database.connect(history_module.database.parse(url))
    with engine.begin() as connection:
        before = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        connection.execute(text("DELETE FROM alembic_version"))
        if version:
            connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": version})
    engine.dispose()
    return before


@pytest.mark.parametrize(("url", "problem"), [
    ("mysql://host/name", "sqlite and postgresql"), ("sqlite://", "names no file"), ("://", "no database URL"),
])
def test_a_url_that_cannot_serve_is_refused(url, problem):
    with pytest.raises(StoreError, match=problem):
        History.open(url)


@pytest.mark.parametrize("url", ["postgresql://u@h:abc/x", "postgresql://u:p@hush:hush/x", "postgresql://u:hush/x",
                                 "postgre-sql://u:hush@h/x"])
def test_a_url_that_cannot_be_read_is_refused_without_a_word_of_its_password(url):
    with pytest.raises(StoreError, match="no database URL.*port") as refused:
        database.parse(url)
    assert "hush" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("timeout", ["30s", "-1", "nan", "inf", "%20", "1&timeout=2"])
def test_a_timeout_that_is_no_time_is_refused(tmp_path, timeout):
    with pytest.raises(StoreError, match="timeout=.*seconds"):
        database.parse(f"sqlite:///{tmp_path}/a.db?timeout={timeout}")


def test_a_database_is_the_same_whoever_asks_it_and_however_its_url_is_written(tmp_path):
    server = [database.fingerprint(url) for url in (
        "postgresql://db/site", "postgresql://ann:secret@DB:5432/site", "postgresql+psycopg://bob@/site?host=db",
        "postgresql://db/other", "postgresql://db:5433/site", "postgresql://else/site")]
    assert [server.index(one) for one in server] == [0, 0, 0, 3, 4, 5]
    assert database.fingerprint(f"{tmp_path}/a.db") == database.fingerprint(f"sqlite:///{tmp_path}/./a.db?timeout=3")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]", "localhost.", "LOCALHOST:5432", "db.localhost",
                                  socket.gethostname(), socket.gethostname().partition(".")[0], ""])
@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_every_name_of_this_machine_is_the_same_server(host, driver):
    assert database.fingerprint(f"{driver}://{host}/site") == database.fingerprint("postgresql://localhost/site")


@pytest.mark.parametrize("url", ["postgresql:///site?host=/srv/sockets", "postgresql://10.0.0.1/site",
                                 "postgresql://127.0.0.1:5433/site", "postgresql://localhost.example.org/site"])
def test_other_servers_are_not_this_machines(url):
    assert database.fingerprint(url) != database.fingerprint("postgresql://localhost/site")


@pytest.mark.parametrize("name", ["a#b.db", "a%2541.db", "a%3Fb.db", "a b.db", "ä.db"])
def test_a_reader_opens_the_file_that_the_daemon_writes_whatever_its_name_holds(tmp_path, name):
    (tmp_path / "aA.db").touch()
    url = f"sqlite:///{tmp_path}/{name}"
    History.open(url).close()
    file = Path(database.parse(url).database)
    with History.read_only(url) as reader:
        assert reader.newest_s() is None
        assert reader.size_bytes() >= file.stat().st_size


def test_a_reader_names_the_file_as_the_url_does(tmp_path):
    (tmp_path / "a#b.db").write_bytes(b"no database" * 100)
    with pytest.raises(StoreUnavailable, match=f"database {tmp_path}/a#b.db is not an SQLite database"):
        History.read_only(f"sqlite:///{tmp_path}/a#b.db")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreUnavailable, match="nowhere/history.db.*check that the folder exists"):
        History.open(f"sqlite:///{tmp_path}/nowhere/history.db")


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "history.db").write_bytes(b"<html>" * 1000)
    with pytest.raises(StoreUnavailable, match="is not an SQLite database"):
        History.open(f"sqlite:///{tmp_path}/history.db")
    (tmp_path / "history.db").unlink()
    History.open(f"sqlite:///{tmp_path}/history.db").close()


def test_a_server_that_is_gone_is_named():
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        History.open("postgresql://nobody:secret@/x?host=/nonexistent")


def test_the_password_is_not_shown():
    with pytest.raises(StoreUnavailable) as caught:
        History.open("postgresql://nobody:secret@/x?host=/nonexistent")
    assert "secret" not in str(caught.value)


@pytest.fixture
def sqlite_history(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/history.db?timeout=0.1") as opened:
        yield opened


def test_what_could_not_be_written_to_a_locked_database_is_written_at_the_next_call(sqlite_history, tmp_path, make):
    blocker = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another program"):
        sqlite_history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    with pytest.raises(StoreUnavailable):
        sqlite_history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(120.0),)))
    assert sqlite_history.backlog == 2
    blocker.execute("ROLLBACK")
    sqlite_history.record_waste([])
    assert [change.state for change in sqlite_history.job("1").changes] == ["pending", "running"]
    assert (sqlite_history.backlog, sqlite_history.dropped) == (0, 0)


def test_a_copy_that_is_made_beside_a_daemon_at_work_is_a_history_of_its_own(sqlite_history, tmp_path, make):
    """As docs/operations.md has it: sqlite3 FILE ".backup COPY"."""
    sqlite_history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    with (closing(sqlite3.connect(tmp_path / "history.db")) as source,
          closing(sqlite3.connect(tmp_path / "copy.db")) as copy):
        source.backup(copy)
    sqlite_history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(120.0),)))
    with History.open(f"sqlite:///{tmp_path}/copy.db") as restored:
        assert [change.state for change in restored.job("1").changes] == ["pending"]
        restored.record_snapshot(SchedulerSnapshot(140.0, jobs=(make.running(120.0),)))
        assert [change.state for change in restored.job("1").changes] == ["pending", "running"]


def test_a_full_disk_loses_nothing_once_there_is_room_again(sqlite_history):
    limit = _limit_pages(sqlite_history, 1)
    rollups = [GpuRollup(300.0 * window, 300.0, "a", f"GPU-{index}", index, 300.0, 1.5)
               for window in range(1000) for index in range(8)]
    with pytest.raises(StoreUnavailable, match="full; free some space"):
        sqlite_history.record_rollups(rollups)
    assert sqlite_history.rollups(0, 1e9) == ()
    limit["pages"] = 1 << 30
    sqlite_history._engine.dispose()
    sqlite_history.record_rollups([])
    assert len(sqlite_history.rollups(0, 1e9)) == len(rollups)


def _limit_pages(history: History, pages: int) -> dict[str, int]:
    limit = {"pages": pages}

    @event.listens_for(history._engine, "checkout")
    def set_limit(connection, _record, _proxy) -> None:
        connection.execute(f"PRAGMA max_page_count = {limit['pages']}")

    return limit


def test_a_read_only_database_is_named_and_nothing_is_lost(sqlite_history, make):
    @event.listens_for(sqlite_history._engine, "checkout")
    def forbid(connection, _record, _proxy) -> None:
        connection.execute("PRAGMA query_only = ON")

    with pytest.raises(StoreUnavailable, match="read-only; check its owner"):
        sqlite_history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    event.remove(sqlite_history._engine, "checkout", forbid)
    sqlite_history._engine.dispose()
    sqlite_history.record_waste([])
    assert sqlite_history.job("1") is not None


def test_facts_that_no_database_takes_spoil_nothing(history, make):
    hostile = make.job(job_id="1\0\ud800", name="x\0y", priority=float("nan"), limit_s=float("inf"), raw_id=10**30)
    unknown_time = make.job(job_id="2", submit_s=float("nan"))
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(hostile, unknown_time, make.job(job_id="3"))))
    assert {(job.job_id, job.name) for job in history.jobs(0, 1e9)} == {("1?", "xy"), ("3", "")}
    assert history.dropped == 0


def test_stats_tell_rows_bytes_and_age(history, make):
    history.record_snapshot(SchedulerSnapshot(110.0, nodes=(make.node(),), jobs=(make.job(), make.job("2", 105.0))))
    table = {row.table: row for row in history.stats()}["jobs"]
    assert (table.rows, table.oldest_s, table.newest_s) == (2, 100.0, 105.0)
    assert table.bytes > 0
    assert history.size_bytes() > 0


_WRITER = """
import sys
from idlewatt.storage.history import History
from idlewatt.storage.records import *
history = History.open(sys.argv[1])
print("recording", flush=True)
for second in range(10**9):
    jobs = tuple(Job(str(number), 0.0, JobState.RUNNING, "gpu", Request(gpus=1), start_s=float(number),
                     allocations=(Allocation("a", 1, (number % 8,)),)) for number in range(second, second + 20))
    history.record_snapshot(SchedulerSnapshot(float(second), (Node("a", ("gpu",), 8, cpus=second),), (), jobs))
    print(second, flush=True)
"""


def test_a_crash_at_any_moment_leaves_a_consistent_file(url):
    for crash in range(4):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, text=True)
        said = [writer.stdout.readline() for _ in range(3 + 7 * crash)]
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.communicate()[0].splitlines()
        assert writer.returncode == -signal.SIGKILL
        last = max(int(line) for line in said if line.strip().isdigit())
        with History.open(url) as history, history._reading() as connection:
            _assert_whole(connection)
            # A whole number survives a torn last line only if it was recorded.
            assert len(history.jobs(-1, 1)) >= last + 20


def _assert_whole(connection) -> None:
    if connection.dialect.name == "sqlite":
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
    orphans = ("SELECT count(*) FROM jobs WHERE id NOT IN (SELECT job FROM runs)",
               "SELECT count(*) FROM jobs WHERE id NOT IN (SELECT job FROM job_changes)",
               "SELECT count(*) FROM runs WHERE id NOT IN (SELECT run FROM allocations)",
               "SELECT count(*) FROM runs WHERE id NOT IN (SELECT run FROM verdicts)")
    assert [connection.execute(text(query)).scalar_one() for query in orphans] == [0, 0, 0, 0]


def test_the_lock_file_lies_beside_the_database(sqlite_history, tmp_path):
    assert (tmp_path / "history.db.lock").read_text() == str(os.getpid())
    assert Path(tmp_path / "history.db").exists()


@pytest.mark.postgres
@pytest.mark.parametrize(("kind", "waits"), [
    ("ConnectionTimeout", True), ("DeadlockDetected", True), ("InternalError_", True), ("IoError", True),
    ("UndefinedTable", True), ("CannotConnectNow", True), ("TooManyConnections", True),
    ("UniqueViolation", False), ("NumericValueOutOfRange", False), ("SyntaxError", False),
])
def test_only_what_is_wrong_with_the_facts_themselves_is_given_up(kind, waits):
    errors = pytest.importorskip("psycopg.errors")
    failed = DBAPIError("INSERT", {}, getattr(errors, kind)("told"))
    assert (explain(failed, database.parse("postgresql://db/x")) is not None) is waits
