"""Wrong usage of any command ends with 2 and says what is wrong; options of one name mean one thing."""

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._renamed import Renamed


def tree(command: click.Command, path: tuple[str, ...] = ()):
    """Yield every command with its path, groups too."""
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from tree(command.get_command(click.Context(command), name), (*path, name))


ALL = dict(tree(main))
WRONG = [
    "check-config /nowhere", "replay /nowhere --cluster 4x8", "replay history --config.file /nowhere",
    "replay tests --cluster 4x", "replay history --policy nonsense", "evaluate nosuch --models /nowhere",
    "promote nosuch --models /nowhere", "report --month 2026-10 --against /nowhere", "serve --config.file /nowhere",
    "train --agent nonsense", "train --since nonsense", "train --config.file /nowhere",
    "train --from /nowhere --cluster 4x8", "db import /nowhere --config.file /nowhere",
    "db stats --config.file /nowhere",
    "db upgrade --database-url nonsense://x", "reproduce gist --set nonsense", "reproduce published --traces /nowhere",
    "models --config.file /nowhere", "notices opt-out ada --config.file /nowhere", "notices --since nonsense",
    "digest --since nonsense", "jobs --since nonsense", "jobs --until yesterday", "waste --since nonsense",
    "slurm-settings --slurm-conf /nowhere", "install-systemd --program /nowhere", "live --url nonsense",
    "advise --url ftp://x", "advise --ca-file /nowhere", "completion tcsh", "demo --nodes 0", "demo --dir /dev/null"]


def run(*arguments):
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "80"})


@pytest.mark.parametrize("line", WRONG)
def test_what_cannot_be_meant_ends_with_2_and_a_reason(line):
    done = run(*line.split())
    assert done.exit_code == 2, done.output
    said = done.stderr.strip().splitlines()[-1]
    assert "Errno" not in said
    assert "Traceback" not in done.output


def test_a_typo_in_an_option_of_any_command_ends_with_2_and_the_nearest_is_suggested():
    for path, command in ALL.items():
        options = [name for option in command.params for name in option.opts if name.startswith("--") and len(name) > 5]
        for option in options[:1]:
            done = run(*path, f"{option}x")
            assert (done.exit_code, "Did you mean" in done.stderr, option in done.stderr) == (2, True, True), \
                (path, done.stderr)


def test_a_typo_in_a_command_of_any_group_suggests_the_nearest():
    for path, command in ALL.items():
        if isinstance(command, click.Group):
            name = command.list_commands(click.Context(command))[0]
            done = run(*path, f"{name}x")
            assert (done.exit_code, "Did you mean" in done.stderr, name in done.stderr) == (2, True, True), \
                (path, done.stderr)


def test_no_summary_of_a_command_is_cut():
    for path, command in ALL.items():
        if isinstance(command, click.Group):
            assert "..." not in run(*path, "--help").stdout.split("Commands:")[-1], path


MEANING = {
    "--account": "Only this account", "--check": "", "--cluster": "Cluster of a trace: 64x8",
    "--config.file": "Configuration ",
    "--dir": "Folder ", "--engine": "Where ", "--format": "Output format", "--from": "Jobs to ",
    "--incumbent": "The policy ",
    "--limit": "At most this many", "--node": "Only ", "--once": "Show one summary", "--partition": "Only ",
    "--policy": "A policy", "--reason": "Why, for the record", "--sample": "Print ", "--seed": "Random seed",
    "--since": "From this time on", "--speeds": "Speeds of jobs by placement", "--state": "Only ",
    "--until": "Until this time", "--user": "Only ", "--web.listen-address": "host:port to listen on",
    "--wide": "More than fits 80 columns"}
"""How every help begins of an option that several commands have in words of their own."""
DIFFERENT = {"--check": "of follow its configuration, of replay the simulator, each beside its verb",
             "--state": "words of advice, of jobs and of notices"}
"""Options of one name that differ in kind or meaning, with the reason."""
FORMER = {"db": {"--url"}, "follow": {"--last", "--listen-address"}, "install-systemd": {"--root"},
          "replay": {"--last"}, "reproduce": {"--out"}, "setup": {"--cluster", "--nodes", "--port"},
          "train": {"--last"}}
"""Names that version 0.2 had."""


def test_options_of_one_name_take_one_kind_of_value():
    kinds: dict[str, set[str]] = {}
    for command in ALL.values():
        for option in command.params:
            if isinstance(option, click.Option):
                for name in option.opts:
                    kind = "choice" if isinstance(option.type, click.Choice) else option.type.name
                    kinds.setdefault(name, set()).add("flag" if option.is_flag else kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1 and name not in DIFFERENT} == {}


def test_options_of_one_name_mean_one_thing():
    helps: dict[str, set[str]] = {}
    for command in ALL.values():
        for option in command.params:
            if isinstance(option, click.Option):
                helps.setdefault(option.opts[0], set()).add(option.help or "")
    own = {name: found for name, found in helps.items() if len(found) > 1}
    assert set(own) == set(MEANING)
    assert {name: found for name, found in own.items()
            if any(not words.startswith(MEANING[name]) for words in found)} == {}


def test_an_option_under_its_former_name_is_accepted_and_shown_nowhere():
    found: dict[str, set[str]] = {}
    for path, command in ALL.items():
        for option in command.params:
            if isinstance(option, Renamed):
                found.setdefault(path[0], set()).update(option.former)
                shown = run(*path, "--help").stdout
                assert [name for name in option.former if f"{name} " in shown] == []
    assert found == FORMER


@pytest.mark.parametrize(("line", "said"), [
    ("replay tests/nowhere --cluster 4x8 --last nonsense", "nonsense"), ("setup --port dcgm=x", "'x' is not a port"),
    ("db stats --url nonsense://x", "nonsense"), ("reproduce gist --out /dev/null --set x", "x")])
def test_a_former_name_is_read_as_the_new_one(line, said):
    done = run(*line.split())
    assert "No such option" not in done.stderr
    assert said in done.stderr


def test_every_command_that_lists_answers_in_a_format_for_programs():
    lists = {"advise", "db stats", "digest", "evaluate", "job", "jobs", "models", "notices", "notices opted-out",
             "reclaim", "replay", "report", "waste"}
    found = {" ".join(path) for path, command in ALL.items() for option in command.params
             if "--format" in option.opts and "json" in option.type.choices}
    assert lists <= found
