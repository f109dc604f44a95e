"""``idlewatt reproduce value``: all that could decide, tried on public traces beside the site's scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from ..failures import SettingError
from ..progress import progress, resumable
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
    with resumable(), ProcessPoolExecutor(setting.workers, get_context("spawn")) as pool:
        try:
            # All others are told what ended when under the site's own scheduler.
            found = dict(_done([task for task in tasks if _first(task)], pool))
            found |= dict(_done([task for task in tasks if not _first(task) and task.tried != GATE], pool))
            found |= dict(_done([task for task in tasks if task.tried == GATE], pool))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
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


def _done(tasks: list[ReplayTask], pool: Executor) -> Iterator[tuple[ReplayTask, ReplayOutcome]]:
    """Yield what came of each task, those first that an earlier run has done."""
    open_tasks = []
    for task in tasks:
        known = kept(task)
        if known is None:
            open_tasks.append(task)
        else:
            yield task, known
    with progress() as bar:
        whole = bar.add_task("replaying", total=len(tasks), completed=len(tasks) - len(open_tasks))
        waiting = {pool.submit(carried_out, task): task for task in open_tasks}
        for future in as_completed(waiting):
            bar.update(whole, advance=1)
            yield waiting[future], future.result()
