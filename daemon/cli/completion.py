"""``idlewatt completion``: scripts for shell completion of commands and options."""

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
    """Return the script without a check of this machine's bash, because another bash may read it."""
    completion = kind(program, {}, "idlewatt", "_IDLEWATT_COMPLETE")
    return completion.source_template % completion.source_vars()
