"""Groups of commands: one file for each command, loaded only when the command runs."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import signal
import sys
from typing import Any

import click


class CommandFolder(click.Group):
    """Finds a command in the file of the same name in the folder of a package."""

    def __init__(self, *arguments: Any, package: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the files in the folder; an underscore hides a file."""
        return sorted(_spoken(module.name) for module in pkgutil.iter_modules(sys.modules[self._package].__path__)
                      if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command object of the file, or None when there is no such file."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context,
                        args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; UsageError suggests similar names if there is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx))
            if not near:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}. Did you mean {' or '.join(near)}?", ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; Ctrl-C ends it with status 130, as in shells."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.exceptions.Exit(128 + signal.SIGINT) from error


def _spoken(module: str) -> str:
    return module.replace("_", "-")
