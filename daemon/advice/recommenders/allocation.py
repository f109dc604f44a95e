"""What each job should have of its node's CPUs and memory, what that is worth to it, and whose they would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from ....storage.durations import Duration
from ....storage.shares import ShareAdvice
from ..recommender import Recommender, RecommenderKind, RecommenderSettings, register

if TYPE_CHECKING:
    from ....storage.history import History


class Settings(RecommenderSettings):
    """How use is measured, and what of it is left to a job."""

    every: Duration = 15.0
    """As often as the exporters are scraped: use is measured in this cycle."""
    window: Annotated[Duration, Field(gt=0)] = 1800.0
    """What a job has not used for so long may be offered to others."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.15
    """What a job is left above what it uses, as a share of that; Kubernetes' vertical autoscaler leaves as much."""
    starved: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of its CPUs in use from which a job counts as at its limit."""
    models: dict[str, str] = {}
    """By pattern of job names, the model or task whose sensitivity is assumed until it is measured."""

    @field_validator("models")
    @classmethod
    def _known(cls, models: dict[str, str]) -> dict[str, str]:
        from ...replay.fungible import PRIORS, TASKS

        for model in models.values():
            if model not in PRIORS and model not in TASKS:
                raise ValueError(f"there is no model {model!r}; there are {', '.join((*TASKS, *PRIORS))}")
        return models


def _open(settings: Settings, history: History) -> Recommender:
    from ..rightsizing.recommender import ShareRecommender

    return ShareRecommender(settings, history)


_COLUMNS = {"job_id": "job", "state": "state", "node": "node", "gpus": "GPUs", "cores": "cores", "memory": "memory",
            "gain": "sooner", "basis": "known by", "reason": "why", "request": "ask Slurm for"}


def _cells(row: Mapping[str, Any]) -> Mapping[str, Any]:
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


register(RecommenderKind("allocation", ShareAdvice, Settings, _open, _COLUMNS, _cells, empty="no job runs"))
