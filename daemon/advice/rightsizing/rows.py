"""Tells the plan of one node: a row for each job on it, and for each that could start there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....storage.records import Job
from ....storage.shares import Giver, ShareAdvice
from ..kubectl import resize_command
from . import wording
from .node_view import NodeView
from .sensitivity import NodeShare, Speed
from .tune import Key, Tenant, TunedNode, TunedShares, by_pair

POLICY = "synergy-tune"


class ShareRows:
    """Puts a plan into rows; of jobs that wait only those that it starts."""

    def __init__(self, name: str, node: TunedNode, waiting: Iterable[Tenant], plan: TunedShares, view: NodeView,
                 now_s: float) -> None:
        self._name, self._plan, self._now_s = name, plan, now_s
        self._running = {tenant.key: (tenant, view.jobs[tenant.key]) for tenant in node.tenants}
        self._starting = [(tenant, view.waiting[tenant.key]) for tenant in waiting if tenant.key in plan.parts]
        self._gifts = by_pair(plan.gifts)

    def rows(self, window_s: float) -> Iterator[ShareAdvice]:
        """Yield the rows; ``window_s`` is how far back use was looked at."""
        for tenant, waiting in self._starting:
            starts_s = waiting.expected_start_s
            yield self._start(tenant, waiting.job, None if starts_s is None else max(starts_s - self._now_s, 0.0))
        for tenant, job in self._running.values():
            yield self._go_on(tenant, job, window_s)

    def _start(self, tenant: Tenant, job: Job, waits_s: float | None) -> ShareAdvice:
        shares = self._shares(tenant.key)
        # What nobody holds it would take anyway.
        shares = [share for share in shares if share[0]] or shares
        reason = wording.gift(job.job_id, shares, wording.starts(self._name, waits_s))
        return self._row(tenant, job, "pending", (self._name,), reason, starts_sooner_s=waits_s)

    def _go_on(self, tenant: Tenant, job: Job, window_s: float) -> ShareAdvice:
        speed, shares = self._speed(tenant.key), self._shares(tenant.key)
        takers = [(taker[0], part) for (giver, taker), part in self._gifts.items() if giver == tenant.key]
        if shares:
            reason = wording.gift(job.job_id, shares, wording.worth(*speed.sooner[:2], shares))
        elif takers:
            given = _sum([part for _, part in takers])
            reason = wording.given([name for name, _ in takers], given, tenant.speed_estimate,
                                 window_s)
        else:
            reason = wording.kept(tenant.speed_estimate)
        nodes = tuple(place.node for place in job.allocations)
        if tenant.speed_estimate.basis == "fair-share":
            return self._row(tenant, job, "running", nodes, reason)
        estimate, low, high = speed.sooner
        return self._row(tenant, job, "running", nodes, reason, sooner=estimate, interval=(low, high))

    def _row(self, tenant: Tenant, job: Job, state: str, nodes: tuple[str, ...], reason: str, *,
             sooner: float | None = None, interval: tuple[float, float] | None = None,
             starts_sooner_s: float | None = None) -> ShareAdvice:
        known, part = tenant.speed_estimate, self._plan.parts[tenant.key]
        return ShareAdvice(
            job.job_id, job.submit_s, job.partition, self._now_s, state, nodes, tenant.gpus, known.has.cpus, part.cpus,
            known.has.memory_bytes, part.memory_bytes, known.basis, reason, _ask(job, part, known.has, tenant.gpus),
            POLICY, known.used, known.memory_used, sooner, interval, starts_sooner_s, tuple(self._givers(tenant.key)))

    def _givers(self, taker: Key) -> Iterator[Giver]:
        for (giver, to), part in self._gifts.items():
            if to == taker and giver is not None:
                estimate, low, high = self._speed(giver).sooner
                yield Giver(*giver, part.cpus, part.memory_bytes, estimate, (low, high))

    def _shares(self, taker: Key) -> list[wording.Share]:
        return [("", part, 0.0) if giver is None else (giver[0], part, self._speed(giver).sooner[0])
                for (giver, to), part in self._gifts.items() if to == taker]

    def _speed(self, key: Key) -> Speed:
        tenant, _ = self._running[key]
        return tenant.speed_estimate.speed(self._plan.parts[key])


def _sum(parts: Sequence[NodeShare]) -> NodeShare:
    return NodeShare(sum(part.cpus for part in parts), sum(part.memory_bytes for part in parts))


def _ask(job: Job, part: NodeShare, has: NodeShare, gpus: int) -> str:
    """Return how a part of each node is requested of the scheduler: options of Slurm, or commands of Kubernetes."""
    steering = job.steering
    if steering is None:
        return wording.ask(part, has, gpus)
    pods = max(1, len(steering.pods) // max(1, len(job.allocations)))  # on each node
    cpus = wording.each(part.cpus, has.cpus, pods)
    memory = wording.each(part.memory_bytes, has.memory_bytes, pods * 2**20)
    requests = ({"cpu": str(cpus)} if cpus else {}) | ({"memory": f"{memory}Mi"} if memory else {})
    return resize_command(steering, job.owner, requests) if part.cpus >= pods else ""
