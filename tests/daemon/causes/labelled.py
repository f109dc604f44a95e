"""Labelled jobs as a site would see them: readings of GPUs, servers and cgroups, and what is the matter with each.

``levels`` is what the rules were tuned on. The benchmark has a generator of another shape (training loops step by step)
that they were not tuned on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.causes import CauseWatch, reported_causes
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuDetail, GpuReading, JobReading, NodeReading, Telemetry
from idlewatt.storage.underuse import Cause

NOW = 1_800_000_000.0
MODEL, NVLINK, PCIE = "NVIDIA H100 80GB HBM3", 900e9, 128e9
SETTLED_S = 400.0


@dataclass(frozen=True)
class Signals:
    """What one GPU does over one interval; None is not measured."""

    engine: float | None
    sm: float | None
    occupancy: float | None = None
    tensor: float | None = None
    dram: float | None = None
    fp32: float | None = None
    fp64: float | None = None
    nvlink: float | None = None
    pcie: float | None = None
    clock: float = 1980e6
    flags: tuple[str, ...] | None = ()
    limit: float = 700.0


@dataclass(frozen=True)
class Host:
    """What the job's server does over one interval."""

    cores: float | None
    disk: float | None = 0.02
    waiting: float | None = 0.01
    fabric: float | None = None


@dataclass(frozen=True)
class Labelled:
    """A job with what is the matter with it; ``none`` for a clean one, ``unknown`` where no cause of ours is right."""

    label: Cause
    name: str
    gpus: int
    cpus: int
    interval_s: float
    frames: tuple[tuple[Host, tuple[Signals, ...]], ...]
    alone: bool = True


def readings(job: Labelled) -> Iterator[tuple[float, Telemetry]]:
    """Yield the telemetry of each interval."""
    cpu_s = 0.0
    for number, (host, gpus) in enumerate(job.frames):
        now = NOW + SETTLED_S + number * job.interval_s
        cpu_s += (host.cores or 0.0) * job.interval_s
        jobs = () if host.cores is None else (JobReading("1", "n0", now, cpu_s),)
        yield now, Telemetry(tuple(_gpu(index, now, one) for index, one in enumerate(gpus)), (
            NodeReading("n0", now, cpu_busy_ratio=min(1.0, (host.cores or 0.0) / 64), disk_busy_ratio=host.disk,
                        io_wait_ratio=host.waiting, fabric_ratio=host.fabric),), jobs)


def _gpu(index: int, now: float, one: Signals) -> GpuReading:
    return GpuReading(
        f"GPU-{index}", "n0", index, now, MODEL, power_watts=400.0,
        activity=one.sm if one.sm is not None else one.engine,
        activity_source="sm_active" if one.sm is not None else "gpu_util", resident=one.engine,
        power_limit_watts=one.limit, detail=GpuDetail(
            one.tensor, one.dram, one.occupancy, one.engine if one.sm is not None else None, one.fp32, one.fp64,
            None if one.pcie is None else one.pcie * PCIE, None if one.nvlink is None else one.nvlink * NVLINK,
            one.clock, throttled_by=one.flags, default_limit_watts=700.0))


def watch(job: Labelled, watcher: CauseWatch | None = None) -> CauseWatch:
    """Return a watch that has seen the whole job."""
    watcher = watcher or CauseWatch()
    held = Allocation("n0", job.gpus, tuple(range(job.gpus)), job.cpus)
    own = Job("1", NOW - 10, JobState.RUNNING, "p", Request(job.gpus), user="ann", name=job.name, start_s=NOW,
              allocations=(held,))
    others = () if job.alone else (Job("2", NOW - 10, JobState.RUNNING, "p", Request(0), start_s=NOW,
                                       allocations=(Allocation("n0", 0, (), 8),)),)
    nodes = (Node("n0", ("p",), 8, cpus=64, gpu_model="h100"),)
    for now, telemetry in readings(job):
        watcher.observe(SchedulerSnapshot(now, nodes, (), (own, *others)), telemetry,
                        HeldGpus(telemetry.gpus, nodes).of, now)
    return watcher


def verdict(job: Labelled, watcher: CauseWatch | None = None) -> Cause:
    """Return what is told of a job; ``none`` when nothing is."""
    watcher = watch(job, watcher)
    for _, tallies, _ in watcher.running(NOW):
        causes = reported_causes(tallies, job.gpus)
        if causes:
            return causes[0][0].cause
    return Cause.NONE


Range = tuple[float, float]
_QUIET: Mapping[str, Range] = {
    "engine": (0.93, 1.0), "sm": (0.75, 0.97), "occupancy": (0.2, 0.6), "tensor": (0.25, 0.6), "dram": (0.2, 0.5),
    "fp32": (0.02, 0.2), "fp64": (0.0, 0.01), "nvlink": (0.0, 0.06), "pcie": (0.0, 0.05)}
_SHAPES: Mapping[Cause, Mapping[str, Range]] = {
    Cause.NONE: {},
    Cause.WAITING_FOR_DATA: {"engine": (0.1, 0.6), "sm": (0.08, 0.5), "tensor": (0.03, 0.2), "dram": (0.03, 0.25),
                             "occupancy": (0.05, 0.3), "pcie": (0.005, 0.05)},
    Cause.CPU_BOUND: {"engine": (0.1, 0.6), "sm": (0.03, 0.35), "tensor": (0.0, 0.15), "dram": (0.01, 0.15),
                      "occupancy": (0.02, 0.2), "pcie": (0.0, 0.01)},
    Cause.SMALL_BATCH: {"engine": (0.8, 1.0), "sm": (0.05, 0.4), "tensor": (0.0, 0.08), "dram": (0.02, 0.2),
                        "occupancy": (0.01, 0.1)},
    Cause.MEMORY_BOUND: {"sm": (0.6, 0.95), "tensor": (0.0, 0.2), "dram": (0.65, 0.85), "occupancy": (0.3, 0.8)},
    Cause.COMMUNICATION: {"engine": (0.85, 1.0), "sm": (0.1, 0.42), "tensor": (0.02, 0.2), "dram": (0.05, 0.3),
                          "nvlink": (0.25, 0.7), "occupancy": (0.03, 0.2)},
    Cause.PRECISION: {"sm": (0.75, 0.97), "tensor": (0.0, 0.0), "fp32": (0.25, 0.7)},
}


def levels(cause: Cause, seed: int, *, minutes: int = 30, interval_s: float = 30.0) -> Labelled:
    """Return a job whose every signal keeps to a level with noise."""
    draw = random.Random(f"{cause}/{seed}")
    base = {name: draw.uniform(*span) for name, span in (dict(_QUIET) | dict(_SHAPES.get(cause, {}))).items()}
    gpus, each = draw.choice((1, 2, 4, 8)), draw.choice((4, 8, 12))
    if cause is Cause.ONE_OF_SEVERAL:
        gpus = draw.choice((2, 4, 8))
    idle = draw.randint(1, gpus - 1) if cause is Cause.ONE_OF_SEVERAL else 0
    reads = cause is Cause.WAITING_FOR_DATA and draw.random() < 0.5
    share = {Cause.WAITING_FOR_DATA: 0.3 if reads else 0.95, Cause.CPU_BOUND: 1.05 / each}.get(cause, 0.4)
    frames = []
    for _ in range(round(minutes * 60 / interval_s)):
        host = Host(gpus * each * min(1.0, share * draw.uniform(0.93, 1.05)),
                    draw.uniform(0.7, 1.0) if reads else draw.uniform(0, 0.1),
                    draw.uniform(0.3, 0.8) if reads else draw.uniform(0, 0.05))
        frames.append((host, tuple(_signals(draw, base, cause, quiet=index < idle) for index in range(gpus))))
    return Labelled(cause, draw.choice(("train-7b", "finetune_x", "pretraining")) if cause is Cause.PRECISION
                    else draw.choice(("train-7b", "md-run", "bench")), gpus, gpus * each, interval_s, tuple(frames))


def _signals(draw: random.Random, base: Mapping[str, float], cause: Cause, *, quiet: bool) -> Signals:
    if quiet:
        return Signals(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, clock=345e6, flags=())
    values = {name: min(1.0, max(0.0, level * draw.uniform(0.85, 1.15))) for name, level in base.items()}
    values["sm"] = min(values["sm"], values["engine"])
    capped = draw.random() < 0.5
    clock, flags, limit = (draw.uniform(1500e6, 1900e6) if capped else 1980e6), (("power",) if capped else ()), 700.0
    if cause is Cause.HEAT:
        clock, flags = draw.uniform(900e6, 1700e6), ("heat",)
    if cause is Cause.POWER:
        clock, flags, limit = draw.uniform(900e6, 1400e6), ("power",), 400.0
    return Signals(**values, clock=clock, flags=flags, limit=limit)
