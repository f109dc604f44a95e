"""What ``idlewatt reproduce dl2`` does once its options are read."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from ...agents.dl2 import speeds
from ...agents.dl2.arena import cluster
from ...agents.dl2.kernel import Cluster
from ...agents.dl2.paper import claims, pollux_trial
from ...agents.dl2.paper.trial import Contest, contest
from ...agents.dl2.sizefree.agent import SizeFree
from ...agents.dl2.sizefree.train import Course, card_of, train
from ...agents.report import Section, write_report
from ...replay.published.pollux import Artifact
from ._bar import progress


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is trained and tried."""

    rounds: int
    """Of the size-free agent's training."""
    plans: int
    """That it tries in each slot."""
    updates: int
    """Of each training of DL2's own agent; 0 leaves it out."""
    seed: int


def reproduce(out: Path, most: Sequence[int], effort: Effort, file: Path | None,
              packaged: Path | None) -> Mapping[str, Path]:
    """Train for each limit of workers, replay and write the report, with the agents beside it."""
    artifact = None if packaged is None else Artifact(packaged)  # what is missing should come up before training
    if effort.updates:
        importlib.import_module("torch")
    with progress() as bar:
        sites = {limit: cluster(limit, None if file is None else speeds.measured(file, limit)) for limit in most}
        found = [_contest(out, site, effort, file is not None, bar) for site in sites.values()]
        told = list(claims.sections(found))
        if effort.updates:
            told += _literal(out, sites[most[0]], effort, bar)
        if artifact is not None:
            bar.add_task("Pollux's arena", total=None)
            told += pollux_trial.sections(pollux_trial.carry_out(artifact))
    return write_report(out, claims.TITLE, claims.preface(found), [*told, claims.missing(found)])


def _contest(out: Path, site: Cluster, effort: Effort, measured: bool, bar: Progress) -> Contest:
    course = Course(site, seed=effort.seed, rounds=effort.rounds)
    task = bar.add_task(f"at most {site.most} workers", total=effort.rounds)
    steps = []
    for step in train(course):
        steps.append(step)
        bar.update(task, completed=step.round, description=f"at most {site.most} workers: {step.jct:.3f} slots")
    SizeFree(steps[-1].best).save(out / "models" / f"workers-{site.most}", card_of(course, steps))
    return contest(site, steps, measured=measured, plans=effort.plans)


def _literal(out: Path, site: Cluster, effort: Effort, bar: Progress) -> Iterator[Section]:
    from ...agents.dl2.paper import literal  # torch

    task = bar.add_task("DL2's own agent", total=1.0)
    return literal.sections(literal.carry_out(
        site, effort.updates, effort.seed, out / "literal",
        lambda told, done: bar.update(task, completed=done, description=told)))
