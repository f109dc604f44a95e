"""TopDRL's predecessor Proximity-DRL (CANAI 2024; 01c70dd): 2 racks x 4 machines x 4 GPUs, 30 jobs, one start a step.

A step starts at most one job; a running job advances by its speed divided by the communication cost of its placement;
its speed falls with the number of different machine *numbers* it uses, racks apart. Released numbers are means over
seeds 0 to 49 of what the authors' code prints, "JCT" being the mean step in which a job ends.

Quirk: the work of every job is drawn for the size and length of the *first* job of the episode, which is why the order
of jobs hardly matters here. ``alike=False`` gives each job its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...replay.communication import cost
from .result import Row

RACKS, MACHINES, GPUS = 2, 4, 4
JOBS, LONGEST, LARGEST, WINDOW = 30, 20, 8, 10
TFLOPS = 10.6
SHARES = (0.5, 0.1, 0.2)
"""Shares of short, medium and long jobs; the remaining jobs are extreme."""
LENGTH_BOUNDS, SIZE_BOUNDS = (0.3, 0.4, 0.8), (0.2, 0.3, 0.6)
MINIBATCHES = (32, 64, 128, 256)
NETWORKS = (
    (233, .727), (233, .724), (5, .837), (5, .36), (232, .727), (393, 2), (393, 3), (353, 2), (333, 2), (315, 2),
    (82, 16), (528, 16), (548, 20), (51, 2), (45, 2), (83, 4), (98, 4), (170, 8), (230, 11), (96, 4), (169, 8),
    (319, 16), (91, 6), (107, 4), (189, 8), (255, 11), (105, 4), (187, 8), (440, 21), (46, 2), (31, 3), (110, 8),
    (55, 3), (77, 4), (16, .579))
"""(MB of parameters, GFLOP of an example) of 35 convolutional networks, AlexNet to MobileNet, in the authors' order."""

Gpu = tuple[int, int, int]
"""Rack, machine and index of a GPU."""
Random = np.random.RandomState
"""The authors' generator: their seeds give their jobs."""


@dataclass
class ProximityJob:
    """A training job."""

    size: int
    length: int
    teraflop: float
    """Work of a minibatch, teraflop."""
    megabytes: int
    work: float = 0.0
    done: float = 0.0
    cost: float = 0.0
    gpus: Sequence[Gpu] = field(default_factory=list)

    def speed(self, gpus: int, machines: int) -> float:
        """Return the speed on a number of GPUs of a number of machines, teraflops per second."""
        return gpus * self.teraflop / (self.teraflop / TFLOPS + reduction_s(self.megabytes, gpus, machines))


def reduction_s(megabytes: float, gpus: int, machines: int) -> float:
    """Return the time to reduce gradients, s: piecewise linear in the size (MB), and longer with each machine."""
    hundred, five_hundred = 28.29 * math.sqrt(gpus), 139.77 * math.sqrt(gpus)
    if megabytes <= 100:
        milliseconds = megabytes / 100 * hundred
    else:
        milliseconds = hundred + (megabytes - 100) / 400 * (five_hundred - hundred)
    return milliseconds * 1e-3 * (1 + 0.2 * (machines - 1))


def _drawn(random: Random, most: int, bounds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return a size, or length, for each job: by class, then shuffled later."""
    counts = [int(JOBS * share) for share in SHARES]
    ends = [max(2, math.ceil(bounds[0] * (most + 1))), int(bounds[1] * (most + 1)), int(bounds[2] * (most + 1)),
            most + 1]
    begins = [1, max(2, int(bounds[0] * (most + 1))), *ends[1:3]]
    return np.concatenate([random.randint(max(1, begin), max(end, begin + 1), count) for begin, end, count
                           in zip(begins, ends, [*counts, JOBS - sum(counts)], strict=True)])


def jobs(random: Random, *, alike: bool = True) -> list[ProximityJob]:
    """Draw the jobs of an episode in the authors' order of draws."""
    lengths, sizes = _drawn(random, LONGEST, LENGTH_BOUNDS), _drawn(random, LARGEST, SIZE_BOUNDS)
    random.shuffle(lengths)
    random.shuffle(sizes)
    drawn = []
    for size, length in zip(sizes.tolist(), lengths.tolist(), strict=True):
        megabytes, gigaflop = NETWORKS[random.choice(len(NETWORKS))]
        job = ProximityJob(size, length, gigaflop * 1e-3 * int(random.choice(MINIBATCHES)), megabytes)
        job.work = job.speed(int(sizes[0]), 1) * int(lengths[0]) if alike else job.speed(size, 1) * length
        drawn.append(job)
    return drawn


Order = Callable[[Sequence[ProximityJob], Random], int]
"""(waiting jobs, random generator) -> index of the next job."""
Placement = Callable[[Sequence[Gpu], int, Random], Sequence[Gpu]]
"""(free GPUs in order, number, random generator) -> the chosen GPUs; enough GPUs are free."""

ORDERS: dict[str, Order] = {
    "FCFS": lambda waiting, random: 0,
    "SJF": lambda waiting, random: min(range(len(waiting)), key=lambda place: waiting[place].length),
    "smallest": lambda waiting, random: min(range(len(waiting)), key=lambda place: waiting[place].size),
    "random": lambda waiting, random: int(random.randint(len(waiting))),
}


def first_available(free: Sequence[Gpu], size: int, random: Random) -> Sequence[Gpu]:
    """Take the first free GPUs."""
    return free[:size]


def anywhere(free: Sequence[Gpu], size: int, random: Random) -> Sequence[Gpu]:
    """Take random free GPUs."""
    return [free[place] for place in random.choice(range(len(free)), size, replace=False)]


def load_balance(free: Sequence[Gpu], size: int, random: Random) -> Sequence[Gpu]:
    """Take the emptiest machine of the emptiest rack if it suffices, else that rack, else all racks."""
    racks = sorted(range(RACKS), key=lambda rack: -len(_within(free, rack)))
    rack = next((rack for rack in racks if len(_within(free, rack)) >= size), None)
    if rack is None:
        return [gpu for rack in racks for gpu in _by_machine(_within(free, rack))][:size]
    return _by_machine(_within(free, rack))[:size]


def nearest(free: Sequence[Gpu], size: int, random: Random) -> Sequence[Gpu]:
    """Take the tightest machine that suffices, else the tightest rack, the machines with most room first."""
    machines = Counter(gpu[:2] for gpu in free)
    fitting = [(room, machine) for machine, room in machines.items() if room >= size]
    if fitting:
        return [gpu for gpu in free if gpu[:2] == min(fitting)[1]][:size]
    racks = Counter(gpu[0] for gpu in free)
    whole = [(room, rack) for rack, room in racks.items() if room >= size]
    chosen = [min(whole)[1]] if whole else sorted(racks, key=lambda rack: (-racks[rack], -rack))
    return [gpu for rack in chosen for gpu in _by_machine(_within(free, rack))][:size]


PLACEMENTS: dict[str, Placement] = {"first-available": first_available, "random": anywhere,
                                    "load-balance": load_balance, "nearest": nearest}


def _within(free: Sequence[Gpu], rack: int) -> list[Gpu]:
    return [gpu for gpu in free if gpu[0] == rack]


def _by_machine(free: Sequence[Gpu]) -> list[Gpu]:
    """Return GPUs by machine, machines with most free GPUs first."""
    room = Counter(gpu[:2] for gpu in free)
    return sorted(free, key=lambda gpu: (-room[gpu[:2]], gpu))


@dataclass(frozen=True, slots=True)
class ProximityOutcome:
    """Result of an episode."""

    jct: float
    """Mean of the steps in which jobs ended."""
    makespan: int
    cost: float
    """Sum of the communication costs of all placements."""


def episode(seed: int, order: Order, placement: Placement, *, alike: bool = True) -> ProximityOutcome:
    """Run an episode: ten jobs wait, and each start admits one more."""
    random = Random(seed)
    coming = jobs(random, alike=alike)
    waiting, coming, running = coming[:WINDOW], coming[WINDOW:], list[ProximityJob]()
    free: Sequence[Gpu] = [(rack, machine, gpu) for rack in range(RACKS) for machine in range(MACHINES)
                           for gpu in range(GPUS)]
    step, spent, ends = 0, 0.0, list[int]()
    while len(ends) < JOBS:
        chosen = order(waiting, random) if waiting else None
        step += 1
        if chosen is not None and waiting[chosen].size <= len(free):
            job = waiting.pop(chosen)
            job.gpus = placement(free, job.size, random)
            job.cost = placed_cost(job.gpus)
            free = [gpu for gpu in free if gpu not in job.gpus]
            spent += job.cost
            running.append(job)
            random.random_sample()  # their draw whether a job arrives; it always does
            waiting, coming = waiting + coming[:1], coming[1:]
        for job in running:
            job.done += job.speed(job.size, len({machine for _, machine, _ in job.gpus})) / job.cost
        free = sorted([*free, *(gpu for job in running if job.done >= job.work for gpu in job.gpus)])
        ends += [step] * sum(job.done >= job.work for job in running)
        running = [job for job in running if job.done < job.work]
    return ProximityOutcome(float(np.mean(ends)), step, spent)


def placed_cost(gpus: Sequence[Gpu]) -> float:
    """Return the communication cost of a placement, rounded as in the authors' code."""
    return round(cost(Counter(gpu[:2] for gpu in gpus), {gpu[:2]: gpu[0] for gpu in gpus}), 3)


RELEASED = {
    ("FCFS", "random"): (26.68, 46.60, 40.00), ("FCFS", "first-available"): (23.54, 41.08, 30.83),
    ("FCFS", "load-balance"): (22.90, 40.32, 28.53),
}
"""(JCT, makespan, communication cost) that the released code prints over 50 seeds."""


def rows(traces: Path) -> Iterator[Row]:
    """Yield the released baselines' results beside ours; no trace is needed."""
    for (order, placement), released in RELEASED.items():
        episodes = [episode(seed, ORDERS[order], PLACEMENTS[placement]) for seed in range(50)]
        means = np.mean([(each.jct, each.makespan, each.cost) for each in episodes], axis=0)
        for quantity, published, ours in zip(("mean JCT", "makespan", "communication cost"), released, means,
                                             strict=True):
            yield Row(f"Proximity-DRL {order} x {placement} {quantity}", "2 x 4 x 4 GPUs, 50 seeds x 30 jobs",
                      published, round(float(ours), 3), "printed with two decimals")
