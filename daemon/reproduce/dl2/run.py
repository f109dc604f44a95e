"""``idlewatt reproduce dl2``: agents are trained for DL2's simulation and tried beside its baselines."""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.progress import Progress

from ..failures import ReproductionError
from ..progress import progress
from ..published.pollux import Artifact
from ..report import Section, write_report
from . import claims, pollux_trial, speeds
from .arena import cluster
from .kernel import Cluster
from .setting import Setting
from .sizefree.agent import SizeFree
from .sizefree.train import Course, card_of, train
from .trial import Contest, contest


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train for each limit of workers, replay and write the report, with the agents beside it."""
    artifact = None if traces is None else _artifact(traces)  # what is missing should come up before training
    if setting.updates:
        importlib.import_module("torch")
    with progress() as bar:
        sites = {limit: cluster(limit, None if setting.speeds is None else speeds.measured(setting.speeds, limit))
                 for limit in setting.most}
        found = [_contest(out, site, setting, bar) for site in sites.values()]
        told = list(claims.sections(found))
        if setting.updates:
            told += _literal(out, sites[setting.most[0]], setting, bar)
        if artifact is not None:
            bar.add_task("Pollux's arena", total=None)
            told += pollux_trial.sections(pollux_trial.carry_out(artifact))
    return write_report(out, claims.TITLE, claims.preface(found), [*told, claims.missing(found)])


def _artifact(traces: Path) -> Artifact:
    try:
        return Artifact(traces)
    except (tarfile.TarError, EOFError) as error:
        raise ReproductionError(f"{traces}: the archive of Pollux's artifact cannot be read: {error}") from error


def _contest(out: Path, site: Cluster, setting: Setting, bar: Progress) -> Contest:
    course = Course(site, seed=setting.seed, rounds=setting.rounds)
    task = bar.add_task(f"at most {site.most} workers", total=setting.rounds)
    steps = []
    for step in train(course):
        steps.append(step)
        bar.update(task, completed=step.round, description=f"at most {site.most} workers: {step.jct:.3f} slots")
    SizeFree(steps[-1].best).save(out / "models" / f"workers-{site.most}", card_of(course, steps))
    return contest(site, steps, measured=setting.speeds is not None, plans=setting.plans)


def _literal(out: Path, site: Cluster, setting: Setting, bar: Progress) -> Iterator[Section]:
    from . import literal  # torch

    task = bar.add_task("DL2's own agent", total=1.0)
    return literal.sections(literal.carry_out(
        site, setting.updates, setting.seed, out / "literal",
        lambda told, done: bar.update(task, completed=done, description=told)))
