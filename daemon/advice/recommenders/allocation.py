"""What each job should have of its node's CPUs and memory, what that is worth to it, and which jobs would give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....storage.shares import ShareAdvice
from ..recommender import RecommenderKind, register
from ..rightsizing.recommender import ShareRecommender

_COLUMNS = {"job_id": "job", "state": "state", "node": "node", "gpus": "GPUs", "cores": "cores", "memory": "memory",
            "gain": "sooner", "basis": "data source", "reason": "why", "request": "ask for"}


def _cells(row: Mapping[str, Any]) -> Mapping[str, object]:
    nodes = row["nodes"]
    memory, advised = (f"{row[name] / 2**30:.0f}" for name in ("memory_bytes", "memory_advised_bytes"))
    return {**row, "node": nodes[0] + (f" (+{len(nodes) - 1})" if len(nodes) > 1 else ""),
            "cores": _change(str(row["cpus"]), str(row["cpus_advised"])), "memory": f"{_change(memory, advised)} GiB",
            "gain": _gain(row), "request": row["request"] or None}


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} \N{RIGHTWARDS ARROW} {after}"


def _gain(row: Mapping[str, Any]) -> str | None:
    """Return how much sooner a job ends, in brackets the 95 % interval, or starts."""
    if row["starts_sooner_s"] is not None:
        return f"{row['starts_sooner_s'] / 3600:.1f} h"
    if not row["sooner_ratio"]:  # nobody knows, or nothing changes
        return None
    low, high = (f"{100 * bound:.0f}" for bound in row["sooner_interval"])
    return f"{100 * row['sooner_ratio']:.0f} % ({low} to {high})"


register(RecommenderKind("allocation", ShareAdvice, ShareRecommender, _COLUMNS, _cells, empty="no job runs"))
