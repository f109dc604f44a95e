"""Every command in the documentation is right usage, and those of the tutorial are run."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from idlewatt.daemon import config
from idlewatt.daemon.cli import main
from idlewatt.storage.records import JobState

ROOT = Path(__file__).parents[3]
GENERATED = {"commands.md", "configuration.md", "metrics.md"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "grafana/README.md",
         *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED),
         *sorted((ROOT / "grafana/runbooks").glob("*.md"))]
NOT_RUN = {"serve": "it does not end", "demo": "it does not end", "setup": "tests/daemon/cli/test_setup.py runs it",
           "check-config": "tests/daemon/cli/test_check_config.py runs it",
           "train": "tests/daemon/cli/test_train.py runs it, for some minutes",
           "models": "tests/daemon/cli/test_train.py runs it", "promote": "tests/daemon/cli/test_train.py runs it",
           "notices": "tests/daemon/cli/test_notices.py runs it",
           "follow": "tests/stack/test_follow.py runs it, on Slurm",
           "live": "tests/daemon/cli/test_live.py runs it in a terminal"}
"""Commands of the tutorial and of runbooks that this test does not run, with the reason."""


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


def to_run() -> list:
    """Return the commands of the tutorial and of the runbooks, each once, less those that another test runs."""
    found = of_the_tutorial() + [words for page in PAGES if page.parent.name == "runbooks" for words in commands(page)]
    each_once = {" ".join(words): words for words in found if words[0] not in NOT_RUN}
    return [pytest.param(words, id=name) for name, words in sorted(each_once.items())]


@pytest.mark.parametrize("words", to_run())
def test_the_commands_of_the_tutorial_and_of_the_runbooks_do_what_they_say(shell, monkeypatch, tmp_path, words):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if words[0] == "advise":
        shell.service.advise()
    running = next(job for job in shell.service.known.snapshot.jobs if job.state is JobState.RUNNING)
    words = [running.job_id if word == "JOB" else word for word in words]
    done = CliRunner().invoke(main, words, env={"IDLEWATT_URL": shell.url, "COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert done.stdout.strip()


def examples() -> list:
    """Return the blocks of YAML that are configurations of the daemon."""
    found = [(page, block) for page in PAGES for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    return [pytest.param(block, id=f"{page.name}: {block.splitlines()[0]} {number}")
            for number, (page, block) in enumerate(found)
            if block.split(":")[0] in ("sources", "storage", "waste", "advice", "training", "costs", "notices")]


@pytest.mark.parametrize("block", examples())
def test_an_example_of_a_configuration_is_right(block):
    config.parse(block if block.startswith("sources") else f"sources: [{{kind: node, targets: [a]}}]\n{block}")
