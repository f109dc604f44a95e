"""``idlewatt reproduce agents``: trains agents on public traces and evaluates them on later weeks or other sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ....storage.whole_files import write
from ...agents.histories import split
from ...agents.kinds import TrainingConfig, TrainingError
from ...agents.training_loop import WAY
from ...learning.promotion import HEURISTICS, judge
from ...learning.training import INCUMBENT, kind_of
from ...learning.verdict import Verdict
from ..failures import SettingError
from ..progress import completed, processes, resumable
from ..report import write_report
from . import claims, elsewhere
from .bound import jct_bound_s
from .claims import Judged
from .setting import Setting
from .sites import HISTORIES, material_of

_FILE = TypeAdapter(Judged)
_SERVED = TypeAdapter(list[elsewhere.Served])


@dataclass(frozen=True, slots=True)
class AgentTask:
    """The training of one agent on one site with one seed."""

    site: int
    seed: int
    kind: str
    budget_s: float
    traces: Path
    folder: Path

    @property
    def result(self) -> Path:
        """Return the path of the task's figures; a task whose figures exist is not repeated."""
        return self.folder / f"{self.kind}-{self.site}-{self.seed}-{self.budget_s:g}s.json"


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Train and evaluate the agents that have no result yet, and write the report; FileNotFoundError without traces."""
    if traces is None:
        raise SettingError("the histories are public traces: --traces names their folder")
    sites = HISTORIES[:setting.sites]
    for file in (*(site.file for site in sites), *(elsewhere.files() if setting.elsewhere_s else ())):
        (traces / file).stat()
    kinds = [kind_of(kind).name for kind in setting.kinds.split(",")]
    tasks = [AgentTask(number, seed, kind, setting.budget_s, traces.resolve(), (out / "judged").resolve())
             for number in range(len(sites)) for seed in range(setting.seed, setting.seed + setting.seeds)
             for kind in kinds]
    homes = [HomeTask(home, setting.elsewhere_s, traces.resolve(), (out / "elsewhere").resolve())
             for home in elsewhere.HOMES if setting.elsewhere_s]
    with resumable(), processes(setting.workers) as pool:
        evaluations = [result for _, result in completed("training and judging", tasks, _kept, judged, pool)]
        known = dict(completed("asking elsewhere", homes, _cached_elsewhere, judged_elsewhere, pool))
    served = [result for task in homes for result in known[task]]
    return write_report(out, "sections.md.j2", claims.facts(
        [site.name for site in sites], evaluations, setting, served))


def _kept(task: AgentTask) -> Judged | None:
    try:
        return _FILE.validate_json(task.result.read_bytes())
    except (OSError, ValidationError):
        return None


def judged(task: AgentTask) -> Judged:
    """Train an agent, evaluate it on the later weeks, save its figures and return them."""
    parts = split(material_of(HISTORIES[task.site], task.traces, task.seed), seed=task.seed)
    kind = kind_of(task.kind)
    config = TrainingConfig(parts.fit, parts.select, INCUMBENT, task.seed, task.budget_s, task.result.with_suffix(""))
    try:
        for _ in kind.train(config):
            pass
        agent = kind.load(config.folder / "best")
        verdict = judge(agent, INCUMBENT, HEURISTICS, parts.test, seed=task.seed)
        ways = {name.removeprefix(WAY): worth for name, worth in agent.card.metrics.items() if name.startswith(WAY)}
        figures = replace(_figures(task, verdict), bound_s=jct_bound_s(parts.test), ways=ways)
    except TrainingError as error:
        figures = Judged(task.site, task.seed, task.kind, str(error))
    task.folder.mkdir(parents=True, exist_ok=True)
    write(task.result, _FILE.dump_json(figures))
    return figures


@dataclass(frozen=True, slots=True)
class HomeTask:
    """One scorer that is trained on its home site and evaluated on all sites."""

    home: elsewhere.Home
    budget_s: float
    traces: Path
    folder: Path

    @property
    def result(self) -> Path:
        """Return the path of the task's figures."""
        return self.folder / f"{self.home.name.replace(' ', '-').replace(',', '')}-{self.budget_s:g}s.json"


def _cached_elsewhere(task: HomeTask) -> list[elsewhere.Served] | None:
    try:
        return _SERVED.validate_json(task.result.read_bytes())
    except (OSError, ValidationError):
        return None


def judged_elsewhere(task: HomeTask) -> list[elsewhere.Served]:
    """Train a scorer on its home site, evaluate it on all sites, save its figures and return them."""
    results = list(elsewhere.served(task.home, task.traces, task.result.with_suffix(""), task.budget_s))
    task.folder.mkdir(parents=True, exist_ok=True)
    write(task.result, _SERVED.dump_json(results))
    return results


def _figures(task: AgentTask, verdict: Verdict) -> Judged:
    agent = verdict.rows[0]
    against = verdict.against.get(verdict.incumbent)
    return Judged(task.site, task.seed, task.kind, verdict.reason, verdict.decision.value, verdict.days, verdict.jobs,
                  {task.kind if row is agent else row.policy: (row.jct_mean_s, row.wait_p99_s, row.energy_joules)
                   for row in verdict.rows}, verdict.best,
                  None if against is None else (against.low, against.high))
