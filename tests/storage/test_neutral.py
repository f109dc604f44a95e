"""What a version recorded in one scheduler's words is read in ours, from its database and its spool."""

import base64
import json
import zlib
from collections.abc import Iterator

import pytest
from alembic import command
from sqlalchemy import Engine, event

from idlewatt.storage import batches, database
from idlewatt.storage.batches import Batch
from idlewatt.storage.history import History
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.records import JobState
from idlewatt.storage.waiting import WaitReason

ROWS = """
INSERT INTO jobs (job_id, submit_s, state, partition, "user", account, name, qos, reason, dependency, restarts, tasks,
    gpus, nodes, cpus, memory_bytes, request, changed_s, open, start_s, end_s)
    SELECT id, 100, state, 'gpu', 'u', '', '', '', reason, '', 0, 1, 2, 1, 0, 0, '{}', 0, true, start, stop
    FROM (SELECT '1' AS id, 'PENDING' AS state, 'AssocGrpGRES' AS reason, CAST(NULL AS REAL) AS start,
              CAST(NULL AS REAL) AS stop
    UNION ALL SELECT '2_7', 'NODE_FAIL', '', 130, 150 UNION ALL SELECT '3', 'FAILED', 'NonZeroExitCode', 140, 160
    UNION ALL SELECT '4', 'PENDING', 'ANew:w''ord%', NULL, NULL
    UNION ALL SELECT '5', 'PENDING', 'ReqNodeNotAvail, UnavailableNodes:n7', NULL, NULL
    UNION ALL SELECT '6', 'PENDING', 'None', NULL, NULL) AS given;
INSERT INTO runs (job, start_s, end_s, state) SELECT id, start_s, end_s, state FROM jobs WHERE start_s IS NOT NULL;
INSERT INTO allocations (run, node, gpus, cpus, memory_bytes) SELECT id, 'a', 2, 0, 0 FROM runs;
INSERT INTO job_changes (job, time_s, state, reason)
    SELECT id, submit_s, 'PENDING', CASE job_id WHEN '1' THEN 'Priority' ELSE '' END FROM jobs
    UNION ALL SELECT id, 120, 'PENDING', reason FROM jobs WHERE job_id = '1'
    UNION ALL SELECT id, start_s, 'RUNNING', '' FROM jobs WHERE start_s IS NOT NULL
    UNION ALL SELECT id, end_s, state, reason FROM jobs WHERE start_s IS NOT NULL;
INSERT INTO uses (job_id, submit_s, start_s, "user", template, gpus, cpus, memory_bytes, updated_s, measured_s, source,
    cpus_mean, cpus_p95, at_limit_ratio)
    SELECT job_id, 100, 130, 'u', '', 2, 8, 0, 200, 20, CASE job_id WHEN '3' THEN 'slurm' ELSE 'cgroup' END, 1, 1, 0
    FROM jobs WHERE job_id IN ('2_7', '3')
"""


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Collect what databases are asked, with the parameters."""
    asked: list[str] = []

    def note(_connection, _cursor, statement, parameters, *_context):
        asked.append(f"{statement} {parameters}")

    event.listen(Engine, "before_cursor_execute", note)
    yield asked
    event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture
def before(url: str) -> History:
    engine = database.connect(database.parse(url))
    with engine.connect().execution_options(writing=True) as connection:
        command.upgrade(database._alembic(connection), "0008")
        for statement in ROWS.split(";"):
            connection.exec_driver_sql(statement.replace('%', '%%') if engine.dialect.name != 'sqlite' else statement)
        connection.commit()
        connection.invalidate()
    engine.dispose()
    with History.open(url) as history:
        yield history


def test_jobs_keep_the_schedulers_word_beside_a_reason_of_ours(before):
    found = {job_id: before.job(job_id).job for job_id in ("1", "2_7", "3", "4", "5", "6")}
    assert {job_id: (job.state, job.reason, job.reason_text) for job_id, job in found.items()} == {
        "1": (JobState.PENDING, WaitReason.QUOTA, "AssocGrpGRES"), "2_7": (JobState.NODE_FAILED, WaitReason.NONE, ""),
        "3": (JobState.FAILED, WaitReason.NONE, "NonZeroExitCode"),
        "4": (JobState.PENDING, WaitReason.OTHER, "ANew:w'ord%"),
        "5": (JobState.PENDING, WaitReason.NODES_UNAVAILABLE, "ReqNodeNotAvail, UnavailableNodes:n7"),
        "6": (JobState.PENDING, WaitReason.NONE, "None")}
    assert {job.owner_kind for job in found.values()} == {OwnerKind.BATCH}
    assert {job_id: job.array for job_id, job in found.items() if job.array} == {"2_7": "2"}


def test_no_statement_grows_with_the_words_that_were_recorded_since_each_may_name_other_nodes(statements, url, request):
    request.getfixturevalue("before")
    upgrades = [statement for statement in statements if "INSERT INTO jobs (" not in statement]
    assert any("RENAME COLUMN reason TO reason_text" in statement for statement in upgrades)
    assert not [statement for statement in upgrades if "UnavailableNodes" in statement]


def test_changes_and_runs_stay_in_their_order(before):
    told = {job_id: [(change.time_s, change.state, change.reason, change.reason_text)
                     for change in before.job(job_id).changes] for job_id in ("1", "2_7")}
    assert told == {
        "1": [(100.0, "pending", WaitReason.PRIORITY, "Priority"),
              (120.0, "pending", WaitReason.QUOTA, "AssocGrpGRES")],
        "2_7": [(100.0, "pending", WaitReason.NONE, ""), (130.0, "running", WaitReason.NONE, ""),
                (150.0, "node_failed", WaitReason.NONE, "")]}
    (run,) = before.job("2_7").runs
    assert (run.start_s, run.end_s, run.state) == (130.0, 150.0, JobState.NODE_FAILED)
    assert [part.node for part in run.allocations] == ["a"]


def test_what_accounting_told_of_uses_still_gives_way_to_what_is_measured(before):
    assert {use.job_id: use.source for use in before.uses()} == {"2_7": "cgroup", "3": "accounts"}




def line_of_before(kind: str, facts: object) -> bytes:
    packed = zlib.compress(json.dumps(facts).encode())
    body = json.dumps({"kind": kind, "items": 1, "after": 1, "facts": base64.b64encode(packed).decode()}).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def former(**more: object) -> dict[str, object]:
    return {"job_id": "5_1", "submit_s": 1.0, "state": "PENDING", "partition": "gpu", "request": {"gpus": 2},
            "reason": "Resources"} | more


def test_facts_that_waited_on_disk_since_before_are_read(make):
    (job,) = batches.decode(line_of_before("seen", {"jobs": [former()], "nodes": [], "time_s": 2.0})).facts.jobs
    assert (job.state, job.reason, job.reason_text, job.array) == (
        JobState.PENDING, WaitReason.RESOURCES, "Resources", "5")
    (ended,) = batches.decode(line_of_before("finished", [former(state="BOOT_FAIL", reason="", end_s=3.0)])).facts
    assert (ended.state, ended.reason) == (JobState.START_FAILED, WaitReason.NONE)


def test_facts_of_today_come_back_as_they_went(make):
    job = make.job(reason=WaitReason.HELD, reason_text="JobHeldUser", owner_kind=OwnerKind.SERVICE,
                   owner="Deployment/x")
    batch = Batch("finished", (job,), 1)
    assert batches.decode(batches.encode(batch)) == batch


@pytest.mark.parametrize("facts", [{"jobs": [7], "nodes": [], "time_s": 2.0}, {"jobs": None}, [], None, {
    "jobs": [{"state": 5}], "nodes": [], "time_s": 2.0}])
def test_old_facts_that_make_no_sense_are_damaged_and_no_fault(facts):
    with pytest.raises(batches.Damaged):
        batches.decode(line_of_before("seen", facts))
