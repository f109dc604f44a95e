"""Renamed options: the old name is accepted for one release and hidden in the help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.parser import _OptionParser


class Renamed(click.Option):
    """An option with a value that was renamed; ``former`` are its old names."""

    def __init__(self, *names: Any, former: Sequence[str], **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.former = tuple(former)

    def add_to_parser(self, parser: _OptionParser, ctx: click.Context) -> None:
        """Add the old names to the parser; they are not in ``opts``, so help and manuals do not show them."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=list(self.former), dest=self.name, nargs=self.nargs,
                          action="append" if self.multiple else "store")
