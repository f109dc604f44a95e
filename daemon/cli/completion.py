"""``idlewatt completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script that completes idlewatt's commands and options in a shell; packages install it.

    \b
    Examples:
      idlewatt completion bash > /etc/bash_completion.d/idlewatt
      idlewatt completion zsh > /usr/local/share/zsh/site-functions/_idlewatt
      idlewatt completion fish > ~/.config/fish/completions/idlewatt.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # only where click forgot a shell that it had
        raise click.UsageError(f"click knows no completion for {shell}")
    root = click.get_current_context().find_root()
    click.echo(_written(kind, root.command))


def _written(kind: type[click.shell_completion.ShellComplete], program: click.Command) -> str:
    """Return the script, not asking which version of bash runs: the one that reads it is another."""
    completion = kind(program, {}, "idlewatt", "_IDLEWATT_COMPLETE")
    return completion.source_template % completion.source_vars()
