"""``idlewatt reproduce topdrl``: the predecessor's environment, and agents trained for a contended benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.progress import Progress

from ...agents.checkpoint import CARD, read_card
from ...agents.kinds import TrainingError
from ..evolution import EvolutionConfig, card_of, followed
from ..progress import progress, resumable
from ..report import write_report
from . import claims, predecessor
from .arena import REAL, SIZES, cut, guessed, made_up_all
from .literal import train as by_gradient
from .literal.agent import Literal
from .literal.network import GPUS
from .setting import Setting
from .sizefree.agent import SizeFree
from .sizefree.train import POOL, QueueBench, evolution_config
from .trial import LITERAL, OURS, Contest, contest

HELD_OUT = 0
"""Seed of the test episodes; seeds of trainings begin with 1."""
REAL_SIZES = (64, 128)


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train, replay and write the report; after Ctrl-C the same command resumes the training."""
    if traces is not None:
        for trace in REAL:
            cut(trace, traces, 0, REAL_SIZES[0])  # minutes of training later would be late to find out
    with resumable(), progress() as bar:
        findings = _measured(setting, out / "models", traces, bar)
    return write_report(out, "sections.md.j2", claims.facts(findings))


def _measured(setting: Setting, models: Path, traces: Path | None, bar: Progress) -> claims.Findings:
    curves: dict[str, claims.Curve] = {}
    # Seeds are two apart, for each training chooses by episodes of the next one.
    ours = [_evolved(evolution_config(setting.seed + 2 * number, setting.rounds), models, curves, bar)
            for number in range(setting.seeds)]
    literal = _literal(by_gradient.CanvasTrainingConfig(rounds=setting.literal_rounds), models, curves, bar)
    task = bar.add_task("held-out episodes", total=len(SIZES) + 1)
    by_size = []
    for gpus in SIZES:
        agents = {OURS: [agent.replay for agent in ours], **({LITERAL: [literal.replay]} if gpus == GPUS else {})}
        by_size.append(contest(f"{gpus} GPUs", list(made_up_all(HELD_OUT, setting.episodes, (gpus,))), agents))
        bar.advance(task)
    real = [] if traces is None else _real(traces, setting.episodes, ours)
    bar.advance(task)
    vague = _guessed(setting.episodes, ours)
    return claims.Findings(Contest.joined("All clusters", by_size), by_size, by_size[SIZES.index(GPUS)], real, vague,
                           curves, predecessor.carry_out())


def _evolved(config: EvolutionConfig, models: Path, curves: dict[str, claims.Curve], bar: Progress) -> SizeFree:
    """Return the size-invariant agent of a seed; an interrupted training resumes."""
    folder, name, bench = models / f"seed-{config.seed}", f"ours, seed {config.seed}", QueueBench(config.seed)
    step = followed(name, config, bench, folder, bar)
    agent = bench.agent(step.best)
    agent.save(folder, card_of("topdrl", config, step, "worth_log",
                               f"{POOL} episodes of TopDRL's bench, seed {config.seed}"))
    curves[name] = step.curve
    return agent


def _literal(config: by_gradient.CanvasTrainingConfig, models: Path, curves: dict[str, claims.Curve],
             bar: Progress) -> Literal:
    """Return the published agent; its training of two minutes is repeated after an interruption."""
    folder = models / f"literal-{config.plan[:8]}"
    if not (folder / CARD).exists():
        task, steps = bar.add_task(LITERAL, total=max(config.rounds, 1)), []
        try:
            for step in by_gradient.train(config):
                steps.append(step)
                bar.update(task, completed=step.round, description=f"{LITERAL}: {step.worth:+.4f}")
        except FloatingPointError as error:
            raise TrainingError(f"{LITERAL}: {error}") from error
        Literal(steps[-1].best).save(folder, by_gradient.card_of(config, steps))
    curves[LITERAL] = [(round(share * config.rounds), worth) for share, worth in read_card(folder / CARD).curve]
    return Literal.load(folder)


def _guessed(each: int, ours: Sequence[SizeFree]) -> Contest:
    drawn = [guessed(episode, math.log(claims.FACTOR)) for episode in made_up_all(HELD_OUT, 2 * each, SIZES[:2])]
    return contest(f"{' and '.join(map(str, SIZES[:2]))} GPUs", drawn, {OURS: [agent.replay for agent in ours]})


def _real(traces: Path, each: int, ours: Sequence[SizeFree]) -> list[Contest]:
    agents = {OURS: [agent.replay for agent in ours]}
    return [contest(f"{trace.name}, {' and '.join(map(str, REAL_SIZES))} GPUs",
                    [cut(trace, traces, number, gpus) for gpus in REAL_SIZES for number in range(2 * each)], agents)
            for trace in REAL]
