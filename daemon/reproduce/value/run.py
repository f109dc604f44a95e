"""``idlewatt reproduce value``: compares all policies with the site's scheduler on public traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path

from ..failures import SettingError
from ..progress import completed, processes, resumable
from ..report import write_report
from . import claims
from .outcomes import ReplayOutcome
from .setting import Setting
from .sites import TRACES
from .task import ON, ReplayTask
from .trial import cached, carried_out
from .tried import GATE, HEEDED, INCUMBENT, ORACLES, RANDOM, SCORER, TRIED, Try


def run(setting: Setting, out: Path, traces: Path | None) -> Mapping[str, Path]:
    """Run the replays without an outcome and write the report; FileNotFoundError without the traces."""
    if traces is None:
        raise SettingError("jobs are those of public traces: --traces names their folder")
    sites = [place - 1 for place in setting.only] or list(range(setting.sites))
    for site in sites:
        (traces / TRACES[site].file).stat()
    _check(setting)
    known = dict[int, claims.TraceTables]()
    with resumable(), processes(setting.workers) as pool:
        for site in sites:
            tasks = list(_tasks(site, setting, traces.resolve(), (out / "replayed").resolve()))
            known[site] = claims.tables(site, _replayed(tasks, pool), setting, traces)
            in_place = [known[each] for each in sorted(known)]
            written = write_report(out, "sections.md.j2", claims.facts(in_place, setting))
    return written


def _check(setting: Setting) -> None:
    """Raise an error for a selection of policies from which the tables cannot be made."""
    unknown = set(setting.policies) - {policy.policy for policy in TRIED}
    if unknown:
        raise SettingError(f"policies: {min(unknown)!r} is none of "
                           + ", ".join(sorted({policy.policy for policy in TRIED})))
    if setting.policies and not any(policy.policy in setting.policies for policy in ORACLES):
        raise SettingError("policies: none of them is told true run times for comparison; name one of "
                           + ", ".join(policy.policy for policy in ORACLES))


def _replayed(tasks: Sequence[ReplayTask], pool: Executor) -> Mapping[ReplayTask, ReplayOutcome]:
    """Return the outcomes of all tasks of a trace."""
    # All others are told what ended when under the site's own scheduler; the gate goes by what came of them.
    turns = ([task for task in tasks if _first(task)],
             [task for task in tasks if not _first(task) and task.tried != GATE],
             [task for task in tasks if task.tried == GATE])
    outcomes = dict[ReplayTask, ReplayOutcome]()
    for turn in filter(None, turns):
        outcomes.update(completed(TRACES[turn[0].site].name, turn, cached, carried_out, pool))
    return outcomes


def _first(task: ReplayTask) -> bool:
    return task.tried.name == INCUMBENT and task.power == ON


def _tasks(site: int, setting: Setting, traces: Path, folder: Path) -> Iterator[ReplayTask]:
    def task(tried: Try, seed: int = setting.seed, power: str = ON) -> ReplayTask:
        return ReplayTask(site, tried, seed, power, setting, traces, folder)

    compared = {tried for tried, _ in claims.POWERED}
    yield from (task(tried) for tried in (*TRIED, *ORACLES)
                if tried in compared or not setting.policies or tried.policy in setting.policies)
    if not setting.policies:  # it chooses among all that is tried
        yield task(GATE)
    for seed in range(setting.seed, setting.seed + setting.seeds):
        yield task(RANDOM, seed)
        yield from (task(tried, seed) for tried in (SCORER, HEEDED) if setting.budget_s > 0)
    for tried, power in claims.POWERED:
        if power != ON:
            yield task(tried, power=power)
