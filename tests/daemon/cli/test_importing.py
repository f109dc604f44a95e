"""``idlewatt db import``: a year of accounts, from a program that answers as sacct does or from a file."""

import os
import signal
import subprocess
import sys
import time
from threading import Event

import pytest
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.agents.histories import recorded
from idlewatt.daemon.cli import main
from idlewatt.daemon.recorded_window import recorded_cluster
from idlewatt.storage.history import History
from idlewatt.storage.records import JobState, Node, SchedulerSnapshot

DAY_S = 86400.0
SACCT = '''#!{python} -IS
"""Plays sacct: eight jobs a day, those that touch the window, times in UTC."""
import sys
from datetime import UTC, datetime
def option(name, default=""):
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(f"--{{name}}=")), default)
def told(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
names, mark = option("format").split(","), option("delimiter", "|")
end = mark if "--parsable" in sys.argv else ""
since, until = (datetime.fromisoformat(option(name)).replace(tzinfo=UTC).timestamp()
                for name in ("starttime", "endtime"))
with open("{folder}/calls", "a") as calls:
    print(option("starttime"), file=calls)
print(mark.join(names) + end)
for number in range(int({now} // 10800) - 8 * 400, int({now} // 10800)):
    submit = number * 10800.0
    if submit + 9000 < since or submit >= until:
        continue
    row = {{"JobID": str(number), "JobIDRaw": str(number), "JobName": "train", "User": "alice", "Partition": "gpu",
           "State": "COMPLETED", "ExitCode": "0:0", "Submit": told(submit), "Start": told(submit + 60),
           "End": told(submit + 9000), "NNodes": "1", "ReqTRES": "cpu=4,gres/gpu=2,mem=8G,node=1",
           "AllocTRES": "cpu=4,gres/gpu=2,mem=8G,node=1", "NodeList": "a", "TimelimitRaw": "200"}}
    print(mark.join(row.get(name, "") for name in names) + end)
'''


@pytest.fixture
def site(tmp_path):
    program = tmp_path / "sacct"
    program.write_text(SACCT.format(python=sys.executable, folder=tmp_path, now=time.time()))
    program.chmod(0o755)
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n"
                                       f"sources: [{{kind: slurm_cli, bin_dir: '{tmp_path}', timeout: 30s}}]\n")
    with History.open(url) as history:
        history.record_snapshot(SchedulerSnapshot(time.time() - 60, (Node("a", ("gpu",), 8, cpus=64),)))
    return tmp_path


def _import(site, *arguments):
    return CliRunner().invoke(main, ["db", "import", *map(str, arguments), "--config.file", str(site / "site.yml")])


def _calls(site):
    path = site / "calls"
    return path.read_text().splitlines() if path.exists() else []


def _jobs(site):
    with History.read_only(f"sqlite:///{site}/idlewatt.db") as reader:
        return reader.jobs(0, 1e10)


def test_weeks_of_accounts_come_in_once_and_a_second_run_asks_only_for_what_may_have_changed(site):
    done = _import(site, "sacct", "--since", "30d")
    assert done.exit_code == 0, done.output
    found = _jobs(site)
    assert done.stdout == f"100 % read: {len(found)} runs of which {len(found)} jobs are new\n"
    assert 30 * 8 - 1 <= len(found) <= 31 * 8
    assert len(_calls(site)) == 31
    again = _import(site, "sacct", "--since", "30d")
    assert len(_calls(site)) - 31 <= 2
    assert "of which 0 jobs are new" in again.stdout
    assert _jobs(site) == found
    _import(site, "sacct", "--since", "40d")
    assert len(_calls(site)) <= 31 + 2 + 12
    assert len(_jobs(site)) == len(found) + 80


@pytest.mark.long
def test_an_interrupted_import_goes_on_where_it_was(site):
    command = [sys.executable, "-m", "idlewatt.daemon.cli", "db", "import", "sacct", "--config.file",
               str(site / "site.yml")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(_calls(site)) < 5:
        assert running.poll() is None, running.stderr.read()
        Event().wait(0.01)
    os.kill(running.pid, signal.SIGINT)
    told = running.communicate()[1]
    assert running.returncode == 130
    assert "interrupted: " in told
    assert "the same command goes on from there" in told
    before = len(_calls(site))
    assert before < 300  # of 365; a handful, but where this process waits for its turn
    assert _import(site, "sacct", "--since", "60d").exit_code == 0
    assert len(_calls(site)) <= max(before, 61) + 4
    ids = [job.job_id for job in _jobs(site)]
    assert len(ids) == len(set(ids)) >= 60 * 8 - 1


def test_training_and_replay_use_what_came_in(site):
    assert _import(site, "sacct", "--since", "30d").exit_code == 0
    now_s = time.time()
    with History.read_only(f"sqlite:///{site}/idlewatt.db") as reader:
        material = recorded(reader, now_s - 30 * DAY_S, now_s, "the history")
        cluster = recorded_cluster(reader, now_s - 30 * DAY_S)
    assert len(material.workload) >= 29 * 8
    assert (cluster.names, cluster.events) == (("a",), ())


def test_what_was_imported_and_what_the_daemon_saw_are_one_job(site):
    _import(site, "sacct", "--since", "2d")
    job = _jobs(site)[0]
    with History.open(f"sqlite:///{site}/idlewatt.db") as history:
        history.record_finished([job])
        detail = history.job(job.job_id)
    assert (len(detail.runs), detail.job.state) == (1, JobState.COMPLETED)
    assert [change.state for change in detail.changes] == ["pending", "running", "completed"]


def test_it_works_beside_a_running_daemon(site):
    settings = config.load(site / "site.yml")
    with History.open(settings.storage.url) as history:
        assert _import(site, "sacct", "--since", "2d").exit_code == 0
        history.record_snapshot(SchedulerSnapshot(time.time(), (Node("b", ("gpu",), 8),)))
        assert history.recording.possible
        assert len(history.jobs(0, 1e10)) > 8


def test_runs_of_days_to_come_are_refused_and_named(site, tmp_path):
    names = ("JobID", "User", "State", "Submit", "Start", "End", "AllocTRES", "NodeList")
    times = ("2026-01-01T00:00:00", "2026-01-01T00:00:10")
    rows = [(number, "bob", "COMPLETED", *times, end, "gres/gpu=1", "a")
            for number, end in (("7", "2026-01-01T00:10:00"), ("8", "2099-01-01T00:00:00"))]
    (tmp_path / "past").write_text("".join("|".join(row) + "\n" for row in (names, *rows)))
    done = _import(site, tmp_path / "past")
    assert done.stdout == "100 % read: 1 runs of which 1 jobs are new, 1 rows cannot be read\n", done.output
    assert "8: it ended, or began, at 2099-01-01T00:00:00, more than a day after now" in done.stderr
    assert [job.job_id for job in _jobs(site)] == ["7"]


def test_a_file_comes_in_once_whatever_it_is_called(site, tmp_path):
    table = tmp_path / "past.txt"
    mark = "d1a3-drawn-b7"
    names = ("JobID", "JobName", "User", "Partition", "State", "Submit", "Start", "End", "AllocTRES", "NodeList")
    rows = [(str(number), "a|b\nc", "bob", "gpu", "COMPLETED", "2026-01-01T00:00:00", "2026-01-01T00:00:10",
             "2026-01-01T00:10:00", "gres/gpu=1", "a") for number in range(2500)]
    table.write_text("".join(mark.join(row) + "\n" for row in (names, *rows)))
    done = _import(site, table)
    assert done.stdout == "100 % read: 2,500 runs of which 2,500 jobs are new\n", done.output
    table.rename(tmp_path / "renamed.txt")
    assert _import(site, tmp_path / "renamed.txt").stdout == "100 % read: 0 runs of which 0 jobs are new\n"
    assert len(_jobs(site)) == 2500


@pytest.mark.parametrize(("what", "told", "code"), [
    ("nowhere.txt", "nowhere.txt: No such file or directory", 2), ("site.yml", "is nothing that sacct prints", 1),
])
def test_a_file_that_cannot_be_read_says_why_and_one_that_is_not_there_is_wrong_usage(site, what, told, code):
    done = _import(site, site / what)
    assert done.exit_code == code
    assert told in done.stderr


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/null")], ids=["pipe", "device"])
def test_a_pipe_is_refused_because_it_cannot_be_read_twice(site, put):
    put(site / "past.txt")
    done = _import(site, site / "past.txt")
    assert done.exit_code == 1
    assert "past.txt: is no plain file, and is read twice: save what it gives as a file" in done.stderr


def test_a_table_whose_delimiter_may_occur_in_names_needs_trust(site, tmp_path):
    (tmp_path / "bars.txt").write_text("JobID|JobName|State|Submit|Start|End\n1|x|COMPLETED|2026-01-01T00:00:00|"
                                       "2026-01-01T00:00:10|2026-01-01T00:10:00\n")
    refused = _import(site, tmp_path / "bars.txt")
    assert refused.exit_code == 1
    assert "--trusted takes it as it is" in refused.stderr
    assert _import(site, tmp_path / "bars.txt", "--trusted").exit_code == 0


def test_a_database_that_is_not_there_and_a_since_that_is_no_duration_are_said(site):
    done = CliRunner().invoke(main, ["db", "import", "sacct", "--url", f"sqlite:///{site}/none.db"])
    assert done.exit_code == 3
    assert _import(site, "sacct", "--since", "long").exit_code == 2
