"""The two kinds of server of the GIST AI-X cluster (paper, section 6.2), servers of today, and what they draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Model:
    """A server with GPUs of one kind; watts, bytes and MiB as named."""

    partition: str
    host_prefix: str
    gres_type: str
    features: str
    product: str
    """The name NVML gives the GPU."""
    framebuffer_mib: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    idle_watts: float
    context_watts: float
    """Added by a CUDA context that does nothing."""
    limit_watts: float
    cpus: int
    cores: int
    memory_bytes: int
    host_idle_watts: float
    host_cpu_watts: float
    """Added by the CPUs when all of them are busy."""
    gpus: int = 8
    threads: int = 2
    """Of a core."""
    exporter: Literal["dcgm", "amd", "gaudi"] = "dcgm"
    """The exporter whose page tells of its GPUs."""
    since_4_6: bool = False
    """DCGM's names and labels are those since 4.6."""
    grace: bool = False
    """Two Grace superchips with meters of their own, no power supplies, and a BMC that knows Redfish alone."""
    nvlink_bytes_per_s: float = 0.0
    """Of all links of a GPU, both directions together; 0 where no page tells of them."""
    fan_share: float | None = None
    supply_efficiency: float | None = None
    """Where they are not those of all servers (see ``Power``)."""


# Idle floors: public dcgm-exporter pages and issue reports give 49-63 W for an A100-SXM4-40GB and 53-57 W for a
# V100-SXM2-32GB; a resident context adds 26-50 W (arXiv 2605.23918). Limits are NVIDIA's. No verified figure exists
# for a whole idle DGX, so the host watts are assumed: with fans and supply losses (see ``Power``) a full DGX A100
# comes to about 5 kW and a full DGX-1V to about 3.2 kW, below their ratings of 6.5 and 3.5 kW.
A100 = Model(
    partition="A100", host_prefix="dgx-a100", gres_type="a100", features="dgx,a100,nvswitch",
    product="NVIDIA A100-SXM4-40GB", framebuffer_mib=40_960, sm_clock_mhz=1410, memory_clock_mhz=1215,
    idle_watts=52.0, context_watts=35.0, limit_watts=400.0,
    cpus=256, cores=64, memory_bytes=1024 * GIB, host_idle_watts=850.0, host_cpu_watts=450.0)
V100 = Model(
    partition="V100", host_prefix="dgx-v100", gres_type="v100", features="dgx,v100",
    product="Tesla V100-SXM2-32GB", framebuffer_mib=32_768, sm_clock_mhz=1380, memory_clock_mhz=877,
    idle_watts=54.0, context_watts=30.0, limit_watts=300.0,
    cpus=80, cores=20, memory_bytes=512 * GIB, host_idle_watts=380.0, host_cpu_watts=270.0)


# Idle draws and limits are those of the catalogue; what hosts and contexts draw is assumed. A GB200 tray has no power
# supplies: what its BMC tells is direct current, and the loss is the shelf's. NVIDIA rates it at 6,667 W.
GB200 = Model(
    partition="GB200", host_prefix="gb200-r1", gres_type="gb200", features="gb200,nvl72",
    product="NVIDIA GB200", framebuffer_mib=189_471, sm_clock_mhz=2062, memory_clock_mhz=3996,
    idle_watts=166.0, context_watts=40.0, limit_watts=1200.0,
    cpus=144, cores=72, threads=1, memory_bytes=960 * GIB, host_idle_watts=250.0, host_cpu_watts=600.0, gpus=4,
    since_4_6=True, grace=True, nvlink_bytes_per_s=1.8e12, fan_share=0.01, supply_efficiency=1.0)
H100 = Model(
    partition="H100", host_prefix="hgx-h100", gres_type="h100", features="hgx,h100",
    product="NVIDIA H100 80GB HBM3", framebuffer_mib=81_559, sm_clock_mhz=1980, memory_clock_mhz=2619,
    idle_watts=70.0, context_watts=45.0, limit_watts=700.0,
    cpus=224, cores=56, memory_bytes=2048 * GIB, host_idle_watts=1100.0, host_cpu_watts=600.0, since_4_6=True,
    nvlink_bytes_per_s=0.9e12)
MI300X = Model(
    partition="MI300X", host_prefix="mi300x", gres_type="mi300x", features="mi300x",
    product="AMD Instinct MI300X OAM", framebuffer_mib=196_592, sm_clock_mhz=2100, memory_clock_mhz=1300,
    idle_watts=140.0, context_watts=45.0, limit_watts=750.0,
    cpus=384, cores=96, memory_bytes=2304 * GIB, host_idle_watts=1000.0, host_cpu_watts=700.0, exporter="amd")
GAUDI3 = Model(
    partition="GAUDI3", host_prefix="gaudi3", gres_type="gaudi3", features="gaudi3",
    product="HL-325L", framebuffer_mib=131_072, sm_clock_mhz=1600, memory_clock_mhz=1600,
    idle_watts=228.0, context_watts=5.0, limit_watts=900.0,
    cpus=224, cores=56, memory_bytes=1024 * GIB, host_idle_watts=900.0, host_cpu_watts=500.0, exporter="gaudi")
RACK = 18
"""Trays of an NVL72."""
SWITCH_WATTS, SHELF_EFFICIENCY = 3600.0, 0.97
"""Of a rack's nine NVLink switch trays together, and of its power shelves (assumed)."""


@dataclass(frozen=True, slots=True)
class Power:
    """How watts add up from GPUs to the wall; the same for both kinds of server."""

    load_share: float = 0.93
    """Share of the GPU's limit that full activity draws: training rarely sits on the limit."""
    fan_share: float = 0.07
    """Fans blow with the heat of the GPUs."""
    supply_efficiency: float = 0.94
    meter_window_s: float = 30.0
    """The BMC's DCMI reading is a mean over its own window and lags behind the GPUs."""


@dataclass(frozen=True, slots=True)
class Server:
    """One named server of the cluster."""

    name: str
    model: Model
    place: int = 0
    """Among the servers of its model."""
    rack: str = ""
    """The NVL72 that it is a tray of."""


def servers(nodes: int, hardware: str = "dgx") -> tuple[Server, ...]:
    """Return ``nodes`` servers of one of ``HARDWARE``."""
    if not 1 <= nodes <= 1000:
        raise ValueError(f"a cluster of 1 to 1000 nodes can be simulated, not {nodes}")
    return HARDWARE[hardware](nodes)


def _parts(*models: Model) -> Callable[[int], tuple[Server, ...]]:
    """Return what makes servers of these models, as many of each; the odd ones are of the first."""
    def made(nodes: int) -> tuple[Server, ...]:
        width = max(2, len(str(nodes)))
        counts = [nodes // len(models) + (number < nodes % len(models)) for number in range(len(models))]
        return tuple(Server(f"{model.host_prefix}-{number + 1:0{width}}", model, number)
                     for model, count in zip(models, counts, strict=True) for number in range(count))

    return made


def _racks(nodes: int) -> tuple[Server, ...]:
    """Return trays, rack after rack."""
    return tuple(Server(f"gb200-r{tray // RACK + 1}-{tray % RACK + 1:02}", GB200, tray, f"rack-{tray // RACK + 1}")
                 for tray in range(nodes))


HARDWARE: Mapping[str, Callable[[int], tuple[Server, ...]]] = {
    "dgx": _parts(A100, V100), "gb200-nvl72": _racks, "mi300x": _parts(MI300X),
    "mixed": _parts(H100, MI300X, GAUDI3, A100)}
"""What a cluster may be made of: half DGX A100, half DGX-1V; NVL72 racks; servers with MI300X; four kinds at once."""
USUAL_NODES = {"dgx": 4, "gb200-nvl72": 2 * RACK, "mi300x": 4, "mixed": 8}
