"""Replay of one policy on one trace: starts and ends of jobs, and the energy of the nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...replay.arrays import NOW, Floats
from ...replay.cluster import Cluster
from ...replay.engine import Run
from ...replay.events import EventList
from ...replay.outcome import times
from ...replay.power import PowerModel, energy
from ...replay.timeline import begun, proceed
from ...replay.workload import Workload
from .deciding import Decider, Deciders, Promoted, as_promoted, as_trusted, of_name
from .gating import promotions
from .node_sleep import STEP_S, Keeper
from .outcomes import ReplayOutcome
from .sites import TRACES, jobs_of, predicted
from .task import AT_ONCE, EVEN, FORECAST, OFF, ON, ReplayTask
from .taught import taught
from .tried import GATE, HEEDED, INCUMBENT, SCORER, SITE, TRIED, Try, with_limits

MARK_S = 4 * 3600.0
"""Interval at which energy is recorded, s."""


def cached(task: ReplayTask) -> ReplayOutcome | None:
    """Return the saved outcome of a task; None if there is none."""
    try:
        with np.load(task.result, allow_pickle=False) as saved:
            return ReplayOutcome(**{name: saved[name] for name in saved.files if name != "woken"},
                                 woken=int(saved["woken"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def carried_out(task: ReplayTask) -> ReplayOutcome:
    """Replay a task, save its outcome and return it."""
    known = cached(task)
    if known is not None:
        return known
    cluster, work = jobs_of(TRACES[task.site], task.traces, task.setting.limit_factor)
    deciders = _deciders(task, cluster, work)
    work = replace(work, limit=deciders.first.limit, prediction=deciders.first.prediction)
    down = {OFF: task.setting.power_down_s, EVEN: task.setting.wake_s, AT_ONCE: 0.0}.get(task.power, np.inf)
    done, event_list = begun(cluster, work, deciders.policy, seed=task.seed, power_down_s=down,
                         wake_s=0.0 if task.power in (ON, AT_ONCE) else task.setting.wake_s)
    outcome = _outcome(done, *_driven(done, event_list, deciders, task))
    _keep(task, outcome)
    return outcome


def incumbent_of(task: ReplayTask) -> ReplayTask:
    """Return the task of the site's own scheduler on the same trace, all nodes on."""
    return replace(task, tried=TRIED[0], seed=task.setting.seed, power=ON)


def _deciders(task: ReplayTask, cluster: Cluster, work: Workload) -> Deciders:
    """Return the deciders of a task; their run times are predicted from jobs that had ended under the incumbent."""
    if task.tried.policy == INCUMBENT and task.tried.limits == SITE and task.tried != GATE:
        return Deciders(of_name(INCUMBENT, work.limit, work.prediction))
    before = carried_out(incumbent_of(task))
    quantiles = predicted(work, before.start, before.end)

    def decider(tried: Try) -> Decider:
        jobs = with_limits(work, quantiles, tried.limits)
        return of_name(tried.policy, jobs.limit, jobs.prediction)

    if task.tried == GATE:
        return as_promoted(decider(TRIED[0]), [(promoted.since_s, decider(next(
            each for each in TRIED if each.name == promoted.name))) for promoted in _promotions(task, cluster, work)])
    if task.tried in (SCORER, HEEDED):
        agent, since_s = taught(task, cluster, with_limits(work, quantiles, SITE), quantiles)
        known = with_limits(work, quantiles, SITE)
        return as_trusted(decider(TRIED[0]), Decider(agent, known.limit, known.prediction), since_s,
                          heeding=task.tried == HEEDED)
    return Deciders(decider(task.tried))


def _promotions(task: ReplayTask, cluster: Cluster, work: Workload) -> list[Promoted]:
    """Return the gate's promotions with their times, by all candidates' replays up to each time."""
    outcomes = {tried.name: outcome for tried in TRIED if (outcome := cached(replace(task, tried=tried))) is not None}
    return list(promotions(cluster, work, outcomes, INCUMBENT))


def _driven(done: Run, event_list: EventList, deciders: Deciders, task: ReplayTask) -> tuple[Floats, Floats]:
    """Run a replay to its end; return moments, s, and the energy up to each of them, J."""
    submit = done.workload.submit
    moment, until = float(submit[0]), float(submit[-1])
    marks, joules = list[float](), list[float]()
    keeper = Keeper(task.setting.wake_s) if task.power == FORECAST else None
    step_s = min(STEP_S if keeper is not None else MARK_S, deciders.every_s)
    while moment < until or len(done.state.running) or len(done.state.waiting):
        proceed(done.state, event_list, deciders.policy, moment)
        done.state.arrays.clock[NOW] = moment
        deciders.look(done.state, moment)
        if keeper is not None:
            keeper.attend(done.state.arrays, moment)
        if not marks or moment - marks[-1] >= MARK_S:
            marks.append(moment)
            joules.append(energy(done, PowerModel(), until=moment).total)
        moment += step_s
    marks.append(moment)
    joules.append(energy(done, PowerModel(), until=moment).total)
    return np.array(marks), np.array(joules)


def _outcome(done: Run, marks: Floats, joules: Floats) -> ReplayOutcome:
    job_times, size = times(done), len(done.workload)
    wait, slowdown = np.full(size, np.nan), np.full(size, np.nan)
    wait[job_times.jobs], slowdown[job_times.jobs] = job_times.wait, job_times.slowdown
    return ReplayOutcome(done.start, done.end, wait, slowdown, joules, marks, int(done.state.arrays.meters.woken.sum()))


def _keep(task: ReplayTask, outcome: ReplayOutcome) -> None:
    task.folder.mkdir(parents=True, exist_ok=True)
    partial = task.result.with_suffix(f".{id(outcome)}.part")
    with partial.open("wb") as file:
        np.savez_compressed(file, start=outcome.start, end=outcome.end, wait=outcome.wait, slowdown=outcome.slowdown,
                            joules=outcome.joules, marks=outcome.marks, woken=np.int64(outcome.woken))
    partial.replace(task.result)
