"""``idlewatt advise``: placements for pending jobs, and recommendations for running jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import click

from ...exporters.hostlist import ranges
from ...storage.recommendations import ACTIONS
from ..advice.recommenders import topics
from ..durations import ago
from ._client import ask, asks_daemon, status
from ._job_wait import wait_lines
from ._output import Row, plain, show

_COLUMNS = {"job_id": "job", "partition": "partition", "action": "advice", "placement": "where (node:GPUs)",
            "starts_in": "starts in", "cost": "cost (else)", "speed": "speed", "change": "change in wait",
            "reason": "why", "policy": "policy"}
_NARROW = {name: _COLUMNS[name] for name in ("job_id", "action", "placement", "starts_in", "reason")}


def _on_subjects(command: Callable[..., None]) -> Callable[..., None]:
    """Add a flag for each kind of recommendation beyond starts."""
    for name, about in reversed(topics().items()):
        command = click.option(f"--{name.replace('_', '-')}", "subject", flag_value=name, help=about)(command)
    return command


@click.command("advise", short_help="Show where each pending job should start, or why it waits.")
@asks_daemon
@click.option("--partition", help="Only this partition.")
@click.option("--node", help="Only placements on this node.")
@click.option("--user", help="Only this user's jobs.")
@click.option("--policy", help="A policy that is not active, to show its advice too.")
@click.option("--state", type=click.Choice(ACTIONS), help="Only what can start now, is held, or is not known.")
@click.option("--limit", type=click.IntRange(1), help="At most this many.")
@click.option("--job", help="Only this job, with all details of its advice.")
@click.option("--wide", is_flag=True, help="More than fits 80 columns.")
@click.option("--commands", is_flag=True, help="Only the commands that make the scheduler follow the advice, one per "
                                               "line.")
@_on_subjects
def command(url: str, ca_file: str | None, style: str, subject: str | None = None, commands: bool = False,
            wide: bool = False, **filters: Any) -> None:
    """Show for every pending job where to start it now, or why to hold it and until when.

    With one of the flags at the end, show other advice instead, the most valuable first.

    If the scheduler says which GPUs are free, the ones to take stand in brackets after the node's number of GPUs. The
    cost is that of communication between them: the lower, the closer together; the cost of the next best placement is
    in brackets. The speed is relative to scattered leftover GPUs, by Pollux's tables (OSDI'21, nodes of four GPUs); it
    is known for jobs whose name identifies one of the applications measured there.

    The components of a heterogeneous job start together. Slurm accepts neither 124+1 nor a ReqNodeList on the first of
    them: --commands prints what it accepts.

    \b
    Examples:
      idlewatt advise
      idlewatt advise --state start --format csv
      idlewatt advise --job 124
      idlewatt advise --elastic --user alice
      idlewatt advise --commands --limit 1                   # scontrol update jobid=124 ReqNodeList=dgx-a100-02
    """
    if subject:
        if filters.pop("job"):
            raise click.UsageError(f"--job goes with starts, not with --{subject.replace('_', '-')}")
        _recommended(subject, ask(url, subject, ca_file, **filters), style, _silence(url, ca_file, style))
        return
    recommendations = ask(url, "recommendations", ca_file, **filters)
    if not filters["policy"]:
        recommendations = [row for row in recommendations if not row["shadow"]]
    if commands:
        click.echo("\n".join(row["command"] for row in recommendations if row["command"] and not row["shadow"]))
        return
    why = _silence(url, ca_file, style) if not recommendations else ""
    if filters["job"] and style == "table" and recommendations:
        _told(recommendations)
        for estimate in _wait_estimates(url, ca_file, filters) or (None,):
            for line in wait_lines(estimate):
                click.echo(line)
        return
    if filters["job"] and style == "json":
        estimates = _wait_estimates(url, ca_file, filters)
        recommendations = [{**row, "outlook": _of_row(row, estimates)} for row in recommendations]
    show([_row(row) for row in recommendations] if style != "json" else recommendations,
         _COLUMNS if wide or style != "table" else _NARROW, style,
         empty=why or (f"no advice on job {plain(filters['job'])}: it is not pending; idlewatt job tells what it does"
                       if filters["job"] else "no job is pending"))


def _wait_estimates(url: str, ca_file: str | None, filters: Mapping[str, Any]) -> list[Row]:
    """Return a job's wait estimates, one for each cluster that has one of its id; [] if the daemon has none."""
    named = {key: filters[key] for key in ("partition", "user") if filters.get(key)}
    try:
        return ask(url, f"waits/{quote(filters['job'])}", ca_file, **named)
    except click.ClickException:
        return []


def _of_row(row: Row, estimates: list[Row]) -> Row | None:
    """Return the estimate of a recommendation's job; tasks of an array share that of the first."""
    same = [estimate for estimate in estimates if estimate["submit_s"] == row["submit_s"]]
    return next(iter(same or (estimates if len(estimates) == 1 else ())), None)


def _told(recommendations: list[Row]) -> None:
    """Show the advice on one job, with a line for each field."""
    for row in recommendations:
        cells = {**_row(row), "command": row["command"] or None}
        for key, heading in (_COLUMNS | {"command": "command"}).items():
            if cells[key] not in (None, ""):
                click.echo(f"{heading:18} {plain(cells[key])}")


def _silence(url: str, ca_file: str | None, style: str) -> str:
    """Return the reason why there is no advice; programs get an empty list, and standard error has the reason."""
    why = str(status(url, ca_file).get("no_advice", ""))
    if why and style != "table":
        click.echo(why, err=True)
    return why


def _recommended(name: str, rows: list[Row], style: str, why: str) -> None:
    """Show the recommendations of a kind beyond starts."""
    from ..advice.recommenders import subjects

    subject = subjects()[name]
    shown = rows if style == "json" else [subject.cells(row) for row in rows]
    show(shown, subject.columns, style, empty=why or subject.empty)


def _row(row: Row) -> Row:
    start = row["expected_start_s"]
    waits = "now" if row["action"] == "start" else ago(start - row["issued_s"]) if start is not None else None
    why = "; ".join((*row["reasons"], row["reason"]))
    return {**row, "placement": _where(row), "starts_in": waits, "cost": _cost(row), "speed": _speed(row),
            "change": _change(row), "reason": why}


def _where(row: Row) -> str | None:
    """Return nodes and GPUs as Slurm writes them: ``dgx1:4(IDX:0-3)``."""
    if row["placement"] is None:
        return None
    nodes, gpus = row["placement"]["nodes"], row["placement"]["gpus"]
    indexes = [f"(IDX:{ranges(some)})" for some in row["gpu_indexes"]] or [""] * len(nodes)
    return ",".join(f"{node}:{number}{some}" for node, number, some in zip(nodes, gpus, indexes, strict=True))


def _cost(row: Row) -> str | None:
    """Return the communication cost as text, with that of the next best placement in brackets if it is relevant."""
    if row["communication_cost"] is None:
        return None
    other = next((other["communication_cost"] for other in row["alternatives"] if other["relative_speed"] is None),
                 None)
    return f"{row['communication_cost']:.3g}" + (f" ({other:.3g})" if other is not None else "")


def _speed(row: Row) -> str | None:
    """Return the expected speed relative to scattered GPUs, as text."""
    speed = next((other["relative_speed"] for other in row["alternatives"] if other["relative_speed"]), None)
    return None if speed is None else f"{1 / speed:.2g} x scattered"


def _change(row: Row) -> str | None:
    """Return the expected change of the wait as text, with its 95 % interval in brackets if its ends differ."""
    if row["wait_change_s"] is None:
        return None
    ends = [_sooner(end) for end in row["interval_s"] or ()]
    interval = f" ({' to '.join(ends)})" if len(set(ends)) > 1 else ""
    return f"{_sooner(row['wait_change_s'])}{interval}"


def _sooner(seconds: float) -> str:
    return "same" if abs(seconds) < 1 else f"{ago(abs(seconds))} {'sooner' if seconds < 0 else 'later'}"
