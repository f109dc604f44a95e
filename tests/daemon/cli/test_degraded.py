"""Every command says, beside its answer, what is wrong with what the daemon knows; on stderr, in the same words."""

import json

import pytest

from idlewatt.daemon.moments import moment

COMMANDS = (("jobs",), ("waste",), ("advise",), ("advise", "--moves"), ("live", "--once"), ("jobs", "--format", "json"))


@pytest.fixture
def unread(shell, rig):
    """Return the words for a scheduler that was last read an hour ago, and a shell on that daemon."""
    gone_s = rig.now_s
    rig.server.site._slurm.clear()
    rig.now_s += 3600
    for cycle in (shell.service.jobs, shell.service.scrape, shell.service.assess):
        cycle()
    return shell, f"Slurm not read since {moment(gone_s, rig.now_s)}"


def test_every_command_says_on_stderr_what_is_degraded(unread):
    shell, said = unread
    for command in COMMANDS:
        done = shell.run(*command)
        assert done.exit_code == 0, done.output
        assert f"degraded: {said}\n" in done.stderr, command
        assert "degraded:" not in done.stdout, command


def test_without_advice_it_says_why_and_not_that_no_job_is_pending(unread):
    shell, said = unread
    for command in (("advise",), ("advise", "--moves"), ("advise", "--elastic"), ("advise", "--allocation")):
        assert shell.text(*command) == f"no advice: {said}\n"
    done = shell.run("advise", "--format", "json")
    assert json.loads(done.stdout) == []
    assert f"no advice: {said}\n" in done.stderr


def test_live_says_it_of_every_pending_job(unread):
    shell, said = unread
    text = shell.text("live", "--once")
    assert f": no advice: {said}\n" in text
    assert "no advice yet" not in text


def test_a_daemon_that_is_well_adds_nothing(shell, monkeypatch):
    monkeypatch.setattr(type(shell.service), "degraded", lambda self: ())
    for command in COMMANDS:
        assert shell.run(*command).stderr == ""


def test_while_policies_are_compiled_advise_says_so(shell, monkeypatch):
    monkeypatch.setattr(shell.service._warm_up, "over", lambda: False)
    assert shell.text("advise") == "no advice yet: policies are being compiled\n"
    assert "no advice yet: policies are being compiled" in shell.text("live", "--once")


def test_no_pending_job_is_said_only_when_there_is_advice(shell, monkeypatch):
    monkeypatch.setattr(shell.service, "unadvised", lambda: "")
    assert shell.text("advise") == "no job is pending\n"


def test_commands_that_read_the_database_themselves_say_it_too_where_the_daemon_records_into_it(unread, tmp_path):
    shell, said = unread
    url = shell.service.settings.storage.url
    assert f"degraded: {said}\n" in shell.run("db", "stats", "--url", url).stderr
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n")
    done = shell.run("models", "--config.file", str(tmp_path / "site.yml"))
    assert done.stderr.count(f"degraded: {said}\n") == 1


def test_of_another_database_the_daemon_knows_nothing(unread, tmp_path):
    from idlewatt.storage.history import History

    shell, _ = unread
    other = f"sqlite:///{tmp_path / 'other.db'}"
    History.open(other).close()
    assert shell.run("db", "stats", "--url", other).stderr == ""


def test_without_a_daemon_the_database_is_read_in_silence(shell):
    shell_without = type(shell)(shell.service, "http://127.0.0.1:1")
    done = shell_without.run("db", "stats", "--url", shell.service.settings.storage.url)
    assert (done.exit_code, done.stderr) == (0, "")
