"""What ``idlewatt reproduce dl2`` does once its options are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ...agents.dl2 import speeds
from ...agents.dl2.arena import cluster
from ...agents.dl2.paper import claims, pollux_trial
from ...agents.dl2.paper.trial import Contest, contest
from ...agents.dl2.sizefree.agent import SizeFree
from ...agents.dl2.sizefree.train import Course, card_of, train
from ...agents.report import write_report


def reproduce(out: Path, most: Sequence[int], rounds: int, seed: int, file: Path | None,
              packaged: Path | None) -> Mapping[str, Path]:
    """Train for each limit of workers, replay and write the report, with the agents beside it."""
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True))
    with bar:
        found = [_contest(out, limit, rounds, seed, file, bar) for limit in most]
        told = list(claims.sections(found))
        if packaged is not None:
            bar.add_task("Pollux's arena", total=None)
            told += pollux_trial.sections(pollux_trial.carry_out(packaged))
    return write_report(out, claims.TITLE, claims.preface(found), told)


def _contest(out: Path, most: int, rounds: int, seed: int, file: Path | None, bar: Progress) -> Contest:
    site = cluster(most, None if file is None else speeds.measured(file, most))
    course = Course(site, seed=seed, rounds=rounds)
    task = bar.add_task(f"at most {most} workers", total=rounds)
    steps = []
    for step in train(course):
        steps.append(step)
        bar.update(task, completed=step.round, description=f"at most {most} workers: {step.jct:.3f} slots")
    weights = steps[-1].best
    SizeFree(weights).save(out / "models" / f"workers-{most}", card_of(course, steps))
    return contest(site, weights, steps, measured=file is not None)
