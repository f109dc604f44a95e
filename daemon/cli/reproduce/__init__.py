"""``idlewatt reproduce``: published numbers beside ours, one file per publication."""

from __future__ import annotations

import click

from .._commands import Commands


@click.group("reproduce", cls=Commands, package=__name__)
def command() -> None:
    """Show published results beside what our rewritten simulators give for them."""
