"""``idlewatt flavours``: the named request sizes, their use, and the requests without a flavour."""

from __future__ import annotations

import click

from ._client import Since, ask, asks_daemon
from ._output import Row, plain, show
from ._units import length

_COLUMNS = {"name": "flavour", "where": "partition", "gpus": "GPUs", "limit": "limit", "jobs": "jobs",
            "pending": "waiting", "running": "running"}


@click.command("flavours", short_help="List job flavours.")
@asks_daemon
@click.option("--since", type=Since(), default="90d", show_default=True,
              help="From this time on, by submission: 7d, 2026-10-01.")
def command(url: str, ca_file: str | None, style: str, since: str) -> None:
    """List the configured flavours, or the sizes and time limits that the jobs of the history asked for.

    \b
    Examples:
      idlewatt flavours
      idlewatt flavours --since 7d --format json
    """
    rows = ask(url, "flavours", ca_file, since=since)
    if style != "table":
        show(rows, {key: key for row in rows[:1] for key in row}, style)
        return
    show([_row(row) for row in rows], _COLUMNS, style, empty="no job with GPUs has been recorded, and no flavour is "
         "configured")
    for row in rows:
        if row["fault"]:
            click.echo(f"{plain(row['flavour'] or 'of no flavour')}: {plain(row['fault'])}")


def _row(row: Row) -> dict[str, object]:
    where = row["partition"] or (f"GPUs {row['gpu_model']}" if row["gpu_model"] else "any")
    none = not row["flavour"]
    return {**row, "name": row["flavour"] or "(none)", "where": "-" if none else where,
            "gpus": None if none else row["gpus"], "limit": "-" if row["limit_s"] is None else length(row["limit_s"])}
