"""An upgrade at the size of a large site: a million runs in the schema of version 0.2, or in the last but one."""

import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import MetaData, Table, insert
from test_run_energy import DAY_S, JOBS, MONTH, job, run, sums, whole

from idlewatt.storage import database
from idlewatt.storage.energy_queries import RunFilter
from idlewatt.storage.history import History

MOST_S, MOST_ROOM = 120.0, 3.5
"""Wanted of an upgrade: minutes at most, and room for two more copies of the database while it lasts."""
SAMPLED_S = 0.05


def former(path: Path, version: str) -> None:
    """Write a database of an older schema with a million runs of a month."""
    engine = database.connect(database.parse(str(path)))
    with engine.connect().execution_options(writing=True) as connection:
        command.upgrade(database._alembic(connection), version)
        connection.commit()
    draw = random.Random(1)
    for first in range(0, JOBS, 50_000):
        numbers = range(first, first + 50_000)
        put(engine, "jobs", [job(number) for number in numbers])
        put(engine, "run_energy", [{"shared_ms": 0} | run(draw, number) for number in numbers])
    days = [MONTH + day * DAY_S for day in range(31)]
    put(engine, "energy_days", [whole(sums(draw)) | {
        "day_s": day, "partition": f"p{user % 6}", "account": f"lab{user % 20}", "user": f"user{user}"}
        for day in days for user in range(300)])
    put(engine, "node_days", [whole(sums(draw)) | {"day_s": day, "node": f"dgx-{node:04}"}
                              for day in days for node in range(1000)])
    engine.dispose()


def put(engine, name, rows):
    """Insert what the older table has room for; it knew no NULL."""
    table = Table(name, MetaData(), autoload_with=engine)
    kept = [column for column in (one.name for one in table.columns) if column in rows[0]]
    with engine.connect().execution_options(writing=True) as connection:
        connection.execute(insert(table), [{column: known(table.c[column], row[column]) for column in kept}
                                           for row in rows])
        connection.commit()


def known(column, value):
    return 0 if value is None and not column.nullable else value


def free(path: Path) -> int:
    """Return the bytes of a database that are free and used again."""
    with closing(sqlite3.connect(path)) as opened:
        return opened.execute("PRAGMA freelist_count").fetchone()[0] * opened.execute("PRAGMA page_size").fetchone()[0]


class Room:
    """Watches how much room a database and its logs take at most."""

    def __init__(self, path: Path) -> None:
        self._path, self._over, self.most = path, threading.Event(), 0

    def __enter__(self):
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._watcher.join()

    def _watch(self):
        while not self._over.wait(SAMPLED_S):
            self.most = max(self.most, self.now())

    def now(self) -> int:
        """Return the bytes of the database with its logs."""
        return sum(one.stat().st_size for one in self._path.parent.glob(f"{self._path.name}*"))


@pytest.mark.parametrize("version", ["0012", "0017"])
def test_a_million_runs_are_upgraded_in_minutes(tmp_path, capsys, version):
    path = tmp_path / "history.db"
    former(path, version)
    steps = []
    with Room(path) as room:
        before, began, spent = room.now(), time.perf_counter(), time.process_time()
        database.upgrade(database.connect(database.parse(str(path))),
                         lambda *_: steps.append(time.perf_counter() - began))
        took, spent = time.perf_counter() - began, time.process_time() - spent
    with capsys.disabled():
        print(f"\nfrom schema {version}: {took:.1f} s wall, {spent:.1f} s CPU, the last {steps[-1] - steps[-2]:.1f} s; "
              f"{before / 1e6:.0f} MB before, {room.most / 1e6:.0f} MB at most, {room.now() / 1e6:.0f} MB after, "
              f"of which {free(path) / 1e6:.0f} MB free")
    with History.open(f"sqlite:///{path}") as history:
        assert history.runs(RunFilter(since_s=MONTH, user="user7"), "ended", 50)[1] == JOBS // 300 + 1
    assert took < MOST_S
    assert room.most < MOST_ROOM * before
