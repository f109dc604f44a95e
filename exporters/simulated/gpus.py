"""The physics: what every GPU and every server draws, tick after tick; arrays over the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .hardware import Power, Server
from .jobs import Behaviour, SimulatedJob
from .shortfalls import LEVELS, NUMBERS, Shortfall, host

Floats: TypeAlias = npt.NDArray[np.float64]

CPU_BUSY = {Behaviour.PRODUCTIVE: 0.55, Behaviour.IDLE: 0.01, Behaviour.HUNG: 0.05}
"""How busy a job keeps its CPUs; for a job that underuses its GPUs it depends on why."""
MEMORY_SHARE = 0.6
"""Share of the requested host memory that is really touched."""
DRIVER_RESERVE_MIB = 4.0
ALL = slice(None)
ONE_WORKS = 0.3
"""How active a GPU is at least whose neighbours were never used."""


def cpus_busy(job: SimulatedJob) -> float:
    """Return the share of its CPUs that a job keeps busy."""
    if job.behaviour is not Behaviour.UNDERUSED:
        return CPU_BUSY[job.behaviour]
    if job.shortfall is Shortfall.ONE_THREAD:
        return job.gpus_per_node / job.cpus_per_node
    return host(job.shortfall).cpus


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What never changes: one value per GPU."""

    idle_watts: Floats
    context_watts: Floats
    limit_watts: Floats
    framebuffer_mib: Floats
    server: npt.NDArray[np.intp]


def _between(values: Floats, low: float, high: float) -> Floats:
    """Return the values, none below or above these; ``np.clip`` takes three times as long for a few hundred."""
    return np.minimum(np.maximum(values, low), high)


class GpuPhysics:
    """Watts, joules and activity of all GPUs, and watts of the servers around them."""

    def __init__(self, servers: Sequence[Server], rng: np.random.Generator, power: Power) -> None:
        per_gpu = [server.model for server in servers for _ in range(server.model.gpus)]
        count = len(per_gpu)
        self._rng, self._power = rng, power
        self.facts = GpuFacts(
            # No two GPUs are alike: silicon and cooling differ by a few watts.
            idle_watts=np.array([m.idle_watts for m in per_gpu]) + rng.uniform(-3, 3, count),
            context_watts=np.array([m.context_watts for m in per_gpu]),
            limit_watts=np.array([m.limit_watts for m in per_gpu]),
            framebuffer_mib=np.array([float(m.framebuffer_mib) for m in per_gpu]),
            server=np.repeat(np.arange(len(servers)), [s.model.gpus for s in servers]))
        self.first = np.concatenate(([0], np.cumsum([s.model.gpus for s in servers])[:-1]))
        """Number of the first GPU of each server."""
        self.job = np.zeros(count, dtype=np.int64)
        """Id of the job that holds the GPU, 0 when free."""
        self._target = np.zeros(count)
        self._spinning = np.zeros(count, dtype=bool)
        self.shortfall = np.zeros(count, dtype=np.intp)
        """Number of what keeps the GPU from its work."""
        self.activity = np.zeros(count)
        self.utilization = np.zeros(count)
        self.framebuffer_used_mib = np.full(count, DRIVER_RESERVE_MIB)
        self.watts = self.facts.idle_watts.copy()
        self.joules = rng.uniform(1e8, 9e8, count).round()
        """Counter since driver load."""
        self._hosts(servers)

    def _hosts(self, servers: Sequence[Server]) -> None:
        self._host_idle = np.array([s.model.host_idle_watts for s in servers])
        self._host_cpu = np.array([s.model.host_cpu_watts for s in servers])
        power = self._power
        self._fan_share = np.array([power.fan_share if s.model.fan_share is None else s.model.fan_share
                                    for s in servers])
        self._efficiency = np.array([s.model.supply_efficiency or power.supply_efficiency for s in servers])
        self._cpus = np.array([float(s.model.cpus) for s in servers])
        self._memory = np.array([float(s.model.memory_bytes) for s in servers])
        self._cpu_load = np.zeros(len(servers))
        self._memory_load = np.zeros(len(servers))
        self._disk_load, self._wait_load = np.zeros(len(servers)), np.zeros(len(servers))
        self.disk_busy_s, self.waiting_s = np.zeros(len(servers)), np.zeros(len(servers))
        """Seconds that the disk of a server has been busy, and that some process has waited for it."""
        self.cpu_busy_s = np.zeros(len(servers))
        """Seconds that the mean CPU of a server has been busy."""
        self.wall_watts = self._wall()
        self.meter_watts = self.wall_watts.copy()
        """What the BMC shows: the mean over its window."""

    def occupy(self, job: SimulatedJob, server: int, indexes: Sequence[int]) -> None:
        """Let a job begin on some GPUs of a server."""
        gpus = self.first[server] + np.asarray(indexes, dtype=np.intp)
        self.job[gpus] = job.job_id
        if job.shortfall is Shortfall.ONE_GPU:
            self._target[gpus[:1]] = max(job.activity, ONE_WORKS)
        else:
            self._target[gpus] = job.activity
        self.shortfall[gpus] = NUMBERS[job.shortfall]
        self._spinning[gpus] = job.behaviour is Behaviour.HUNG
        held = 0.15 if job.behaviour is Behaviour.IDLE else 0.25 + 0.6 * job.activity
        self.framebuffer_used_mib[gpus] = np.round(self.facts.framebuffer_mib[gpus] * held)
        self._load(job, server, 1)

    def vacate(self, job: SimulatedJob, server: int, indexes: Sequence[int]) -> None:
        """Let a job leave the GPUs it held on a server."""
        gpus = self.first[server] + np.asarray(indexes, dtype=np.intp)
        self.job[gpus] = 0
        self._target[gpus] = 0.0
        self._spinning[gpus] = False
        self.shortfall[gpus] = 0
        self.framebuffer_used_mib[gpus] = DRIVER_RESERVE_MIB
        self._load(job, server, -1)

    def _load(self, job: SimulatedJob, server: int, sign: int) -> None:
        """Put what a job makes its server do beside its GPUs on it, or take it away again."""
        does = host(job.shortfall)
        self._cpu_load[server] += sign * job.cpus_per_node * cpus_busy(job)
        self._memory_load[server] += sign * job.memory_per_node * MEMORY_SHARE
        self._disk_load[server] += sign * does.disk
        self._wait_load[server] += sign * does.waiting

    def advance(self, seconds: float) -> None:
        """Draw power for a tick; the joules grow by exactly the watts shown times the seconds."""
        facts, noise = self.facts, self._rng.standard_normal(len(self.job))
        busy = self._target > 0
        self.activity = np.where(busy, _between(self._target + 0.03 * noise, 0.01, 1.0), 0.0)
        # Some kernel is resident for longer than the multiprocessors work; a spinning one always is.
        resident = np.minimum(1.0, np.maximum(self.activity + 0.1, self.unit("engine")))
        self.utilization = np.where(self._spinning, 1.0, np.where(busy, resident, 0.0))
        floor = facts.idle_watts + np.where(self.job > 0, facts.context_watts, 0.0)
        reach = facts.limit_watts * self._power.load_share - floor
        self.watts = floor + self.activity * reach + 0.6 * noise
        self.joules += self.watts * seconds
        self.cpu_busy_s += self.cpu_busy * seconds
        self.disk_busy_s += _between(self._disk_load, 0.0, 1.0) * seconds
        self.waiting_s += _between(self._wait_load, 0.0, 1.0) * seconds
        self.wall_watts = self._wall()
        weight = min(1.0, seconds / self._power.meter_window_s)
        self.meter_watts = self.meter_watts + weight * (self.wall_watts - self.meter_watts)

    def unit(self, name: str, part: slice = ALL) -> Floats:
        """Return what a unit of GPUs does (see ``shortfalls.Units``); nothing where no work is done.

        A spinning kernel keeps the engine (GR_ENGINE_ACTIVE) and the multiprocessors, and nothing else.
        """
        level, gain = LEVELS[name][self.shortfall[part]].T
        active = self.activity[part]
        does: Floats = np.where(active > 0, _between(level + gain * active, 0.0, 1.0), 0.0)
        return np.where(self._spinning[part], 1.0, does) if name in ("engine", "sm") else does

    @property
    def cpu_busy(self) -> Floats:
        """Return how busy the CPUs of each server are, 0..1."""
        busy: Floats = _between(0.01 + self._cpu_load / self._cpus, 0.0, 1.0)
        return busy

    @property
    def memory_used_bytes(self) -> Floats:
        """Return the host memory in use on each server."""
        return 0.03 * self._memory + self._memory_load

    def _wall(self) -> Floats:
        gpus = np.bincount(self.facts.server, weights=self.watts, minlength=len(self._cpus))
        behind = self._host_idle + self._host_cpu * self.cpu_busy + gpus * (1 + self._fan_share)
        wall: Floats = behind / self._efficiency
        return wall
