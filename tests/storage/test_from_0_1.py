"""The database that version 0.1.0 recorded, brought to the schema of today: what was recorded is there."""

import gzip
import sqlite3
from pathlib import Path

import pytest

from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass

RECORDED = Path(__file__).parents[1] / "recorded/idlewatt-0.1.0.sql.gz"
EVER = (0.0, 1e10)


@pytest.fixture
def former(tmp_path):
    """The database as 0.1.0 left it."""
    with sqlite3.connect(tmp_path / "idlewatt.db") as database:
        database.executescript(gzip.decompress(RECORDED.read_bytes()).decode())
    return database


@pytest.fixture
def history(former, tmp_path):
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as opened:
        yield opened


def rows(database, sql):
    return database.execute(sql).fetchall()


def test_every_job_and_run_is_there(former, history):
    wanted = {(job, submit_s, state.lower()) for job, submit_s, state in
              rows(former, "SELECT job_id, submit_s, state FROM jobs")}
    jobs = [history.job(job) for job, *_ in wanted]
    assert len(jobs) == len(wanted) == 13
    assert {(job.job.job_id, job.job.submit_s, job.job.state.value) for job in jobs} == wanted


def test_every_joule_is_there(tmp_path, former):
    before_mj = dict(rows(former, "SELECT power_class, sum(energy_mj) FROM waste WHERE node = '' GROUP BY power_class"))
    boards_mj = rows(former, "SELECT sum(energy_mj) FROM rollups")[0][0]
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as history:
        after = {}
        for reading in history.waste(*EVER):
            if not reading.node:
                after[reading.power_class] = after.get(reading.power_class, 0.0) + reading.energy_joules
        rollups = history.rollups(*EVER)
    assert after == {PowerClass(name): pytest.approx(energy / 1000) for name, energy in before_mj.items()}
    assert sum(rollup.energy_joules for rollup in rollups) == pytest.approx(boards_mj / 1000)


def test_verdicts_and_advice_in_force_are_there(tmp_path, former):
    runs = rows(former, "SELECT count(DISTINCT run) FROM verdicts")[0][0]
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as history:
        assert sum(one.runs for one in history.following()) >= runs > 0
        assert history.recommendations(*EVER)


def test_it_is_migrated_once(tmp_path, former):
    for _ in range(2):
        with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as history:
            assert len(history.rollups(*EVER)) == 480
    assert rows(former, "PRAGMA integrity_check") == [("ok",)]
