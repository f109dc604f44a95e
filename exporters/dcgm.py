"""NVIDIA dcgm-exporter's page, reduced to one reading per physical GPU.

The page repeats a GPU: per MIG instance, per Slurm job (``hpc_job``), per pod when time-sliced. Values of the GPU
are the largest of its rows, not their sum; what instances own for themselves (memory, activity) is added up.

DCGM 4.6 renamed its fields; dcgm-exporter prints whichever name its counters file has. Field ids and units did not
change with the names: 203 is a whole number of percent still, though it is called GPU_UTIL_RATIO now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..storage.telemetry import GpuDetail, GpuInstance, GpuReading, Telemetry
from .domains import NO_CLIQUE
from .exposition import Samples
from .facts import (
    NodeOf,
    Reader,
    TimeOf,
    bytes_of_mebibytes,
    gpu_celsius,
    gpu_memory,
    gpu_watts,
    hertz_of_megahertz,
    jobs,
    joules_of_millijoules,
    measured,
    node_name,
    of_percent,
    ratio,
    seconds_of_nanoseconds,
)
from .mig import MOST_SLICES, slices_of
from .scrape import PageConfig, PageSource
from .source import GPU, Clock, Source, register
from .targets import Target

POWER = ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_POWER_USAGE")
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
ACTIVITY = {"DCGM_FI_PROF_SM_ACTIVE": "sm_active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "gr_engine_active",
            UTILIZATION: "gpu_util"}
"""Best first: GPU_UTIL only says that some kernel was resident."""
RESIDENT = (UTILIZATION, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
USED, FREE, RESERVED, TOTAL = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED", "TOTAL"))
TEMPERATURE, MEMORY_TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP"
LIMIT = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT")
LIMIT_DEFAULT, LIMIT_MIN = "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN"
OCCUPANCY, TENSOR, DRAM = ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                           "DCGM_FI_PROF_DRAM_ACTIVE")
ENGINE, FP32, FP64 = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
                      "DCGM_FI_PROF_PIPE_FP64_ACTIVE")
PCIE = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
NVLINK = ("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES")
SM_CLOCK, MEMORY_CLOCK = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK"
REASONS = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
XID = "DCGM_FI_DEV_XID_ERRORS"
FABRIC, CLIQUE = "DCGM_FI_DEV_FABRIC_CLUSTER_UUID", "DCGM_FI_DEV_FABRIC_CLIQUE_ID"
"""The NVLink fabric of a GPU: a text, which dcgm-exporter shows as a label of every row, and a number, as label or
metric."""
_SLOWED = "DCGM_FI_DEV_CLOCKS_EVENT_REASON_"
SLOWED_BY_POWER = (f"{_SLOWED}SW_POWER_CAP_NS", f"{_SLOWED}HW_POWER_BRAKE_SLOWDOWN_NS")
SLOWED_BY_HEAT = (f"{_SLOWED}SW_THERM_SLOWDOWN_NS", f"{_SLOWED}HW_THERM_SLOWDOWN_NS")

_OLD: dict[str, Reader] = {
    **dict.fromkeys((*POWER, *LIMIT, LIMIT_DEFAULT, LIMIT_MIN), gpu_watts),
    ENERGY: joules_of_millijoules,
    **dict.fromkeys((*ACTIVITY, OCCUPANCY, TENSOR, DRAM, FP32, FP64), ratio),
    UTILIZATION: measured,  # percent or not is judged by the whole page
    **dict.fromkeys((USED, FREE, RESERVED, TOTAL), bytes_of_mebibytes),
    **dict.fromkeys((TEMPERATURE, MEMORY_TEMPERATURE), gpu_celsius),
    **dict.fromkeys((REASONS, XID, CLIQUE, *PCIE, *NVLINK), measured),
    **dict.fromkeys((SM_CLOCK, MEMORY_CLOCK), hertz_of_megahertz),
    **dict.fromkeys((*SLOWED_BY_POWER, *SLOWED_BY_HEAT), seconds_of_nanoseconds),
}
RENAMED = {
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS": "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS": LIMIT_DEFAULT,
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS": LIMIT_MIN,
    "DCGM_FI_DEV_GPU_UTIL_RATIO": UTILIZATION,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": TEMPERATURE,
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": MEMORY_TEMPERATURE,
    "DCGM_FI_DEV_XID_ERROR": XID,
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": REASONS,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_UTIL_RATIO": "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": OCCUPANCY,
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": TENSOR,
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": DRAM,
    "DCGM_FI_PROF_FP32_UTIL_RATIO": FP32,
    "DCGM_FI_PROF_FP64_UTIL_RATIO": FP64,
}
"""Names of DCGM 4.6 and later, with those of before (and one that DCGM 3 gave up)."""
METRICS: dict[str, Reader] = _OLD | {new: _OLD[old] for new, old in RENAMED.items()}
"""Every metric that is read, with what turns its number into our units."""
_READ = {name: (read, RENAMED.get(name, name)) for name, read in METRICS.items()}
"""The same with the name that the fact bears here."""
FACTS: dict[str, tuple[str, ...]] = {
    old: (old, *(new for new, other in RENAMED.items() if other == old)) for old in _OLD}
"""All names of each fact, by the one that it bears here."""

SHARES = frozenset(name for name in (*ACTIVITY, OCCUPANCY, TENSOR, DRAM, FP32, FP64) if "_PROF_" in name)
"""Ratios that a MIG instance has of its own slices."""
OWN = SHARES | {USED, FREE, RESERVED, TOTAL, *PCIE, *NVLINK}
"""What a MIG instance has for itself; everything else on its rows is the GPU's, repeated."""

_REASONS = {0x4: "power", 0x8: "slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power_brake"}
"""Bits of the reasons for which the clocks are low; idle, settings, boost groups and displays are no throttling."""


def reasons(bits: float | None) -> tuple[str, ...] | None:
    """Return why the clocks are held down, in words; () for no reason, None where nobody tells."""
    return None if bits is None else tuple(sorted({word for bit, word in _REASONS.items() if int(bits) & bit}))


_BUS, _MODEL = "pci_bus_id", "modelName"
_INDEX = re.compile(r"[0-9]{1,4}")
_PROFILE = re.compile(r"([1-9])[gc]\.")


@dataclass(slots=True)
class _Gpu:
    """The rows of one GPU, gathered."""

    uuid: str
    node: str
    index: int
    labels: Mapping[str, str]
    """Of its first row."""
    values: dict[str, float] = field(default_factory=dict)
    instances: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each MIG instance has for itself, by metric, then instance."""
    jobs: set[str] = field(default_factory=set)
    slices: dict[str, float] = field(default_factory=dict)
    """Share of the GPU by MIG instance; ``holders`` has the jobs of each."""
    holders: dict[str, set[str]] = field(default_factory=dict)
    fabric: str = ""
    clique: str = ""

    @property
    def bus(self) -> str:
        """Return its place on the PCI bus, '' where nobody tells."""
        return self.labels.get(_BUS, "")

    @property
    def instance(self) -> str:
        """Return the exporter that a Prometheus has it from, '' on a page."""
        return self.labels.get("instance", "")

    def add(self, labels: Mapping[str, str], values: dict[str, float]) -> None:
        """Take in one row: repeats keep the largest value, an instance's own values are kept apart."""
        self.jobs.update(jobs(labels))
        self.fabric, self.clique = labels.get(FABRIC, self.fabric), labels.get(CLIQUE, self.clique)
        instance = labels.get("GPU_I_ID", "")
        if instance and len(self.slices) < MOST_SLICES:
            self.slices[instance] = self._share(labels)
            self.holders.setdefault(instance, set()).update(jobs(labels))
        if not instance and not self.values:  # as of nearly every GPU
            self.values = values
            return
        for name, value in values.items():
            if instance and name in OWN:
                share = self._share(labels) if name in SHARES else 1.0
                parts = self.instances.setdefault(name, {})
                parts[instance] = max(value * share, parts.get(instance, 0.0))
            elif value >= self.values.get(name, 0.0):
                self.values[name] = value

    def _share(self, labels: Mapping[str, str]) -> float:
        """Return the share of the GPU's compute that an instance of a profile such as ``3g.20gb`` holds."""
        slices, match = slices_of(self.labels.get(_MODEL, "")), _PROFILE.match(labels.get("GPU_I_PROFILE", ""))
        return min((int(match[1]) if match else 1) / slices, 1.0)

    def first(self, names: Iterable[str]) -> float | None:
        """Return the first of these values that was measured."""
        for name in names:
            if name in self.values:
                return self.values[name]
        return None

    def total(self, names: Iterable[str]) -> float | None:
        """Return the sum of these values, None unless all of them were measured."""
        measured = [self.values.get(name) for name in names]
        return sum(value for value in measured if value is not None) if None not in measured else None

    def settle(self) -> None:
        """Add up what MIG instances have, where no row tells it for the whole GPU, or that one works less than they.

        Where one of the instances does not tell it, the others together are not the GPU.
        """
        for name, parts in self.instances.items():
            total, whole = sum(parts.values()), self.values.get(name)
            if whole is None and parts.keys() >= self.slices.keys():
                self.values[name] = total
            elif whole is not None and name in SHARES:
                self.values[name] = max(total, whole)


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the GPUs on one page of dcgm-exporter."""
    return Telemetry(gpus=gpus(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s))


def gpus(samples: Samples, node_of: NodeOf, time_of: TimeOf) -> tuple[GpuReading, ...]:
    """Return one reading per physical GPU; rows without a time are left out, and rows that may be of several GPUs."""
    gpus_by_key: dict[_Key, _Gpu] = {}
    times: dict[_Key, float] = {}
    loose: list[tuple[_Key, float, Mapping[str, str], dict[str, float]]] = []
    for labels, values in _rows(samples):
        index = labels.get("gpu", "")
        if not _INDEX.fullmatch(index):
            continue  # NVSwitches, CPUs and exporter statistics are no GPUs
        node, time_s, uuid = node_of(labels), time_of(labels), labels.get("UUID", "")
        if time_s is None:
            continue
        if not uuid or uuid.startswith("MIG-"):
            loose.append(((node, index, ""), time_s, labels, values))
            continue
        key = (node, index, uuid)
        if key not in gpus_by_key:
            times[key], gpus_by_key[key] = time_s, _Gpu(uuid, node, int(index), labels)
        gpus_by_key[key].add(labels, values)
    known = _by_place(gpus_by_key)
    for (node, index, _), time_s, labels, values in loose:
        place = _place_of(labels, known.get((node, index), {}))
        if place is None:
            continue
        key = (node, index, place)
        if key not in gpus_by_key:
            times[key], gpus_by_key[key] = time_s, _Gpu(_made_up(node, labels), node, int(index), labels)
        gpus_by_key[key].add(labels, values)
    _settle(gpus_by_key.values())
    return tuple(_reading(gpu, times[key]) for key, gpu in gpus_by_key.items())


_Key = tuple[str, str, str]
"""Of a GPU: its node, its number there, and what tells it from another of that number."""


def _by_place(gpus_by_key: Mapping[_Key, _Gpu]) -> dict[tuple[str, str], dict[str, _Gpu]]:
    """Return by node and number the GPUs that bear a UUID, by what tells them apart."""
    known: dict[tuple[str, str], dict[str, _Gpu]] = {}
    for (node, index, name), gpu in gpus_by_key.items():
        known.setdefault((node, index), {})[name] = gpu
    return known


def _place_of(labels: Mapping[str, str], known: Mapping[str, _Gpu]) -> str | None:
    """Return which GPU of its number a row without the GPU's UUID is of; None where it may be of several."""
    bus, instance = labels.get(_BUS, ""), labels.get("instance", "")
    if bus and known and all(gpu.bus for gpu in known.values()):
        return next((name for name, gpu in known.items() if gpu.bus == bus), bus)
    matching = [name for name, gpu in known.items() if gpu.instance == instance]
    return matching[0] if len(matching) == 1 else None if matching else bus or instance


def _made_up(node: str, labels: Mapping[str, str]) -> str:
    """Return what a GPU is called that bears no UUID of its own."""
    bus = labels.get(_BUS)
    return labels.get("UUID") or (f"PCI-{node}/{bus}" if bus else f"{node}/{labels['gpu']}")


def _settle(gpus: Iterable[_Gpu]) -> None:
    """Judge by all GPUs of a server which unit their use is told in."""
    servers: dict[str, list[_Gpu]] = {}
    for gpu in gpus:
        gpu.settle()
        if UTILIZATION in gpu.values:
            servers.setdefault(gpu.node, []).append(gpu)
    for server_gpus in servers.values():
        measurements = [(gpu.values.pop(UTILIZATION), gpu.first(POWER), gpu.first(LIMIT)) for gpu in server_gpus]
        for gpu, share in zip(server_gpus, of_percent(measurements), strict=True):
            if share is not None:
                gpu.values[UTILIZATION] = share


def _rows(samples: Samples) -> Iterable[tuple[Mapping[str, str], dict[str, float]]]:
    """Return the measured values by metric for each label set; the largest where a series stands twice."""
    rows: dict[int, tuple[Mapping[str, str], dict[str, float]]] = {}
    for (metric, labels), number in samples:
        read, name = _READ[metric]
        value, row = read(number), rows.get(id(labels))
        if row is None:
            row = rows[id(labels)] = (labels, {})
        if value is not None and value >= row[1].get(name, 0.0):
            row[1][name] = value
    return rows.values()


def _reading(gpu: _Gpu, time_s: float) -> GpuReading:
    values = gpu.values
    activity = next((name for name in ACTIVITY if name in values), None)
    total = values.get(TOTAL)
    if total is None and USED in values and FREE in values:
        total = values[USED] + values[FREE] + values.get(RESERVED, 0.0)
    used, total = gpu_memory(values.get(USED), total)
    return GpuReading(
        uuid=gpu.uuid, node=gpu.node, index=gpu.index, time_s=time_s, model=gpu.labels.get(_MODEL, ""),
        vendor="nvidia", power_watts=gpu.first(POWER),
        energy_joules=values.get(ENERGY),
        activity=None if activity is None else min(values[activity], 1.0),
        activity_source="" if activity is None else ACTIVITY[activity],
        resident=gpu.first(RESIDENT),
        memory_used_bytes=used,
        memory_total_bytes=total,
        temperature_celsius=values.get(TEMPERATURE),
        power_limit_watts=gpu.first(LIMIT),
        jobs=tuple(sorted(gpu.jobs)),
        detail=_detail(gpu), instances=tuple(_instances(gpu)) if gpu.slices else (),
        domain=_domain(gpu.fabric, gpu.clique or (f"{values[CLIQUE]:.0f}" if CLIQUE in values else "")))


def _domain(uuid: str, number: str) -> str | None:
    """Return the domain of a GPU by the UUID of its fabric and its clique there; '' for none, None where nobody tells.

    Without the clique the UUID tells too little: a rack may be split into several.
    """
    if not uuid or not number:
        return None
    domain = f"{uuid.lower()}.{number}"
    return "" if NO_CLIQUE.fullmatch(domain) else domain


def _instances(gpu: _Gpu) -> Iterable[GpuInstance]:
    """Yield the MIG instances; activities were weighed by their share to add up, and are their own again here."""
    activities = next((gpu.instances[name] for name in ACTIVITY if name in gpu.instances), {})
    memory = gpu.instances.get(USED, {})
    for number, share in sorted(gpu.slices.items()):
        activity = activities.get(number)
        yield GpuInstance(number, share, None if activity is None else min(1.0, activity / share),
                          tuple(sorted(gpu.holders[number])), memory.get(number))


def _detail(gpu: _Gpu) -> GpuDetail:
    values = gpu.values
    xid = values.get(XID)
    return GpuDetail(
        tensor_active=values.get(TENSOR), dram_active=values.get(DRAM), sm_occupancy=values.get(OCCUPANCY),
        engine_active=values.get(ENGINE), fp32_active=values.get(FP32), fp64_active=values.get(FP64),
        pcie_bytes_per_s=gpu.total(PCIE), nvlink_bytes_per_s=gpu.total(NVLINK),
        sm_clock_hertz=values.get(SM_CLOCK), memory_clock_hertz=values.get(MEMORY_CLOCK),
        memory_temperature_celsius=values.get(MEMORY_TEMPERATURE),
        throttled_by=reasons(values.get(REASONS)),
        throttled_by_power_s=gpu.total(SLOWED_BY_POWER), throttled_by_heat_s=gpu.total(SLOWED_BY_HEAT),
        default_limit_watts=values.get(LIMIT_DEFAULT), least_limit_watts=values.get(LIMIT_MIN),
        xid=None if xid is None else int(xid))


@register("dcgm")
class DcgmConfig(PageConfig):
    """Pages of dcgm-exporter: power, energy, activity and memory of each GPU."""

    finds = GPU
    kind: Literal["dcgm"] = "dcgm"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
