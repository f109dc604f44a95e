"""What ``idlewatt reproduce topdrl`` does once its options are read; imported only then, for it needs torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.progress import Progress

from ...agents.checkpoint import CARD, read_card
from ...agents.kinds import TrainingError
from ...agents.report import write_report
from ...agents.topdrl.arena import REAL, SIZES, cut, guessed, made_up_all
from ...agents.topdrl.literal import train as by_gradient
from ...agents.topdrl.literal.agent import Literal
from ...agents.topdrl.literal.network import GPUS
from ...agents.topdrl.paper import claims, predecessor
from ...agents.topdrl.paper.trial import LITERAL, OURS, Contest, contest
from ...agents.topdrl.sizefree import train as by_evolution
from ...agents.topdrl.sizefree.agent import SizeFree
from ._bar import progress

HELD_OUT = 0
"""Seed of the episodes of the test; trainings begin with 1."""
REAL_SIZES = (64, 128)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    out: Path
    seeds: int
    rounds: int
    literal_rounds: int
    episodes: int
    traces: Path | None


def reproduce(plan: Plan) -> Mapping[str, Path]:
    """Train, replay and write the report; after Ctrl-C the same command goes on where training was."""
    if plan.traces is not None:
        for trace in REAL:
            cut(trace, plan.traces, 0, REAL_SIZES[0])  # minutes of training later would be late to find out
    with progress() as bar:
        try:
            found = _measured(plan, bar)
        except KeyboardInterrupt:
            click.echo("interrupted: nothing is reported yet; the same command goes on with the training", err=True)
            raise
    return write_report(plan.out, claims.TITLE, claims.preface(found), list(claims.sections(found)))


def _measured(plan: Plan, bar: Progress) -> claims.Findings:
    curves: dict[str, claims.Curve] = {}
    # Seeds are two apart, for each training chooses by episodes of the next one.
    ours = [_evolved(plan, 1 + 2 * number, curves, bar) for number in range(plan.seeds)]
    literal = _literal(plan, curves, bar)
    task = bar.add_task("held-out episodes", total=len(SIZES) + 1)
    by_size = []
    for gpus in SIZES:
        agents = {OURS: [agent.replay for agent in ours], **({LITERAL: [literal.replay]} if gpus == GPUS else {})}
        by_size.append(contest(f"{gpus} GPUs", list(made_up_all(HELD_OUT, plan.episodes, (gpus,))), agents))
        bar.advance(task)
    real = [] if plan.traces is None else _real(plan.traces, plan.episodes, ours)
    bar.advance(task)
    vague = _guessed(plan.episodes, ours)
    return claims.Findings(Contest.joined("All clusters", by_size), by_size, by_size[SIZES.index(GPUS)], real, vague,
                           curves, predecessor.carry_out())


def _evolved(plan: Plan, seed: int, curves: dict[str, claims.Curve], bar: Progress) -> SizeFree:
    """Return the size-free agent of a seed; a training that was interrupted goes on."""
    course, folder = by_evolution.Course(seed=seed, rounds=plan.rounds), plan.out / "models" / f"seed-{seed}"
    name = f"ours, seed {seed}"
    task = bar.add_task(name, total=max(course.rounds, 1))
    for step in by_evolution.train(course, folder):
        bar.update(task, completed=step.round, description=f"{name}: {step.worth:+.4f}")
    agent = SizeFree(step.best)
    agent.save(folder, by_evolution.card_of(course, step))
    curves[name] = step.curve
    return agent


def _literal(plan: Plan, curves: dict[str, claims.Curve], bar: Progress) -> Literal:
    """Return the literal agent; a training of two minutes is done anew when it was interrupted."""
    course = by_gradient.Course(rounds=plan.literal_rounds)
    folder = plan.out / "models" / f"literal-{course.plan[:8]}"
    if not (folder / CARD).exists():
        task, steps = bar.add_task(LITERAL, total=max(course.rounds, 1)), []
        try:
            for step in by_gradient.train(course):
                steps.append(step)
                bar.update(task, completed=step.round, description=f"{LITERAL}: {step.worth:+.4f}")
        except FloatingPointError as error:
            raise TrainingError(f"{LITERAL}: {error}") from error
        Literal(steps[-1].best).save(folder, by_gradient.card_of(course, steps))
    curves[LITERAL] = [(round(share * course.rounds), worth) for share, worth in read_card(folder / CARD).curve]
    return Literal.load(folder)


def _guessed(each: int, ours: Sequence[SizeFree]) -> Contest:
    drawn = [guessed(episode, math.log(claims.FACTOR)) for episode in made_up_all(HELD_OUT, 2 * each, SIZES[:2])]
    return contest(f"{' and '.join(map(str, SIZES[:2]))} GPUs", drawn, {OURS: [agent.replay for agent in ours]})


def _real(traces: Path, each: int, ours: Sequence[SizeFree]) -> list[Contest]:
    agents = {OURS: [agent.replay for agent in ours]}
    return [contest(f"{trace.name}, {' and '.join(map(str, REAL_SIZES))} GPUs",
                    [cut(trace, traces, number, gpus) for gpus in REAL_SIZES for number in range(2 * each)], agents)
            for trace in REAL]
