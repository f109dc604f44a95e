"""``idlewatt reproduce value``: all that could decide, tried on public traces beside the site's scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..failures import SettingError
from ..progress import completed, processes, resumable
from ..report import write_report
from . import claims
from .outcomes import ReplayOutcome
from .setting import Setting
from .sites import TRACES
from .task import ON, ReplayTask
from .trial import carried_out, kept
from .tried import GATE, HEEDED, INCUMBENT, ORACLES, RANDOM, SCORER, TRIED, Try


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Replay what is not yet replayed and write the report; FileNotFoundError without the traces."""
    if traces is None:
        raise SettingError("jobs are those of public traces: --traces names their folder")
    sites = TRACES[:setting.sites]
    for site in sites:
        (traces / site.file).stat()
    tasks = [task for number in range(len(sites))
             for task in _tasks(number, setting, traces.resolve(), (out / "replayed").resolve())]
    # All others are told what ended when under the site's own scheduler; the gate goes by what came of them.
    turns = ([task for task in tasks if _first(task)],
             [task for task in tasks if not _first(task) and task.tried != GATE],
             [task for task in tasks if task.tried == GATE])
    found = dict[ReplayTask, ReplayOutcome]()
    with resumable(), processes(setting.workers) as pool:
        for turn in turns:
            found.update(completed("replaying", turn, kept, carried_out, pool))
    return write_report(out, "sections.md.j2", claims.facts(sites, found, setting, traces))


def _first(task: ReplayTask) -> bool:
    return task.tried.name == INCUMBENT and task.power == ON


def _tasks(site: int, setting: Setting, traces: Path, folder: Path) -> Iterator[ReplayTask]:
    def task(tried: Try, seed: int = setting.seed, power: str = ON) -> ReplayTask:
        return ReplayTask(site, tried, seed, power, setting, traces, folder)

    yield from map(task, (*TRIED, *ORACLES, GATE))
    for seed in range(setting.seed, setting.seed + setting.seeds):
        yield task(RANDOM, seed)
        yield from (task(one, seed) for one in (SCORER, HEEDED) if setting.budget_s > 0)
    for tried, power in claims.POWERED:
        if power != ON:
            yield task(tried, power=power)
