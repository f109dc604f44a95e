"""What ``idlewatt reproduce maifs`` does once its options are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.progress import Progress

from ....storage.traces import TraceError
from ...agents.maifs import windows
from ...agents.maifs.agent import Maifs
from ...agents.maifs.arena import Policy, Trace, site_of
from ...agents.maifs.network import initial
from ...agents.maifs.paper import claims, trial
from ...agents.maifs.paper.baselines import Synergy, srsf
from ...agents.maifs.placing import TUNE
from ...agents.maifs.train import Course, Step, card_of, train
from ...agents.report import write_report
from ...replay.arrays import Floats
from ._bar import progress

FIRST_JUDGE, JUDGES = 9_000_000, 64
"""Windows to choose among candidates by: of the days that are learned from, but none of the windows."""
ABLATIONS: Mapping[str, Callable[[Floats], Policy]] = {
    "ours, no attention": partial(Maifs, attentive=False), "ours, no graph": partial(Maifs, coordinated=False),
    "ours, fixed allocation": partial(Maifs, fungible=False), "ours, two-stage": partial(Maifs, integrated=False)}


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
    with progress() as bar:
        ours, steps = _trained(plan, trial.OURS, Maifs, bar)
        without = {"ours, untrained": Maifs(initial(plan.seed)),
                   trial.INDEPENDENT: Maifs(steps[-1].best, coordinated=False),
                   **{name: _trained(plan, name, agent, bar)[0]
                      for name, agent in (ABLATIONS if plan.ablations else {}).items()}}
        found = _measured(plan, work, ours, without, steps, bar)
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
    source = f"Philly, days {windows.PHILLY.first} to {windows.PHILLY.held_out - 1}"
    Maifs(steps[-1].best).save(plan.out / "models" / name.replace(", ", "-").replace(" ", "-"),
                               card_of(taught, steps, source))
    return agent(steps[-1].best), steps


def _measured(plan: Plan, work: Work, ours: Policy, without: Mapping[str, Policy], steps: list[Step],
              bar: Progress) -> claims.Findings:
    others = {trial.OURS: ours, **without}
    contests = [trial.contest(setting, plan.traces, others, plan.most)
                for setting in bar.track(work.settings, description="held-out days")]
    shares = trial.share_of_optimum(ours, site_of(work.bounded.nodes),
                                    trial.traces_of(work.bounded, plan.traces, plan.most))
    complete = {place.name: trial.complete(place, trace, others)
                for place, trace in bar.track(work.complete, description="complete clusters")}
    return claims.Findings(contests, steps, shares, complete,
                           [name for name in without if name != trial.INDEPENDENT])
