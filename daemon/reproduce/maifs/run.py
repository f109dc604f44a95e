"""``idlewatt reproduce maifs``: trains agents on days of Philly, and evaluates them on held-out days and on Helios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.progress import Progress

from ....storage.traces import TraceError
from ...replay.arrays import Floats
from ..evolution import EvolutionProgress, card_of, followed
from ..failures import SettingError
from ..progress import progress, resumable
from ..report import write_report
from . import claims, trial, windows
from .agent import ArenaMaifs
from .arena import ArenaTrace, RoundPolicy
from .baselines import Synergy, srsf
from .network import initial
from .placing import TUNE
from .setting import Setting
from .train import WindowBench, evolution_config

FIRST_JUDGE, JUDGES = 9_000_000, 64
"""Number of the first window for selection, and their number; they are from training days, but no training windows."""
ABLATIONS: Mapping[str, Callable[[Floats], RoundPolicy]] = {
    trial.INDEPENDENT: partial(ArenaMaifs, coordinated=False),
    "ours, no attention": partial(ArenaMaifs, attentive=False),
    "ours, fixed allocation": partial(ArenaMaifs, fungible=False),
    "ours, two-stage": partial(ArenaMaifs, integrated=False)}
"""Agents without one part, by the name of that part."""


@dataclass(frozen=True, slots=True)
class Work:
    """Held-out work for the evaluation of agents."""

    settings: Sequence[trial.WindowSetting]
    bounded: trial.WindowSetting
    complete: Sequence[tuple[windows.HeldOutCluster, ArenaTrace]]


@dataclass(frozen=True, slots=True)
class MaifsRun:
    """A run of the reproduction: its settings and its folder."""

    setting: Setting
    out: Path
    traces: Path

    def folder(self, name: str) -> Path:
        """Return the folder of an agent."""
        return self.out / "models" / name.replace(", ", "-").replace(" ", "-")


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train, replay and write the report, with the agents beside it."""
    if traces is None:
        raise SettingError("maifs needs --traces, the folder of the packaged traces (or IDLEWATT_TRACES)")
    plan = MaifsRun(setting, out, traces)
    work = _read(traces)  # before training, which a missing trace must not waste
    with resumable(), progress() as bar:
        ours, training = _trained(plan, trial.OURS, ArenaMaifs, bar)
        without = {"ours, untrained": ArenaMaifs(initial(setting.seed)),
                   **{name: agent(training.best) for name, agent in ABLATIONS.items()},
                   **{f"{name}, trained so": _trained(plan, f"{name}, trained so", agent, bar)[0]
                      for name, agent in (ABLATIONS if setting.ablations else {}).items()}}
        findings = _measured(plan, work, ours, without, training, bar)
    return write_report(out, "sections.md.j2", claims.facts(findings))


def _read(traces: Path) -> Work:
    """Return the held-out work; ``TraceError`` if there is too little."""
    settings = [setting for setting in trial.SETTINGS if trial.traces_of(setting, traces, 1)]
    bounded = next((setting for setting in settings if setting.bounded), None)
    if bounded is None:
        raise TraceError(f"{traces}: Philly has too few jobs since day {windows.PHILLY.held_out} to judge by")
    return Work(settings, bounded, [(place, windows.complete(place, traces)) for place in windows.COMPLETE])


def bench(plan: MaifsRun, agent: Callable[[Floats], RoundPolicy]) -> WindowBench:
    """Return the windows for the training of an agent."""
    judges = [windows.training_window(plan.traces, FIRST_JUDGE + number) for number in range(JUDGES)]
    draw = partial(windows.training_window, plan.traces)
    return WindowBench(draw, judges, Synergy(srsf, TUNE), agent, plan.setting.seed)


def _trained(plan: MaifsRun, name: str, agent: Callable[[Floats], RoundPolicy],
             bar: Progress) -> tuple[RoundPolicy, EvolutionProgress]:
    """Return an agent and the progress of its training."""
    config, folder = evolution_config(plan.setting.seed, plan.setting.rounds), plan.folder(name)
    step = followed(f"training {name}", config, bench(plan, agent), folder, bar)
    ArenaMaifs(step.best).save(folder, card_of("maifs", config, step, "log_ratio_to_tune", _source()))
    return agent(step.best), step


def _source() -> str:
    return f"Philly, days {windows.PHILLY.first} to {windows.PHILLY.held_out - 1}"


def _measured(plan: MaifsRun, work: Work, ours: RoundPolicy, without: Mapping[str, RoundPolicy],
              training: EvolutionProgress, bar: Progress) -> claims.Findings:
    others = {trial.OURS: ours, **without}
    contests = [trial.contest(setting, plan.traces, others, plan.setting.windows)
                for setting in bar.track(work.settings, description="held-out days")]
    shares = trial.share_of_optimum(ours, work.bounded.site,
                                    trial.traces_of(work.bounded, plan.traces, plan.setting.windows))
    complete = {place.name: trial.complete(place, trace, others)
                for place, trace in bar.track(work.complete, description="complete clusters")}
    return claims.Findings(contests, training, shares, complete,
                           [name for name in without if name != trial.INDEPENDENT], plan.setting.seed)
