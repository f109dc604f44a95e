"""The rules: from the means of one window of a GPU and of its host to a cause with its evidence, or to none.

Each rule wants two kinds of evidence that point the same way: what the GPU lacks, and what withholds it. Where one of
them was not measured the cause is unknown, however likely it is. Sources:

[dcgm] NVIDIA DCGM, feature overview, *Metrics*: SM activity of 0.8 or more is necessary for effective use and less than
    0.5 likely ineffective; 0.8 is about the most that DRAM reaches; a low occupancy alone proves nothing.
[roofline] Williams et al., Roofline, CACM 2009: work that moves many bytes for each operation waits for the memory.
[tfdata] Murray et al., tf.data, VLDB 2021, and Mohan et al., Analyzing and Mitigating Data Stalls, VLDB 2021: GPUs wait
    for input that is bound by reading or by preprocessing on CPUs.
[lowutil] Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024: improper batch sizes,
    data on the host's side, GPUs that are held and not used.
[amp] Micikevicius et al., Mixed Precision Training, ICLR 2018: matrix units do nothing for plain 32 bit arithmetic.
[h100] Programs recorded on an H100 (tests/recorded/h100_programs): each rule says what they showed.
[nvml] NVIDIA NVML, clocks event reasons: what each bit means; software power capping alone is usual at full load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...storage.underuse import Cause

IDLE, RESTS = 0.02, 0.005
"""Activity up to which a GPU did next to nothing, beside others that work; and nothing (an idle one shows 0.0001)."""
GAPS = 0.70
"""Share of the time with kernels below which a GPU waits for its host."""
RESIDENT = 0.75
"""The same from which it does not: between the two no cause is concluded."""
SM_LOW, SM_HIGH = 0.50, 0.60
DRAM_BOUND, DRAM_LOW = 0.60, 0.30
TENSOR_IDLE, TENSOR_LOW = 0.01, 0.15
TENSOR_RATE = 8.0
"""Operations of a matrix unit in one cycle, in TF32 or half precision, over those of the 32 bit units: 8 or more."""
COMPUTES = 0.001
"""Activity of any unit that computes, or of the memory, from which kernels do something and do not only wait."""
OCCUPANCY_LOW = 0.15
LINK_BUSY, LINK_QUIET = 0.20, 0.08
"""Of what NVLink, PCIe or the network can."""
DISK_BUSY, FILES_WAIT = 0.60, 0.25
CPUS_BUSY, CPUS_IDLE = 0.85, 0.60
"""Of the CPUs that a job holds."""
ROUNDING = 1.15
"""Times the CPUs held that may be in use: two pages are never read at exactly the moments that they bear."""
ONE_THREAD = (0.75, 1.35)
"""Cores in use for each GPU when one thread feeds it."""
HEAT_SHARE, BRAKE_SHARE, CAP_SHARE = 0.20, 0.20, 0.50
CLOCK_LOST, CLOCK_FALLEN = 0.92, 0.65
"""Of the highest clock that was seen of the model: that something is lost, and much more than full load costs."""
CAPPED = 0.95
"""Of the default power limit."""
FP32_BUSY, FP64_BUSY = 0.10, 0.05
STRONG, FAIR = 0.9, 0.7
"""Confidence: both sides measured far from the threshold, or near it."""


@dataclass(frozen=True, slots=True)
class Means:
    """One GPU over one window; shares of 0..1, None is not measured for long enough."""

    engine: float | None = None
    """Share of time with any kernel."""
    sm: float | None = None
    occupancy: float | None = None
    tensor: float | None = None
    dram: float | None = None
    fp32: float | None = None
    fp64: float | None = None
    nvlink: float | None = None
    pcie: float | None = None
    clock: float | None = None
    """Of the highest that was seen of its model."""
    heat: float | None = None
    """Share of time in which heat held the clocks down; likewise the power limit, and a brake from outside."""
    power: float | None = None
    brake: float | None = None
    limit: float | None = None
    """Enforced power limit over the default one."""

    @property
    def activity(self) -> float | None:
        """Return how busy it was, by the finest measure there is."""
        return self.sm if self.sm is not None else self.engine


@dataclass(frozen=True, slots=True)
class HostMeans:
    """The job's part of one server over the same window."""

    cpus: float | None = None
    """Cores that the job used."""
    cpus_held: int = 0
    gpus_held: int = 0
    disk: float | None = None
    waiting: float | None = None
    """Share of time in which some process waited for files."""
    fabric: float | None = None
    alone: bool = False
    """Whether no other job is on the server: disks and files are then the job's own."""
    training: bool = False
    """Whether its name says that it trains a model."""
    busiest: float | None = None
    """Activity of the busiest GPU of the job, anywhere."""


@dataclass(frozen=True, slots=True)
class CauseVerdict:
    """What one window shows."""

    cause: Cause
    confidence: float = 0.0
    evidence: Mapping[str, float] = field(default_factory=dict)


Rule = Callable[[Means, HostMeans], CauseVerdict | None]


def judge(gpu: Means, host: HostMeans) -> CauseVerdict:
    """Return the first cause whose rule holds; ``none`` for a GPU that is used well, ``unknown`` for all else."""
    for rule in RULES:
        verdict = rule(gpu, host)
        if verdict is not None:
            return verdict
    return CauseVerdict(Cause.NONE if _well_used(gpu) else Cause.UNKNOWN, 0.0, _known(activity=gpu.activity))


def _well_used(gpu: Means) -> bool:
    return (gpu.sm is not None and gpu.sm >= SM_HIGH) or (gpu.tensor is not None and gpu.tensor >= DRAM_LOW)


def _known(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _at_least(value: float | None, limit: float) -> bool:
    return value is not None and value >= limit


def _at_most(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def _idle(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """One GPU of several works; one that nothing works on beside is idle, and no cause is known [lowutil]."""
    if not _at_most(gpu.activity, IDLE) or (gpu.engine is not None and gpu.engine > IDLE):
        return None  # kernels of one block keep one SM of a hundred busy: that is little work, and no idle GPU
    evidence = _known(activity=gpu.activity, busiest=host.busiest)
    if _at_least(host.busiest, 5 * IDLE):
        return CauseVerdict(Cause.ONE_OF_SEVERAL, STRONG if _at_least(host.busiest, 0.3) else FAIR, evidence)
    rests = gpu.engine if gpu.engine is not None else gpu.activity
    return CauseVerdict(Cause.UNKNOWN, 0.0, evidence) if _at_most(rests, RESTS) else None


def _heat(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Heat holds the clocks down for long, and they are lower than usual, where clocks are reported [nvml]."""
    if not _at_least(gpu.heat, HEAT_SHARE) or not _at_least(gpu.engine or gpu.sm, 0.3):
        return None
    if gpu.clock is not None and gpu.clock > CLOCK_LOST:
        return None
    return CauseVerdict(Cause.HEAT, STRONG if gpu.clock is not None else FAIR, _known(heat=gpu.heat, clock=gpu.clock))


def _power(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """A brake from outside, a lowered limit, or clocks far below what full load costs; never the usual cap [nvml]."""
    evidence = _known(power=gpu.power, brake=gpu.brake, clock=gpu.clock, limit=gpu.limit)
    if not _at_least(gpu.engine or gpu.sm, 0.3):
        return None
    if _at_least(gpu.brake, BRAKE_SHARE):
        return CauseVerdict(Cause.POWER, STRONG, evidence)
    if not _at_least(gpu.power, CAP_SHARE):
        return None
    lowered = gpu.limit is not None and gpu.limit < CAPPED
    if _at_most(gpu.clock, CLOCK_FALLEN) or (lowered and _at_most(gpu.clock, CLOCK_LOST)):
        return CauseVerdict(Cause.POWER, STRONG if lowered else FAIR, evidence)
    return None


def _communication(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Links or the network are busy while SMs and memory are not: kernels are there, and wait for others."""
    links = _known(nvlink=gpu.nvlink, pcie=gpu.pcie, fabric=host.fabric)
    if not links or not _at_most(gpu.sm, SM_LOW) or _at_least(gpu.dram, SM_LOW):
        return None
    busiest = max(links.values())
    # Copies from the host run beside no kernel: with gaps PCIe alone may be input.
    if busiest < LINK_BUSY or (not _at_least(gpu.engine, GAPS) and busiest == gpu.pcie and not _at_least(
            gpu.pcie, 2 * LINK_BUSY)):
        return None
    return CauseVerdict(Cause.COMMUNICATION, STRONG if busiest >= 1.5 * LINK_BUSY else FAIR,
                        links | _known(sm=gpu.sm, engine=gpu.engine))


def _cores(host: HostMeans) -> tuple[float | None, float | None]:
    """Return the busy share of the CPUs that a job holds, and cores in use for each GPU; more than it holds is none."""
    if host.cpus is None or not host.cpus_held or not host.gpus_held or host.cpus > ROUNDING * host.cpus_held:
        return None, None
    return host.cpus / host.cpus_held, host.cpus / host.gpus_held


def _data(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Kernels are missing while disks are busy or all of several CPUs are: input is late [tfdata]."""
    if not _at_most(gpu.engine, GAPS):
        return None
    busy, _ = _cores(host)
    evidence = _known(engine=gpu.engine, disk=host.disk, waiting=host.waiting, cpus=busy)
    files = [_at_least(host.disk, DISK_BUSY), _at_least(host.waiting, FILES_WAIT)]
    if host.alone and any(files):
        return CauseVerdict(Cause.WAITING_FOR_DATA, STRONG if all(files) else FAIR, evidence)
    if _at_least(busy, CPUS_BUSY) and host.cpus_held >= 2 * host.gpus_held:
        return CauseVerdict(Cause.WAITING_FOR_DATA, STRONG if _at_most(gpu.engine, SM_LOW) else FAIR, evidence)
    return None


def _cpu(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Kernels are missing while one thread for each GPU is busy and the other CPUs are not, or there are no others."""
    if not _at_most(gpu.engine, GAPS):
        return None
    busy, each = _cores(host)
    quiet = not _at_least(host.disk, DISK_BUSY) and not _at_least(host.waiting, FILES_WAIT)
    evidence = _known(engine=gpu.engine, cpus=busy, cores_per_gpu=each)
    if busy is None or each is None or not quiet:
        return None
    if busy <= CPUS_IDLE and ONE_THREAD[0] <= each <= ONE_THREAD[1]:
        return CauseVerdict(Cause.CPU_BOUND, STRONG if _at_most(gpu.engine, SM_LOW) else FAIR, evidence)
    if busy >= CPUS_BUSY and host.cpus_held < 2 * host.gpus_held:
        return CauseVerdict(Cause.CPU_BOUND, FAIR, evidence)
    return None


def _memory(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Memory is near the most that it reaches, and matrix units do little: operations wait for bytes [roofline]."""
    if _at_least(gpu.dram, DRAM_BOUND) and _at_most(gpu.tensor, 2 * TENSOR_LOW) and _at_least(gpu.engine, RESIDENT):
        return CauseVerdict(Cause.MEMORY_BOUND, STRONG if _at_most(gpu.tensor, TENSOR_LOW) else FAIR,
                            _known(dram=gpu.dram, tensor=gpu.tensor, sm=gpu.sm))
    return None


def _precision(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """A training keeps the SMs busy with 32 bit arithmetic, and the matrix units do less of it, or never work [amp]."""
    if not host.training or not _at_least(gpu.sm, SM_HIGH) or not _at_most(gpu.tensor, _rarely(gpu)):
        return None
    if _at_least(gpu.dram, DRAM_BOUND) or _at_least(gpu.fp64, FP64_BUSY) or not _at_least(
            gpu.fp32 if gpu.fp32 is not None else 1.0, FP32_BUSY):
        return None
    return CauseVerdict(Cause.PRECISION, STRONG if gpu.fp32 is not None else FAIR,
                        _known(tensor=gpu.tensor, fp32=gpu.fp32, sm=gpu.sm))


def _rarely(gpu: Means) -> float:
    """Return the activity of matrix units up to which the 32 bit units do most: parts of attention may use them."""
    return max(TENSOR_IDLE, (gpu.fp32 or 0.0) / TENSOR_RATE)


def _small(gpu: Means, host: HostMeans) -> CauseVerdict | None:
    """Kernels are there nearly always, compute, and fill few SMs, or few warps; nothing else is busy [dcgm]."""
    links = _known(nvlink=gpu.nvlink, pcie=gpu.pcie, fabric=host.fabric)
    if not _at_least(gpu.engine, RESIDENT) or not _at_most(gpu.dram, DRAM_LOW) or not _at_most(gpu.tensor, TENSOR_LOW):
        return None
    if any(share > LINK_QUIET for share in links.values()):
        return None
    if not any(_at_least(unit, COMPUTES) for unit in (gpu.tensor, gpu.dram, gpu.fp32, gpu.fp64)):
        return None  # a collective whose partner is gone asks a flag for ever, and fills few SMs too
    few_sms, few_warps = _at_most(gpu.sm, SM_LOW), _at_most(gpu.occupancy, OCCUPANCY_LOW)
    if not few_warps or not (few_sms or _at_most(gpu.occupancy, OCCUPANCY_LOW / 2)):
        return None
    return CauseVerdict(Cause.SMALL_BATCH, STRONG if few_sms and few_warps else FAIR,
                        _known(engine=gpu.engine, sm=gpu.sm, occupancy=gpu.occupancy))


RULES: tuple[Rule, ...] = (_idle, _heat, _power, _communication, _data, _cpu, _memory, _precision, _small)
"""In this order: what a bit reports before what is concluded, what is rare before what is common."""


def rules() -> Iterator[tuple[str, str]]:
    """Yield name and words of each rule, for the documentation."""
    for rule in RULES:
        yield rule.__name__.strip("_"), (rule.__doc__ or "").strip()
