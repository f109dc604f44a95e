"""The pages of servers of today: AMD's device-metrics-exporter, Intel's Gaudi exporter, DCGM since 4.6 and Grace.

Names, units and labels are those of the vendors' documentation and sources, as in the hand-written pages of the tests;
no page of such a server was recorded.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from .cluster import SimulatedCluster
from .gpus import Floats
from .hardware import Server
from .shortfalls import NUMBERS, Shortfall

_CPX = 8
"""Partitions of an MI300X in the mode CPX."""
HOT_CELSIUS = 105.0
"""At the junction of a GPU that heat slows down (assumed)."""
GRACE_IDLE_SHARE = 0.4
"""Of what a tray draws beside its GPUs while idle; the rest are network cards, disks and pumps."""


def split(server: Server) -> bool:
    """Tell whether the GPUs of a server are in the mode CPX: those of the second server are."""
    return server.place == 1


def amd(cluster: SimulatedCluster, server: int) -> str:
    """Return what device-metrics-exporter shows: power and energy of partition 0, memory of each."""
    here, lines = cluster.servers[server], list[str]()
    parts = _CPX if split(here) else 1
    for gpu in range(here.model.gpus):
        facts = _Facts(cluster, server, gpu)
        for part in range(parts):
            values = facts.amd(part, parts)
            labels = _labels(facts.amd_labels(gpu * parts + part, part, "cpx" if parts > 1 else "spx"))
            lines += (f"{name}{{{labels}}} {value:.0f}" for name, value in values.items())
            if not part:
                lines += (f'gpu_clock{{{labels},clock_index="{index}",clock_type="GPU_CLOCK_TYPE_{kind}"}} {value:.0f}'
                          for index, kind, value in facts.clocks())
    return "\n".join(lines) + "\n"


def gaudi(cluster: SimulatedCluster, server: int) -> str:
    """Return what Intel's exporter shows: milliwatts, millijoules, and a use that is derived from the power."""
    lines = list[str]()
    for card in range(cluster.servers[server].model.gpus):
        facts = _Facts(cluster, server, card)
        serial = f"AN{server:03}{card:05}"
        labels = _labels({"Serial": serial, "UUID": f"01P0-HL3090A0-18-U4V193-{server:02}-{card:02}-00",
                          "device": serial, "id": str(card), "driver": "1.23.0"})
        lines += (f"{name}{{{labels}}} {value:.0f}" for name, value in facts.gaudi().items())
    return "\n".join(lines) + "\n"


class _Facts:
    """One GPU at this moment."""

    def __init__(self, cluster: SimulatedCluster, server: int, gpu: int) -> None:
        gpus, self._server = cluster.gpus, cluster.servers[server]
        number = int(gpus.first[server]) + gpu
        self._name, self._gpu, self._model = self._server.name, gpu, self._server.model
        self._job = cluster.running.get(int(gpus.job[number]))
        self._watts, self._joules = float(gpus.watts[number]), float(gpus.joules[number])
        self._use, self._limit = float(gpus.utilization[number]), float(gpus.facts.limit_watts[number])
        self._idle = float(gpus.facts.idle_watts[number])
        self._activity = float(gpus.activity[number])
        self._memory = float(gpus.unit("dram", slice(number, number + 1))[0])
        self._clock = float(gpus.unit("clock", slice(number, number + 1))[0]) or 1.0
        self._slowed = int(gpus.shortfall[number]) if self._activity else NUMBERS[Shortfall.NONE]
        self._total, self._used = float(gpus.facts.framebuffer_mib[number]), float(gpus.framebuffer_used_mib[number])

    def amd(self, part: int, parts: int) -> dict[str, float]:
        """Return the values of one partition: MiB that are called MB, uJ, percent."""
        memory = {"gpu_used_vram": self._used / parts, "gpu_total_vram": self._total / parts}
        if part:
            return {"gpu_package_power": 0.0, "gpu_power_usage": 0.0, "gpu_energy_consumed": 0.0,
                    "gpu_gfx_activity": 0.0} | memory
        return {"gpu_package_power": self._watts, "gpu_power_usage": self._watts,
                "gpu_energy_consumed": self._joules * 1e6, "gpu_gfx_activity": 100 * self._use,
                "gpu_umc_activity": 110 * self._memory, "gpu_junction_temperature": self._celsius,
                "gpu_memory_temperature": 30 + self._watts / 20,
                "gpu_violation_ppt_residency_percentage": 90.0 * self._held_down(Shortfall.POWER_BRAKE),
                "gpu_violation_socket_thermal_residency_percentage": 80.0 * self._held_down(Shortfall.HEAT)} | memory

    def _held_down(self, by: Shortfall) -> bool:
        return self._slowed == NUMBERS[by]

    @property
    def _celsius(self) -> float:
        return HOT_CELSIUS if self._held_down(Shortfall.HEAT) else 32 + self._watts / 16

    def amd_labels(self, number: int, part: int, mode: str) -> dict[str, str]:
        """Return the labels of a partition; Slurm's prolog fills in the job."""
        job = self._job
        return {"gpu_id": str(number), "gpu_partition_id": str(part), "gpu_compute_partition_type": mode,
                "gpu_memory_partition_type": "nps1", "card_model": self._model.product,
                "serial_number": f"{self._name}-{self._gpu}", "hostname": self._name,
                "job_id": str(job.job_id) if job else "", "job_user": job.user.name if job else "",
                "job_partition": job.partition if job else "", "pod": "", "namespace": "", "container": ""}

    def clocks(self) -> Iterator[tuple[int, str, float]]:
        """Yield index, kind and MHz of the clocks."""
        yield 0, "SYSTEM", self._model.sm_clock_mhz * self._clock if self._use else 132
        yield 8, "MEMORY", self._model.memory_clock_mhz if self._use else 900

    def gaudi(self) -> dict[str, float]:
        """Return the values of one card."""
        use = max(0.0, self._watts - self._idle - self._model.context_watts) / (self._limit - self._idle)
        return {"habanalabs_power_mW": self._watts * 1e3, "habanalabs_power_default_limit_mW": self._limit * 1e3,
                "habanalabs_energy": self._joules * 1e3, "habanalabs_utilization": 100 * min(1.0, use),
                "habanalabs_memory_used_bytes": self._used * 2**20,
                "habanalabs_memory_total_bytes": self._total * 2**20,
                "habanalabs_temperature_onchip": 28 + self._watts / 18,
                "habanalabs_clock_soc_mhz": float(self._model.sm_clock_mhz)}


def fabric_labels(cluster: SimulatedCluster, server: Server) -> dict[str, str]:
    """Return the labels by which DCGM tells the NVLink domain of a tray; of other servers there are none."""
    if not server.rack:
        return {}
    fabric = uuid.uuid5(uuid.NAMESPACE_DNS, f"{cluster.shape.seed}/{server.rack}")
    return {"DCGM_FI_DEV_FABRIC_CLUSTER_UUID": str(fabric), "DCGM_FI_DEV_FABRIC_CLIQUE_ID": "32766"}


def modules(cluster: SimulatedCluster, server: int) -> list[tuple[float, float, float, float]]:
    """Return watts of each Grace module of a tray, of its Grace, and of that the cores and the I/O."""
    gpus, model = cluster.gpus, cluster.servers[server].model
    first, busy = int(gpus.first[server]), float(gpus.cpu_busy[server])
    grace = (GRACE_IDLE_SHARE * model.host_idle_watts + busy * model.host_cpu_watts) / 2
    half = model.gpus // 2
    return [(float(_sum(gpus.watts, start, half)) + grace, grace, 0.9 * grace, 0.1 * grace)
            for start in (first, first + half)]


def _sum(watts: Floats, start: int, count: int) -> float:
    return float(watts[start:start + count].sum())


def grace_meters(cluster: SimulatedCluster, server: int) -> Iterator[tuple[str, str, float]]:
    """Yield chip, the firmware's name and watts of a tray's ACPI meters."""
    for socket, watts_of_parts in enumerate(modules(cluster, server)):
        for place, (name, watts) in enumerate(zip(("Module", "Grace", "CPU", "SysIO"), watts_of_parts, strict=True)):
            yield f"acpi000d:{4 * socket + place:02x}", f"{name} Power Socket {socket}", watts


def grace_rows(cluster: SimulatedCluster, server: int) -> Iterator[str]:
    """Yield DCGM's rows of the Grace CPUs: they have no ``gpu``."""
    host = cluster.servers[server].name
    for name, column in (("DCGM_FI_DEV_CPU_POWER_WATTS", 1), ("DCGM_FI_DEV_SYSIO_POWER_UTIL_CURRENT", 3),
                         ("DCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT", 0)):
        yield f"# TYPE {name} gauge"
        for socket, watts_of_parts in enumerate(modules(cluster, server)):
            yield f'{name}{{cpu="{socket}",hostname="{host}"}} {watts_of_parts[column]:.3f}'


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
