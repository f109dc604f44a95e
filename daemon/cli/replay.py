"""``idlewatt replay``: replays a history under several policies and compares them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._client import Since
from ._costs import stated
from ._history import DEFAULT_CONFIG, JobSource
from ._output import plain, show
from ._progress import progress
from ._renamed import Renamed
from ._units import length

if TYPE_CHECKING:
    from ..memory_mapped_workload import MappedWorkload
    from ..replay.cluster import Cluster
    from ..replay.site_speeds import SiteSpeeds
    from ..replay.workload_builder import WorkloadBuilder
    from ..sweep import Sweep

_COLUMNS = {"policy": "policy", "jobs": "jobs", "jct": "JCT", "compared": "relative JCT",
            "above": "above bound", "wait": "wait", "p99": "p99 JCT", "utilization_ratio": "GPU use",
            "energy_kwh": "kWh", "wasted_kwh": "wasted"}
_MONEY = {"cost": "cost", "wasted_cost": "wasted cost"}
_JOULES_PER_KWH = 3.6e6


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A duration such as ``30s`` or ``7d``."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        from ...storage.durations import seconds

        try:
            return float(seconds(value))  # type: ignore[arg-type]
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _state_folder() -> Path:
    base = os.environ.get("STATE_DIRECTORY", "").split(":")[0] or os.environ.get("XDG_STATE_HOME")
    return Path(base or Path.home() / ".local/state") / "idlewatt" / "replay"


@click.command("replay", short_help="Replay a history under scheduling policies.")
@click.argument("source")
@click.option("--cluster", "cluster_text", metavar="NODESxGPUS|FILE.yaml",
              help="Cluster of a trace: 64x8, 2x8:a100,2x8:v100 or a YAML file. A recorded history has its own.")
@click.option("--policy", "policies", multiple=True, metavar="ORDER[+PLACEMENT][+BACKFILL]",
              help="A policy; repeat the option to compare. The random baseline (random-feasible) and orders that "
                   "know true run times are always included; the best of these is shown beside the lower bound.")
@click.option("--baseline", help="Policy that the others are compared with; the first one by default.")
@click.option("--format", "style", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
              help="Output format.")
@click.option("--report", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write a self-contained HTML page with plots.")
@click.option("--jobs-out", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write a table of jobs per policy, .csv or .parquet; the policy goes before the suffix.")
@click.option("--groups-out", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write a table of the results of users and partitions, in the same formats.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--preemption-cost", "preemption_s", type=Seconds(), default=0.0, help="Work lost at a preemption: 30s.")
@click.option("--power-down-after", "power_down_s", type=Seconds(), help="Power empty nodes down after this time: 30m.")
@click.option("--power", "power_text", metavar="MODEL|by-model|FILE.yaml",
              help="Watts: of a GPU model (a100, v100, h100), of each node by its own model, or from a file with idle, "
                   "context, limit, host, standby, load, curve and models.  [as recorded, by node, GPU type, user and "
                   "name, for a history; else those of the catalogue]")
@click.option("--trace-format", help="Format of the trace, if it is not recognised.")
@click.option("--speeds", metavar="site|flat|FILE.yaml", default="",
              help="Speeds of jobs by placement: as the site's records show, the same for every placement, "
                   "or from a file.  [site for a history, flat for a trace]")
@click.option("--speeds-out", type=click.Path(dir_okay=False, writable=True, path_type=Path),
              help="Write these speeds to a YAML file, which can be edited.")
@click.option("--since", cls=Renamed, former=("--last",), type=Since(),
              help="From this time on, of a history: 30d, 2026-10-01.  [all of it; with --check its last 7d]")
@click.option("--config.file", "config_file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG,
              show_default=True, help="Configuration that names the database of `history`.")
@click.option("--engine", type=click.Choice(["processes", "ray"]), default="processes", show_default=True,
              help="Where policies run in parallel: in processes of this machine, or on a Ray cluster.")
@click.option("--workers", type=click.IntRange(1), default=lambda: os.cpu_count() or 1, show_default="all cores",
              help="Number of replays at the same time.")
@click.option("--state-dir", type=click.Path(file_okay=False, path_type=Path), default=_state_folder,
              show_default="~/.local/state/idlewatt/replay", help="Folder that keeps outcomes, so that a sweep can "
                                                                  "resume.")
@click.option("--check", is_flag=True, help="Replay the recorded jobs and show the error of the simulator.")
def command(source: str, cluster_text: str | None, policies: tuple[str, ...], style: str, check: bool,
            **options: Any) -> None:
    """Replay a history under policies: a trace file, `history`, or the URL of a database.

    Outcomes are kept: after Ctrl-C the same command resumes where it stopped. With --jobs-out or --groups-out it
    replays all policies again.

    \b
    Examples:
      idlewatt replay jobs.csv --cluster 64x8 --policy fifo --policy sjf-limit+best-fit+easy
      idlewatt replay history --since 30d --policy limit-aged+best-fit+easy --report replay.html
      idlewatt replay history --since 7d --check

    Power is modelled: a free GPU draws `idle`; an allocated one draws from `context` to `limit` along `curve` at its
    `load`; each node draws `host` in addition, and `standby` once it is powered down. Idle GPUs, the idle part of
    allocated ones, and the hosts of empty nodes count as wasted. A history does not say how jobs use their GPUs:
    allocated GPUs that idle or hang count as underused, and stranded and planned ones as idle.
    """
    where = JobSource(source, options["config_file"], options["trace_format"], options["since"],
                      options["speeds"])
    if check:
        from ._check import show_fidelity

        show_fidelity(where, policies[:1], style)
        return
    wanted = _policies(policies, options)
    with _spooled(options["state_dir"]) as folder:
        sweep = _prepared(where, cluster_text, wanted, options, folder)
        try:
            with progress("replaying policies") as report:
                sweep.carry_out(options["engine"], options["workers"], report)
        except KeyboardInterrupt:
            _finish(sweep, options, style)
            then = "replays all of them again, for its tables" if sweep.plan.writes else "goes on from there"
            _say(f"interrupted with {len(sweep.done)} of {len(sweep.policies)} policies done; the same command {then}")
            raise click.exceptions.Exit(130) from None
        except sweep_error() as error:
            raise click.ClickException(str(error)) from error
        _finish(sweep, options, style)


def sweep_error() -> type[Exception]:
    """Return the error class of a sweep, imported late so that ``--help`` does not load numpy."""
    from ..sweep import SweepError

    return SweepError


@contextmanager
def _spooled(state: Path) -> Iterator[Path]:
    from ..memory_mapped_workload import spool_folder

    try:
        with spool_folder(state) as folder:
            yield folder
    except OSError as error:
        path = Path(str(error.filename or state))
        hint = "; --state-dir names another folder" if path.is_relative_to(state) else ""
        raise click.ClickException(f"{path}: {error.strerror}{hint}") from error


def _policies(policies: tuple[str, ...], options: dict[str, Any]) -> list[str]:
    """Return the policies to replay; a usage error names an invalid policy or an output file of another format."""
    from ..policies.registry import parse
    from ..sweep import ALWAYS, ORACLES

    wanted = list(dict.fromkeys((*(policies or ("fifo",)), *ALWAYS, *ORACLES)))
    for policy in (*wanted, *filter(None, [options["baseline"]])):
        try:
            parse(policy)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    if options["baseline"] and options["baseline"] not in wanted:
        wanted.insert(0, options["baseline"])
    _check_outputs(options, wanted)
    return wanted


def _check_outputs(options: dict[str, Any], wanted: Sequence[str]) -> None:
    """Raise a UsageError for a file that could not be written after hours of replays of these policies."""
    from ..sweep import table_path

    jobs, groups = options["jobs_out"], options["groups_out"]
    tables = [path for path in (jobs, groups) if path is not None]
    for path in tables:
        if path.suffix not in (".csv", ".parquet"):
            raise click.UsageError(f"{path}: a table is written as .csv or .parquet")
    files = [table_path(path, policy) for path in tables for policy in wanted]
    for path in filter(None, (*files, options["report"], options["speeds_out"])):
        _check_output(path)
    if jobs is not None and groups is not None and jobs.resolve() == groups.resolve():
        raise click.UsageError(f"{jobs}: --jobs-out and --groups-out are different tables: name two files")


def _check_output(path: Path) -> None:
    """Raise a UsageError for a file that cannot be written."""
    if path.is_dir():
        raise click.UsageError(f"{path}: a folder is called so")
    folder = Path(os.path.realpath(path)).parent  # where a link to what is not there yet leads
    if not path.exists() and not folder.is_dir():
        raise click.UsageError(f"{path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise click.UsageError(f"{path}: you may not write {'it' if path.exists() else f'into {folder}'}")


def _prepared(where: JobSource, cluster_text: str | None, wanted: list[str], options: dict[str, Any],
              folder: Path) -> Sweep:
    from ..sweep import Shelf, Sweep, SweepPlan

    cluster, spool, prepared = _taken_in(where, cluster_text, folder, wanted, options["power_text"])
    _say(f"watts are {plain(prepared.watts)}")
    _tell_speeds(prepared.speeds, options["speeds_out"])
    power_down_s = float("inf") if options["power_down_s"] is None else options["power_down_s"]
    plan = SweepPlan(cluster, spool.workload(), options["seed"], options["preemption_s"], power_down_s,
                     prepared.power, options["jobs_out"], options["groups_out"], spool, prepared.speeds,
                     prepared.unplaced, prepared.watts)
    return Sweep(plan, wanted, Shelf(options["state_dir"]), dict(prepared.left_out), prepared.lines)


def _tell_speeds(speeds: SiteSpeeds, path: Path | None) -> None:
    """Print the notes on the speeds, and write them to a file if requested."""
    from ..replay.speed_file import text

    for note in speeds.notes:
        _say(f"speeds: {plain(note)}")
    if path is not None:
        path.write_text(text(speeds), encoding="utf-8")
        _say(f"speeds are written to {path}")


def _taken_in(where: JobSource, cluster_text: str | None, folder: Path, wanted: list[str],
              power_text: str | None) -> tuple[Cluster, MappedWorkload, WorkloadBuilder]:
    """Read the source and move its jobs to disk, which frees their memory."""
    import numpy as np

    from ..memory_mapped_workload import MappedWorkload
    from ._conclusion import warnings

    cluster, prepared = where.read(cluster_text)
    if power_text is not None:
        prepared = _in_watts_of(power_text, prepared, cluster)
    _tell_left_out(prepared)
    for warning in warnings(cluster, prepared.workload, wanted):
        _say(f"warning: {plain(warning)}")
    spool = MappedWorkload.of(prepared.workload, folder)
    return cluster, spool, replace(prepared, workload=spool.rest, name=None, started=np.zeros(0), submitted=None)


def _in_watts_of(text: str, prepared: WorkloadBuilder, cluster: Cluster) -> WorkloadBuilder:
    """Return a history with the power model of ``--power``, which is the same for all its jobs."""
    import numpy as np

    from ..power_options import PowerError, described
    from ..replay.workload import WATTS

    alike: dict[str, Any] = dict.fromkeys(WATTS, np.full(len(prepared.workload), np.nan, np.float32))
    try:
        return replace(prepared, workload=replace(prepared.workload, **alike), power=described(text, cluster),
                       watts=f"those of {text}")
    except PowerError as error:
        raise click.UsageError(f"--power: {error}") from error


def _finish(sweep: Sweep, options: dict[str, Any], style: str) -> None:
    """Show the finished replays, even if the sweep is incomplete."""
    from ..policies.limits import knowing
    from ..replay.outcome import SpeedCoverage
    from ..sweep import json_row, rows
    from ._conclusion import conclusion, warnings

    outcomes = sweep.outcomes()
    for outcome in outcomes[:1]:
        for reason, some in outcome.rejected.items():
            named = ", ".join(plain(sweep.called(job)) for job in some["jobs"][:5])
            jobs = "1 job" if some["count"] == 1 else f"{some['count']} jobs"
            _say(f"{jobs} can never run here: {reason} ({named}{', …' if some['count'] > 5 else ''})")
    result_rows = rows(outcomes, sweep.plan, options["baseline"] or sweep.policies[0])
    price = stated(options["config_file"])
    result_rows = [row | price.row(row) for row in result_rows]
    lines = [json_row(row) | {"jobs_left_out": sum(sweep.left_out.values())} for row in result_rows]
    for row in result_rows[:1]:
        _say(str(SpeedCoverage.of_row(row)))
    if price.words:
        _say(price.words)
    oracles = knowing(sweep.policies, sweep.plan.workload)
    sentences = list(filter(None, [conclusion(lines, options["baseline"] or sweep.policies[0], oracles)]))
    if style == "table":
        click.echo("".join(f"{sentence}\n\n" for sentence in sentences), nl=False)
        columns = _COLUMNS | (_MONEY if price.words else {})
        show([line | _readable(line) | price.readable(line) for line in lines], columns, style,
             empty="no policy is done yet")
        _beside_the_limit(lines)
    else:
        show(lines, {key: key for line in lines[:1] for key in line}, style)
    for line in lines[:1]:
        if line["jct_bound_s"] is None:
            _say(f"how far policies are from the lower bound is not known: {line['jct_bound_kind']}")
    if options["report"] and outcomes:
        from ..report import write_report

        doubts = (f"Warning: {warning}."
                  for warning in warnings(sweep.plan.cluster, sweep.plan.workload, sweep.policies))
        write_report(options["report"], outcomes, result_rows, sweep.plan, sweep.left_out, [*sentences, *doubts],
                     price.words)
        _say(f"report: {options['report']}")


def _beside_the_limit(lines: list[dict[str, Any]]) -> None:
    from ._conclusion import nearest

    sentences = nearest(lines)
    if sentences:
        click.echo(f"\n{sentences}")


def _readable(line: dict[str, Any]) -> dict[str, Any]:
    low, high = line.get("jct_ratio_low"), line.get("jct_ratio_high")
    distance, ratio = line.get("distance"), line.get("jct_ratio")
    interval = "" if low is None or high is None or low == high else f" ({low:.2f}-{high:.2f})"
    return {"jct": length(line["jct_mean_s"]), "wait": length(line["wait_mean_s"]), "p99": length(line["jct_p99_s"]),
            "compared": None if ratio is None else f"{ratio:.2f}{interval}",
            "above": None if distance is None else f"{100 * distance:.0f} %",
            "energy_kwh": line["energy_joules"] / _JOULES_PER_KWH,
            "wasted_kwh": line["energy_wasted_joules"] / _JOULES_PER_KWH}


def _tell_left_out(prepared: WorkloadBuilder) -> None:
    for note in prepared.notes:
        _say(f"note: {plain(note)}")
    if prepared.left_out:
        counted = "; ".join(f"{count} x {plain(reason)}" for reason, count in prepared.left_out.items())
        _say(f"{sum(prepared.left_out.values())} rows are not replayed: {counted}")
    for example in prepared.examples:
        _say(f"  {plain(example)}")


def _say(text: str) -> None:
    click.echo(text, err=True)
