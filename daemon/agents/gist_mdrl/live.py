"""The agents of all partitions as one policy: each decides for its own, a heuristic where there is none.

The queue is the paper's, largest first, and whoever fits may start. What the paper need not care about, for its
episodes end, is added: who has waited too long goes first and is waited for, and a partition is never left empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ....storage.flavor import Flavor
from ....storage.records import ModelCard
from ...policies import named
from ...replay.arrays import WAITING
from ...replay.state import Actions, ClusterState, Start
from .. import checkpoint
from ..checkpoint import WEIGHTS, CheckpointError
from ..kinds import Objective
from .agent import IMPROVED, GistAgent
from .environment import Decision, Partition, demand
from .network import q_values
from .site import MOST_SERVERS, flavor_of, misfit, partition_of, queues_of

SERVING = replace(IMPROVED, paid_at_end=False, keeps_best=False)
"""§5.2's rewards, which punish letting a job wait though there is room: U until a terminal job would reward that. The
best weights are told by later history."""
FALLBACK = "limit-aged+best-fit+easy"
"""Decides where there is no agent."""
PROMPT_S = 60.0
"""A job that waits for longer comes from the queue."""
MOST_LOOKED_AT = 128
"""Waiting jobs of a partition that are considered at a time."""
MOST_REASONS = 3
STRANGE = 0.5
"""Share of waiting jobs that may be in partitions without an agent."""


class GistPolicy:
    """The trained agents of a cluster, the same object live and replayed."""

    def __init__(self, agents: Mapping[str, GistAgent], card: ModelCard,
                 longest_wait_s: float = Objective().longest_wait_s) -> None:
        self.name, self.card, self.agents = card.model, card, agents
        self.longest_wait_s = longest_wait_s
        self._fallback = named(FALLBACK)

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start now."""
        starts: list[Start] = []
        served: set[int] = set()
        for name, agent in self.agents.items():
            if unlike(state, name, agent.partition) is None:
                desk = Desk(state, name, agent)
                starts += desk.starts(self.longest_wait_s)
                served.update(desk.queues)
        waiting = state.waiting
        others = {job for job, queue in zip(waiting.tolist(), state.arrays.jobs.queue[waiting].tolist(), strict=True)
                  if queue not in served}
        if others:
            starts += [action for action in self._fallback.decide(state)
                       if isinstance(action, Start) and action.job in others]
        return starts

    def doubt(self, state: ClusterState) -> str | None:
        """Return why its word should not be taken: a partition has changed, or most jobs wait where it has no agent."""
        for name, agent in self.agents.items():
            why = unlike(state, name, agent.partition)
            if why is not None:
                return f"partition {name}: {why}"
        share = self.drift(state)
        return None if share <= STRANGE else f"{share:.0%} of the waiting jobs are in partitions that have no agent"

    def drift(self, state: ClusterState) -> float:
        """Return the share of waiting jobs in partitions that have no agent, or are larger than any it has met."""
        waiting = state.waiting
        jobs = state.arrays.jobs[waiting]
        asked = zip(jobs.queue.tolist(), jobs.chunk.tolist(), strict=True)
        strange = sum(not self._knows(state, queue, gpus) for queue, gpus in asked)
        return strange / len(waiting) if len(waiting) else 0.0

    def _knows(self, state: ClusterState, queue: int, gpus: int) -> bool:
        agent = self.agents.get(partition_of(state.cluster, state.workload, queue) or "")
        return agent is not None and flavor_of(agent.partition, gpus) is not None

    def reasons(self, state: ClusterState, job: int) -> tuple[str, ...]:
        """Return what each choice is expected to be worth, the best first."""
        row = state.arrays.jobs[job]
        name = partition_of(state.cluster, state.workload, int(row.queue)) or ""
        agent = self.agents.get(name)
        if agent is None or unlike(state, name, agent.partition) is not None:
            return (f"no agent for this partition: {FALLBACK} decides",)
        return Desk(state, name, agent).reasons(job)


def unlike(state: ClusterState, name: str, trained: Partition) -> str | None:
    """Return how a partition differs from what its agent was trained on; None when it does not."""
    if name not in state.cluster.partitions:
        return "the cluster has no partition of this name any more"
    why = misfit(state.cluster, name)
    if why is not None:
        return why
    servers = np.flatnonzero(state.cluster.partitions[name])
    now, then = (len(servers), int(state.cluster.gpus[servers[0]])), (trained.servers, trained.server[0])
    return None if now == then else (f"it has {now[0]} servers of {now[1]} GPUs and the agent was trained on {then[0]} "
                                     f"of {then[1]}; train it anew")


class Desk:
    """One partition at one moment, as its agent sees it, while jobs are placed one by one."""

    def __init__(self, state: ClusterState, name: str, agent: GistAgent) -> None:
        self._state, self._agent, self._partition = state, agent, agent.partition
        self.queues = queues_of(state.cluster, state.workload, name)
        self._servers = np.flatnonzero(state.cluster.partitions[name])
        nodes = state.arrays.nodes[self._servers]
        self._free = np.stack([nodes.free_gpus, nodes.free_cpus, nodes.free_memory], axis=1) * nodes.open[:, None]
        self._busy = nodes.busy.copy()
        self._open = nodes.open == 1
        jobs = state.arrays.jobs
        self._waiting = np.flatnonzero((jobs.status == WAITING) & np.isin(jobs.queue, self.queues))
        self._flavor = {job: self._flavor_of(job) for job in self._waiting.tolist()}
        self._queued = [list(self._flavor.values()).count(flavor) for flavor in range(len(self._partition.flavors))]
        self._remaining = self._remaining_s()

    def starts(self, longest_wait_s: float) -> Iterator[Start]:
        """Yield what to start now."""
        jobs, now, running = self._state.arrays.jobs, self._state.now, bool(self._busy.any())
        held = None
        for job in self._line(longest_wait_s):
            late, room = now - jobs[job].submit > longest_wait_s, self._room(job)
            flavor = self._flavor[job]
            servers: Sequence[int] | None
            if flavor is None or late:
                servers = self._first_fit(job, room)
            else:
                server = self._choose(job, flavor, room) if room.any() else None
                servers = None if server is None else [server]
            if servers is not None:
                running = True
                yield self._start(job, servers)
            elif late:
                return  # nobody overtakes who has waited for so long
            elif held is None and room.any():
                held = job
        servers = None if running or held is None else self._first_fit(held, self._room(held))
        if held is not None and servers is not None:
            yield self._start(held, servers)  # nothing would happen that could change the agent's mind

    def reasons(self, job: int) -> tuple[str, ...]:
        """Return what each choice for a waiting job is worth by its agent, the best first."""
        flavor, room = self._flavor.get(job), self._room(job)
        if flavor is None:
            return ("takes several servers: the first with room, as the paper's largest jobs",)
        if not room.any():
            return ("no server of the partition has room",)
        decision = self._decision(job, flavor, room)
        q = q_values(self._agent.weights, self._agent.eyes.look(decision))
        worth = {self._agent.eyes.meant(decision, int(chosen)): float(q[chosen])
                 for chosen in np.flatnonzero(self._agent.eyes.allowed(decision))}
        names = self._state.cluster.names
        told = []
        for action, value in sorted(worth.items(), key=lambda item: -item[1])[:MOST_REASONS]:
            server = self._server(flavor, action)
            told.append(f"{'waiting' if server is None else names[self._servers[server]]} is worth {value:+.2f}")
        return tuple(told)

    def _line(self, longest_wait_s: float) -> list[int]:
        """Return the waiting jobs in the order of the queue."""
        jobs, now = self._state.arrays.jobs[self._waiting], self._state.now
        late = now - jobs.submit > longest_wait_s
        order = np.lexsort((jobs.submit, np.where(late, 0, -jobs.gpus), ~late))
        return [int(job) for job in self._waiting[order[:MOST_LOOKED_AT]]]

    def _flavor_of(self, job: int) -> int | None:
        """Return the flavour of a job that one server holds."""
        row = self._state.arrays.jobs[job]
        if row.chunks != 1 or row.rest != 0:
            return None
        return flavor_of(self._partition, int(row.chunk), float(row.limit))

    def _limit_s(self, job: int) -> float:
        """Return how long a job may run: by its own limit, else by that of its flavour."""
        limit_s = float(self._state.arrays.jobs[job].limit)
        if np.isfinite(limit_s):
            return limit_s
        flavor = self._flavor_of(job)
        return (self._partition.terminal if flavor is None else self._partition.flavors[flavor]).limit_s

    def _room(self, job: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell by server whether it can hold a job's chunk now."""
        row = self._state.arrays.jobs[job]
        fits = (self._free >= (row.chunk, row.cpus, row.memory)).all(axis=1) & self._open
        eligible = self._state.arrays.eligible[row.pool, self._servers] == 1
        return np.asarray(fits & eligible & ((self._busy == 0) | (not row.whole)))

    def _choose(self, job: int, flavor: int, room: Any) -> int | None:
        """Return the server that the agent chooses; None to wait."""
        return self._server(flavor, self._agent.act(self._decision(job, flavor, room)))

    def _server(self, flavor: int, action: int) -> int | None:
        servers = self._partition.servers
        return action - flavor * servers if action < len(self._partition.flavors) * servers else None

    def _decision(self, job: int, flavor: int, room: Any) -> Decision:
        queued = list(self._queued)
        queued[flavor] -= 1
        dequeued = self._state.now - self._state.arrays.jobs[job].submit > PROMPT_S
        return Decision(flavor, tuple(map(tuple, self._free.tolist())), tuple(room.tolist()),
                        tuple(self._remaining.tolist()), tuple(queued), bool(dequeued))

    def _first_fit(self, job: int, room: Any) -> Sequence[int] | None:
        """Return the first servers that hold all chunks of a job and its rest; None when they do not."""
        row = self._state.arrays.jobs[job]
        needed = int(row.chunks + (row.rest > 0))
        found: list[int] = np.flatnonzero(room)[:needed].tolist()
        return found if len(found) == needed else None

    def _start(self, job: int, servers: Sequence[int]) -> Start:
        """Take what a job needs away from what is free."""
        row, flavor, limit_s = self._state.arrays.jobs[job], self._flavor[job], self._limit_s(job)
        self._free[servers] -= (int(row.chunk), int(row.cpus), int(row.memory))
        self._busy[servers] += 1
        self._remaining[servers] = np.maximum(self._remaining[servers], limit_s)
        if flavor is not None:
            self._queued[flavor] -= 1
        gpus = [int(row.chunk)] * int(row.chunks) + [int(row.rest)] * int(row.rest > 0)
        return Start(job, tuple(int(self._servers[server]) for server in servers), tuple(gpus))

    def _remaining_s(self) -> Any:
        """Return by server how long its last job still runs, if it runs as long as it may."""
        place = {int(node): server for server, node in enumerate(self._servers)}
        remaining = np.zeros(len(self._servers))
        jobs = self._state.arrays.jobs
        for job in self._state.running.tolist():
            if jobs[job].queue not in self.queues:
                continue
            limit_s = self._limit_s(job)
            for node in self._state.held(job).node.tolist():
                if node in place:
                    left = jobs[job].since + limit_s - self._state.now
                    remaining[place[node]] = max(remaining[place[node]], left)
        return remaining


def save(folder: Path, agents: Mapping[str, GistAgent], card: ModelCard, longest_wait_s: float) -> ModelCard:
    """Write all agents in one file, with the partitions that they are for."""
    arrays: dict[str, Any] = {"longest_wait_s": np.array([longest_wait_s])}
    for name, agent in agents.items():
        flavors = (*agent.partition.flavors, agent.partition.terminal)
        arrays[f"{name}/flavors"] = np.array([(*demand(flavor), flavor.limit_s) for flavor in flavors], np.float64)
        told = "\n".join(flavor.name.replace("\n", " ") for flavor in flavors).encode()
        arrays[f"{name}/names"] = np.frombuffer(told, np.uint8)
        arrays[f"{name}/servers"] = np.array([agent.partition.servers], np.int64)
        arrays |= {f"{name}/{layer}": array for layer, array in agent.weights.items()}
    return checkpoint.save(folder, card, arrays, schema(agents))


def schema(agents: Mapping[str, GistAgent]) -> dict[str, object]:
    """Return what the weights must have been trained for to fit."""
    return {"agent": "gist_mdrl", "partitions": {name: agent.schema() for name, agent in agents.items()}}


def load(folder: Path) -> GistPolicy:
    """Return saved agents; ``CheckpointError`` when they are not whole or not of this code."""
    checkpoint.verify(folder)
    told = _partitions(folder / WEIGHTS)
    agents = {name: GistAgent(partition, SERVING) for name, (partition, _) in told.items()}
    like: dict[str, Any] = {"longest_wait_s": np.zeros(1)}
    for name, agent in agents.items():
        like |= {f"{name}/{layer}": array for layer, array in agent.weights.items()}
        like |= {f"{name}/flavors": np.zeros((len(agent.partition.flavors) + 1, 4)),
                 f"{name}/servers": np.zeros(1, np.int64)}
        names = told[name][1]
        like |= {} if names is None else {f"{name}/names": names}
    arrays: Mapping[str, Any]
    arrays, card = checkpoint.load(folder, schema(agents), like=like)
    for name, agent in agents.items():
        agent.weights = {layer: arrays[f"{name}/{layer}"] for layer in agent.weights}
    return GistPolicy(agents, card, float(arrays["longest_wait_s"][0]))


def _partitions(path: Path) -> dict[str, tuple[Partition, Any]]:
    """Return the partitions that a file has agents for, and the names of their flavours as the file has them."""
    try:
        with safe_open(path, framework="numpy") as file:
            keys = set(file.keys())
            told = {name: (file.get_tensor(key), int(file.get_tensor(f"{name}/servers")[0]),
                           file.get_tensor(f"{name}/names") if f"{name}/names" in keys else None)
                    for key in sorted(keys) if key.endswith("/flavors") for name in (key.rpartition("/")[0],)}
    except (SafetensorError, OSError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: does not say which partitions it is for: {error}") from error
    if not told or not all(_sensible(*one) for one in told.values()):
        raise CheckpointError(f"{path}: its partitions make no sense; train it anew")
    return {name: (_partition(name, *one), one[2]) for name, one in told.items()}


def _sensible(flavors: Any, servers: int, names: Any) -> bool:
    if names is not None and (names.ndim != 1 or names.dtype != np.uint8 or len(_names(names)) != len(flavors)):
        return False
    return bool(flavors.ndim == 2 and flavors.shape[1] == 4 and 2 <= len(flavors) <= 16
                and np.isfinite(flavors).all() and (flavors >= 0).all() and flavors[-1, 0] >= servers
                and 2 <= servers <= MOST_SERVERS)


def _names(names: Any) -> list[str]:
    return names.tobytes().decode("utf-8", "replace").split("\n") if names is not None else []


def _partition(name: str, rows: Any, servers: int, names: Any) -> Partition:
    total = int(rows[-1, 0])
    told = _names(names) or [f"{row[0]:.0f}-gpu" for row in rows[:-1].tolist()] + ["all"]
    flavors = tuple(Flavor(flavor, int(gpus), int(cpus), int(memory), float(limit_s), gpus / total)
                    for flavor, (gpus, cpus, memory, limit_s) in zip(told, rows.tolist(), strict=True))
    return Partition(name, flavors[:-1], flavors[-1], servers, 0.0)
