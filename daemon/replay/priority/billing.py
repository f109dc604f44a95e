"""What jobs are charged: CPUs, or the weighted sum of all that they hold where their partition says so.

Shares are computed from it, and PriorityWeightTRES may weigh it. Resources have the names that ceilings have: ``cpu``,
``mem`` (bytes), ``node``, ``gpu``, ``gpu:a100``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ....storage.charges import Charge
    from .. import arrays as a
    from ..cluster import Cluster
    from ..workload import Workload
    from .factors import Claims
    from .site import Scheduling

Floats = NDArray[np.float64]
Held = Mapping[str, Floats]
"""Amounts by resource."""
Weights = Mapping[str, float]
_LARGEST_COUNTS, _LARGEST_COUNTS_BUT_GPUS = "MAX_TRES", "MAX_TRES_GRES"
_MOST = 1 << 50
"""Stands for "any number" where the memory or CPUs of nodes are not known."""


def billed(weights: Weights, held: Held, flags: frozenset[str] = frozenset()) -> Floats:
    """Return what holders are charged for a second; without weights that is the number of their CPUs.

    It is the weighted sum. With ``MAX_TRES`` it is the largest of the weighted amounts, with ``MAX_TRES_GRES`` the
    largest without GPUs, and GPUs besides. What nobody tells of jobs, as licences, is not in it.
    """
    if not weights:
        return held["cpu"]
    nothing = np.zeros_like(held["cpu"])
    parts = {name: weight * held[name] for name, weight in weights.items() if name in held}
    gpus = [part for name, part in parts.items() if is_gpu(name)]
    others = [part for name, part in parts.items() if not is_gpu(name)]
    if _LARGEST_COUNTS in flags:
        return np.max([nothing, *gpus, *others], axis=0)
    if _LARGEST_COUNTS_BUT_GPUS in flags:
        return np.max([nothing, *others], axis=0) + np.sum([nothing, *gpus], axis=0)
    return np.sum([nothing, *gpus, *others], axis=0)


def gpus_of(model: str) -> str:
    """Return the name of GPUs of a model; however that is written, it is the same."""
    return f"gpu:{model.lower()}"


def is_gpu(name: str) -> bool:
    """Tell whether a resource is GPUs, of a model or of any."""
    return name.partition(":")[0] == "gpu"


def known(name: str) -> bool:
    """Tell whether replays know how much of a resource a job holds."""
    return name in ("cpu", "mem", "node") or is_gpu(name)


def charged_of_jobs(cluster: Cluster, workload: Workload, claims: Claims) -> Floats:
    """Return what each job is charged for a second once it runs, by what it asks for."""
    return _by_partition(cluster.scheduling, workload.partition_names, workload.partition,
                         _held(cluster, workload, claims))


@dataclass(frozen=True)
class Bill:
    """What jobs are charged for a second: GPUs are of the model that a job was given, whether it asked for it or not.

    Slurm counts what is allocated (``gres/gpu=2,gres/gpu:a100=2`` of ``--gres=gpu:2``).
    """

    asked: Floats
    """By what they ask for."""
    given: tuple[tuple[NDArray[np.bool_], Floats], ...] = ()
    """The nodes with GPUs of each model that is charged for by itself, and what jobs that ask for none are charged
    there beyond ``asked``."""

    @classmethod
    def of(cls, cluster: Cluster, workload: Workload, claims: Claims, factor: Floats | float) -> Bill:
        """Return what jobs are charged, times a factor."""
        asked = charged_of_jobs(cluster, workload, claims)
        charges = {name for weights in cluster.scheduling.billing.values() for name in weights}
        # Which of several types a node gave is not known.
        held, models = _held(cluster, workload, claims), np.array([
            "" if row in cluster.mixed else gpus_of(model) for row, model in enumerate(cluster.model)])
        given = []
        for name in sorted(charges & set(models.tolist())):
            there = {**held, name: np.where(workload.model < 0, held["gpu"], held.get(name, 0.0))}
            more = _by_partition(cluster.scheduling, workload.partition_names, workload.partition, there) - asked
            given.append((models == name, more * factor))
        return cls(asked * factor, tuple(given))

    def where_held(self, arrays: a.State, rows: NDArray[np.int64]) -> Floats:
        """Return what jobs are charged on the nodes that they hold, or held last."""
        if not self.given or not rows.size:
            return self.asked[rows]
        counts = arrays.jobs["nodes_held"][rows].astype(np.int64)
        owner = np.repeat(np.arange(rows.size), counts)
        first = arrays.jobs["held"][rows] - (np.cumsum(counts) - counts)
        parts = arrays.held[first[owner] + np.arange(owner.size)]
        gpus = np.bincount(owner, parts["gpus"], rows.size)
        weight = np.where(gpus[owner] > 0, parts["gpus"], 1)  # one that shares no node has all GPUs of each
        total, whole = self.asked[rows], np.maximum(np.bincount(owner, weight, rows.size), 1)
        for nodes, more in self.given:
            total = total + more[rows] * np.bincount(owner, weight * nodes[parts["node"]], rows.size) / whole
        return total


def _held(cluster: Cluster, workload: Workload, claims: Claims) -> dict[str, Floats]:
    """Return what each job holds once it runs, as far as what it asks for tells."""
    held = _requested(workload, claims)
    # A job that shares no node is charged for all of its CPUs and GPUs, and for the memory that it requested.
    alone = workload.exclusive > 0
    if alone.any():
        cpus, gpus = (claims.nodes * _of_a_node(cluster, workload, column) for column in (cluster.cpus, cluster.gpus))
        held = {**held, "cpu": np.where(alone, cpus, claims.cpus),
                **{name: np.where(alone & (amount > 0), gpus, amount) for name, amount in held.items() if is_gpu(name)},
                "gpu": np.where(alone, gpus, held["gpu"])}
    return held


def charged_of_runs(scheduling: Scheduling, runs: Sequence[Charge]) -> Floats:
    """Return what recorded runs were charged for a second."""
    gpus, models = _column(run.gpus for run in runs), [run.gpu_model.lower() for run in runs]
    held = {"cpu": _column(run.cpus for run in runs), "mem": _column(run.memory_bytes for run in runs),
            "node": _column(run.nodes for run in runs), "gpu": gpus,
            **{gpus_of(model): gpus * np.array([model == other for other in models], bool)
               for model in set(models) if model}}
    numbers: dict[str, int] = {}
    code = np.array([numbers.setdefault(run.partition, len(numbers)) for run in runs], np.int64)
    return _by_partition(scheduling, tuple(numbers), code, held)


def _column(values: Iterable[float]) -> Floats:
    return np.fromiter(values, np.float64)


def _of_a_node(cluster: Cluster, workload: Workload, column: NDArray[np.int64]) -> Floats:
    """Return for each job what a usual node of its partition has."""
    return np.array([float(np.median(column[mask])) if mask.any() else 0.0
                     for mask in _members(cluster, workload)])[workload.partition]


def _members(cluster: Cluster, workload: Workload) -> list[NDArray[np.bool_]]:
    """Return the nodes of each partition, of several names with commas those of any; all where none is known."""
    known_parts = ([cluster.partitions[part] for part in (name, *name.split(",")) if part in cluster.partitions]
                   for name in workload.partition_names)
    return [np.logical_or.reduce(parts) if parts else np.ones(len(cluster), bool) for parts in known_parts]


def requested_and_available(cluster: Cluster, workload: Workload, claims: Claims) -> dict[str, tuple[Floats, Floats]]:
    """Return what jobs ask for and what their partitions have, by the name that PriorityWeightTRES has for it."""
    requested, available = _requested(workload, claims), _there(cluster, workload)
    names, scheduling = workload.partition_names, cluster.scheduling
    code = np.arange(len(names))
    # Slurm counts whole units of what is charged.
    billing = np.trunc(_by_partition(scheduling, names, workload.partition, requested))
    most = np.trunc(_by_partition(scheduling, names, code, available))
    return {**{f"gres/{name}" if is_gpu(name) else name: (amount, available[name][workload.partition])
               for name, amount in requested.items()}, "billing": (billing, most[workload.partition])}


def _requested(workload: Workload, claims: Claims) -> dict[str, Floats]:
    gpus = workload.gpus.astype(np.float64)
    held = {"cpu": claims.cpus, "mem": workload.memory.astype(np.float64), "gpu": gpus, "node": claims.nodes}
    for code, model in enumerate(workload.model_names):
        held[gpus_of(model)] = held.get(gpus_of(model), 0.0) + gpus * (workload.model == code)
    return held


def _there(cluster: Cluster, workload: Workload) -> dict[str, Floats]:
    """Return what each partition has."""
    members = _members(cluster, workload)
    models = np.array([model.lower() for model in cluster.model])

    def total(column: NDArray[np.int64]) -> Floats:
        return np.array([float(np.minimum(column, _MOST)[mask].sum()) for mask in members])

    return {"cpu": total(cluster.cpus), "mem": total(cluster.memory), "gpu": total(cluster.gpus),
            "node": np.array([float(mask.sum()) for mask in members]),
            **{gpus_of(model): total(cluster.gpus * (models == model.lower())) for model in workload.model_names}}


def _by_partition(scheduling: Scheduling, names: Sequence[str], code: NDArray[np.integer], held: Held) -> Floats:
    """Return what each row is charged by the weights of its partition."""
    charged, flags = held["cpu"].astype(np.float64), scheduling.priority.flags
    for number, name in enumerate(names):
        weights = scheduling.weights_of(name)
        if weights:
            rows = code == number
            charged[rows] = billed(weights, {resource: amount[rows] for resource, amount in held.items()}, flags)
    return charged
