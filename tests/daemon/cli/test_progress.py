"""What may take longer than two seconds says on a terminal how long it will go on, and nothing of it elsewhere."""

import json
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon import sweep
from idlewatt.daemon.cli import _progress, main

COUNTED, TIMED, ASKED = "a share and the time to go", "the usual time less what has passed", "a question to the daemon"
SCREEN, SERVICE = "a screen of its own", "runs until it is told to stop"
SHORT = "reads files of a few kilobytes, or a row of the database"
HOW = {
    "advise": ASKED, "digest": ASKED, "flavours": ASKED, "job": ASKED, "jobs": ASKED, "notices": ASKED,
    "reclaim": ASKED, "report": ASKED, "waste": ASKED,
    "check-config": COUNTED, "db import": COUNTED, "db stats": COUNTED, "db upgrade": COUNTED, "db vacuum": COUNTED,
    "evaluate": COUNTED, "replay": COUNTED, "reproduce": COUNTED, "train": COUNTED,
    "demo": TIMED, "setup": TIMED,
    "follow": SERVICE, "live": SCREEN, "serve": SERVICE,
    "completion": SHORT, "demote": SHORT, "grafana install": SHORT, "install-systemd": SHORT,
    "models": SHORT, "notices opt-out": SHORT, "notices opted-out": SHORT, "promote": SHORT, "slurm-settings": SHORT}
JOBS = "job,submit_s,run_s,gpus\n" + "".join(f"{job},{60 * job},{600 + job},1\n" for job in range(20))


class AtOnce:
    """A timer that does not wait."""

    daemon = True

    def __init__(self, seconds: float, then) -> None:
        self.start, self.seconds = then, seconds

    def cancel(self) -> None:
        """Leave nothing behind."""

    join = cancel


def leaves(command: click.Command, path: tuple[str, ...] = ()):
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield " ".join(path)
        for name in command.list_commands(click.Context(command)):
            yield from leaves(command.get_command(click.Context(command), name), (*path, name))
    else:
        yield " ".join(path)


def test_every_command_has_a_known_form_of_progress():
    assert set(leaves(main)) == set(HOW)


@pytest.fixture
def watched(monkeypatch):
    """Run a command on a terminal at which nobody has patience; return what it wrote there."""
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    monkeypatch.setattr(_progress, "Timer", AtOnce)

    def run(*arguments) -> str:
        done = CliRunner(env={"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "160"}).invoke(main, map(str, arguments))
        assert done.exit_code in (0, 3), done.output
        assert "to go" not in done.stdout
        return done.stderr

    return run


@pytest.mark.usefixtures("real_migrations")
def test_a_schema_and_its_space_tell_the_time_to_go(watched, tmp_path):
    url = f"sqlite:///{tmp_path / 'idlewatt.db'}"
    upgraded = watched("db", "upgrade", "--database-url", url)
    assert "bringing the schema to this version" in upgraded
    assert "100%" in upgraded
    for command in ("vacuum", "stats"):
        told = watched("db", command, "--database-url", url)
        assert "to go" in told
        assert "100%" in told


def test_an_import_tells_the_share_that_is_read(watched, tmp_path):
    past, url = tmp_path / "past.json", f"sqlite:///{tmp_path / 'idlewatt.db'}"
    watched("db", "upgrade", "--database-url", url)
    past.write_text(json.dumps({"jobs": [], "meta": {}, "errors": [], "warnings": []}))
    told = watched("db", "import", past, "--database-url", url)
    assert "reading" in told
    assert "to go" in told


@pytest.mark.parametrize("path", [path for path, how in HOW.items() if how == ASKED])
def test_a_question_to_the_daemon_tells_how_long_it_waits_at_most(watched, path):
    needed = {"job": ["4711"], "report": ["--month", "2026-10"]}.get(path, [])
    assert "waiting for the daemon" in watched(*path.split(), *needed, "--url", "http://127.0.0.1:9")


def test_a_look_at_a_site_tells_how_many_sources_are_read(watched, rig, tmp_path):
    (tmp_path / "site.yml").write_text(rig.text())
    told = watched("check-config", "--probe", tmp_path / "site.yml")
    assert "reading sources" in told
    assert "100%" in told


def test_a_replay_tells_how_many_policies_are_done(watched, monkeypatch, tmp_path):
    monkeypatch.setattr(sweep, "side_by_side", lambda plan, policies, workers: (
        sweep.replay(replace(plan, workload=plan.spool.workload()), policy) for policy in policies))
    (tmp_path / "jobs.csv").write_text(JOBS)
    told = watched("replay", tmp_path / "jobs.csv", "--cluster", "1x8", "--workers", "1", "--state-dir", tmp_path)
    assert "replaying policies" in told
    assert "predicting run times" in told
    assert "to go" in told


def test_short_work_shows_no_progress(monkeypatch, tmp_path):
    monkeypatch.setattr(_progress, "_on_terminal", lambda: True)
    monkeypatch.setattr(_progress, "PATIENCE_S", 600.0)
    done = CliRunner().invoke(main, ["db", "upgrade", "--database-url", f"sqlite:///{tmp_path / 'idlewatt.db'}"])
    assert done.stderr == ""


def test_no_progress_is_written_into_a_file(tmp_path):
    done = CliRunner().invoke(main, ["db", "upgrade", "--database-url", f"sqlite:///{tmp_path / 'idlewatt.db'}"])
    assert (done.stdout, done.stderr) == ("the schema is up to date\n", "")


@pytest.mark.parametrize(("passed_s", "said"), [(0.0, "about 2 min to go"), (60.0, "about 60 s to go"),
                                                (119.9, "about 1 s to go"), (121.0, "longer than usual")])
def test_the_time_to_go_is_told_in_words(passed_s, said):
    assert _progress.left(120.0, passed_s, "about") == said
