"""What older versions recorded stays, in the tables of today."""

import pytest
from alembic import command
from sqlalchemy import Connection, text

from idlewatt.storage import database
from idlewatt.storage.following import Following
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import GpuRollup, WasteReading
from idlewatt.storage.retention import Retention

pytestmark = pytest.mark.usefixtures("real_migrations")

DAY = 86400.0
ROWS = """
INSERT INTO jobs (job_id, submit_s, state, partition, "user", account, name, qos, reason, dependency, restarts, tasks,
    gpus, nodes, cpus, memory_bytes, request, changed_s, open, start_s)
    SELECT id, 100, CASE start WHEN 0 THEN 'PENDING' ELSE 'RUNNING' END, 'gpu', 'u', '', '', '', '', '', 0, 1, 2, 1, 0,
    0, '{}', 0, true, CASE start WHEN 0 THEN NULL ELSE start END
    FROM (SELECT '1' AS id, 130 AS start UNION ALL SELECT '2', 140 UNION ALL SELECT '3', 0) AS given;
INSERT INTO runs (job, start_s, state) SELECT id, start_s, 'RUNNING' FROM jobs WHERE start_s IS NOT NULL;
INSERT INTO allocations (run, node, gpus, cpus, memory_bytes) SELECT id, 'a', 2, 0, 0 FROM runs;
INSERT INTO recommendations (job_id, submit_s, partition, policy, shadow, objective, action, reason, nodes, gpus,
    expected_start_s, alternatives, issued_s, last_issued_s)
    SELECT job, 100, 'gpu', 'easy', false, 'wait', said, reason, '["a"]', '[2]', 7300, '[]', at, at + 5
    FROM (SELECT '1' AS job, 110 AS at, 'hold' AS said, 'needs 2 GPUs, 0 are free' AS reason
    UNION ALL SELECT '1', 120, 'hold', 'needs 2 GPUs, 1 are free' UNION ALL SELECT '1', 125, 'start', 'fits'
    UNION ALL SELECT '2', 120, 'hold', 'no room' UNION ALL SELECT '3', 110, 'start', 'fits'
    UNION ALL SELECT '3', 150, 'hold', 'no room') AS given;
INSERT INTO verdicts (run, policy, shadow, verdict, start_s, recommendation)
    SELECT runs.id, 'easy', false, 'followed', runs.start_s, max(recommendations.id) FROM runs
    JOIN jobs ON jobs.id = runs.job JOIN recommendations ON recommendations.job_id = jobs.job_id
    GROUP BY runs.id, runs.start_s;
INSERT INTO boards (uuid, node, "index") VALUES ('GPU-1', 'a', 0);
INSERT INTO rollups (start_s, seconds, board, measured_ms, allocated_ms, energy_mj, activity_mean, power_mean_watts)
    SELECT at, 300, id, 300000, 12500, 30000000, 0.5, 100.0 FROM boards, (SELECT 0 AS at UNION ALL SELECT 300) AS given;
INSERT INTO waste (start_s, seconds, partition, node, power_class, energy_mj) VALUES
    (0, 300, 'gpu', '', 'stranded', 5000), (0, 300, 'gpu', 'a', 'stranded', 2000)
"""


def of_version_6(connection: Connection) -> None:
    command.upgrade(database._alembic(connection), "0006")
    for statement in ROWS.split(";"):
        connection.execute(text(statement))


def recorded(url: str) -> History:
    engine = database.connect(database.parse(url))
    with engine.connect().execution_options(writing=True) as connection:
        of_version_6(connection)
        connection.commit()
        connection.invalidate()
    engine.dispose()
    return History.open(url)


def test_advice_stays_as_what_is_in_force_what_was_and_when_it_changed(url):
    with recorded(url) as history:
        stood = [(one.recommendation.job_id, one.recommendation.action, one.recommendation.reason)
                 for one in history.recommendations(0, 1e9)]
        changes = [(change.job_id, change.time_s, change.action, change.reason)
                   for change in history.advice_changes(0, 1e9)]
        assert stood == [("2", "hold", "no room"), ("1", "start", "fits"), ("3", "hold", "no room")]
        assert changes == [("1", 110.0, "hold", "needs 2 GPUs, 0 are free"), ("3", 110.0, "start", "fits"),
                           ("2", 120.0, "hold", "no room"), ("1", 125.0, "start", "fits"),
                           ("3", 150.0, "hold", "no room")]


def test_verdicts_are_given_again_by_the_advice_that_was_recorded(url):
    with recorded(url) as history:
        assert history.job("1").runs[0].verdicts == {"easy": "followed"}
        assert history.job("2").runs[0].verdicts == {"easy": "earlier"}
        assert history.following() == (Following("easy", False, "hold", "earlier", 1),
                                       Following("easy", False, "start", "followed", 1))


def test_advice_goes_on_after_a_migration(url, make):
    with recorded(url) as history:
        history.record_recommendations([make.advice(200.0, "b", job_id="3", reason="a new reason")])
        assert [one.recommendation.reason for one in history.recommendations(190.0, 300.0)] == ["a new reason"]


def test_windows_can_be_read_before_and_after_they_are_packed(url):
    rollups = tuple(GpuRollup(start_s, 300.0, "a", "GPU-1", 0, 300.0, 30_000.0, 0.5, None, 100.0, None, 12.5)
                    for start_s in (0.0, 300.0))
    whole, part = (WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, energy, node)
                   for energy, node in ((5.0, ""), (2.0, "a")))
    with recorded(url) as history:
        for _ in range(2):
            assert history.rollups(0, DAY) == history.rollups(0, DAY, node="a") == rollups
            assert (history.waste(0, DAY), history.waste(0, DAY, per_node=True)) == ((whole,), (part,))
            history.compact(DAY, Retention(rollups_s=DAY))
        rows = {stats.table: stats.rows for stats in history.stats()}
        assert (rows["rollups"], rows["gpu_windows"], rows["waste"], rows["waste_windows"]) == (0, 2, 1, 1)
