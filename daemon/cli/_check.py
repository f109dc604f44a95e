"""``idlewatt replay --check``: the simulator against what really happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ._history import Source
from ._output import plain, show

if TYPE_CHECKING:
    from ...storage.reading import HistoryReader

INCUMBENT = "fifo+first-fit+easy"
WEEK_S = 7 * 86400.0
_COLUMNS = {"policy": "policy", "jobs": "jobs", "jobs_missed": "missed", "start_error_p10_s": "start error p10 s",
            "start_error_p50_s": "p50 s", "start_error_p90_s": "p90 s", "start_error_p99_s": "p99 s",
            "start_error_abs_mean_s": "mean |error| s", "jobs_waited": "waited",
            "wait_error_ratio": "their |error| / wait",
            "energy_error_ratio": "energy error", "schedule_energy_error_ratio": "of it power model"}


def show_fidelity(where: Source, policies: Sequence[str], style: str) -> None:
    """Print how far the simulator is off under the policy that stands for what the scheduler does."""
    from ..replay.cluster import ClusterError
    from ..simulator_error import check

    if not where.recorded:
        raise click.UsageError("--check needs recorded starts and energy: give `history` or the URL of a database")
    with where.history() as reader:
        since_s, until_s = _watched(reader, where.last_s or WEEK_S)
        try:
            speeds = where.known_speeds(reader, until_s)
            found = check(reader, since_s, until_s, policies[0] if policies else INCUMBENT, speeds)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    row = found.row()
    click.echo(f"replayed: {_day(since_s)} to {_day(until_s)}", err=True)
    for note in speeds.notes:
        click.echo(f"speeds: {plain(note)}", err=True)
    click.echo(str(found.speeds), err=True)
    show([row], _COLUMNS if style == "table" else {key: key for key in row}, style)
    if found.measured_joules is None:
        click.echo("the energy error is not known: the daemon has watched less than 95 % of the second half", err=True)


def _watched(reader: HistoryReader, most_s: float) -> tuple[float, float]:
    """Return the last so many seconds in which the daemon measured energy; of all time when it never did."""
    energy = next(table for table in reader.stats() if table.table == "waste")
    if energy.oldest_s is None or energy.newest_s is None or energy.oldest_s == energy.newest_s:
        return time.time() - most_s, time.time()
    return max(energy.oldest_s, energy.newest_s - most_s), energy.newest_s


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
