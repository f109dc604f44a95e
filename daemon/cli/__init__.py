"""The command line: one file per command, loaded when it is asked for, so that ``--help`` answers at once."""

from __future__ import annotations

import importlib
import pkgutil
import signal
from importlib.metadata import version
from typing import Any

import click


class Commands(click.Group):
    """Finds a command in the file of the same name in this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the files in this folder; an underscore hides a file."""
        return sorted(_spoken(module.name) for module in pkgutil.iter_modules(__path__)
                      if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command object of the file, or None when there is no such file."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C ends with the exit code that shells give to it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.exceptions.Exit(128 + signal.SIGINT) from error


def _spoken(module: str) -> str:
    return module.replace("_", "-")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("idlewatt"), prog_name="idlewatt")
def main() -> None:
    """See which watts of a GPU cluster are wasted, why, and where the next jobs should go.

    \b
    Start here:
      idlewatt demo                        a simulated DGX cluster and the daemon watching it
      idlewatt check-config FILE           is this configuration right?
      idlewatt serve --config.file=FILE    the daemon

    \b
    Exit codes: 0 done, 1 the command failed, 2 wrong usage or configuration,
    3 the daemon or database could not be reached, 130 interrupted.

    Shell completion: eval "$(_IDLEWATT_COMPLETE=bash_source idlewatt)" (also zsh_source, fish_source).
    """
