"""One decision for one partition, while jobs are placed one by one.

Of many servers the agent considers a shortlist for each job: half of it are the fullest on which the job fits, a
quarter the emptiest of those, and the rest are evenly spaced between the fullest and the emptiest of all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...replay.arrays import Floats, Longs, Masks
from ...replay.state import ClusterState, Start
from ..candidate_placement import CandidatePlacement
from ..demands import CHUNK, CHUNKS, RESTS
from ..free_resources import FreeResources
from ..observation import Observation
from ..placing import ISLAND
from .agent import GistAgent
from .environment import PlacementDecision
from .network import q_values
from .site import flavors_of, queues_of

Rows = NDArray[np.intp]
Key = tuple[int, int, int, float, int]
"""Free GPUs, CPUs and bytes, minus the time that its jobs still run, and the node."""

PROMPT_S = 60.0
"""A job that waits for longer comes from the queue."""
MOST_LOOKED_AT = 128
"""Waiting jobs of a partition that are considered at a time."""
MOST_REASONS = 3


def jobs_in_order(state: ClusterState, observation: Observation, queues: Sequence[int], longest_wait_s: float) -> Rows:
    """Return the first jobs in the queues, by index among the waiting: late ones, then the largest, then the oldest."""
    waiting = observation.waiting
    of_partition = np.flatnonzero(_inside(state, observation, queues))
    late = observation.now - waiting.submit[of_partition] > longest_wait_s
    order = np.lexsort((waiting.submit[of_partition], np.where(late, 0, -waiting.gpus[of_partition]), ~late))
    return of_partition[order[:MOST_LOOKED_AT]]


def _inside(state: ClusterState, observation: Observation, queues: Sequence[int]) -> Masks:
    """Tell which of the waiting jobs are in these queues."""
    return np.asarray(np.isin(_column(state, "queue", observation.waiting.rows), queues))


class Servers:
    """The servers of a partition by how full they are, the fullest first."""

    def __init__(self, nodes: Rows, resources: FreeResources, remaining_s: NDArray[np.float64]) -> None:
        """Sort ``nodes``, whose jobs still run for ``remaining_s``, by node."""
        self._resources, self.remaining_s = resources, remaining_s
        self._order: list[Key] = sorted(zip(*resources.free[nodes].T.tolist(), (-remaining_s[nodes]).tolist(),
                                            nodes.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._order)

    def moved(self, node: int, before: Sequence[int], remaining_s: float) -> None:
        """Update the order after a job has started on a node that had so much free before."""
        at = bisect_left(self._order, (*before, -float(self.remaining_s[node]), node))
        if at == len(self._order) or self._order[at][-1] != node:
            return  # none of those with GPUs
        del self._order[at]
        self.remaining_s[node] = max(float(self.remaining_s[node]), remaining_s)
        gpus, cpus, memory = self._resources.free[node].tolist()
        insort(self._order, (gpus, cpus, memory, -float(self.remaining_s[node]), node))

    def shortlist(self, fits: Masks, gpus: int, seats: int) -> list[int]:
        """Return so many servers, the fullest first, for a job of so many GPUs that fits on some of them."""
        first = bisect_left(self._order, (gpus,))
        fullest = self._some(fits, range(first, len(self._order)), (seats + 1) // 2)
        emptiest = self._some(fits, range(len(self._order) - 1, first - 1, -1), seats // 4)
        chosen = list(dict.fromkeys((*fullest, *emptiest, *_evenly(len(self._order), seats))))[:seats]
        return [self._order[place][-1] for place in sorted(chosen)]

    def all_of(self) -> list[int]:
        """Return all servers, as the cluster counts them."""
        return sorted(key[-1] for key in self._order)

    def _some(self, fits: Masks, places: range, wanted: int) -> list[int]:
        """Return the first places of servers on which the job fits."""
        fitting: list[int] = []
        for place in places:
            if len(fitting) == wanted:
                break
            if fits[self._order[place][-1]]:
                fitting.append(place)
        return fitting


@cache
def _evenly(count: int, seats: int) -> tuple[int, ...]:
    """Return so many places evenly between the first and the last."""
    return tuple(np.linspace(0, count - 1, seats).round().astype(int).tolist())


class SchedulingRound:
    """Some waiting jobs of one partition, in their order, while they are placed."""

    def __init__(self, state: ClusterState, observation: Observation, agent: GistAgent, jobs: Rows) -> None:
        """Take ``jobs`` by their index among the waiting."""
        self._observation, self._agent, self._partition = observation, agent, agent.partition
        self._names, self._jobs = state.cluster.names, jobs
        self._resources = FreeResources(observation, observation.waiting.demands[jobs])
        self._nodes = np.flatnonzero(state.cluster.partitions[self._partition.name])
        self._without = self._nodes[observation.nodes.gpus[self._nodes] == 0]
        flavor = _flavors(agent, observation.waiting.demands, _column(state, "limit", observation.waiting.rows))
        self._flavor = flavor[jobs].tolist()
        inside = _inside(state, observation, queues_of(state.cluster, state.workload, self._partition.name))
        self._queued = np.bincount(flavor[inside & (flavor >= 0)], minlength=len(self._partition.flavors)).tolist()
        self._limit_s = self._limits(_column(state, "limit", observation.waiting.rows[jobs]), flavor[jobs])
        with_gpus = self._nodes[observation.nodes.gpus[self._nodes] > 0]
        self._servers = Servers(with_gpus, self._resources, self._remaining(state))
        self._wait = observation.now - observation.waiting.submit[jobs]
        self._waits: set[tuple[int, int, bool]] = set()
        """(kind, flavour, queued) of jobs that the agent lets wait, until another job starts."""

    def starts(self, longest_wait_s: float) -> Iterator[Start]:
        """Yield the jobs to start now."""
        running, first_waiting = bool(self._resources.busy[self._nodes].any()), None
        for job, late in enumerate((self._wait > longest_wait_s).tolist()):
            nodes = self._several(job) if late or self._flavor[job] < 0 else self._chosen(job)
            if nodes:
                running = True
                yield self._start(job, nodes)
            elif late:
                return  # no job may overtake one that has waited for too long
            elif first_waiting is None and self._fits(job).any():
                first_waiting = job
        nodes = [] if running or first_waiting is None else self._several(first_waiting)
        if first_waiting is not None and nodes:
            yield self._start(first_waiting, nodes)  # no event would follow at which the agent could decide anew

    def reasons(self, job: int) -> tuple[str, ...]:
        """Return the agent's value of each choice for one of the jobs, the best first."""
        if self._flavor[job] < 0:
            return ("takes several servers: the first with room, as the paper's largest jobs",)
        if not self._fits(job).any():
            return ("no server of the partition has room",)
        seats = self._seats(job)
        decision = self._decision(job, seats)
        q = q_values(self._agent.weights, self._agent.encoder.encode(decision))
        worth = {self._agent.encoder.environment_action(decision, int(chosen)): float(q[chosen])
                 for chosen in np.flatnonzero(self._agent.encoder.allowed(decision))}
        reasons = []
        for action, value in sorted(worth.items(), key=lambda item: -item[1])[:MOST_REASONS]:
            node = self._node(job, seats, action)
            reasons.append(f"{'waiting' if node is None else self._names[node]} is worth {value:+.2f}")
        return tuple(reasons)

    def _limits(self, limit_s: NDArray[np.float64], flavor: Rows) -> NDArray[np.float64]:
        """Return how long jobs may run: by their own limit, else by that of their flavour, the terminal one last."""
        flavors = (*self._partition.flavors, self._partition.terminal)
        return np.where(np.isfinite(limit_s), limit_s, np.array([offered.limit_s for offered in flavors])[flavor])

    def _fits(self, job: int) -> Masks:
        """Tell on which nodes there is room for a job's chunk now."""
        return self._resources.fitting(int(self._resources.kind[job]))

    def _chosen(self, job: int) -> list[int]:
        """Return the node that the agent chooses for a job; none to wait."""
        kind, fits = int(self._resources.kind[job]), self._fits(job)
        waiting_key = kind, self._flavor[job], bool(self._wait[job] > PROMPT_S)
        if waiting_key in self._waits or not fits.any():
            return []
        if self._resources.kinds[kind, CHUNK] == 0 and fits[self._without].any():
            return [int(self._without[fits[self._without]][0])]
        node = self._best(job, fits)
        if node is None:
            self._waits.add(waiting_key)
        return [] if node is None else [node]

    def _best(self, job: int, fits: Masks) -> int | None:
        """Return the node that the agent's action names; None to wait."""
        if len(self._servers) <= self._partition.servers:
            seats = self._servers.all_of()
            return self._node(job, seats, self._agent.best(self._decision(job, seats)))
        # A shortlist stands in the order in which the agent sees servers.
        listed = self._shortlist(job, fits)
        inputs = self._agent.encoder.encode_ordered(self._resources.free[listed], self._servers.remaining_s[listed],
                                                    self._queued_beside(job), bool(self._wait[job] > PROMPT_S))
        place = self._agent.best_of(inputs, self._flavor[job], fits[listed])
        return None if place is None else listed[place]

    def _seats(self, job: int) -> list[int]:
        """Return the nodes that the agent considers for a job."""
        if len(self._servers) <= self._partition.servers:
            return self._servers.all_of()
        return self._shortlist(job, self._fits(job))

    def _shortlist(self, job: int, fits: Masks) -> list[int]:
        gpus = int(self._resources.kinds[self._resources.kind[job], CHUNK])
        return self._servers.shortlist(fits, gpus, self._partition.servers)

    def _queued_beside(self, job: int) -> list[int]:
        """Return how many other jobs of each flavour are in the queue."""
        queued = list(self._queued)
        queued[self._flavor[job]] -= 1
        return queued

    def _node(self, job: int, seats: Sequence[int], action: int) -> int | None:
        """Return the node that an action names; None to wait."""
        servers = self._partition.servers
        return seats[action - self._flavor[job] * servers] if action < len(self._partition.flavors) * servers else None

    def _decision(self, job: int, seats: Sequence[int]) -> PlacementDecision:
        gpus, cpus, memory = self._resources.free[seats].T.tolist()
        return PlacementDecision(self._flavor[job], tuple(zip(gpus, cpus, memory, strict=True)),
                                 tuple(self._fits(job)[seats].tolist()),
                                 tuple(self._servers.remaining_s[seats].tolist()),
                                 tuple(self._queued_beside(job)), bool(self._wait[job] > PROMPT_S))

    def _several(self, job: int) -> list[int]:
        """Return the first nodes that hold all chunks of a job and its rest; none when they do not."""
        demand = self._resources.kinds[self._resources.kind[job]]
        needed = int(demand[CHUNKS] + demand[RESTS])
        nodes: list[int] = np.flatnonzero(self._fits(job))[:needed].tolist()
        return nodes if len(nodes) == needed else []

    def _start(self, job: int, nodes: Sequence[int]) -> Start:
        """Allocate nodes to a job."""
        before = [self._resources.free[node].tolist() for node in nodes]
        place = CandidatePlacement(np.array(nodes), ISLAND, 0, opens=False)
        start = self._resources.take(int(self._resources.kind[job]), place,
                                int(self._observation.waiting.rows[self._jobs[job]]))
        for node, free in zip(nodes, before, strict=True):
            self._servers.moved(node, free, float(self._limit_s[job]))
        if self._flavor[job] >= 0:
            self._queued[self._flavor[job]] -= 1
        self._waits.clear()
        return start

    def _remaining(self, state: ClusterState) -> NDArray[np.float64]:
        """Return by node the remaining time of its last job, if all run until their limits."""
        running, remaining_s = self._observation.running, np.zeros(len(self._observation.nodes.gpus))
        limit_s = _column(state, "limit", running.rows)
        flavor = _flavors(self._agent, running.demands, limit_s)
        left = running.since + self._limits(limit_s, flavor) - self._observation.now
        np.maximum.at(remaining_s, running.shares[:, 1], left[running.shares[:, 0]])
        return remaining_s


def _flavors(agent: GistAgent, demands: NDArray[np.int64], limit_s: NDArray[np.float64]) -> Rows:
    """Return the flavours of jobs; -1 for those that no single server holds."""
    flavors = flavors_of(agent.partition, demands[:, CHUNK], limit_s)
    return np.where(demands[:, CHUNKS] + demands[:, RESTS] == 1, flavors, -1)


def _column(state: ClusterState, name: str, rows: Longs) -> Floats:
    """Return a column of some jobs from a plain array, which is ten times as fast as a record array."""
    column: Floats = state.arrays.jobs.view(np.ndarray)[name][rows]
    return column
