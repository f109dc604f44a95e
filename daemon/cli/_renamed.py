"""Options that have a new name: the old one is accepted for one release, and no help shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.parser import _OptionParser


class Renamed(click.Option):
    """An option that takes a value and was called otherwise before: ``former`` are its old names."""

    def __init__(self, *names: Any, former: Sequence[str], **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.former = tuple(former)

    def add_to_parser(self, parser: _OptionParser, ctx: click.Context) -> None:
        """Let the parser know the old names, too, which ``opts`` and so help and manuals are without."""
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=list(self.former), dest=self.name, nargs=self.nargs,
                          action="append" if self.multiple else "store")
