"""``idlewatt job``: a report on one job, similar to jobstats."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import click

from ...storage.power_classes import PowerClass
from ..amounts import amount, carbon
from ..durations import ago
from ..headline import watts
from ._client import ask, asks_in
from ._output import Row, as_json, plain
from ._units import WIDTH, day, energy, gpus, hours, ran, share

_BAR = 30
_LEVELS = "_▁▂▃▄▅▆▇█"
GIB = 2**30


@click.command("job", short_help="Report on one job.")
@click.argument("job_id")
@asks_in("text", "json")
@click.option("--partition", default="", help="Only the job of this partition, where clusters have jobs of one id.")
@click.option("--wide", is_flag=True, help="More than fits 80 columns: longer timelines.")
def command(url: str, ca_file: str | None, style: str, job_id: str, partition: str, wide: bool) -> None:
    """Report on a job: where it ran, what it used, why it waited, and what to request next time.

    For an array, every task is shown; for a job that was requeued, every run, the last one first. Where several
    clusters have a job of that id, the job of each is shown.

    \b
    Examples:
      idlewatt job 4711
      idlewatt job 4711_3
      idlewatt job 4711 --partition gpu
      idlewatt job 4711 --format json
    """
    if not job_id or job_id in (".", ".."):
        raise click.UsageError("which job? give its id")
    chosen = f"?{urlencode({'partition': partition})}" if partition else ""
    rows = ask(url, f"jobs/{quote(job_id)}{chosen}", ca_file)
    if style == "json":
        click.echo(as_json(rows))
        return
    for line in namesakes(rows, job_id):
        click.echo(line)
    for number, row in enumerate(rows):
        if number:
            click.echo("")
        for line in report(row, 2 * WIDTH if wide else WIDTH):
            click.echo(line)


def report(row: Row, width: int) -> Iterator[str]:
    """Yield the lines of a report, at most ``width`` columns wide unless names are longer."""
    job, run = row["job"], row["run"]
    state = plain(run["state"] if run and run["state"] != "unknown" else job["state"])
    named = "" if job["job_id"].rpartition("/")[2] == job["name"] else f" {plain(job['name'])}"
    yield f"Job {plain(job['job_id'])}{named} - {state}"
    yield _line("Owner", f"{job['user'] or '-'}, account {job['account'] or '-'}, partition {job['partition']}")
    yield _line("Asked for", _asked(job))
    yield _line("Submitted", f"{day(job['submit_s'])} UTC" + _waited(row))
    if row["reasons"]:
        yield from _folded("Waits for" if job["state"] == "pending" else "Waited for", ", ".join(row["reasons"]), width)
    parts = bool(run and run["gpus"]) and not any(part["gpus"] for part in job["allocations"])
    for part in job["allocations"]:
        indexes = part["gpu_indexes"]
        which = f" ({','.join(map(str, indexes))})" if indexes else ""
        held = _parts_of(part) or ("parts of GPUs" if parts else f"{gpus(part['gpus'])}{which}")
        yield _line("Ran on", f"{part['node']}: {held}, {part['cpus']} CPUs")
    if run:
        yield from _took(row, run)
        yield from _over_time(row, width)
    if row["notes"]:
        yield ""
        for note in row["notes"]:
            yield from _folded("  *", f"{note['words']} {note['fix']}".strip(), width, 4)


def namesakes(rows: list[Row], job_id: str) -> Iterator[str]:
    """Yield which jobs have one id, and how one of them is named; nothing where there is one job."""
    import textwrap

    jobs = {(job["partition"], job["submit_s"]): job for row in rows if (job := row["job"])["job_id"] == job_id}
    if len(jobs) > 1:
        each = "; ".join(f"partition {plain(job['partition'])}, {plain(job['user'] or '-')}" for job in jobs.values())
        yield from textwrap.wrap(f"{len(jobs)} jobs have the id {plain(job_id)}, on several clusters: {each}.", WIDTH)
        yield "--partition shows the job of one partition."
        yield ""


def _parts_of(held: Row) -> str:
    """Return the parts of GPUs that a job held on a node in words, '' if none are reported."""
    from ...storage.gpu_parts import GpuPart

    return ", ".join(GpuPart(**part).words for part in held.get("parts") or ())


def _line(heading: str, text: str) -> str:
    return f"{heading:>12}  {plain(text)}"


def _folded(heading: str, text: str, width: int, indent: int = 14) -> Iterator[str]:
    import textwrap

    first = f"{heading:>12}  " if indent == 14 else f"{heading:{indent}}"
    yield from textwrap.wrap(plain(text), width, initial_indent=first, subsequent_indent=" " * indent,
                             break_on_hyphens=False)


def _asked(job: Row) -> str:
    request = job["request"]
    limit = "no limit" if job["limit_s"] is None else ago(job["limit_s"])
    cpus = f", {request['cpus']} CPUs" if request["cpus"] else ""
    memory = f", {request['memory_bytes'] / GIB:.0f} GiB" if request["memory_bytes"] else ""
    parts = not request["gpus"] and any(part.get("parts") for part in job["allocations"])
    return f"{'parts of GPUs' if parts else gpus(request['gpus'])}{cpus}{memory}, {limit}"


def _waited(row: Row) -> str:
    return "" if row["waited_s"] is None else f", waited {ago(row['waited_s'])}"


def _took(row: Row, run: Row) -> Iterator[str]:
    yield _line("Ran", f"{day(run['start_s'])} UTC for {ran(run)}, {hours(run['gpu_seconds'])} GPU-hours"
                + (f" of {run['gpu_model']}" if run["gpu_model"] else ""))
    peak = "" if run["power_max_watts"] is None else f", at most {watts(run['power_max_watts'])}"
    cost = amount(run["cost"])
    yield _line("Energy", f"{energy(run['energy_joules'])}{f' = {cost}' if cost else ''}, mean "
                f"{watts(run['power_mean_watts'])}{peak}")
    wasted, lost = run["wasted_joules"], amount(run["cost"], "wasted")
    yield _line("Wasted", f"{energy(wasted)} ({share(wasted / run['energy_joules'] if run['energy_joules'] else None)})"
                + (f" = {lost}" if lost else ""))
    if run["cost"] and run["cost"]["gpu_hours"] is not None:
        yield _line("GPU-hours", amount(run["cost"], "gpu_hours"))
    if emitted := carbon(run["cost"]):
        yield _line("Carbon", emitted)
    yield _bar("GPU activity", run["activity"], "not measured")
    yield _line("GPU memory", "not measured" if run["memory_max_bytes"] is None
                else f"{run['memory_max_bytes'] / GIB:.1f} GiB in the fullest GPU")
    most = " on the node that uses most" if len(row["job"]["allocations"]) > 1 else ""
    if row["cpus_used"] is not None:
        yield _line("CPUs", f"{row['cpus_used']:.1f} in use{most}")
    if row["memory_used_bytes"] is not None:
        yield _line("Memory", f"{row['memory_used_bytes'] / GIB:.1f} GiB in use{most}")
    for name, joules in sorted(run["classes"].items(), key=lambda item: -item[1]):
        yield _bar(PowerClass(name).label[:26], joules / run["energy_joules"] if run["energy_joules"] else None, "", 26)


def _bar(heading: str, value: float | None, unknown: str, width: int = 12) -> str:
    if value is None:
        return f"{heading:>{width}}  {unknown}"
    full = round(_BAR * min(1.0, max(0.0, value)))
    return f"{heading:>{width}}  [{'|' * full}{' ' * (_BAR - full)}] {share(value)}"


def _over_time(row: Row, width: int) -> Iterator[str]:
    """Yield a line for each GPU: its activity over time, and its mean power."""
    if not row["series"]:
        return
    yield ""
    yield from _folded("  ", "Activity of each GPU from start to end; mean power (from "
                       f"{row['series_source']})", width, 2)
    room = width - 40
    for series in row["series"]:
        known = [value for value in series["watts"] if value is not None]
        mean = sum(known) / len(known) if known else None
        yield f"  {plain(series['name']):>22}  {_spark(series['activity'], room)}  {watts(mean)}"


def _spark(values: list[float | None], room: int) -> str:
    """Return values as a sparkline of at most ``room`` characters, with a dot for unmeasured values."""
    step = max(1, -(-len(values) // max(1, room)))
    parts = [[value for value in values[first:first + step] if value is not None]
             for first in range(0, len(values), step)]
    return "".join("." if not part else _LEVELS[round((len(_LEVELS) - 1) * min(1.0, max(0.0, sum(part) / len(part))))]
                   for part in parts)
