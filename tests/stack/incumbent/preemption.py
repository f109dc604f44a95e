"""Who is preempted in a real Slurm, for whom and when, beside ours: decision by decision, and over a whole replay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from idlewatt.daemon.policies import named
from idlewatt.daemon.policies.registry import parse
from idlewatt.daemon.policies.slurm_preemption import make_room_anywhere
from idlewatt.daemon.replay import arrays as a
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import SchedulerSnapshot

from .controller_log import ENDED, PREEMPTED, STARTED, SUBMITTED, ControllerRecord
from .decisions import RULES, befall
from .fidelity import INCUMBENT, Floats, Submission, looking, rank_correlation, some_time

Victims = dict[tuple[int, float], set[int]]
"""By preemptor and moment."""


@dataclass
class Preempted:
    """What a real Slurm and replays of its submissions have in common."""

    decisions: int = 0
    """Moments at which the real one preempted for a job."""
    alike: int = 0
    """Those at which ours takes the same victims from the same state."""
    victims: int = 0
    replayed: float = 0.0
    """Victims, on the mean of the replays."""
    same: float = 0.0
    """Share of the real victims that are also victims in a replay, on the mean."""
    real_s: float = 0.0
    """Mean wait for the first start."""
    replayed_s: float = 0.0
    spread_s: float = 0.0
    """Standard deviation of the mean wait from replay to replay."""
    urgent_s: float = 0.0
    """The same of those who preempted."""
    urgent_replayed_s: float = 0.0
    rank_correlation: float = 0.0
    """Of first starts and their means over the replays."""

    @property
    def off(self) -> float:
        """Return how much longer the mean wait is in the replays, as a share of the real one."""
        return self.replayed_s / self.real_s - 1

    def __str__(self) -> str:
        """Return the figures."""
        return (f"{self.alike} of {self.decisions} decisions to preempt take the same victims; {self.victims} victims, "
                f"{self.replayed:.1f} in a replay, {self.same:.0%} of them the same; mean wait for the first start "
                f"{self.real_s:.2f} s, replayed {self.replayed_s:.2f} s ({self.off:+.1%}), "
                f"{self.spread_s / self.replayed_s:.1%} from replay to replay, of who preempted "
                f"{self.urgent_s:.2f} and {self.urgent_replayed_s:.2f} s; rank correlation of starts "
                f"{self.rank_correlation:.4f}")


def real_victims(record: ControllerRecord, known: dict[int, int]) -> Victims:
    """Return who was preempted for whom and when."""
    found: Victims = {}
    for event in record.events:
        if event.kind == PREEMPTED and event.job in known:
            found.setdefault((event.by, np.floor(event.at_s)), set()).add(event.job)
    return found


def as_submitted(seen: SchedulerSnapshot, record: ControllerRecord, plan: list[Submission]) -> tuple[Workload, Floats]:
    """Return the jobs as they were submitted, whatever befell them later, and when each started first."""
    submitted, started = record.first(SUBMITTED), record.first(STARTED)
    numbers = sorted(int(job.job_id) for job in seen.jobs)
    seconds = dict(zip(numbers, (job.seconds for job in plan), strict=True))
    ended, gone = record.first(ENDED), record.first(PREEMPTED)
    more = [ended[number] - started[number] - seconds[number] for number in numbers if number not in gone]
    jobs = [replace(job, submit_s=submitted[int(job.job_id)], eligible_s=None, dependency="") for job in seen.jobs]
    run = {job.key: seconds[int(job.job_id)] + float(np.mean(more)) for job in jobs}
    workload = Workload.from_records(jobs, run=run)
    return workload, np.array([started[int(number)] for number in workload.ids])


def compare(seen: SchedulerSnapshot, record: ControllerRecord, plan: list[Submission], reckoned_s: float,
            replays: int = 60) -> Preempted:
    """Compare a queue that is over with ours."""
    workload, started = as_submitted(seen, record, plan)
    cluster = looking(seen, record, reckoned_s)
    row = {int(number): place for place, number in enumerate(workload.ids)}
    real, found = real_victims(record, row), Preempted()
    decide_again(ClusterState.of(cluster, workload), record, row, real, found)
    chance = np.random.default_rng(1)
    gone = {row[job] for jobs in real.values() for job in jobs}
    starts, same, number = [], [], []
    for _ in range(replays):
        begun, moved, shift_s = some_time(cluster, workload, chance)
        run = engine.run(begun, moved, named(INCUMBENT))
        victims = set(np.flatnonzero(run.state.arrays.jobs.preempted).tolist())
        starts.append(run.start - shift_s)
        same.append(len(victims & gone) / len(gone))
        number.append(int(run.state.arrays.jobs.preempted.sum()))
    ours, urgent = np.mean(starts, axis=0), [row[by] for by, _ in real]
    found.victims, found.replayed = sum(map(len, real.values())), float(np.mean(number))
    found.same = float(np.mean(same))
    found.real_s, found.replayed_s = (float((times - workload.submit).mean()) for times in (started, ours))
    found.spread_s = float((np.array(starts) - workload.submit).mean(axis=1).std(ddof=1))
    found.urgent_s, found.urgent_replayed_s = (float((times - workload.submit)[urgent].mean())
                                               for times in (started, ours))
    found.rank_correlation = rank_correlation(started, ours)
    return found


def decide_again(state: ClusterState, record: ControllerRecord, row: dict[int, int], real: Victims,
                 found: Preempted) -> None:
    """Let ours choose whom to preempt whenever the real one did, from the state that it had."""
    rules, decided = parse(RULES).compile(), set[tuple[int, float]]()
    for event in record.events:
        if event.job not in row:
            continue
        moment = event.by, float(np.floor(event.at_s))
        if event.kind == PREEMPTED and moment not in decided:
            decided.add(moment)
            ours = state.copy()
            ours.arrays.clock[a.NOW] = moment[1]
            engine.prepare(ours, rules)
            make_room_anywhere(ours.arrays, rules.place, row[event.by])
            victims = set(np.flatnonzero(ours.arrays.jobs.preempted > state.arrays.jobs.preempted).tolist())
            found.decisions += 1
            found.alike += victims == {row[job] for job in real[moment]}
        befall(state, event, row)
