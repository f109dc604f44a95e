"""What a job asks for beyond its totals, from the JSON of ``squeue`` and slurmrestd.

Names by version, as ``Fields`` finds them: numbers are bare up to 22.05 and wrapped after; ``gres:gpu:4`` became
``gres/gpu:4``; ``shared`` became a list; switches are reported from data_parser v0.0.39 on, 22.05 hides them.
"""

from __future__ import annotations

import re

from ...storage.details import Details
from .fields import BadRecord, Fields
from .gres import Gpus, parse_gres, parse_others

MIB = 2**20
_REQUESTED = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")
_SWITCHES = ("required_switches", "minimum_switches")
_SWITCH_WAIT = "maximum_switch_wait_time"
_PER_GPU = re.compile(r"(?:gres[:/])?gpu(?::[^:=,]*[^:=,\d][^:=,]*)?[:=](\d{1,15})")


def parse_details(raw: Fields, submit_s: float | None) -> Details:
    """Return the details of a job's request."""
    memory_per_node, memory_per_cpu = raw.integer("memory_per_node"), raw.integer("memory_per_cpu")
    memory_set = "JOB_MEM_SET" in raw.texts("flags")
    # With --mem=0 the partition's default by GPU is reported too, but does not count.
    all_of_it = memory_set and not (memory_per_node or memory_per_cpu)
    per_gpu = 0 if all_of_it else _per_gpu(raw.text("memory_per_tres")) * MIB
    shared = {word.lower() for word in raw.texts("shared")}
    return Details(
        most_nodes=raw.integer("max_nodes") or 0,
        nodes_expected=raw.integer("node_count") or 0,
        cpus_per_gpu=_per_gpu(raw.text("cpus_per_tres")),
        memory_per_gpu_bytes=per_gpu,
        cpus_per_node=raw.integer("minimum_cpus_per_node") or 0,
        memory_per_node_bytes=(memory_per_node or 0) * MIB,
        memory_per_cpu_bytes=(memory_per_cpu or 0) * MIB,
        # Of --mem=0 neither is reported, nor of jobs that were never given a default.
        whole_memory=_tells_memory(raw) and not (memory_per_node or memory_per_cpu or per_gpu),
        memory_said=memory_set,
        gpus_per_task=parse_gres(raw.text("tres_per_task")).count,
        gpus_per_socket=parse_gres(raw.text("tres_per_socket")).count,
        tasks=raw.integer("tasks") or 1,
        tasks_per_node=raw.integer("tasks_per_node") or 0,
        one_thread_per_core=raw.integer("threads_per_core") == 1,
        contiguous=bool(raw.flag("contiguous")),
        switches=_switches(raw),
        switches_until_s=_switches_until(raw, submit_s),
        licenses=raw.text("licenses"),
        exclusive_user=bool(shared & {"user", "mcs"}),
        disk_bytes=(raw.integer("minimum_tmp_disk_per_node") or 0) * MIB,
        # How many shards of which GPU are free Slurm does not report, and of MPS it uses one GPU of a node at a time.
        unknown=tuple(dict.fromkeys(
            f"where {licence} is free" for name in _REQUESTED for licence in parse_others(raw.text(name)))),
    )


def parse_nice(raw: Fields) -> int | None:
    """Return what is taken off a job's priority; None where a version does not tell, while 22.05 writes null for 0."""
    return (raw.signed("nice") or 0) if raw.has("nice") else None


def _tells_memory(raw: Fields) -> bool:
    """Tell whether this version writes both fields of memory, be it as null."""
    return raw.has("memory_per_node") and raw.has("memory_per_cpu")


def _per_gpu(text: str) -> int:
    """Return the amount for each GPU of ``gres:gpu:8``, ``gres/gpu:8`` or ``gres:gpu:a100:8``; 0 for none."""
    match = _PER_GPU.search(text)
    return int(match[1]) if match else 0


def _switches(raw: Fields) -> int | None:
    known = next((name for name in _SWITCHES if raw.has(name)), None)
    return None if known is None else raw.integer(known) or 0


def _switches_until(raw: Fields, submit_s: float | None) -> float | None:
    try:
        wait = raw.integer(_SWITCH_WAIT)
    except BadRecord:
        return None
    return None if not wait or submit_s is None else submit_s + wait


def requested_gpus(raw: Fields, total: Gpus | None, per_node: Gpus, nodes: int) -> Gpus:
    """Return all GPUs requested; where Slurm does not account for GPUs, what --gpus, --gres and the like say."""
    per_job, per_task = parse_gres(raw.text("tres_per_job")), parse_gres(raw.text("tres_per_task"))
    per_socket = parse_gres(raw.text("tres_per_socket"))
    options = (per_job, Gpus(per_node.count * nodes, per_node.model),
             Gpus(per_task.count * (raw.integer("tasks") or 1), per_task.model),
             Gpus(per_socket.count * (raw.integer("sockets_per_node") or 1) * nodes, per_socket.model))
    model = next((gpus.model for gpus in (total or Gpus(), *options) if gpus.model), "")
    count = total.count if total else next((gpus.count for gpus in options if gpus.count), 0)
    return Gpus(count, model)


def requested_memory(raw: Fields, nodes: int, cpus: int) -> int:
    """Return the bytes requested over all nodes, where Slurm does not account for memory."""
    per_node, per_cpu = raw.integer("memory_per_node"), raw.integer("memory_per_cpu")
    return ((per_node or 0) * nodes or (per_cpu or 0) * cpus) * MIB
