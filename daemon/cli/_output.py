"""Output of rows: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ...exporters.text import clean
from ...storage.values import finite

Row = Mapping[str, Any]
"""A row of a table, or of the daemon's JSON with the fields of the API."""

WIDE = 1000
"""Width of a pipe or a file, columns, so that no line is wrapped."""


def show(rows: Sequence[Row], columns: Mapping[str, str], style: str, *, title: str = "",
         empty: str = "nothing") -> None:
    """Print rows in a format; ``columns`` maps a row's keys to the table's headings."""
    if style == "json":
        click.echo(as_json(rows))
    elif style == "csv":
        click.echo(_csv(rows, columns), nl=False)
    else:
        _table(rows, columns, title, empty)


def as_json(value: object) -> str:
    """Return strictly valid JSON: NaN and infinities become null, lone surrogates become question marks."""
    return json.dumps(finite(value), indent=2, allow_nan=False)


def _csv(rows: Iterable[Row], columns: Mapping[str, str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_guarded(row.get(key)) for key in columns] for row in rows)
    return text.getvalue()


def _guarded(value: object) -> object:
    """Return a value that no spreadsheet runs as a formula and that has no control characters for a terminal."""
    if not isinstance(value, str):
        return value
    return f"'{clean(value)}" if value.lstrip()[:1] in tuple("=+-@") else clean(value)


def _table(rows: Sequence[Row], columns: Mapping[str, str], title: str, empty: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    if not rows:
        console.print(empty)
        return
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for key, heading in columns.items():
        numbers = all(isinstance(row.get(key), int | float | None) for row in rows)
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        # Text, not markup: names come from users, and control characters must not reach the terminal.
        table.add_row(*(Text(plain(row.get(key))) for key in columns))
    console.print(table)


def plain(value: object) -> str:
    """Return a value as text without control characters, which is safe for a terminal."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    return clean(str(value))


@contextmanager
def told_once() -> Iterator[None]:
    """Silence the log of sources, because the command itself reports on each source."""
    log = logging.getLogger("idlewatt.exporters")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
