"""``idlewatt replay --check``: the simulator against what really happened."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from ._history import Source
from ._output import show

INCUMBENT = "fifo+first-fit+easy"
WEEK_S = 7 * 86400.0
_COLUMNS = {"policy": "policy", "jobs": "jobs", "jobs_missed": "missed", "start_error_p50_s": "start error p50 s",
            "start_error_p90_s": "p90 s", "start_error_p99_s": "p99 s", "start_error_abs_mean_s": "mean |error| s",
            "energy_error_ratio": "energy error", "schedule_energy_error_ratio": "of it power model"}


def show_fidelity(where: Source, policies: Sequence[str], style: str) -> None:
    """Print how far the simulator is off under the policy that stands for what the scheduler does."""
    from ..fidelity import check
    from ..replay.cluster import ClusterError

    if not where.recorded:
        raise click.UsageError("--check needs recorded starts and energy: give `history` or the URL of a database")
    now = time.time()
    with where.history() as reader:
        try:
            found = check(reader, now - (where.last_s or WEEK_S), now, policies[0] if policies else INCUMBENT)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    row = found.row()
    show([row], _COLUMNS if style == "table" else {key: key for key in row}, style)
    if found.measured_joules is None:
        click.echo("the energy error is not known: the daemon has watched less than 95 % of this time", err=True)
