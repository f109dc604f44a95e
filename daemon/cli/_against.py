"""Comparison of the recorded energy of runs with the energy in Slurm's accounting."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ._output import Row, plain

COLUMNS = {"job_id": "job", "idlewatt": "idlewatt (J)", "slurm": "Slurm (J)", "ratio": "ratio", "seen": "% seen"}
APART_S = 2.0
"""Largest difference of a run's start between the queue and Slurm's accounting, s."""


def compared(path: Path, rows: Iterable[Row]) -> tuple[list[Row], str]:
    """Return the runs with both energies, the largest difference first, and a summary in words.

    ``path`` is a file of ``sacct --json``; ``rows`` are recorded runs of the API.
    """
    from ...exporters.slurm.consumed_energy import parse_consumed
    from ...exporters.slurm.fields import BadRecord

    try:
        accounting = parse_consumed(path.read_text("utf-8", "replace"))
    except BadRecord as error:
        hint = "print it with: sacct --json --allusers --duplicates"
        raise click.ClickException(f"{path}: {plain(str(error))}; {hint}") from error
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    by_job: dict[str, list[Row]] = {}
    for row in rows:
        by_job.setdefault(row["job_id"], []).append(row)
    runs: list[Row] = [
        {"job_id": record.job_id, "idlewatt": run["energy_joules"], "slurm": record.joules,
         "ratio": run["energy_joules"] / record.joules, "seen": _seen(run)}
        for record in accounting.records if record.joules
        for run in by_job.get(record.job_id, ()) if abs(run["start_s"] - record.start_s) <= APART_S]
    dumb = sum(record.joules is None for record in accounting.records)
    return sorted(runs, key=lambda row: -abs(row["ratio"] - 1.0)), _words(runs, len(accounting.records), dumb)


def _seen(run: Row) -> float | None:
    """Return the measured share of a run's time, %; Slurm's meter counts the whole time."""
    if run["end_s"] is None or run["end_s"] <= run["start_s"]:
        return None
    return float(min(100.0, 100.0 * run["seen_seconds"] / (run["end_s"] - run["start_s"])))


def _words(compared_runs: list[Row], runs: int, dumb: int) -> str:
    if runs and dumb == runs:
        return f"Slurm counted no energy of these {runs} runs: AcctGatherEnergyType is none, or reads no meter"
    if not compared_runs:
        return f"none of the {runs} runs of the file is recorded here with energy from both"
    ours, slurm = (sum(row[name] for row in compared_runs) for name in ("idlewatt", "slurm"))
    return (f"{len(compared_runs)} of {runs} runs compared: idlewatt counted {ours / slurm:.3f} of Slurm's "
            f"{slurm / 3.6e6:.3g} kWh; of jobs that shared their nodes Slurm counts the whole nodes")
