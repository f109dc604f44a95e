"""Which users submit what: the flavours of the paper's Table 2, users with habits, and how their jobs behave."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ...storage.flavor import Flavor
from ...storage.records import JobState
from ...storage.waiting import WaitReason
from .hardware import GIB, Model
from .shortfalls import Shortfall, of_program

HOUR_S = 3600.0

# Table 2 of the paper: name, GPUs, CPU cores, memory in GB, limit in hours, share of the partition.
_TABLE_2 = {
    "A100": (("s-A100", 2, 64, 256, 72, 0.125), ("m-A100", 4, 128, 512, 168, 0.25),
             ("l-A100", 8, 256, 1024, 336, 0.5), ("f-A100", 16, 512, 2048, 504, 1.0)),
    "V100": (("s-V100", 2, 20, 128, 72, 0.125), ("m-V100", 4, 40, 256, 168, 0.25),
             ("l-V100", 8, 80, 512, 336, 0.5), ("f-V100", 16, 160, 1024, 504, 1.0)),
}
FLAVOR_WEIGHTS = (0.55, 0.30, 0.12, 0.03)
"""How often each flavour is requested, small to full: most jobs are small on every published trace."""


_HOURS = (72, 168, 336, 504)
"""Limits of the four sizes of Table 2."""


def flavors_of(model: Model, hour_s: float) -> tuple[Flavor, ...]:
    """Return the flavours of a server that the paper does not have: of 2, 4, 8 and 16 GPUs, with their share of it.

    The largest of an NVL72 takes 64, a whole domain but for two trays.
    """
    most = 64 if model.grace else 16
    return tuple(Flavor(f"{size}-{model.partition}", gpus, gpus * (model.cpus // model.gpus),
                        gpus * (model.memory_bytes // model.gpus), hours * hour_s, gpus / most)
                 for size, gpus, hours in zip("smlf", (2, 4, 8, most), _HOURS, strict=True))


def flavors(hour_s: float = HOUR_S) -> dict[str, tuple[Flavor, ...]]:
    """Return Table 2 by partition; the paper's own experiments shorten its hours to minutes (``hour_s=60``)."""
    return {partition: tuple(Flavor(name, gpus, cpus, memory * GIB, hours * hour_s, rate)
                             for name, gpus, cpus, memory, hours, rate in rows)
            for partition, rows in _TABLE_2.items()}


class Behaviour(StrEnum):
    """What a job does with the GPUs it holds."""

    PRODUCTIVE = "productive"
    UNDERUSED = "underused"
    IDLE = "idle"
    """Holds its context and computes nothing: the forgotten notebook."""
    HUNG = "hung"
    """A kernel spins: utilisation reads 100 % at nearly idle watts."""


ACTIVITY = {Behaviour.PRODUCTIVE: (0.70, 0.98), Behaviour.UNDERUSED: (0.10, 0.40), Behaviour.IDLE: (0.0, 0.0),
            Behaviour.HUNG: (0.0, 0.0)}
"""Range of the share of time that the GPU works."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody's habits."""

    name: str
    account: str
    behaviours: Mapping[Behaviour, float]
    run_share: tuple[float, float]
    """Range of the share of the requested limit that the job really needs; above 1 it runs into the limit."""
    failing: float = 0.05
    """How often a job dies in its first minutes."""
    cpu_hungry: float = 0.0
    """How often the CPUs of twice the flavour are requested: they strand the GPUs beside them."""


USERS = (
    User("alice", "vision", {Behaviour.PRODUCTIVE: 0.85, Behaviour.UNDERUSED: 0.15}, (0.60, 1.05)),
    # Asks for the full limit and ends early: what a limit-based forecast always gets wrong.
    User("bob", "nlp", {Behaviour.PRODUCTIVE: 0.80, Behaviour.UNDERUSED: 0.20}, (0.05, 0.30)),
    User("carol", "nlp", {Behaviour.IDLE: 0.55, Behaviour.UNDERUSED: 0.45}, (0.70, 1.10), failing=0.0),
    User("dave", "bio", {Behaviour.PRODUCTIVE: 0.40, Behaviour.UNDERUSED: 0.60}, (0.30, 0.90), cpu_hungry=0.5),
    User("erin", "robotics", {Behaviour.PRODUCTIVE: 0.60, Behaviour.HUNG: 0.40}, (0.40, 1.05), failing=0.25),
)
_NAMES = {"vision": ("resnet50", "vit-large", "detr"), "nlp": ("bert-ft", "gpt-pretrain", "notebook"),
          "bio": ("alphafold", "docking"), "robotics": ("ppo-sim", "slam")}


@dataclass(slots=True)
class SimulatedJob:
    """A job on its way through the cluster; times in seconds since the epoch."""

    job_id: int
    user: User
    name: str
    partition: str
    flavor: Flavor
    nodes: int
    cpus: int
    memory_bytes: int
    behaviour: Behaviour
    activity: float
    run_s: float
    """How long it would run if nothing stopped it."""
    fails: bool
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    state: JobState = JobState.PENDING
    reason: WaitReason = WaitReason.PRIORITY
    exit_code: int = 0
    shortfall: Shortfall = Shortfall.NONE
    """Why it is underused; of all others none."""
    required_nodes: tuple[str, ...] = ()
    allocation: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """Server number and the GPU indexes held there."""

    @property
    def gpus_per_node(self) -> int:
        """Return the GPUs held on each of its nodes."""
        return self.flavor.gpus // self.nodes

    @property
    def service(self) -> bool:
        """Tell whether it has no limit, and never ends by itself."""
        return self.flavor.limit_s == math.inf

    @property
    def takes_whole_nodes(self) -> bool:
        """Tell whether it asks for several servers, which it does with all GPUs of each."""
        return self.nodes > 1

    @property
    def cpus_per_node(self) -> int:
        """Return the CPUs held on each of its nodes."""
        return self.cpus // self.nodes

    @property
    def memory_per_node(self) -> int:
        """Return the bytes of host memory held on each of its nodes."""
        return self.memory_bytes // self.nodes

    @property
    def due_s(self) -> float:
        """Return when it will end: by itself, or at its limit."""
        assert self.start_s is not None
        return self.start_s + min(self.run_s, self.flavor.limit_s)


class Submissions:
    """Draws jobs one after the other from one seeded generator."""

    def __init__(self, rng: np.random.Generator, hour_s: float, models: Mapping[str, Model]) -> None:
        self._rng, self._models = rng, models
        self._flavors = {name: flavors_of(model, hour_s) for name, model in models.items()} | flavors(hour_s)
        self._next_id = 1

    def mean_gpu_seconds(self, partition: str) -> float:
        """Return the mean of GPUs times run time of the jobs drawn for a partition."""
        share = np.mean([min(1.0, float(np.mean(user.run_share))) for user in USERS])
        return float(sum(weight * flavor.gpus * flavor.limit_s * share
                         for weight, flavor in zip(FLAVOR_WEIGHTS, self._flavors[partition], strict=True)))

    def draw(self, partition: str, submit_s: float) -> SimulatedJob:
        """Return the next job of a random user."""
        rng = self._rng
        user = USERS[int(rng.integers(len(USERS)))]
        size = int(rng.choice(len(FLAVOR_WEIGHTS), p=FLAVOR_WEIGHTS))
        behaviour = list(user.behaviours)[int(rng.choice(len(user.behaviours), p=list(user.behaviours.values())))]
        fails = bool(rng.random() < user.failing)
        share = float(rng.uniform(0.005, 0.05) if fails else rng.uniform(*user.run_share))
        return self.make(user, partition, size, behaviour, share, submit_s,
                         cpu_factor=2 if rng.random() < user.cpu_hungry else 1, fails=fails)

    def make(self, user: User, partition: str, size: int, behaviour: Behaviour, run_share: float, submit_s: float,
             *, cpu_factor: int = 1, fails: bool = False) -> SimulatedJob:
        """Return a job of the flavour number ``size`` (0 small to 3 full)."""
        flavor = self._flavors[partition][size]
        model = self._models[partition]
        nodes = max(1, flavor.gpus // model.gpus)
        job = SimulatedJob(
            job_id=self._next_id, user=user, name=str(self._rng.choice(_NAMES[user.account])), partition=partition,
            flavor=flavor, nodes=nodes,
            # No node has more CPUs than all of its GPUs come with.
            cpus=flavor.cpus * (cpu_factor if flavor.gpus * 2 <= model.gpus else 1), memory_bytes=flavor.memory_bytes,
            behaviour=behaviour, activity=float(self._rng.uniform(*ACTIVITY[behaviour])),
            run_s=run_share * flavor.limit_s, fails=fails, submit_s=submit_s)
        if behaviour is Behaviour.UNDERUSED:
            job.shortfall = of_program(job.name, model, job.gpus_per_node == model.gpus)
        self._next_id += 1
        return job
