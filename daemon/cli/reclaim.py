"""``idlewatt reclaim``: lists jobs that hold idle GPUs, for the site's own program that cancels jobs."""

from __future__ import annotations

import click

from ._client import ask, asks_daemon
from ._output import as_json, show

_PLAIN = ("job_id", "submit_s", "start_s", "user", "account", "partition", "name", "owner_kind", "since_s", "gpus_idle",
          "gpus_held", "whole", "idle_watts", "cpus", "memory_bytes", "nodes", "starts")


@click.command("reclaim", short_help="List jobs that hold idle GPUs.")
@asks_daemon
@click.option("--partition", help="Only jobs of this partition.")
@click.option("--user", help="Only jobs of this user.")
@click.option("--whole", is_flag=True, help="Only jobs of which every GPU is idle.")
def command(url: str, ca_file: str | None, style: str, partition: str | None, user: str | None, whole: bool) -> None:
    """List jobs that hold idle GPUs, since when, what ending them would free, and which jobs could then start.

    Nothing is cancelled: this is only a list, and the decision is yours.

    \b
    Examples:
      idlewatt reclaim
      idlewatt reclaim --whole --format json
    """
    from ..advice.recommenders import subjects

    subject = subjects()["reclaim"]
    rows = [row for row in ask(url, "reclaim", ca_file, partition=partition, user=user) if row["whole"] or not whole]
    if style == "json":
        click.echo(as_json(rows))
    elif style == "csv":
        show([{**row, "nodes": " ".join(row["nodes"]), "starts": subject.cells(row)["starts"]} for row in rows],
             {name: name for name in _PLAIN}, style)
    else:
        show([subject.cells(row) for row in rows], subject.columns, style, empty=subject.empty)
