"""The agents of all partitions as one policy: each decides for its partition, and a heuristic for the others.

The queue is the paper's, largest first, and any job that fits may start. Beyond the paper, whose episodes end: a job
that has waited for too long goes first and blocks all others, and a partition is never left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ....storage.flavor import Flavor
from ....storage.records import ModelCard
from ...policies import named
from ...replay.state import Action, Actions, ClusterState, Start
from .. import checkpoint
from ..checkpoint import WEIGHTS, Arrays, CheckpointError
from ..doubts import LARGER, SMALLER
from ..free_resources import somebody_fits
from ..kinds import Objective
from ..observation import observe
from .agent import IMPROVED, GistAgent
from .environment import GpuPartition, demand
from .scheduling_round import SchedulingRound, jobs_in_order
from .site import MOST_FLAVOURS, MOST_SERVERS, flavors_of, misfit, partition_of, queues_of, servers_of, sizes_of

SERVING = replace(IMPROVED, paid_at_end=False, keeps_best=False)
"""§5.2's rewards, which penalise waiting while there is room; U until a terminal job would reward it. Validation on
later history chooses the best weights."""
FALLBACK = "limit-aged+best-fit+easy"
"""Decides where there is no agent."""
LATER_KEYS = "names", "sizes", "among"
"""Keys that models of earlier versions lack."""
STRANGE = 0.5
"""Share of waiting jobs that may be in partitions without an agent."""
FIRST_FIT = "fifo+first-fit"
ServingMode = Literal["listened", "abstains", "first_fit"]
"""Who decides: the agents, the heuristic of partitions without agents, or first fit."""
SERVING_MODES: tuple[ServingMode, ...] = get_args(ServingMode)


class GistPolicy:
    """The trained agents of a cluster, the same object live and replayed."""

    def __init__(self, agents: Mapping[str, GistAgent], card: ModelCard,
                 longest_wait_s: float = Objective().longest_wait_s, mode: ServingMode = "listened") -> None:
        self.name, self.card, self.agents = card.model, card, agents
        self.longest_wait_s, self.mode = longest_wait_s, mode
        self.fallback = FIRST_FIT if mode == "first_fit" else FALLBACK
        self._fallback = named(self.fallback)

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start now."""
        if not somebody_fits(state):
            return ()
        starts: list[Action] = []
        served: set[int] = set()
        observation = observe(state)
        for name, agent in self.agents.items() if self.mode == "listened" else ():
            if unlike(state, name, agent.partition) is None:
                queues = queues_of(state.cluster, state.workload, name)
                jobs = jobs_in_order(state, observation, queues, self.longest_wait_s)
                starts += SchedulingRound(state, observation, agent, jobs).starts(self.longest_wait_s)
                served.update(queues)
        queue = state.arrays.jobs.view(np.ndarray)["queue"][observation.waiting.rows]
        others = set(observation.waiting.rows[~np.isin(queue, list(served))].tolist())
        if others:
            starts += [action for action in self._fallback.decide(_after(state, starts))
                       if isinstance(action, Start) and action.job in others]
        return starts

    def doubt(self, state: ClusterState) -> str | None:
        """Return why the policy should abstain: a partition has changed, or most jobs wait where no agent decides."""
        for name, agent in self.agents.items():
            reason = unlike(state, name, agent.partition)
            if reason is not None:
                return f"partition {name}: {reason}"
        share = self.drift(state)
        return None if share <= STRANGE else f"{share:.0%} of the waiting jobs are in partitions that have no agent"

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs in partitions without an agent, or larger than all of its flavours."""
        jobs = state.arrays.jobs.view(np.ndarray)[state.waiting]
        if not len(jobs):
            return 0.0
        strange = np.ones(len(jobs), bool)
        for queue in np.unique(jobs["queue"]).tolist():
            agent = self.agents.get(partition_of(state.cluster, state.workload, queue) or "")
            of_queue = np.flatnonzero(jobs["queue"] == queue)
            if agent is not None:
                strange[of_queue] = flavors_of(agent.partition, jobs["chunk"][of_queue].astype(np.int64),
                                               np.zeros(len(of_queue))) < 0
        return float(strange.mean())

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return the expected value of each choice, the best first."""
        row = state.arrays.jobs[job]
        name = partition_of(state.cluster, state.workload, int(row.queue)) or ""
        agent = self.agents.get(name)
        if agent is None or unlike(state, name, agent.partition) is not None:
            return (f"no agent for this partition: {self.fallback} decides",)
        if self.mode != "listened":
            return (f"the agents did no better on later days than {self.fallback}, which decides",)
        observation = observe(state)
        return SchedulingRound(state, observation, agent, np.flatnonzero(observation.waiting.rows == job)).reasons(0)


def _after(state: ClusterState, starts: Actions) -> ClusterState:
    """Return the state once these jobs have started: jobs of several partitions may run where an agent has decided."""
    if not starts:
        return state
    later = state.copy()
    later.apply(starts)
    return later


def unlike(state: ClusterState, name: str, trained: GpuPartition) -> str | None:
    """Return how a partition differs from what its agent was trained on; None when it does not."""
    if name not in state.cluster.partitions:
        return "the cluster has no partition of this name any more"
    reason = misfit(state.cluster, name)
    if reason is not None:
        return reason
    if trained.among:
        return _other_site(len(servers_of(state.cluster, name)), sizes_of(state.cluster, name)[0][-1][0], trained)
    sizes, trained_sizes = ([size[0] for size in servers] for servers in (
        sizes_of(state.cluster, name)[0], trained.sizes or [trained.server] * trained.servers))
    count = len(servers_of(state.cluster, name))
    if (count, sizes) == (trained.servers, trained_sizes):
        return None
    return (f"it has {count} servers of {_sizes_text(sizes)} GPUs and the agent was trained on {trained.servers} of "
            f"{_sizes_text(trained_sizes)}; train it anew")


def _other_site(servers: int, largest: int, trained: GpuPartition) -> str | None:
    """Return why an agent trained on some of many servers does not fit this number or size of servers; else None."""
    low, high = max(MOST_SERVERS + 1.0, SMALLER * trained.among), LARGER * trained.among
    if low <= servers <= high and largest == trained.server[0]:
        return None
    return (f"it has {servers} servers of up to {largest} GPUs; trained on {trained.among} of up to "
            f"{trained.server[0]}, the agent is known to hold from {low:.0f} to {high:.0f} of them")


def _sizes_text(gpus: Iterable[int]) -> str:
    """Return the different sizes of servers in words."""
    return " or ".join(map(str, sorted(set(gpus))))


def save(folder: Path, agents: Mapping[str, GistAgent], card: ModelCard, longest_wait_s: float,
         mode: ServingMode = "listened") -> ModelCard:
    """Write all agents into one file, with their partitions and the serving mode."""
    arrays: dict[str, NDArray[np.generic]] = {"longest_wait_s": np.array([longest_wait_s])}
    if mode != "listened":  # as all were before
        arrays["manner"] = np.array([SERVING_MODES.index(mode)], np.int64)
    for name, agent in agents.items():
        flavors = (*agent.partition.flavors, agent.partition.terminal)
        arrays[f"{name}/flavors"] = np.array([(*demand(flavor), flavor.limit_s) for flavor in flavors], np.float64)
        flavor_names = "\n".join(flavor.name.replace("\n", " ") for flavor in flavors).encode()
        arrays[f"{name}/names"] = np.frombuffer(flavor_names, np.uint8)
        arrays[f"{name}/servers"] = np.array([agent.partition.servers], np.int64)
        if agent.partition.sizes or agent.partition.among:
            arrays[f"{name}/sizes"] = np.array(agent.partition.sizes, np.int64).reshape(-1, 3)
            arrays[f"{name}/among"] = np.array([agent.partition.among], np.int64)
        arrays |= {f"{name}/{layer}": array for layer, array in agent.weights.items()}
    return checkpoint.save(folder, card, arrays, schema(agents))


def schema(agents: Mapping[str, GistAgent]) -> dict[str, object]:
    """Return what the weights must have been trained for to fit."""
    return {"agent": "gist_mdrl", "partitions": {name: agent.schema() for name, agent in agents.items()}}


def load(folder: Path) -> GistPolicy:
    """Return saved agents; ``CheckpointError`` when they are not whole or not of this code."""
    stored, _ = checkpoint.verified(folder)
    partitions, mode = _partitions(folder / WEIGHTS, stored), _mode(folder / WEIGHTS, stored)
    agents = {name: GistAgent(partition, SERVING) for name, (partition, _) in partitions.items()}
    like: dict[str, NDArray[np.generic]] = {"longest_wait_s": np.zeros(1)}
    for name, agent in agents.items():
        like |= {f"{name}/{layer}": array for layer, array in agent.weights.items()}
        like |= {f"{name}/flavors": np.zeros((len(agent.partition.flavors) + 1, 4)),
                 f"{name}/servers": np.zeros(1, np.int64)}
        like |= {f"{name}/{key}": array for key, array in partitions[name][1].items()}
    like |= {} if mode is None else {"manner": np.zeros(1, np.int64)}
    arrays: Mapping[str, NDArray[np.generic]]
    arrays, card = checkpoint.load(folder, schema(agents), like=like)
    for name, agent in agents.items():
        agent.weights = {layer: arrays[f"{name}/{layer}"] for layer in agent.weights}
    return GistPolicy(agents, card, float(arrays["longest_wait_s"][0]), mode or "listened")


def _mode(path: Path, arrays: Arrays) -> ServingMode | None:
    """Return the serving mode of a file; None where it has none."""
    stored = arrays.get("manner")
    if stored is None:
        return None
    if stored.shape != (1,) or stored.dtype != np.int64 or not 0 <= int(stored[0]) < len(SERVING_MODES):
        raise CheckpointError(f"{path}: does not say whether its agents are listened to; train it anew")
    return SERVING_MODES[int(stored[0])]


def _partitions(path: Path, arrays: Arrays) -> dict[str, tuple[GpuPartition, dict[str, Any]]]:
    """Return the partitions that a file has agents for, and their arrays of later versions."""
    try:
        partitions = {name: (arrays[key], int(arrays[f"{name}/servers"][0]), {
            later: arrays[f"{name}/{later}"] for later in LATER_KEYS if f"{name}/{later}" in arrays})
                      for key in sorted(arrays) if key.endswith("/flavors") for name in (key.rpartition("/")[0],)}
    except (KeyError, ValueError, OverflowError, TypeError, IndexError) as error:
        raise CheckpointError(f"{path}: does not say which partitions it is for; train it anew") from error
    if not partitions or not all(_sensible(*stored) for stored in partitions.values()):
        raise CheckpointError(f"{path}: its partitions make no sense; train it anew")
    return {name: (_partition(name, *stored), stored[2]) for name, stored in partitions.items()}


def _sensible(flavors: Any, servers: int, later: Mapping[str, Any]) -> bool:
    names, sizes, among = (later.get(key) for key in LATER_KEYS)
    if flavors.ndim != 2 or flavors.shape[1] != 4 or flavors.dtype.kind not in "fiu":
        return False
    if names is not None and (names.ndim != 1 or names.dtype != np.uint8 or len(_names(names)) != len(flavors)):
        return False
    if sizes is not None and (sizes.shape not in ((0, 3), (servers, 3)) or sizes.dtype != np.int64
                              or (sizes < 0).any()):
        return False
    if among is not None and (among.shape != (1,) or among.dtype != np.int64 or among[0] < 0):
        return False
    return bool(2 <= len(flavors) <= MOST_FLAVOURS + 1
                and np.isfinite(flavors).all() and (flavors >= 0).all() and flavors[-1, 0] >= servers
                and 2 <= servers <= MOST_SERVERS)


def _names(names: Any) -> list[str]:
    return names.tobytes().decode("utf-8", "replace").split("\n") if names is not None else []


def _partition(name: str, rows: Any, servers: int, later: Mapping[str, Any]) -> GpuPartition:
    total = int(rows[-1, 0])
    names, sizes, among = (later.get(key) for key in LATER_KEYS)
    flavor_names = _names(names) or [f"{row[0]:.0f}-gpu" for row in rows[:-1].tolist()] + ["all"]
    flavors = tuple(Flavor(flavor, int(gpus), int(cpus), int(memory), float(limit_s), gpus / total)
                    for flavor, (gpus, cpus, memory, limit_s) in zip(flavor_names, rows.tolist(), strict=True))
    return GpuPartition(name, flavors[:-1], flavors[-1], servers, 0.0,
                        () if sizes is None else tuple((gpus, cpus, memory) for gpus, cpus, memory in sizes.tolist()),
                        0 if among is None else int(among[0]))
