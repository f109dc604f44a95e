"""What ``idlewatt reproduce scorer`` does once its options are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ...agents.figures import figures
from ...agents.kinds import Course, Stretch
from ...agents.report import write_report
from ...agents.scorer.agent import Scorer, load
from ...agents.scorer.bench import claims, trial
from ...agents.scorer.bench.contest import contest
from ...agents.scorer.bench.regimes import REGIMES, enough, judging
from ...agents.scorer.bench.sites import SITES, stretch_of
from ...agents.scorer.bench.variants import variants
from ...agents.scorer.inputs import inputs_of
from ...agents.scorer.train import train
from ...policies import named
from ...replay.engine import Policy, run
from ...replay.state import ClusterState


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    out: Path
    seeds: int
    budget_s: float
    drawn: int
    """Traces of the largest made-up sites; of the others there are more."""
    traces: Path | None
    """Folder of the real ones; without it they are left out."""
    workers: int


def reproduce(plan: Plan) -> Mapping[str, Path]:
    """Train, replay and write the report; after Ctrl-C the same command goes on where training was."""
    if plan.traces is not None:
        for site in SITES:
            (plan.traces / site.file).stat()  # an hour of training later would be late to find out
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True))
    with bar, ThreadPoolExecutor(plan.workers) as pool:
        try:
            found = _measured(plan, bar, pool)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            click.echo("interrupted: nothing is reported yet; the same command goes on with the training", err=True)
            raise
    return write_report(plan.out, claims.TITLE, claims.preface(found), list(claims.sections(found)))


def _measured(plan: Plan, bar: Progress, pool: ThreadPoolExecutor) -> claims.Findings:
    models = [_trained(trial.made_up(seed, plan.budget_s, plan.out / "models"), f"seed {seed}", bar)
              for seed in range(plan.seeds)]
    without = dict(variants(models[0]))
    cells = [contest(regime.name, partial(judging, regime), enough(regime, plan.drawn),
                     [*models, *without.values()], pool)
             for regime in bar.track(REGIMES, description="made-up sites")]
    whole = [replace(cell, models=cell.models[:len(models)]) for cell in cells]
    apart = {name: [replace(cell, models=cell.models[len(models) + place:][:1]) for cell in cells]
             for place, name in enumerate(without)}
    sites = [] if plan.traces is None else list(_sites(plan, plan.traces, models, bar, pool))
    return claims.Findings(whole, apart, sites, [model.card for model in models])


def _trained(course: Course, name: str, bar: Progress) -> Scorer:
    """Return the scorer of a course, trained until the budget is spent."""
    task = bar.add_task(f"training {name}", total=1.0)
    for progress in train(course):
        bar.update(task, completed=progress.done, description=f"training {name}: {progress.score:.4f}")
    bar.update(task, completed=1.0)
    return load(course.folder / "best")


def _sites(plan: Plan, traces: Path, models: Sequence[Scorer], bar: Progress,
           pool: ThreadPoolExecutor) -> Iterator[claims.Real]:
    """Yield what came of the real traces."""
    taught = _trained(trial.philly(traces, plan.budget_s, plan.out / "models"), "Philly", bar)
    for site in bar.track(SITES, description="real traces"):
        whole = stretch_of(site, traces)
        others: dict[str, Policy] = {"SRTF (preempts, true run times)": named("srtf")}
        if "Philly" in site.name:
            others[claims.PHILLY_SCORER] = taught
        found = {name: figures(run(whole.cluster, whole.workload, policy), whole.since_s)
                 for name, policy in others.items()}
        outside = models[0].outside(inputs_of(ClusterState.of(whole.cluster, whole.workload)))
        yield claims.Real(site, contest(site.name, partial(_the_same, whole), 1, models, pool), found,
                          float(outside.any(axis=1).mean()))


def _the_same(whole: Stretch, number: int) -> Stretch:
    """Return the one trace that there is."""
    return whole
