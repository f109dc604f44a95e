"""Every round of a real backfill beside ours, each from the state that the real one had."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from idlewatt.daemon.policies.registry import parse
from idlewatt.daemon.policies.slurm_earliest_start import earliest_start
from idlewatt.daemon.policies.slurm_plans import WINDOW, clear_plans, keep, plan_of
from idlewatt.daemon.policies.slurm_tables import CHOSEN, list_returns
from idlewatt.daemon.replay import arrays as a
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.moves import ask_of, cancel, come_back, finish, join, requeue, start
from idlewatt.daemon.replay.priority.preemption import BY_QOS, CANCELLED
from idlewatt.daemon.replay.rules import Rules
from idlewatt.daemon.replay.state import ClusterState, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import SchedulerSnapshot

from .controller_log import ENDED, PREEMPTED, STARTED, SUBMITTED, BackfillRound, ControllerRecord, LoggedEvent

Nodes = tuple[int, ...]
Plan = tuple[float, float, Nodes]
RULES = "priority+slurm-placement+slurm-backfill"


@dataclass
class Agreement:
    """How often ours decided as the real one did."""

    rounds: int = 0
    alike: int = 0
    """Rounds that started the same jobs on the same nodes."""
    starts: int = 0
    plans: int = 0
    plans_alike: int = 0
    """Plans that begin and end at the same second on the same nodes."""

    def __str__(self) -> str:
        """Return the figures."""
        return (f"{self.alike} of {self.rounds} rounds of the backfill started the same jobs on the same nodes "
                f"({self.starts} starts), {self.plans_alike} of {self.plans} plans are the same")


def agreement(seen: SchedulerSnapshot, record: ControllerRecord) -> Agreement:
    """Compare all rounds that looked at jobs of a queue that is over."""
    jobs = [job for job in seen.jobs if job.start_s is not None and job.end_s is not None]
    empty = ClusterState.from_snapshot(replace(seen, jobs=()), seen.time_s)
    workload, rules, found = Workload.from_records(jobs), parse(RULES).compile(), Agreement()
    row = {int(number): place for place, number in enumerate(workload.ids)}
    state, events = ClusterState.of(empty.cluster, workload), [event for event in record.events if event.job in row]
    for one in record.rounds:
        while events and events[0].at_s < one.at_s:
            befall(state, events.pop(0), row)
        if one.tested and set(one.tested) <= set(row):
            compare(state, rules, one, row, found)
    return found


def befall(state: ClusterState, event: LoggedEvent, row: dict[int, int]) -> None:
    """Let what really happened happen here."""
    job, arrays = row[event.job], state.arrays
    arrays.clock[a.NOW] = np.floor(event.at_s)
    if event.kind == SUBMITTED:
        join(arrays, job)
    elif event.kind == STARTED:
        if arrays.jobs[job].status == a.HELD:
            come_back(arrays, job)
        share = int(state.workload.gpus[job]) // len(event.nodes)
        state.apply([Start(job, event.nodes, (share,) * len(event.nodes))])
    elif event.kind == PREEMPTED:
        if state.cluster.scheduling.preemption.groups[group_of(state, job)].becomes == CANCELLED:
            cancel(arrays, job)
        else:
            requeue(arrays, job, event.at_s + state.cluster.scheduling.preemption.returns_s)
    elif event.kind == ENDED and arrays.jobs[job].status == a.RUNNING:
        finish(arrays, job)


def group_of(state: ClusterState, job: int) -> str:
    """Return the QOS of a job, or its partition, by which it is preempted."""
    workload = state.workload
    if state.cluster.scheduling.preemption.by == BY_QOS:
        return workload.charged.qos[job]
    return workload.partition_names[workload.partition[job]]


def compare(state: ClusterState, rules: Rules, one: BackfillRound, row: dict[int, int], found: Agreement) -> None:
    """Let ours decide in the place of one real round."""
    ours, numbers = state.copy(), {place: number for number, place in row.items()}
    ours.arrays.clock[a.NOW] = np.floor(one.at_s)
    engine.prepare(ours, rules)
    started, planned = walk(ours.arrays, rules, [row[number] for number in one.tested])
    found.rounds, found.starts = found.rounds + 1, found.starts + len(one.started)
    found.plans += len(one.planned)
    found.alike += {numbers[job]: nodes for job, nodes in started.items()} == one.started
    found.plans_alike += sum(planned.get(row[number]) == plan for number, plan in one.planned.items())


def walk(state: a.State, rules: Rules, order: list[int]) -> tuple[dict[int, Nodes], dict[int, Plan]]:
    """Start or plan all jobs in this order, also those whose plans are in nobody's way; return nodes and plans."""
    started, planned = dict[int, Nodes](), dict[int, Plan]()
    clear_plans(state)
    list_returns(state)
    for job in order:
        lasts = state.jobs[job].limit
        when = earliest_start(state, rules.place, ask_of(state, job), lasts)
        count = int(state.scratch[CHOSEN])
        nodes = tuple(sorted(state.chosen[:count].tolist()))
        if when > state.clock[a.NOW] + state.weights[WINDOW]:
            continue
        if when > state.clock[a.NOW]:
            keep(state, count, when, lasts)
            planned[job] = (*plan_of(state, when, lasts), nodes)
        else:
            start(state, job, count)
            list_returns(state)
            started[job] = nodes
    return started, planned
