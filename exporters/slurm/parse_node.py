"""Nodes in the JSON of Slurm's commands and of slurmrestd: what they have, and what of it is taken."""

from __future__ import annotations

from ...storage.records import Node
from .fields import Fields
from .gres import parse_gres, parse_models, parse_parts, parse_tres
from .parse_json import MIB
from .parse_rules import named
from .states import node_state, wakes


def parse_node(raw: Fields) -> Node:
    """Return a node of ``nodes``."""
    gpus, used = parse_gres(",".join(raw.texts("gres"))), parse_gres(",".join(raw.texts("gres_used")))
    parts, parted = parse_parts(",".join(raw.texts("gres"))), parse_parts(",".join(raw.texts("gres_used")))
    # A GPU of which a part is taken is not handed out whole.
    broken = {index for part in parted for index in part.indexes} - set(used.indexes or ())
    models = parse_models(",".join(raw.texts("gres")))
    total_tres = parse_tres(raw.text("tres")).gpus
    return Node(
        name=named(raw),
        partitions=raw.texts("partitions"),
        gpus=gpus.count or (total_tres.count if total_tres else 0),
        gpu_model=gpus.model,
        gpu_models=models if len(models) > 1 else (),
        cpus=raw.integer("effective_cpus") or raw.integer("cpus") or 0,
        memory_bytes=max(0, (raw.integer("real_memory") or 0) - (raw.integer("specialized_memory") or 0)) * MIB,
        state=node_state(raw.texts("state") + raw.texts("state_flags")),
        features=raw.texts("active_features") or raw.texts("features"),
        cpus_allocated=raw.integer("alloc_cpus") or 0,
        memory_allocated_bytes=(raw.integer("alloc_memory") or 0) * MIB,
        gpus_allocated=used.count + len(broken),
        gpu_indexes_allocated=_and(used.indexes, broken) if gpus.count else (),
        slices=tuple((part.kind, part.count, _taken(raw.text("tres_used"), part.kind)) for part in parts),
        reservation=raw.text("reservation"),
        reason=raw.text("reason"),
        threads_per_core=_threads(raw),
        sockets=raw.integer("sockets") or 0,
        gpus_bound="(S:" in ",".join(raw.texts("gres")),
        owner=raw.text("owner") if raw.is_text("owner") else str(raw.integer("owner") or ""),
        wakes=wakes(raw.texts("state") + raw.texts("state_flags")),
    )


def _threads(raw: Fields) -> int:
    """Return the CPUs of a core; where a node is configured with no more CPUs than cores, Slurm knows one of each."""
    cores = (raw.integer("sockets") or 0) * (raw.integer("cores") or 0)
    return 1 if cores >= (raw.integer("cpus") or 0) and cores else raw.integer("threads") or 1


def _and(indexes: tuple[int, ...] | None, more: set[int]) -> tuple[int, ...] | None:
    return tuple(sorted({*indexes, *more})) if indexes is not None and more else indexes


def _taken(tres: str, kind: str) -> int:
    """Return how many parts of a kind are in use, of ``cpu=8,gres/gpu=2,gres/shard=6``."""
    return next((int(amount) for name, _, amount in (part.partition("=") for part in tres.split(","))
                 if name == f"gres/{kind}" and amount.isdecimal() and len(amount) < 10), 0)
