"""Wrong usage of any command ends with 2 and says what is wrong; options of one name mean one thing."""

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main


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
    "train --agent nonsense", "train --last nonsense", "train --config.file /nowhere",
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


DIFFERENT = {"--nodes": "how many of the demo, which ones of setup",
             "--port": "of the demo's page, of each exporter in setup",
             "--state": "words of jobs, of notices and of nodes", "--url": "of a database, under its old name"}
"""Options of one name that mean different things, each beside its verb, with what they mean."""


def test_options_of_one_name_take_one_kind_of_value():
    kinds: dict[str, set[str]] = {}
    for command in ALL.values():
        for option in command.params:
            if isinstance(option, click.Option):
                for name in option.opts:
                    kind = "choice" if isinstance(option.type, click.Choice) else option.type.name
                    kinds.setdefault(name, set()).add("flag" if option.is_flag else kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1 and name not in DIFFERENT} == {}


def test_every_command_that_lists_answers_in_a_format_for_programs():
    lists = {"advise", "db stats", "digest", "evaluate", "job", "jobs", "models", "notices", "notices opted-out",
             "reclaim", "replay", "report", "waste"}
    found = {" ".join(path) for path, command in ALL.items() for option in command.params
             if "--format" in option.opts and "json" in option.type.choices}
    assert lists <= found
