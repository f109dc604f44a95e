"""Writing of the package's files to the places where other programs look for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import click


def write_files(root: Path, texts: Mapping[str, str], preserved: Collection[str]) -> None:
    """Write texts to their places below a folder and print the paths.

    Existing files in ``preserved`` are not overwritten.
    """
    for place, text in texts.items():
        target = root / place
        if place in preserved and target.exists():
            click.echo(f"kept     {target}")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        except OSError as error:
            raise click.ClickException(f"{target} cannot be written: {error.strerror}. Are you root?") from error
        click.echo(f"written  {target}")
