"""``idlewatt replay --check``: comparison of the simulator with the recorded history."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ._history import JobSource
from ._output import Row, plain, show
from ._progress import progress
from ._store import settings
from ._units import energy, length, share

if TYPE_CHECKING:
    from ...storage.reading import HistoryReader
    from ..settings.sections import Sections
    from ..simulator_error import Fidelity

INCUMBENT = "fifo+first-fit+easy"
_PART = {"jobs_gpus": "GPUs of jobs", "free_gpus": "free GPUs", "busy_hosts": "hosts of nodes with a job",
         "empty_hosts": "hosts of empty nodes"}
WEEK = "7d"


def show_fidelity(where: JobSource, policies: Sequence[str], style: str) -> None:
    """Print the errors of the simulator under the policy that represents the site's scheduler."""
    from ..replay.cluster import ClusterError
    from ..simulator_error import check

    if not where.recorded:
        raise click.UsageError("--check needs recorded starts and energy: give `history` or the URL of a database")
    with where.history() as reader:
        since_s, until_s = _watched(reader, where.begins or WEEK)
        try:
            speeds = where.known_speeds(reader, until_s)
            with progress("replaying what happened") as report:
                errors = check(reader, since_s, until_s, policies[0] if policies else INCUMBENT, speeds, report)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    row = errors.row()
    click.echo(f"replayed: {_day(since_s)} to {_day(until_s)}", err=True)
    for note in speeds.notes:
        click.echo(f"speeds: {plain(note)}", err=True)
    click.echo(str(errors.speeds), err=True)
    click.echo(f"watts are {errors.watts}{watts_error(errors)}", err=True)
    if style == "table":
        show(list(readable(errors)), {"what": "what", "figure": "figure"}, style)
    else:
        show([row], {key: key for key in row}, style)
    if errors.measured_joules is None:
        click.echo("the energy error is not known: the daemon has watched less than 95 % of the second half", err=True)
    click.echo(f"verdict: {plain(verdict(errors, where.told(settings(where.config_file))))}", err=style != "table")


def readable(errors: Fidelity) -> Iterator[Row]:
    """Yield the errors as lines for people, one figure on each line, at most 80 columns wide."""
    yield {"what": "policy", "figure": errors.policy}
    yield {"what": "jobs that started in both", "figure": f"{errors.jobs:,}"}
    yield {"what": "jobs that did not start in the replay", "figure": f"{errors.jobs_missed:,}"}
    for name, value in errors.start_error_s.items():
        yield {"what": f"start, less the real one, {name[1:]} % quantile", "figure": length(value)}
    yield {"what": "mean error of starts, either way", "figure": length(errors.start_error_abs_mean_s)}
    yield {"what": "jobs that waited", "figure": f"{errors.jobs_waited:,}"}
    yield {"what": "error of their starts, of their wait", "figure": share(errors.wait_error_ratio)}
    yield {"what": "  surely less than", "figure": share(errors.wait_error_limit)}
    yield {"what": "energy, replayed", "figure": energy(errors.simulated_joules)}
    yield {"what": "energy, measured", "figure": energy(errors.measured_joules)}
    yield {"what": "error of energy", "figure": _signed(errors.energy_error_ratio)}
    yield {"what": "of it the model of watts", "figure": _signed(errors.schedule_energy_error_ratio)}
    yield {"what": "were it known what each job drew", "figure": _signed(errors.watts_known_error_ratio)}
    yield from _parts(errors)


def _parts(errors: Fidelity) -> Iterator[Row]:
    """Yield the parts of the energy error, each relative to the total energy."""
    measured = sum(part.measured for part in errors.watts_parts)
    for part in errors.watts_parts:
        if measured > 0:
            off, known = ((joules - part.measured) / measured for joules in (part.modelled, part.known))
            yield {"what": f"  {_PART[part.part]}, {part.gpu_model or 'no GPUs'}",
                   "figure": f"{_signed(off)}; known jobs {_signed(known)}"}


def _signed(ratio: float | None) -> str | None:
    return None if ratio is None else f"{100 * ratio:+.1f} %"


def watts_error(errors: Fidelity) -> str:
    """Return in words the error of the power model on windows that it was not fitted on."""
    from ..simulator_error import PARTS

    if errors.schedule_energy_error_ratio is None or errors.watts_part_error_ratio is None:
        return ""
    nodes = "" if errors.watts_node_error_ratio is None else f", by {errors.watts_node_error_ratio:.1%} by node"
    return (f"; on later windows, jobs being where they ran, they are off by {errors.schedule_energy_error_ratio:+.1%} "
            f"in all{nodes}, by {errors.watts_part_error_ratio:.1%} in the mean of {PARTS} parts{_steps(errors)}")


def _steps(errors: Fidelity) -> str:
    """Return in words the error of each part of the history, with the facts known at its beginning."""
    if not errors.watts_steps:
        return ""
    percentages = ", ".join(f"{error:+.1%}" for error in errors.watts_steps)
    return (f"; each part by all that came before it: {percentages} "
            f"({sum(errors.watts_steps) / len(errors.watts_steps):+.1%})")


def verdict(errors: Fidelity, sections: Sections) -> str:
    """Return in words whether replays of this history are accurate enough, by the criteria for models."""
    from ..learning.promotion import not_reproduced
    from ..learning.promotion_criteria import PromotionCriteria

    fault = not_reproduced(errors, PromotionCriteria.of(sections))
    if fault:
        return f"{fault}; do not go by replays of this history, and give the scheduler's own policy by --policy"
    waits = "none of them waited" if errors.wait_error_ratio is None else \
        f"off by {errors.of_waits}"
    energy = "not measured" if errors.energy_error_ratio is None else f"off by {errors.energy_error_ratio:+.1%}"
    return f"the replay of {errors.policy} reproduces the starts of {errors.jobs} jobs ({waits}); energy: {energy}"


def _watched(reader: HistoryReader, begins: str) -> tuple[float, float]:
    """Return the beginning and the end of the check, seconds since the epoch.

    The end is the last measured energy, or now without any. The beginning is a day or an age before the end.
    """
    from ..moments import moment_of

    energy = next(table for table in reader.stats() if table.table == "waste")
    if energy.oldest_s is None or energy.newest_s is None or energy.oldest_s == energy.newest_s:
        return moment_of(begins, time.time()), time.time()
    return max(energy.oldest_s, moment_of(begins, energy.newest_s)), energy.newest_s


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
