"""``idlewatt jobs``: the jobs that the daemon sees."""

from __future__ import annotations

from typing import Any

import click

from ._client import ask, asks_daemon
from ._output import Row, show

_COLUMNS = {"job_id": "job", "user": "user", "name": "name", "partition": "partition", "state": "state",
            "reason": "reason", "gpus": "GPUs", "nodes": "nodes"}


@click.command("jobs", short_help="List pending, running and finished jobs.")
@asks_daemon
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only jobs on this node.")
@click.option("--user", help="Only this user's jobs.")
@click.option("--state", help="Only this state, e.g. pending.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
def command(url: str, ca_file: str | None, style: str, **filters: Any) -> None:
    """List pending, running and lately finished jobs.

    \b
    Examples:
      idlewatt jobs --state pending
      idlewatt jobs --user alice --format csv
    """
    if filters["state"]:
        filters["state"] = filters["state"].lower()
    rows = [_row(job) for job in ask(url, "jobs", ca_file, **filters)]
    show(rows, _COLUMNS, style, empty="no jobs")


def _row(job: Row) -> Row:
    return {**job, "gpus": job["request"]["gpus"] * job["tasks"], "nodes": " ".join(map(_held, job["allocations"]))}


def _held(allocation: Row) -> str:
    indexes = allocation["gpu_indexes"]
    return f"{allocation['node']}:{','.join(map(str, indexes)) if indexes else allocation['gpus']}"
