"""The physics: what every GPU and every server draws, tick after tick; arrays over the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .hardware import Power, Server
from .jobs import Behaviour, SimulatedJob

Floats: TypeAlias = npt.NDArray[np.float64]

CPU_BUSY = {Behaviour.PRODUCTIVE: 0.55, Behaviour.UNDERUSED: 0.85, Behaviour.IDLE: 0.01, Behaviour.HUNG: 0.05}
"""How busy a job keeps its CPUs; who starves the GPUs usually does so because its CPUs cannot keep up."""
MEMORY_SHARE = 0.6
"""Share of the requested host memory that is really touched."""
DRIVER_RESERVE_MIB = 4.0


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What never changes: one value per GPU."""

    idle_watts: Floats
    context_watts: Floats
    limit_watts: Floats
    framebuffer_mib: Floats
    server: npt.NDArray[np.intp]


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
        self.cpu_busy_s = np.zeros(len(servers))
        """Seconds that the mean CPU of a server has been busy."""
        self.wall_watts = self._wall()
        self.meter_watts = self.wall_watts.copy()
        """What the BMC shows: the mean over its window."""

    def occupy(self, job: SimulatedJob, server: int, indexes: Sequence[int]) -> None:
        """Let a job begin on some GPUs of a server."""
        gpus = self.first[server] + np.asarray(indexes, dtype=np.intp)
        self.job[gpus] = job.job_id
        self._target[gpus] = job.activity
        self._spinning[gpus] = job.behaviour is Behaviour.HUNG
        held = 0.15 if job.behaviour is Behaviour.IDLE else 0.25 + 0.6 * job.activity
        self.framebuffer_used_mib[gpus] = np.round(self.facts.framebuffer_mib[gpus] * held)
        self._cpu_load[server] += job.cpus_per_node * CPU_BUSY[job.behaviour]
        self._memory_load[server] += job.memory_per_node * MEMORY_SHARE

    def vacate(self, job: SimulatedJob, server: int, indexes: Sequence[int]) -> None:
        """Let a job leave the GPUs it held on a server."""
        gpus = self.first[server] + np.asarray(indexes, dtype=np.intp)
        self.job[gpus] = 0
        self._target[gpus] = 0.0
        self._spinning[gpus] = False
        self.framebuffer_used_mib[gpus] = DRIVER_RESERVE_MIB
        self._cpu_load[server] -= job.cpus_per_node * CPU_BUSY[job.behaviour]
        self._memory_load[server] -= job.memory_per_node * MEMORY_SHARE

    def advance(self, seconds: float) -> None:
        """Draw power for a tick; the joules grow by exactly the watts shown times the seconds."""
        facts, noise = self.facts, self._rng.standard_normal(len(self.job))
        busy = self._target > 0
        self.activity = np.where(busy, np.clip(self._target + 0.03 * noise, 0.01, 1.0), 0.0)
        # Some kernel is resident for longer than the multiprocessors work; a spinning one always is.
        self.utilization = np.where(self._spinning, 1.0, np.where(busy, np.minimum(1.0, self.activity + 0.1), 0.0))
        floor = facts.idle_watts + np.where(self.job > 0, facts.context_watts, 0.0)
        reach = facts.limit_watts * self._power.load_share - floor
        self.watts = floor + self.activity * reach + 0.6 * noise
        self.joules += self.watts * seconds
        self.cpu_busy_s += self.cpu_busy * seconds
        self.wall_watts = self._wall()
        weight = min(1.0, seconds / self._power.meter_window_s)
        self.meter_watts = self.meter_watts + weight * (self.wall_watts - self.meter_watts)

    @property
    def engine_active(self) -> Floats:
        """Return GR_ENGINE_ACTIVE: the engine of a spinning kernel counts as active."""
        return np.where(self._spinning, 1.0, self.activity)

    @property
    def cpu_busy(self) -> Floats:
        """Return how busy the CPUs of each server are, 0..1."""
        busy: Floats = np.clip(0.01 + self._cpu_load / self._cpus, 0.0, 1.0)
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
