"""What ``idlewatt reproduce maifs`` does once its options are read."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.progress import Progress

from ....storage.traces import TraceError
from ...agents.kinds import TrainingError
from ...agents.maifs import windows
from ...agents.maifs.agent import Maifs
from ...agents.maifs.arena import Policy, Trace
from ...agents.maifs.network import initial
from ...agents.maifs.paper import claims, dl2, trial
from ...agents.maifs.paper.baselines import Synergy, srsf
from ...agents.maifs.placing import TUNE
from ...agents.maifs.train import Course, Step, card_of, train
from ...agents.report import write_report
from ...replay.arrays import Floats
from ._bar import progress

FIRST_JUDGE, JUDGES = 9_000_000, 64
"""Windows to choose among candidates by: of the days that are learned from, but none of the windows."""
UPDATES = 3000
"""Of DL2's agent, by reinforcement learning: more find nothing better."""
ABLATIONS: Mapping[str, Callable[[Floats], Policy]] = {
    trial.INDEPENDENT: partial(Maifs, coordinated=False), "ours, no attention": partial(Maifs, attentive=False),
    "ours, fixed allocation": partial(Maifs, fungible=False), "ours, two-stage": partial(Maifs, integrated=False)}
"""Agents by the part that they are without."""


@dataclass(frozen=True, slots=True)
class Work:
    """What agents are judged by."""

    settings: Sequence[trial.Setting]
    bounded: trial.Setting
    complete: Sequence[tuple[windows.Place, Trace]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    out: Path
    traces: Path
    rounds: int
    seed: int
    most: int
    """Windows of each setting."""
    ablations: bool


def reproduce(plan: Plan) -> Mapping[str, Path]:
    """Train, replay and write the report, with the agents beside it."""
    work = _read(plan)  # before training, which a missing trace must not waste
    importlib.import_module("torch")
    with progress() as bar:
        ours, steps = _trained(plan, trial.OURS, Maifs, bar)
        without = {"ours, untrained": Maifs(initial(plan.seed)),
                   **{name: agent(steps[-1].best) for name, agent in ABLATIONS.items()},
                   **{f"{name}, trained so": _trained(plan, f"{name}, trained so", agent, bar)[0]
                      for name, agent in (ABLATIONS if plan.ablations else {}).items()}}
        theirs, came_about = _dl2(plan, bar)
        found = _measured(plan, work, {trial.OURS: ours, dl2.NAME: theirs}, without, steps, came_about, bar)
    return write_report(plan.out, claims.TITLE, claims.preface(found), list(claims.sections(found)))


def _read(plan: Plan) -> Work:
    """Return the held-out work; ``TraceError`` when there is too little."""
    settings = [setting for setting in trial.SETTINGS if trial.traces_of(setting, plan.traces, 1)]
    bounded = next((setting for setting in settings if setting.bounded), None)
    if bounded is None:
        raise TraceError(f"{plan.traces}: Philly has too few jobs since day {windows.PHILLY.held_out} to judge by")
    return Work(settings, bounded, [(place, windows.complete(place, plan.traces)) for place in windows.COMPLETE])


def course(plan: Plan, agent: Callable[[Floats], Policy]) -> Course:
    """Return what an agent is taught."""
    judges = [windows.lesson(plan.traces, FIRST_JUDGE + number) for number in range(JUDGES)]
    return Course(partial(windows.lesson, plan.traces), judges, Synergy(srsf, TUNE), agent, plan.seed, plan.rounds)


def _trained(plan: Plan, name: str, agent: Callable[[Floats], Policy], bar: Progress) -> tuple[Policy, list[Step]]:
    """Return an agent, and how it came about."""
    taught, steps = course(plan, agent), []
    task = bar.add_task(f"training {name}", total=plan.rounds)
    for step in train(taught):
        steps.append(step)
        bar.update(task, completed=step.round, description=f"training {name}: {step.score:+.4f}")
    Maifs(steps[-1].best).save(_folder(plan, name), card_of(taught, steps, _source()))
    return agent(steps[-1].best), steps


def _folder(plan: Plan, name: str) -> Path:
    return plan.out / "models" / name.replace(", ", "-").replace(" ", "-")


def _source() -> str:
    return f"Philly, days {windows.PHILLY.first} to {windows.PHILLY.held_out - 1}"


def _dl2(plan: Plan, bar: Progress) -> tuple[Policy, list[tuple[int, float]]]:
    """Return DL2's agent, and how it came about."""
    from ...agents.maifs.paper import dl2_train  # torch

    taught = course(plan, Maifs)
    training = dl2_train.Training(dl2_train.Course(taught.draw, taught.judges, taught.teacher, seed=plan.seed,
                                                   values=dl2.USUAL, updates=UPDATES))
    task = bar.add_task(f"training {dl2.NAME}", total=UPDATES)
    try:
        for step in training.run():
            bar.update(task, completed=step.update, description=f"training {dl2.NAME}: {step.score:+.4f}")
    except FloatingPointError as error:
        raise TrainingError(f"{dl2.NAME}: {error}") from error
    training.agent.save(_folder(plan, dl2.NAME), dl2_train.card_of(training, _source()))
    return training.agent, [(step.update, step.score) for step in training.steps]


def _measured(plan: Plan, work: Work, learned: Mapping[str, Policy], without: Mapping[str, Policy], steps: list[Step],
              came_about: Sequence[tuple[int, float]], bar: Progress) -> claims.Findings:
    others = {**learned, **without}
    contests = [trial.contest(setting, plan.traces, others, plan.most)
                for setting in bar.track(work.settings, description="held-out days")]
    shares = trial.share_of_optimum(learned[trial.OURS], work.bounded.site,
                                    trial.traces_of(work.bounded, plan.traces, plan.most))
    complete = {place.name: trial.complete(place, trace, others)
                for place, trace in bar.track(work.complete, description="complete clusters")}
    return claims.Findings(contests, steps, shares, complete, came_about,
                           [name for name in without if name != trial.INDEPENDENT], plan.seed)
