"""``python -m idlewatt.daemon.cli._reference``: write docs/commands.md and docs/configuration.md from the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from .. import config
from . import main

DOCS = Path(__file__).parents[2] / "docs"
_WIDTH = 100
_COMMANDS = """# Commands

This page has the help of each command. `make docs-reference` writes it: change a command in `daemon/cli/`, not this
file.
"""
_CONFIGURATION = """# Configuration

This page has the output of `idlewatt check-config --sample`: every key with its default. `make docs-reference` writes
it: change `daemon/config.sample.yml`, not this file.

```yaml
"""


def commands() -> str:
    """Return the help of every command as Markdown."""
    return _COMMANDS + "".join(_section(path, command) for path, command in _leaves(main, ("idlewatt",)))


def configuration() -> str:
    """Return the documented sample as Markdown."""
    return f"{_CONFIGURATION}{config.sample()}```\n"


def _leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield (*path, name), command
            yield from _leaves(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path), terminal_width=_WIDTH, max_content_width=_WIDTH,
                            help_option_names=["-h", "--help"])
    return f"\n## {' '.join(path)}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    (DOCS / "commands.md").write_text(commands(), encoding="utf-8")
    (DOCS / "configuration.md").write_text(configuration(), encoding="utf-8")
