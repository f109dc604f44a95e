"""``idlewatt reproduce gist``: trains and tests the agents, and compares the results with the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import torch  # noqa: F401 (what it is missing for should be told before anything is done)

from ...agents.gist_mdrl.train import device_named
from ..failures import SettingError
from ..progress import completed, processes
from ..report import write_report
from . import claims, sensitivity, variant
from .setting import Setting
from .table import partitions_of
from .trial import Trial, TrialResult, all_trials, carry_out, done_before


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Run the trials and write the report; on Ctrl-C report the finished trials and re-raise KeyboardInterrupt."""
    trials, results = _trials(setting), dict[Trial, TrialResult]()
    try:
        _carry_out(trials, results, out / "runs", setting)
    except KeyboardInterrupt:
        click.echo(f"interrupted: reporting the {len(results)} of {len(trials)} agents that are trained; "
                   "the same command goes on with the others", err=True)
        _report(results, out, setting)
        raise
    return _report(results, out, setting)


def _trials(setting: Setting) -> list[Trial]:
    try:
        device = device_named(setting.device)
    except RuntimeError as error:
        raise SettingError(f"device: {error}") from error
    known = partitions_of(setting.table)
    seeds = range(setting.seed, setting.seed + setting.seeds)
    if setting.table:
        usual = [Trial(name, agent, 1000 * number + seed, setting.episodes, setting.tests, device, setting.values,
                       other=partition) for number, (name, partition) in enumerate(known.items())
                 for agent in ("literal", "improved") for seed in seeds]
    else:
        usual = [replace(trial, values=setting.values)
                 for trial in all_trials(seeds, setting.apart, setting.episodes, setting.tests, device)]
    first = next(trial for trial in usual if trial.agent == "literal")
    return usual + sensitivity.trials(first, range(setting.seed, setting.seed + setting.sensitivity))


def _carry_out(trials: Sequence[Trial], results: dict[Trial, TrialResult], folder: Path, setting: Setting) -> None:
    """Add results to ``results`` as trials finish; results of an earlier run come first."""
    stored = partial(done_before, folder=folder)
    work = partial(carry_out, folder=folder, tensorboard=setting.tensorboard)
    with processes(setting.workers) as pool:
        for trial, result in completed("training", trials, stored, work, pool):
            results[trial] = result


def _report(results: Mapping[Trial, TrialResult], out: Path, setting: Setting) -> Mapping[str, Path]:
    click.echo("enumerating all job sequences", err=True)
    if setting.table:
        return write_report(out, "sections.md.j2", variant.facts(results, partitions_of(setting.table)))
    return write_report(out, "sections.md.j2", claims.facts(results, claims.exact_values()))
