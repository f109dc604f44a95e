"""SRTF, SRSF and Tiresias-L as Muri's simulator replays them (Zhao et al., SIGCOMM'22; commit 4e69a78).

Eight nodes of eight GPUs. Decisions at events only. A job has ``left`` iterations of ``cost_s`` each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...replay.arrays import Floats, Longs
from .result import Row, table

NODE_GPUS = 8
SLOWDOWN = 1.015
"""Factor by which the simulator lengthens every iteration."""
LEVELS = (3250, 7200)
"""Tiresias-L: GPU-seconds at which a job falls to the next level."""
STARTUP_S = {
    "vgg16": (7, 7, 8, 9, 9, 10), "vgg19": (7, 7, 8, 9, 10, 10), "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8), "bert": (10,) * 6, "gpt2": (10,) * 6, "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
"""Start-up cost of each model on 1, 2, 4, 8, 16 and 32 GPUs, s."""


@dataclass(slots=True)
class MuriTrace:
    """A trace in file order, which is the order of submission."""

    submit_s: Floats
    gpus: Longs
    iterations: Floats
    cost_s: Floats
    """Duration of an iteration of each job, s."""
    startup_s: Floats

    def at_once(self) -> MuriTrace:
        """Return the same jobs, all submitted at 0 (the published ``_pr`` variants)."""
        return MuriTrace(np.zeros_like(self.submit_s), self.gpus, self.iterations, self.cost_s, self.startup_s)


@dataclass(slots=True)
class MuriResult:
    """Result of a replay: the end of each job, and the load of the simulator."""

    jct_s: Floats
    makespan_s: float
    events: int
    jumps: int
    preemptions: int


def load(path: Path) -> MuriTrace:
    """Read a trace file of Muri."""
    rows = list(table(path))
    gpus = np.array([int(row["num_gpu"]) for row in rows])
    return MuriTrace(np.array([float(row["submit_time"]) / 1000 for row in rows]), gpus,
                     np.array([float(row["iterations"]) for row in rows]),
                     np.array([float(row["iteration_time"]) * SLOWDOWN / 1000 for row in rows]),
                     np.array([startup(row["model_name"], count) for row,
                               count in zip(rows, gpus.tolist(), strict=True)]))


def startup(model: str, gpus: int) -> float:
    """Return the start-up cost of a model on a number of GPUs, s."""
    return float(STARTUP_S.get(model, (10,) * 6)[min(max(gpus - 1, 0).bit_length(), 5)])


@dataclass(slots=True)
class Simulation:
    """The part of the simulator that both kinds of policy share: progress, arrivals and ends."""

    jobs: MuriTrace
    now: float = 0.0
    arrived: int = 0
    events: int = 0
    jumps: int = 0
    preemptions: int = 0
    left: Floats = field(init=False)
    updated_s: Floats = field(init=False)
    end_s: Floats = field(init=False)
    running: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    """Running jobs, in the order of the policy."""

    def __post_init__(self) -> None:
        self.left = self.jobs.iterations.copy()
        self.updated_s = self.jobs.submit_s.copy()
        self.end_s = np.full(len(self.left), np.nan)

    @property
    def next_arrival_s(self) -> float:
        """Return when the next job is submitted."""
        return float(self.jobs.submit_s[self.arrived]) if self.arrived < len(self.left) else math.inf

    def estimates(self) -> Floats:
        """Return when each running job is expected to end. Artefact: the start-up cost is left out."""
        return self.now + self.left[self.running] * self.jobs.cost_s[self.running]

    def progress(self) -> None:
        """Advance the running jobs to the present time.

        Artefact: every running job pays its start-up cost in every interval between two events, even if not moved.
        """
        run = self.running
        worked = np.maximum(self.now - self.updated_s[run] - self.jobs.startup_s[run], 0)
        self.left[run] -= worked / self.jobs.cost_s[run]

    def end(self, jobs: Longs) -> None:
        """Remove ended jobs; they do not pay the start-up cost of the last interval."""
        self.end_s[jobs] = self.now
        self.running = self.running[~np.isin(self.running, jobs)]

    def arrive(self) -> Longs:
        """Return the jobs submitted now, in file order."""
        first = self.arrived
        while self.next_arrival_s <= self.now:
            self.arrived += 1
        return np.arange(first, self.arrived)

    def run(self, chosen: Longs) -> None:
        """Set the running jobs from now on."""
        self.preemptions += int(np.count_nonzero(~np.isin(self.running, chosen)))
        self.running = chosen
        self.events += 1

    def outcome(self) -> MuriResult:
        """Return the result of the replay."""
        return MuriResult(self.end_s - self.jobs.submit_s, float(self.end_s.max()), self.events, self.jumps,
                       self.preemptions)


def replay_shortest(jobs: MuriTrace, *, service: bool, nodes: int = 8) -> MuriResult:
    """Replay SRTF, or SRSF if ``service`` (GPUs x time) is set: at each event all jobs are placed again."""
    simulation = Simulation(jobs)
    system = np.empty(0, np.int64)
    while simulation.arrived < len(simulation.left) or len(system):
        end_s, ending = _earliest_group(simulation)
        simulation.now = min(end_s, simulation.next_arrival_s)
        if end_s <= simulation.now:
            simulation.end(ending)
            system = system[~np.isin(system, ending)]
        system = np.concatenate((system, simulation.arrive()))
        simulation.progress()
        simulation.updated_s[system] = simulation.now
        key = simulation.left[system] * jobs.cost_s[system]
        system = system[np.argsort(key * jobs.gpus[system] if service else key, kind="stable")]
        simulation.run(_yarn(system, jobs.gpus[system], nodes))
    return simulation.outcome()


def _earliest_group(simulation: Simulation) -> tuple[float, Longs]:
    """Return the jobs that end next, at the time of the first ranked among those within 1e-9 of each other."""
    times = simulation.estimates()
    if not len(times):
        return math.inf, simulation.running
    near = np.flatnonzero(times <= times.min() * (1 + 1e-8))  # farther ones cannot be in the earliest group
    groups: list[tuple[float, list[int]]] = []
    for index in near.tolist():
        group = next((members for time, members in groups if math.isclose(time, times[index], rel_tol=1e-9)), None)
        if group is None:
            groups.append((float(times[index]), [index]))
        else:
            group.append(index)
    time, members = min(groups)
    return time, simulation.running[members]


def _yarn(ranked: Longs, gpus: Longs, nodes: int) -> Longs:
    """Return the jobs that fit an empty cluster in this order: first fit on one node, else whole idle nodes."""
    free, left, placed = [NODE_GPUS] * nodes, NODE_GPUS * nodes, []
    for position, count in enumerate(gpus.tolist()):
        if count <= left and (taken := _first_fit(free, count)):
            for node, share in taken:
                free[node] -= share
            left -= count
            placed.append(position)
            if not left:
                break
    return ranked[placed]


def _first_fit(free: list[int], gpus: int) -> list[tuple[int, int]]:
    whole, rest = divmod(gpus, NODE_GPUS) if gpus > NODE_GPUS else (0, gpus)
    idle = [node for node, left in enumerate(free) if left == NODE_GPUS][:whole] if whole else []
    if len(idle) < whole:
        return []
    taken = [(node, NODE_GPUS) for node in idle]
    if rest:
        other = next((node for node, left in enumerate(free) if left >= rest and node not in idle), None)
        if other is None:
            return []
        taken.append((other, rest))
    return taken


def replay_tiresias(jobs: MuriTrace, nodes: int = 8) -> MuriResult:
    """Replay Tiresias-L: three levels by attained service, no promotion; GPUs are counted, nodes are not looked at."""
    simulation = Simulation(jobs)
    attained_s = np.zeros(len(simulation.left))
    level = np.zeros(len(simulation.left), np.int64)
    queues = [np.empty(0, np.int64) for _ in range(len(LEVELS) + 1)]
    while simulation.arrived < len(simulation.left) or any(map(len, queues)):
        estimates = simulation.estimates()
        end_s = float(estimates.min()) if len(estimates) else math.inf
        jump_s = _next_jump(simulation, attained_s, level)
        simulation.now = min(end_s, simulation.next_arrival_s, jump_s)
        if jump_s < min(end_s, simulation.next_arrival_s):
            simulation.jumps += 1
        elif end_s <= simulation.now:
            ending = simulation.running[estimates == end_s]
            simulation.end(ending)
            queues = [queue[~np.isin(queue, ending)] for queue in queues]
        queues[0] = np.concatenate((queues[0], simulation.arrive()))
        _serve(simulation, attained_s)
        simulation.updated_s[:simulation.arrived] = simulation.now
        _demote(simulation, attained_s, level, queues)
        simulation.run(_by_count(queues, jobs.gpus, nodes * NODE_GPUS))
        # A job keeps its place while it runs; a preempted one queues behind those that run, not at the very end.
        queues = [_running_first(queue, simulation.running) for queue in queues]
    return simulation.outcome()


def _next_jump(simulation: Simulation, attained_s: Floats, level: Longs) -> float:
    """Return when a running job next reaches the limit of its level. Artefact: only whole seconds of service count."""
    run = simulation.running[level[simulation.running] < len(LEVELS)]
    if not len(run):
        return math.inf
    limits = np.array(LEVELS)[level[run]]
    return float((np.ceil(limits / simulation.jobs.gpus[run]) - attained_s[run] + simulation.now).min())


def _serve(simulation: Simulation, attained_s: Floats) -> None:
    simulation.progress()
    run = simulation.running
    attained_s[run] = attained_s[run] + simulation.now - simulation.updated_s[run]


def _demote(simulation: Simulation, attained_s: Floats, level: Longs, queues: list[Longs]) -> None:
    """Move running jobs at the limit of their level to the tail of the next level, in order of arrival."""
    for job in np.sort(simulation.running).tolist():
        now_in = int(level[job])
        if now_in < len(LEVELS) and attained_s[job] * simulation.jobs.gpus[job] >= LEVELS[now_in]:
            queues[now_in] = queues[now_in][queues[now_in] != job]
            queues[now_in + 1] = np.append(queues[now_in + 1], job)
            level[job] += 1


def _by_count(queues: list[Longs], gpus: Longs, quota: int) -> Longs:
    """Return the jobs that run, by counting GPUs; a job that does not fit is skipped."""
    chosen = []
    for queue in queues:
        for job, count in zip(queue.tolist(), gpus[queue].tolist(), strict=True):
            if count <= quota:
                quota -= count
                chosen.append(job)
            if not quota:
                return np.array(chosen, np.int64)
    return np.array(chosen, np.int64)


def _running_first(queue: Longs, running: Longs) -> Longs:
    runs = np.isin(queue, running)
    return np.concatenate((queue[runs], queue[~runs]))


POLICIES: dict[str, Callable[[MuriTrace], MuriResult]] = {
    "SRTF": lambda jobs: replay_shortest(jobs, service=False),
    "SRSF": lambda jobs: replay_shortest(jobs, service=True),
    "Tiresias-L": replay_tiresias,
}


def rows(traces: Path) -> Iterator[Row]:
    """Yield the published means and makespans of both traces and their at-once variants beside ours."""
    folder = traces / "muri_sigcomm22"
    published = {(row["policy"], row["metric"]): row for row in table(folder / "reference_sim_n8g8.csv")}
    for name in ("trace1", "trace4"):
        jobs = load(folder / f"{name}.csv.gz")
        for setting, variant in ((name, jobs), (f"{name}_pr", jobs.at_once())):
            for policy, replay in POLICIES.items():
                outcome = replay(variant)
                for metric, ours in (("jct_s", float(outcome.jct_s.mean())), ("makespan_s", outcome.makespan_s)):
                    mean = "mean " if metric == "jct_s" else ""
                    yield Row(f"Muri {policy} {mean}{metric}", f"{setting}, 8 x 8 GPUs",
                              float(published[policy, metric][setting]), ours)
