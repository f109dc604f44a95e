"""The command line as a whole: help everywhere, documented exit codes, completion."""

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main

PROGRAM = (sys.executable, "-m", "idlewatt.daemon.cli")


def tree(command: click.Command, path: tuple[str, ...] = ()):
    """Yield every command with its path, groups too."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from tree(command.get_command(context, name), (*path, name))


ALL = dict(tree(main))
LEAVES = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


def named(paths):
    return [pytest.param(path, id=" ".join(path) or "idlewatt") for path in paths]


@pytest.mark.parametrize("path", named(ALL))
def test_every_command_says_what_it_is_for(path):
    done = CliRunner().invoke(main, [*path, "--help"])
    assert done.exit_code == 0
    first = (ALL[path].help or "").splitlines()[0]
    assert first.endswith(".")
    assert first.split()[0] in done.stdout


@pytest.mark.parametrize("path", named(LEAVES))
def test_every_command_has_an_example_that_names_it(path):
    text = LEAVES[path].help or ""
    assert "Example" in text
    assert f"idlewatt {' '.join(path)}" in text


@pytest.mark.parametrize("path", named(LEAVES))
def test_every_option_is_explained(path):
    unexplained = [option.name for option in LEAVES[path].params
                   if isinstance(option, click.Option) and not option.help]
    assert unexplained == []


@pytest.mark.parametrize("path", named(LEAVES))
def test_the_examples_are_right_usage(path):
    lines = [line.split("#")[0].split("|")[0].split(">")[0].strip() for line in (LEAVES[path].help or "").splitlines()]
    examples = [line.split()[1:] for line in lines if line.startswith("idlewatt ")]
    for example in examples:
        assert tuple(example[:len(path)]) == path
        known = {name for option in LEAVES[path].params for name in option.opts} | {"--help"}
        used = {word.split("=")[0] for word in example if word.startswith("--")}
        assert used <= known


def test_every_command_stands_in_the_help():
    text = CliRunner().invoke(main, ["--help"]).stdout
    assert {name for name in main.list_commands(click.Context(main)) if f"\n  {name} " not in text} == set()


def test_the_version_is_that_of_the_package():
    done = CliRunner().invoke(main, ["--version"])
    assert done.stdout == f"idlewatt, version {importlib.metadata.version('idlewatt')}\n"


def test_every_line_of_the_help_of_a_group_is_whole():
    for group in (["--help"], ["db", "--help"], ["grafana", "--help"]):
        assert "..." not in CliRunner().invoke(main, group, terminal_width=80).stdout.partition("Commands:")[2]


@pytest.mark.parametrize(("typed", "meant"), [("replya", "replay"), ("jbos", "jobs"), ("install", "install-systemd")])
def test_a_mistyped_command_is_answered_with_the_nearest_one(typed, meant):
    done = CliRunner().invoke(main, [typed])
    assert done.exit_code == 2
    assert f"Did you mean {meant}" in done.stderr


@pytest.mark.parametrize("path", named(LEAVES))
def test_an_option_that_a_command_does_not_have_and_one_word_too_many_end_with_2(path):
    for wrong in (["--no-such-option"], ["x"] * 9, ["--help=x"]):
        assert CliRunner().invoke(main, [*path, *wrong]).exit_code == 2


@pytest.mark.parametrize("path", named(LEAVES))
def test_a_value_that_an_option_cannot_have_ends_with_2(path):
    narrow = [option for option in LEAVES[path].params if isinstance(option, click.Option) and not option.is_flag
              and not option.flag_value and isinstance(option.type, click.Choice | click.IntRange | click.FloatRange)]
    for option in narrow:
        done = CliRunner().invoke(main, [*path, option.opts[0], "nonsense"])
        assert done.exit_code == 2
        assert "'nonsense'" in done.stderr


def test_an_option_is_written_with_hyphens_or_dots():
    odd = [name for command in LEAVES.values() for option in command.params if isinstance(option, click.Option)
           for name in option.opts if "_" in name]
    assert odd == []


def test_no_option_means_a_daemon_in_one_command_and_a_database_in_another():
    first = {command.params[row].opts[0]: command.params[row].envvar for command in LEAVES.values()
             for row in range(len(command.params)) if command.params[row].envvar}
    assert first["--url"] == "IDLEWATT_URL"
    assert first["--database-url"] == "IDLEWATT_DATABASE_URL"


def test_an_invalid_cluster_is_wrong_usage(tmp_path):
    done = CliRunner().invoke(main, ["replay", str(tmp_path / "jobs.csv"), "--cluster", "4x"])
    assert done.exit_code == 2
    assert "'4x' is not NODESxGPUS" in done.stderr


def test_an_unknown_command_ends_with_2_and_names_it():
    done = CliRunner().invoke(main, ["frobnicate"])
    assert done.exit_code == 2
    assert "'frobnicate'" in done.stderr


def test_a_hidden_file_is_no_command():
    assert CliRunner().invoke(main, ["_client"]).exit_code == 2


def test_help_loads_neither_the_daemon_nor_what_is_heavy():
    code = "import sys; from idlewatt.daemon.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n" \
           "print(' '.join(sys.modules), file=sys.stderr)"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True, timeout=60)
    heavy = {"numpy", "numba", "torch", "sqlalchemy", "pydantic", "requests", "rich", "jinja2", "yaml", "pyarrow"}
    assert heavy.isdisjoint(done.stderr.split())


def test_ctrl_c_ends_with_130(tmp_path):
    os.mkfifo(tmp_path / "slow.yml")
    command = (*PROGRAM, "check-config", tmp_path / "slow.yml")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        writer = (tmp_path / "slow.yml").open("w")  # opens once the command reads
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert "Traceback" not in child.stderr.read()
        writer.close()


def test_a_closed_pipe_is_not_a_failure():
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {' '.join(PROGRAM)} check-config --sample | head -1"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


def complete(line: str, folder: Path) -> list[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    script = (f'eval "$(idlewatt completion bash)"; COMP_WORDS=({" ".join(words[:-1])} "{words[-1]}"); '
              f'COMP_CWORD={len(words) - 1}; COMP_LINE="{line}"; COMP_POINT={len(line)}; '
              'complete -p idlewatt >/dev/null || exit 1; '
              '_idlewatt_completion idlewatt; printf "%s\\n" "${COMPREPLY[@]}"')
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, check=True,
                          env=env, cwd=folder)
    return done.stdout.split()


@pytest.mark.parametrize(("line", "offered"), [
    ("idlewatt ser", {"serve"}), ("idlewatt db va", {"vacuum"}), ("idlewatt jobs --us", {"--user"}),
    ("idlewatt waste --by p", {"partition"}), ("idlewatt jobs --format ", {"table", "json", "csv"})])
def test_bash_completes_commands_options_and_choices(line, offered, tmp_path):
    assert set(complete(line, tmp_path)) == offered
