"""The words for causes: a sentence of evidence, the remedy, and when a run's cause is shown at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...storage.underuse import Cause, CauseTally

LEAST_S = 600.0
"""Time of each GPU that must have been judged before a cause is shown."""
LEAST_SHARE = 0.3
"""Share of the judged time in which a cause must have been seen."""
LEAST_SHARE_IDLE = 0.1
"""The same of GPUs that do nothing while others work: one of eight is an eighth."""

_LABELS: Mapping[Cause, str] = {
    Cause.WAITING_FOR_DATA: "waits for data", Cause.CPU_BOUND: "waits for one thread on its CPUs",
    Cause.SMALL_BATCH: "work too small for the GPU", Cause.MEMORY_BOUND: "bound by the GPU's memory",
    Cause.COMMUNICATION: "waits for links", Cause.ONE_OF_SEVERAL: "only some of its GPUs work",
    Cause.HEAT: "slowed by heat", Cause.POWER: "slowed by a power limit",
    Cause.PRECISION: "matrix units idle in a training", Cause.NONE: "used well", Cause.UNKNOWN: "cause unknown"}
_REMEDIES: Mapping[Cause, str] = {
    Cause.WAITING_FOR_DATA: "Try more data loader workers, prefetching, larger files, or data on a local disk.",
    Cause.CPU_BOUND: "Ask for more CPUs if they are all busy; otherwise launch less from Python (torch.compile, CUDA "
                     "graphs), give each launch more to do, and move preprocessing to workers.",
    Cause.SMALL_BATCH: "Try a larger batch, fused kernels or CUDA graphs, or a share of a GPU (MIG).",
    Cause.MEMORY_BOUND: "Try a larger batch, fused kernels, fewer bits for each number, or a GPU with faster memory; "
                        "the computing units will not be busier otherwise.",
    Cause.COMMUNICATION: "Ask for GPUs that are closer together, overlap communication with computing, accumulate "
                         "gradients over several steps, or use fewer GPUs; where it is PCIe, keep on the GPU what is "
                         "offloaded to the host.",
    Cause.ONE_OF_SEVERAL: "Ask for as many GPUs as work, or start one process for each (torchrun, srun --ntasks).",
    Cause.HEAT: "Look at cooling: inlet temperature, fans, dust, the rack's flow.",
    Cause.POWER: "Look at the power limit (nvidia-smi -q -d POWER) and at the server's power supplies.",
    Cause.PRECISION: "Train in bfloat16 or TF32 (torch.autocast, torch.set_float32_matmul_precision('high'))."}
_EVIDENCE: Mapping[str, str] = {
    "activity": "it worked {} of the time", "engine": "kernels ran {} of the time", "sm": "SMs were {} active",
    "occupancy": "warps filled {} of the SMs", "tensor": "matrix units were {} active",
    "dram": "its memory was {} busy", "fp32": "32 bit units were {} active", "nvlink": "NVLink carried {} of its rate",
    "pcie": "PCIe carried {} of its rate", "fabric": "the network carried {} of its rate",
    "clock": "clocks were at {} of the highest", "heat": "heat held clocks down {} of the time",
    "power": "the power limit held clocks down {} of the time", "brake": "a power brake was on {} of the time",
    "limit": "its power limit was {} of the default", "cpus": "{} of its CPUs worked",
    "disk": "the busiest disk worked {} of the time", "waiting": "processes waited for files {} of the time",
    "busiest": "the busiest GPU of the job worked {} of the time"}


def label(cause: Cause) -> str:
    """Return the text of a cause."""
    return _LABELS[cause]


def remedy(cause: Cause) -> str:
    """Return what to do about it; '' where nothing is known."""
    return _REMEDIES.get(cause, "")


def evidence_text(evidence: Mapping[str, float]) -> tuple[str, ...]:
    """Return what was measured, a clause each."""
    clauses = [_EVIDENCE[name].format(f"{100 * value:.0f} %") for name, value in evidence.items() if name in _EVIDENCE]
    each = evidence.get("cores_per_gpu")
    return (*clauses, f"{each:.1f} cores worked for each GPU") if each is not None else tuple(clauses)


def reported_causes(tallies: Iterable[CauseTally], gpus: float) -> tuple[tuple[CauseTally, float], ...]:
    """Return the causes that were seen long enough to report, with their share of the judged time, longest first."""
    some = list(tallies)
    judged = sum(tally.gpu_seconds for tally in some)
    if judged < LEAST_S * max(1.0, gpus):
        return ()
    shares = [(tally, tally.gpu_seconds / judged) for tally in some if tally.cause.known]
    enough = [(tally, share) for tally, share in shares
              if share >= (LEAST_SHARE_IDLE if tally.cause is Cause.ONE_OF_SEVERAL else LEAST_SHARE)]
    return tuple(sorted(enough, key=lambda item: -item[1]))
