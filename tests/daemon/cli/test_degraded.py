"""Every command says, beside its answer, what is wrong with what the daemon knows; on stderr, in the same words."""

import json

import click
import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import save
from idlewatt.daemon.cli import main
from idlewatt.daemon.moments import moment
from idlewatt.storage.records import ModelCard

COMMANDS = (("jobs",), ("waste",), ("advise",), ("advise", "--moves"), ("live", "--once"), ("jobs", "--format", "json"))


ARGUMENTS = {
    "live": ("--once",), "job": ("4711",), "report": ("--month", "2026-10"), "db import": ("nowhere.json",),
    "demote": ("scorer", "--reason", "x"), "promote": ("scorer", "--reason", "x"),
    "evaluate": ("scorer", "--from", "history", "--cluster", "nonsense"), "notices opt-out": ("alice",),
    "replay": ("history", "--cluster", "nonsense"), "train": ("--from", "history", "--objective", "nonsense"),
}
"""What a command cannot do without; where it is nonsense, the command ends before it takes minutes."""
SILENT = {
    "serve",  # it is the daemon
    "follow",  # it has a ledger of its own, and asks the daemon before each step
    "db upgrade", "db vacuum",  # they are for a daemon that is stopped
}


@pytest.fixture
def unread(shell, rig):
    """Return the words for a scheduler that was last read an hour ago, and a shell on that daemon."""
    gone_s = rig.now_s
    rig.server.site._slurm.clear()
    rig.now_s += 3600
    for cycle in (shell.service.jobs, shell.service.scrape, shell.service.assess):
        cycle()
    return shell, f"Slurm not read since {moment(gone_s, rig.now_s)}"


def leaves(group, words=()):
    """Yield the words of every command and what it is."""
    for word in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), word)
        yield " ".join((*words, word)), command
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, word))


def informed():
    """Return the commands that ask the daemon, or are told by a configuration which database it records into."""
    return [words for words, command in leaves(main) if words not in SILENT
            and {"url", "config_file"} & {parameter.name for parameter in command.params}]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_degraded_stands_on_stderr_and_not_in_the_answer(unread, command):
    shell, said = unread
    done = shell.run(*command)
    assert done.exit_code == 0, done.output
    assert f"degraded: {said}\n" in done.stderr
    assert "degraded:" not in done.stdout


@pytest.mark.parametrize("words", informed())
def test_every_command_that_asks_the_daemon_or_reads_its_database_says_what_is_degraded(unread, tmp_path, words):
    shell, said = unread
    site = tmp_path / "site.yml"
    site.write_text(f"storage: {{url: '{shell.service.settings.storage.url}', models: {tmp_path}/models}}\n")
    card = ModelCard("scorer", "20261121-030000", 1e9, 7, "0.1.0", "", "", kind="scorer")
    save(tmp_path / "models/scorer/20261121-030000", card, {"w": np.ones(1)}, {})
    (command,) = (command for known, command in leaves(main) if known == words)
    place = ("--config.file", str(site)) if "config_file" in {one.name for one in command.params} else ()
    done = shell.run(*words.split(), *ARGUMENTS.get(words, ()), *place)
    assert done.stderr.count(f"degraded: {said}\n") == 1, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def test_what_says_nothing_of_the_daemon_is_a_command(shell):
    assert {words for words, _ in leaves(main)} >= SILENT


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


def test_a_healthy_daemon_adds_no_warning(shell, monkeypatch):
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


def test_the_daemon_does_not_warn_of_another_database(unread, tmp_path):
    from idlewatt.storage.history import History

    shell, _ = unread
    other = f"sqlite:///{tmp_path / 'other.db'}"
    History.open(other).close()
    assert shell.run("db", "stats", "--url", other).stderr == ""


def test_without_a_daemon_the_database_is_read_in_silence(shell):
    shell_without = type(shell)(shell.service, "http://127.0.0.1:1")
    done = shell_without.run("db", "stats", "--url", shell.service.settings.storage.url)
    assert (done.exit_code, done.stderr) == (0, "")
