"""``idlewatt reproduce scorer``: trains our agent on generated sites of 8 nodes and evaluates it on other sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.progress import Progress

from ...agents.doubts import outside, strange_share
from ...agents.kinds import TraceWindow, TrainingConfig, figures
from ...agents.scorer.agent import Scorer, inputs_of, load
from ...agents.scorer.network import INPUTS
from ...agents.scorer.train import train
from ...policies import named
from ...replay import engine
from ...replay.engine import Policy
from ...replay.state import ClusterState
from ..progress import progress, resumable
from ..report import write_report
from . import claims, trial
from .contest import contest
from .regimes import REGIMES, enough, judging
from .setting import Setting
from .sites import SITES, stretch_of
from .variants import variants


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train, replay and write the report; after Ctrl-C the same command resumes the training."""
    if traces is not None:
        for site in SITES:
            (traces / site.file).stat()  # an hour of training later would be late to find out
    with resumable(), progress() as bar, ThreadPoolExecutor(setting.workers) as pool:
        try:
            findings = _measured(setting, out / "models", traces, bar, pool)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return write_report(out, "sections.md.j2", claims.facts(findings))


def _measured(setting: Setting, folder: Path, traces: Path | None, bar: Progress,
              pool: ThreadPoolExecutor) -> claims.Findings:
    models = [_trained(trial.made_up(seed, setting.budget_s, folder), f"seed {seed}", bar)
              for seed in range(setting.seed, setting.seed + setting.seeds)]
    without = dict(variants(models[0]))
    cells = [contest(regime.name, partial(judging, regime), enough(regime, setting.drawn),
                     [*models, *without.values()], pool)
             for regime in bar.track(REGIMES, description="generated sites")]
    whole = [replace(cell, models=cell.models[:len(models)]) for cell in cells]
    apart = {name: [replace(cell, models=cell.models[len(models) + place:][:1]) for cell in cells]
             for place, name in enumerate(without)}
    sites: list[claims.RealSiteResult] = []
    if traces is not None:
        taught = _trained(trial.philly(traces, setting.budget_s, folder), "Philly", bar)
        sites += _sites(traces, models, taught, bar, pool)
    return claims.Findings(whole, apart, sites, [model.card for model in models])


def _trained(config: TrainingConfig, name: str, bar: Progress) -> Scorer:
    """Return the scorer of a config, trained until the budget is spent."""
    task = bar.add_task(f"training {name}", total=1.0)
    for step in train(config):
        bar.update(task, completed=step.done, description=f"training {name}: {step.score:.4f}")
    bar.update(task, completed=1.0)
    return load(config.folder / "best")


def _sites(traces: Path, models: Sequence[Scorer], taught: Scorer, bar: Progress,
           pool: ThreadPoolExecutor) -> Iterator[claims.RealSiteResult]:
    """Yield the results of the real traces."""
    for site in bar.track(SITES, description="real traces"):
        whole = stretch_of(site, traces)
        others: dict[str, Policy] = {"SRTF (preempts, true run times)": named("srtf")}
        if "Philly" in site.name:
            others[claims.PHILLY_SCORER] = taught
        results = {name: figures(engine.run(whole.cluster, whole.workload, policy), whole.since_s)
                   for name, policy in others.items()}
        inputs = inputs_of(ClusterState.of(whole.cluster, whole.workload))
        yield claims.RealSiteResult(site, contest(site.name, partial(_the_same, whole), 1, models, pool), results,
                          strange_share(outside(models[0].card, INPUTS, inputs)))


def _the_same(whole: TraceWindow, number: int) -> TraceWindow:
    """Return the only trace of a real site, for every number."""
    return whole
