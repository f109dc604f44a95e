"""The two kinds of server of the GIST AI-X cluster (paper, section 6.2) and what they draw."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Model:
    """A server with eight GPUs of one kind; watts, bytes and MiB as named."""

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


def servers(nodes: int) -> tuple[Server, ...]:
    """Return ``nodes`` servers, half DGX A100 and half DGX-1V (the odd one is an A100)."""
    if not 1 <= nodes <= 1000:
        raise ValueError(f"a cluster of 1 to 1000 nodes can be simulated, not {nodes}")
    width = max(2, len(str(nodes)))
    halves = ((A100, nodes - nodes // 2), (V100, nodes // 2))
    return tuple(Server(f"{model.host_prefix}-{number:0{width}}", model)
                 for model, count in halves for number in range(1, count + 1))
