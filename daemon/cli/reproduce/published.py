"""``idlewatt reproduce published``: HeliosArtifact, Muri, Pollux's arena and FGD, on their own traces."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._output import show

if TYPE_CHECKING:
    from ...replay.published.result import Row

_COLUMNS = {"name": "result", "setting": "setting", "published": "published", "ours": "ours",
            "difference": "difference", "note": "note"}


@click.command("published")
@click.option("--traces", envvar="IDLEWATT_TRACES", required=True,
              type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of the packaged traces (or IDLEWATT_TRACES).")
@click.option("--format", "style", type=click.Choice(["markdown", "table", "json", "csv"]), default="markdown",
              show_default=True, help="For a README, for people, or for programs.")
@click.option("--into", type=click.Path(exists=True, dir_okay=False, writable=True, path_type=Path),
              help="Replace the text between <!-- published --> and <!-- /published --> of this file.")
def command(traces: Path, style: str, into: Path | None) -> None:
    """Replay HeliosArtifact, Muri, Pollux's arena and FGD on their traces (about a minute).

    \b
    Examples:
      idlewatt reproduce published --traces traces
      idlewatt reproduce published --traces traces --into README.md
    """
    from ...replay import published as simulators

    try:
        rows = list(_watched(simulators.rows(traces)))
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename}: a trace is missing; --traces names the folder of all of them") \
            from error
    if into is not None:
        _replace(into, "published", markdown(rows))
    elif style == "markdown":
        click.echo(markdown(rows))
    else:
        show([_record(row) for row in rows], _COLUMNS, style)


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [f"| {' | '.join(_COLUMNS.values())} |", "|---|---|---:|---:|---:|---|"]
    lines += [f"| {row.name} | {row.setting} | {_exact(row.published)} | {_exact(row.ours)} "
              f"| {round(row.difference, 6) + 0.0:+.4%} | {row.note} |" for row in rows]
    return "\n".join(lines)


def _exact(value: float) -> str:
    """Return a number with as many digits as such tables print."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _record(row: Row) -> dict[str, Any]:
    return {**dataclasses.asdict(row), "difference": row.difference}


def _watched(rows: Iterator[Row]) -> Iterator[Row]:
    """Tell on the terminal what is being replayed, for the whole takes a minute."""
    for row in rows:
        click.echo(f"\r{row.name}, {row.setting}".ljust(100), err=True, nl=False)
        yield row
    click.echo("\r" + " " * 100 + "\r", err=True, nl=False)


def _replace(path: Path, mark: str, text: str) -> None:
    """Put the text between the marks of a file."""
    between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    before = path.read_text(encoding="utf-8")
    if not between.search(before):
        raise click.ClickException(f"{path} has no lines <!-- {mark} --> and <!-- /{mark} --> to write between")
    path.write_text(between.sub(lambda found: f"{found[1]}{text}\n{found[2]}", before), encoding="utf-8")
