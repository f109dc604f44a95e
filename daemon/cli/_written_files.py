"""Writing of the package's files to the places where other programs look for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import click

MODE, SECRET_MODE = 0o666, 0o640
"""Modes of new files and of those that may hold secrets, before the umask."""


def write_files(root: Path, texts: Mapping[str, str], preserved: Collection[str], secret: Collection[str] = ()) -> None:
    """Write texts to their places below a folder and print the paths.

    Existing files in ``preserved`` are not overwritten; those in ``secret`` are not for everybody to read.
    """
    for place, text in texts.items():
        target = root / place
        if place in preserved and target.exists():
            click.echo(f"kept     {target}")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "w", encoding="utf-8", opener=_opener(SECRET_MODE if place in secret else MODE)) as file:
                file.write(text)
        except OSError as error:
            raise click.ClickException(f"{target} cannot be written: {error.strerror}. Are you root?") from error
        click.echo(f"written  {target}")


def _opener(mode: int) -> Callable[[str, int], int]:
    return lambda path, flags: os.open(path, flags, mode)
