"""The pages of dcgm-exporter, node_exporter, ipmi_exporter and cgroup_exporter for one simulated server."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from prometheus_client.utils import floatToGoString

from ..dcgm import RENAMED
from .accelerators import fabric_labels, grace_meters, grace_rows
from .cluster import SimulatedCluster
from .gpus import MEMORY_SHARE, Floats, cpus_busy
from .jobs import SimulatedJob
from .shortfalls import NUMBERS, Shortfall

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DRIVER = "535.129.03"
UPTIME_S = 10 * 86400.0
"""How long before the start the servers were booted."""
HOT_CELSIUS = 88.0
"""Of a GPU that heat slows down (assumed)."""
MIG_INSTANCES = (("3g.20gb", 1), ("3g.20gb", 2))
"""Profile and id of each instance of a GPU in MIG mode; each repeats the whole GPU's watts."""


@dataclass(frozen=True, slots=True)
class _View:
    """The GPUs of one server."""

    watts: Floats
    joules: Floats
    utilization: Floats
    engine: Floats
    activity: Floats
    framebuffer: Floats
    used: Floats
    sm_clock: float
    memory_clock: float
    limit: Floats
    unit: Callable[[str], Floats]
    """Returns what a unit does, by name."""
    shortfall: npt.NDArray[np.intp]
    nvlink_bytes_per_s: float

    @property
    def busy(self) -> Floats:
        return (self.utilization > 0).astype(np.float64)

    @property
    def clock(self) -> Floats:
        """Return the share of the usual clock at which each runs that works; one that idles has its usual one."""
        return np.where(self.unit("engine") > 0, self.unit("clock"), 1.0)

    def held_down(self, by: Shortfall) -> npt.NDArray[np.bool_]:
        """Tell of which GPUs something holds the clocks down while they work."""
        held: npt.NDArray[np.bool_] = (self.shortfall == NUMBERS[by]) & (self.unit("engine") > 0)
        return held

    @property
    def celsius(self) -> Floats:
        """Return how hot each is: one that heat slows down stands at its limit."""
        return np.where(self.held_down(Shortfall.HEAT), HOT_CELSIUS, 26 + self.watts / 10)

    @property
    def reasons(self) -> Floats:
        """Return NVML's bits of why clocks are low: idle, slowed by software for heat, or braked from outside."""
        slow = np.where(self.held_down(Shortfall.HEAT), 0x20, 0x80 * self.held_down(Shortfall.POWER_BRAKE))
        return np.where(self.busy > 0, slow, 0x1).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Field:
    """A line of dcgm-exporter's default-counters.csv and where its value comes from."""

    name: str
    kind: str
    help: str
    form: str
    value: Callable[[_View], Floats]
    once: bool = False
    """Not repeated for MIG instances: the driver cannot tell (dcgm-exporter #114)."""
    ampere: bool = False
    """Unknown to a V100."""


def _none(view: _View) -> Floats:
    return np.zeros(len(view.watts))


_FIELDS = (
    _Field("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", "%d",
           lambda v: 210 + (v.sm_clock * v.clock - 210) * v.busy),
    _Field("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", "%d",
           lambda v: v.memory_clock + _none(v)),
    _Field("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", "%d", lambda v: 30 + v.watts / 8),
    _Field("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", "%d", lambda v: v.celsius),
    _Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", "%f", lambda v: v.watts),
    _Field("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).", "%d",
           lambda v: v.joules * 1000),
    _Field("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", "%d", _none),
    _Field("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", "%d",
           lambda v: np.round(100 * v.utilization), once=True),
    _Field("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", "%d",
           lambda v: np.round(45 * v.activity), once=True),
    _Field("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", "%d", _none, once=True),
    _Field("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", "%d", _none, once=True),
    _Field("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", "%d", _none),
    _Field("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", "%d", lambda v: v.framebuffer - v.used),
    _Field("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", "%d", lambda v: v.used),
    _Field("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter",
           "Total number of NVLink bandwidth counters for all lanes.", "%d", _none),
    _Field("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", "%d", _none),
    _Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter",
           "Number of remapped rows for uncorrectable errors", "%d", _none, ampere=True),
    _Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter",
           "Number of remapped rows for correctable errors", "%d", _none, ampere=True),
    _Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", "%d", _none, ampere=True),
    _Field("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", "%f",
           lambda v: v.engine),
    _Field("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active.", "%f",
           lambda v: v.unit("tensor")),
    _Field("DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
           "Ratio of cycles the device memory interface is active sending or receiving data.", "%f",
           lambda v: v.unit("dram")),
    _Field("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge",
           "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - "
           "in bytes per second.", "%d", lambda v: 1e5 + 2e8 * v.activity),
    _Field("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge",
           "The rate of data received over the PCIe bus - including both protocol headers and data payloads - "
           "in bytes per second.", "%d", lambda v: 1e5 + 9e8 * v.activity),
)
_NEWER = (
    _Field("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gauge", "Effective power limit (in W).", "%f", lambda v: v.limit),
    _Field("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "gauge", "Default power limit (in W).", "%f", lambda v: v.limit),
    _Field("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of cycles an SM has a warp.", "%f", lambda v: v.unit("sm")),
    _Field("DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Ratio of resident warps.", "%f", lambda v: v.unit("occupancy")),
    _Field("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "Ratio of cycles the fp32 pipe is active.", "%f",
           lambda v: v.unit("fp32")),
    *(_Field(f"DCGM_FI_PROF_NVLINK_{way}_BYTES", "gauge",
             f"The rate of data {verb} over NVLink, not including protocol headers, in bytes per second.", "%d",
             lambda v: v.unit("nvlink") * v.nvlink_bytes_per_s / 2) for way, verb in (
        ("TX", "transmitted"), ("RX", "received"))),
    _Field("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons (bitmask of DCGM_CLOCKS_*).",
           "%d", lambda v: v.reasons),
)
"""Which the default file of today has not, and that of a site with GPUs of today has."""
_NEW_NAMES = {old: new for new, old in reversed(RENAMED.items())}

Holder = Callable[[SimulatedCluster, int, int], str]
"""Returns the labels that name the holder of a GPU, by the job's id and the server's number."""


def slurm_labels(cluster: SimulatedCluster, job_id: int, server: int) -> str:
    """Return the label by which dcgm-exporter names the Slurm job that holds a GPU."""
    return f',hpc_job="{job_id}"'


class Pages:
    """Writes the pages of a cluster; labels that never change are written once."""

    def __init__(self, cluster: SimulatedCluster, mig: bool = False, holder: Holder = slurm_labels) -> None:
        self._cluster, self._holder = cluster, holder
        self._labels = [[_labels(cluster, server, index) for index in range(cluster.servers[server].model.gpus)]
                        for server in range(len(cluster.servers))]
        self._mig = (0, 7) if mig else None
        """The server and GPU index in MIG mode."""

    def dcgm(self, server: int) -> str:
        """Return what dcgm-exporter with its default counters and Slurm's job mapping shows of a server."""
        view, rows = self._view(server), self._rows(server)
        model = self._cluster.servers[server].model
        lines: list[str] = []
        for field in (*_FIELDS, *_NEWER) if model.since_4_6 else _FIELDS:
            if field.ampere and model.gres_type == "v100":
                continue
            name = _NEW_NAMES.get(field.name, field.name) if model.since_4_6 else field.name
            lines += (f"# HELP {name} {field.help}", f"# TYPE {name} {field.kind}")
            values = field.value(view).tolist()
            lines += (f"{name}{{{labels}}} {field.form % values[index]}"
                      for index, labels, instance in rows if not (instance and field.once))
        if model.grace:
            lines += grace_rows(self._cluster, server)
        return "\n".join(lines) + "\n"

    def _view(self, server: int) -> _View:
        gpus, model = self._cluster.gpus, self._cluster.servers[server].model
        part = slice(gpus.first[server], gpus.first[server] + model.gpus)
        return _View(gpus.watts[part], gpus.joules[part], gpus.utilization[part], gpus.unit("engine", part),
                     gpus.activity[part], gpus.facts.framebuffer_mib[part], gpus.framebuffer_used_mib[part],
                     model.sm_clock_mhz, model.memory_clock_mhz, gpus.facts.limit_watts[part],
                     lambda name: gpus.unit(name, part), gpus.shortfall[part], model.nvlink_bytes_per_s)

    def _rows(self, server: int) -> list[tuple[int, str, bool]]:
        """Return GPU index, labels and whether it is a MIG instance, for every row of a field."""
        first, rows = self._cluster.gpus.first[server], []
        for index, labels in enumerate(self._labels[server]):
            job = int(self._cluster.gpus.job[first + index])
            tail = self._holder(self._cluster, job, server) if job else ""
            if self._mig == (server, index) and ",Hostname" in labels:
                head, host = labels.split(",Hostname", 1)
                rows += [(index, f'{head},GPU_I_PROFILE="{profile}",GPU_I_ID="{number}",Hostname{host}{tail}', True)
                         for profile, number in MIG_INSTANCES]
            else:
                rows.append((index, labels + tail, False))
        return rows

    def node(self, server: int) -> str:
        """Return a realistic part of what node_exporter shows of a server."""
        return "\n".join(_node_lines(self._cluster, server)) + "\n"

    def cgroup(self, server: int) -> str:
        """Return what cgroup_exporter shows of the jobs on a server, as Jobstats' forks of it write it."""
        jobs = [job for _, job in sorted(self._cluster.running.items()) if server in dict(job.allocation)]
        families = (("cpu_total_seconds", "Cumalitive CPU total seconds for cgroup", self._cpu_seconds),
                    ("cpus", "Number of CPUs in the cgroup", lambda job: job.cpus_per_node),
                    ("memory_total_bytes", "Memory total given to cgroup in bytes", lambda job: job.memory_per_node),
                    ("memory_used_bytes", "Memory used in bytes",
                     lambda job: job.memory_per_node * MEMORY_SHARE // 1))
        lines: list[str] = []
        for name, text, value in families:
            lines += _single(f"cgroup_{name}", text, [(_job_labels(job), float(value(job))) for job in jobs])
        return "\n".join(lines) + "\n"

    def cgroup_pods(self, server: int) -> str:
        """Return what a kubelet's cAdvisor shows of the pods on a server: each pod, and its container."""
        jobs = [job for _, job in sorted(self._cluster.running.items()) if server in dict(job.allocation)]
        families = (("cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "counter",
                     self._cpu_seconds),
                    ("memory_working_set_bytes", "Current working set in bytes.", "gauge",
                     lambda job: job.memory_per_node * MEMORY_SHARE // 1))
        lines: list[str] = []
        for name, text, kind, value in families:
            pods = [(self._holder(self._cluster, job.job_id, server).removeprefix(","), value(job)) for job in jobs]
            rows = [(f"{{{labels}}}", float(amount)) for pod, amount in pods
                    for labels in (pod.replace('container="main"', 'container=""'), pod)]
            lines += _single(f"container_{name}", text, rows, kind)
        return "\n".join(lines) + "\n"

    def _cpu_seconds(self, job: SimulatedJob) -> float:
        return job.cpus_per_node * cpus_busy(job) * (self._cluster.now_s - (job.start_s or 0.0))

    def ipmi(self, server: int) -> str:
        """Return what ipmi_exporter shows of a server's BMC; a BMC that hangs fails its collectors."""
        up = self._cluster.meter_answers(server)
        lines: list[str] = []
        if up:
            lines += _single("ipmi_bmc_info", "Constant metric with value '1' providing details about the BMC.",
                             [('{firmware_revision="1.66",manufacturer_id="NVIDIA Corporation (5703)",'
                               'system_firmware_version="N/A"}', 1.0)])
            lines += _single("ipmi_chassis_power_state", "Current power state (1=on, 0=off).", [("", 1.0)])
            lines += _single("ipmi_dcmi_power_consumption_watts", "Current power consumption in Watts.",
                             [("", float(round(self._cluster.gpus.meter_watts[server])))])
        lines += _single("ipmi_scrape_duration_seconds", "Returns how long the scrape took to complete in seconds.",
                         [("", 0.031 if up else 20.0)])
        lines += _single("ipmi_up", "'1' if a scrape of the IPMI device was successful, '0' otherwise.",
                         [(f'{{collector="{name}"}}', float(up)) for name in ("bmc", "chassis", "dcmi")])
        return "\n".join(lines) + "\n"


def _labels(cluster: SimulatedCluster, server: int, index: int) -> str:
    name, model = cluster.servers[server].name, cluster.servers[server].model
    host = f'{"hostname" if model.since_4_6 else "Hostname"}="{name}"'
    fabric = "".join(f',{label}="{text}"' for label, text in fabric_labels(cluster, cluster.servers[server]).items())
    return (f'gpu="{index}",UUID="{gpu_uuid(cluster.shape.seed, name, index)}",'
            f'pci_bus_id="00000000:{7 + 8 * index:02X}:00.0",device="nvidia{index}",modelName="{model.product}",'
            f'{host},DCGM_FI_DRIVER_VERSION="{DRIVER}"{fabric}')


def _job_labels(job: SimulatedJob) -> str:
    path = f"/system.slice/slurmstepd.scope/job_{job.job_id}"
    return f'{{cgroup="{path}",jobid="{job.job_id}",step="",task=""}}'


def gpu_uuid(seed: int, server: str, index: int) -> str:
    """Return the UUID of a GPU: the same for the same seed."""
    digest = hashlib.sha256(f"{seed}/{server}/{index}".encode()).digest()
    return f"GPU-{uuid.UUID(bytes=digest[:16])}"


def _go(value: float) -> str:
    """Return a number as Go's client library writes it."""
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text.removesuffix(".0")


def _single(name: str, text: str, samples: Iterable[tuple[str, float]], kind: str = "gauge") -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}",
            *(f"{name}{labels} {_go(value)}" for labels, value in samples)]


def _node_lines(cluster: SimulatedCluster, server: int) -> Iterator[str]:
    gpus, model, name = cluster.gpus, cluster.servers[server].model, cluster.servers[server].name
    used, busy = float(gpus.memory_used_bytes[server]), float(gpus.cpu_busy[server])
    total, load = float(model.memory_bytes), round(busy * model.cpus, 2)
    boot_s = cluster.shape.start_s - UPTIME_S
    yield from _single("node_boot_time_seconds", "Node boot time, in unixtime.", [("", boot_s)])
    yield from _cpu_lines(model.cpus, float(gpus.cpu_busy_s[server]), cluster.now_s - boot_s)
    yield from _single("node_exporter_build_info", "A metric with a constant '1' value labeled by version.",
                       [('{branch="HEAD",goarch="amd64",goos="linux",goversion="go1.19.8",version="1.5.0"}', 1.0)])
    yield from _single("node_load1", "1m load average.", [("", load)])
    yield from _single("node_load5", "5m load average.", [("", load)])
    yield from _single("node_load15", "15m load average.", [("", load)])
    for field, value in (("MemTotal", total), ("MemFree", 0.9 * (total - used)), ("MemAvailable", total - used),
                         ("Buffers", 0.01 * (total - used)), ("Cached", 0.09 * (total - used)), ("SwapTotal", 0.0)):
        yield from _single(f"node_memory_{field}_bytes", f"Memory information field {field}_bytes.", [("", value // 1)])
    yield from _network_lines(float(gpus.cpu_busy_s[server]))
    yield from _file_lines(float(gpus.disk_busy_s[server]), float(gpus.waiting_s[server]))
    if model.grace:
        yield from _meter_lines(cluster, server)
    yield from _single("node_time_seconds", "System time in seconds since epoch (1970).", [("", cluster.now_s)])
    yield from _single("node_uname_info", "Labeled system information as provided by the uname system call.",
                       [(f'{{domainname="(none)",machine="x86_64",nodename="{name}",release="5.15.0-1040-nvidia",'
                         f'sysname="Linux",version="#40-Ubuntu SMP"}}', 1.0)])


def _meter_lines(cluster: SimulatedCluster, server: int) -> Iterator[str]:
    """Yield hwmon's meters, and what the firmware calls them."""
    meters = list(grace_meters(cluster, server))
    yield from _single("node_hwmon_power_average_watt", "Hardware monitor for power usage in watts (average)",
                       [(f'{{chip="lnxsybus:00_{chip}",sensor="power1"}}', watts) for chip, _, watts in meters])
    yield from _single("node_power_meter_info", "ACPI power meters", [
        (f'{{meter="{chip.upper()}",oem_info="{name}"}}', 1.0) for chip, name, _ in meters])


def _cpu_lines(cpus: int, busy_s: float, uptime_s: float) -> Iterator[str]:
    busy_s += 0.1 * UPTIME_S  # it worked before we came, too
    iowait_s = 0.001 * uptime_s
    modes = {"idle": uptime_s - busy_s - iowait_s, "iowait": iowait_s, "irq": 0.0, "nice": 0.0,
             "softirq": 0.0, "steal": 0.0, "system": 0.1 * busy_s, "user": 0.9 * busy_s}
    texts = [(mode, _go(round(value, 2))) for mode, value in modes.items()]
    yield "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode."
    yield "# TYPE node_cpu_seconds_total counter"
    for cpu in range(cpus):
        for mode, text in texts:
            yield f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {text}'


def _file_lines(busy_s: float, waiting_s: float) -> Iterator[str]:
    yield from _single("node_disk_io_time_seconds_total", "Total seconds spent doing I/Os.",
                       [('{device="nvme0n1"}', round(busy_s, 3))], "counter")
    yield from _single("node_pressure_io_waiting_seconds_total",
                       "Total time in seconds that processes have waited due to IO congestion",
                       [("", round(waiting_s, 6))], "counter")


def _network_lines(busy_s: float, devices: Sequence[str] = ("enp225s0f0", "ib0", "ib1", "ib2", "ib3")) -> Iterator[str]:
    for direction in ("receive", "transmit"):
        name = f"node_network_{direction}_bytes_total"
        yield from _single(name, f"Network device statistic {direction}_bytes.",
                           [(f'{{device="{device}"}}', round(1e10 + 3e7 * busy_s)) for device in devices], "counter")
