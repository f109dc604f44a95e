"""The command line: one file for each command, loaded only when the command runs, so that ``--help`` is fast."""

from __future__ import annotations

from importlib.metadata import version

import click

from ._commands import CommandFolder


@click.group(cls=CommandFolder, package=__name__, context_settings={"help_option_names": ["-h", "--help"]})
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

    Shell completion: eval "$(idlewatt completion bash)" (also zsh, fish).
    """
