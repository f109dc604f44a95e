"""NVIDIA dcgm-exporter's page, reduced to one reading per physical board.

The page repeats a board: per MIG instance, per Slurm job (``hpc_job``), per pod when time-sliced. Values of the board
are the largest of its rows, not their sum; what instances own for themselves (memory, activity) is added up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..storage.telemetry import GpuReading, Telemetry
from .exposition import Samples
from .facts import (
    Reader,
    board_watts,
    bytes_of_mebibytes,
    joules_of_millijoules,
    measured,
    node_name,
    ratio,
    ratio_of_percent,
)
from .findings import GPU
from .scrape import PageConfig, PageSource
from .source import Clock, Source, register
from .targets import Target

POWER = ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_POWER_USAGE")
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
ACTIVITY = {"DCGM_FI_PROF_SM_ACTIVE": "sm_active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "gr_engine_active",
            "DCGM_FI_DEV_GPU_UTIL": "gpu_util"}
"""Best first: GPU_UTIL only says that some kernel was resident."""
RESIDENT = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
USED, FREE, RESERVED, TOTAL = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED", "TOTAL"))
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
LIMIT = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT")

METRICS: dict[str, Reader] = {
    **dict.fromkeys((*POWER, *LIMIT), board_watts),
    ENERGY: joules_of_millijoules,
    **dict.fromkeys(ACTIVITY, ratio),
    "DCGM_FI_DEV_GPU_UTIL": ratio_of_percent,
    **dict.fromkeys((USED, FREE, RESERVED, TOTAL), bytes_of_mebibytes),
    TEMPERATURE: measured,
}
"""Every metric that is read, with what turns its number into our units."""

_OWN = frozenset((USED, FREE, RESERVED, TOTAL, "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"))
"""What a MIG instance has for itself; everything else on its rows is the board's, repeated."""
_SLICES = 7
_INDEX = re.compile(r"[0-9]{1,4}")
_PROFILE = re.compile(r"(\d+)[gc]\.")


@dataclass(slots=True)
class _Board:
    """The rows of one board, gathered."""

    uuid: str
    node: str
    index: int
    model: str
    values: dict[str, float] = field(default_factory=dict)
    instances: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each MIG instance has for itself, by metric, then instance."""
    jobs: set[str] = field(default_factory=set)

    def add(self, labels: Mapping[str, str], values: dict[str, float]) -> None:
        """Take in one row: repeats keep the largest value, an instance's own values are kept apart."""
        self.jobs.update(_jobs(labels))
        if self.uuid.startswith("MIG-") and labels.get("UUID", "").startswith("GPU-"):
            self.uuid = labels["UUID"]
        instance = labels.get("GPU_I_ID", "")
        for name, value in values.items():
            if instance and name in _OWN:
                share = _share(labels.get("GPU_I_PROFILE", "")) if name in ACTIVITY else 1.0
                parts = self.instances.setdefault(name, {})
                parts[instance] = max(value * share, parts.get(instance, 0.0))
            elif value >= self.values.get(name, 0.0):
                self.values[name] = value

    def first(self, names: Iterable[str]) -> float | None:
        """Return the first of these values that was measured."""
        return next((self.values[name] for name in names if name in self.values), None)

    def settle(self) -> None:
        """Add up what MIG instances have, where no row tells it for the whole board."""
        for name, parts in self.instances.items():
            self.values.setdefault(name, sum(parts.values()))


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the boards on one page of dcgm-exporter."""
    return Telemetry(gpus=boards(samples, lambda labels: node_name(labels, target.labels, target.instance),
                                 lambda _labels: time_s))


def boards(samples: Samples, node_of: Callable[[Mapping[str, str]], str],
           time_of: Callable[[Mapping[str, str]], float | None]) -> tuple[GpuReading, ...]:
    """Return one reading per physical board; rows of boards without a time are left out."""
    found: dict[tuple[str, str], _Board] = {}
    times: dict[tuple[str, str], float] = {}
    for labels, values in _rows(samples):
        index = labels.get("gpu", "")
        if not _INDEX.fullmatch(index):
            continue  # NVSwitches, CPUs and exporter statistics are no boards
        key = (node_of(labels), index)
        if key not in found:
            time_s = time_of(labels)
            if time_s is None:
                continue
            times[key] = time_s
            uuid = labels.get("UUID") or f"{key[0]}/{index}"
            found[key] = _Board(uuid, key[0], int(index), labels.get("modelName", ""))
        found[key].add(labels, values)
    return tuple(_reading(board, times[key]) for key, board in found.items())


def _rows(samples: Samples) -> Iterable[tuple[Mapping[str, str], dict[str, float]]]:
    """Return the measured values by metric for each label set; the largest where a series stands twice."""
    rows: dict[int, tuple[Mapping[str, str], dict[str, float]]] = {}
    for (name, labels), number in samples:
        value = METRICS[name](number)
        row = rows.get(id(labels))
        if row is None:
            row = rows[id(labels)] = (labels, {})
        if value is not None and value >= row[1].get(name, 0.0):
            row[1][name] = value
    return rows.values()


def _share(profile: str) -> float:
    """Return the share of a board's compute that a MIG profile such as ``3g.20gb`` holds."""
    match = _PROFILE.match(profile)
    return min(int(match[1]) / _SLICES, 1.0) if match else 1 / _SLICES


def _jobs(labels: Mapping[str, str]) -> Iterable[str]:
    """Yield the Slurm job and the pod (``namespace/pod``) that a row names."""
    if job := labels.get("hpc_job"):
        yield job
    for prefix, pod_name, namespace in (("exported_", "pod", "namespace"), ("", "pod", "namespace"),
                                        ("", "pod_name", "pod_namespace")):
        pod = labels.get(prefix + pod_name)
        # Without honor_labels, `pod` is the exporter's own and the workload's is `exported_pod`.
        if pod and "dcgm-exporter" not in pod:
            yield f"{labels.get(prefix + namespace, '')}/{pod}"
            return


def _reading(board: _Board, time_s: float) -> GpuReading:
    board.settle()
    values = board.values
    activity = next((name for name in ACTIVITY if name in values), None)
    total = values.get(TOTAL)
    if total is None and USED in values and FREE in values:
        total = values[USED] + values[FREE] + values.get(RESERVED, 0.0)
    return GpuReading(
        uuid=board.uuid, node=board.node, index=board.index, time_s=time_s, model=board.model,
        power_watts=board.first(POWER),
        energy_joules=values.get(ENERGY),
        activity=None if activity is None else min(values[activity], 1.0),
        activity_source="" if activity is None else ACTIVITY[activity],
        resident=board.first(RESIDENT),
        memory_used_bytes=values.get(USED),
        memory_total_bytes=total,
        temperature_celsius=values.get(TEMPERATURE),
        power_limit_watts=board.first(LIMIT),
        jobs=tuple(sorted(board.jobs)))


@register("dcgm")
class DcgmConfig(PageConfig):
    """Pages of dcgm-exporter: power, energy, activity and memory of each board."""

    finds = GPU
    kind: Literal["dcgm"] = "dcgm"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
