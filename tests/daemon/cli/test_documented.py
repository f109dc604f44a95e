"""Every command in the documentation is right usage, and those of the tutorial are run."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main

ROOT = Path(__file__).parents[3]
GENERATED = {"commands.md", "configuration.md", "metrics.md"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "grafana/README.md",
         *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED),
         *sorted((ROOT / "grafana/runbooks").glob("*.md"))]
NOT_RUN = {"serve": "it does not end", "demo": "it does not end", "setup": "tests/daemon/cli/test_setup.py runs it",
           "check-config": "tests/daemon/cli/test_check_config.py runs it"}
"""Commands of the tutorial that this test does not run, with the reason."""


def commands(page: Path) -> list[list[str]]:
    """Return the command lines of a page: in blocks of code, and between backticks."""
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for line in text.splitlines() if line.startswith("    ")]
    lines += [line for block in blocks for line in block.splitlines()]
    lines += [found.replace("\n", " ") for found in re.findall(r"`(idlewatt [^`]+)`", text)]
    parts = [part for line in lines for part in re.split(r"&&|\||;", line.split("  #")[0])]
    return [words for words in map(arguments, parts) if words]


def arguments(text: str) -> list[str]:
    """Return the arguments of a line that starts idlewatt, nothing of any other."""
    found = re.match(r"\s*(?:sudo )?(?:\S*/)?idlewatt ([a-z-].*)", text)
    return shlex.split(found[1].split(" > ")[0], comments=True) if found else []


def each() -> list:
    return [pytest.param(words, id=f"{page.name}: {' '.join(words)}") for page in PAGES for words in commands(page)]


@pytest.mark.parametrize("words", each())
def test_a_command_that_is_named_exists_and_so_do_its_options(words):
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command, words = command.get_command(context, words[0]), words[1:]
        assert command is not None
        context = click.Context(command)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    used = {word.split("=")[0] for word in words if word.startswith("-") and word not in ("-h", "--help")}
    assert used - known <= {"--version"}


def of_the_tutorial() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("words", [pytest.param(words, id=" ".join(words)) for words in of_the_tutorial()
                                   if words[0] not in NOT_RUN])
def test_the_tutorials_commands_do_what_it_says(shell, monkeypatch, tmp_path, words):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    shell.service.advise()
    done = CliRunner().invoke(main, words, env={"IDLEWATT_URL": shell.url, "COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()
