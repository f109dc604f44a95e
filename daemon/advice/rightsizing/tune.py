"""How much of one node each job should have: Synergy's *tune* (OSDI'22, section 4.3) for jobs that already run.

Synergy places a job at its best-case demand; where that does not fit it shrinks the job to its fair share, and then
takes from its neighbours what they have above theirs. Here the neighbours run and people requested what they hold, so
less is taken: only what they measurably do not use. What is free or not used goes first to jobs that wait for it beside
free GPUs, in their order, then to the running jobs that it speeds up most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .sensitivity import NodeShare, SpeedEstimate

LEAST_GAIN = 0.01
"""A speed-up below this is none."""

Key = tuple[str, float]


class Gift(NamedTuple):
    """What one job, or nobody (None), gives another."""

    giver: Key | None
    taker: Key
    part: NodeShare


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job on the node, or one that would go there."""

    key: Key
    gpus: int
    speed_estimate: SpeedEstimate
    gives: bool = False
    """Whether it may be taken from: it runs on this node alone, and what it uses there has been measured."""
    takes: bool = False
    """Whether it may be given more: a job on several nodes would need it on all of them."""


@dataclass
class TunedNode:
    """What is free of a node, and the jobs on it."""

    free: NodeShare
    free_gpus: int
    fair: NodeShare
    """CPUs and memory for each GPU."""
    tenants: Sequence[Tenant] = ()


@dataclass
class TunedShares:
    """The shares that the plan gives each job."""

    parts: dict[Key, NodeShare] = field(default_factory=dict)
    """The shares of every job on the node, and of the jobs that may start there."""
    gifts: list[Gift] = field(default_factory=list)


def tune(node: TunedNode, waiting: Iterable[Tenant] = ()) -> TunedShares:
    """Return the plan for one node; ``waiting`` are jobs that may start there, in the order in which they would."""
    plan = TunedShares({tenant.key: tenant.speed_estimate.has for tenant in node.tenants})
    pools = (_SparePool(node, 0), _SparePool(node, 1))
    gpus = node.free_gpus
    for tenant in waiting:
        if tenant.gpus <= gpus and _start(tenant, pools, plan):
            gpus -= tenant.gpus
    for resource, pool in enumerate(pools):
        # What is free stays for the GPUs that are: without CPUs and memory they would be stranded.
        pool.keep_free(gpus * node.fair[resource])
        _share_out(node.tenants, resource, pool, plan)
    return plan


class _SparePool:
    """What there is to give of CPUs (0) or memory (1): what nobody holds, then what jobs do not use."""

    def __init__(self, node: TunedNode, resource: int) -> None:
        self._resource = resource
        self._spare: dict[Key | None, int] = {None: max(node.free[resource], 0)}
        spare = {tenant.key: tenant.speed_estimate.has[resource] - tenant.speed_estimate.least[resource]
                 for tenant in node.tenants if tenant.gives}
        # Few givers are easier to talk to than many: the job with most to spare comes first.
        self._spare |= dict(sorted(spare.items(), key=lambda item: (-item[1], item[0])))

    @property
    def free(self) -> int:
        """Return what nobody holds."""
        return self._spare[None]

    def left(self, taker: Key) -> int:
        """Return all that somebody could be given."""
        return sum(spare for giver, spare in self._spare.items() if giver != taker and spare > 0)

    def keep_free(self, amount: int) -> None:
        """Set aside so much of what nobody holds."""
        self._spare[None] = max(self._spare[None] - amount, 0)

    def take(self, taker: Key, amount: int, plan: TunedShares) -> None:
        """Move so much to a job: no more than there is."""
        for giver, spare in self._spare.items():
            given = min(spare, amount)
            if given > 0 and giver != taker:
                amount -= given
                self._spare[giver] = spare - given
                plan.gifts.append(Gift(giver, taker, _only(self._resource, given)))
                if giver is not None:
                    plan.parts[giver] = _changed(plan.parts[giver], self._resource, -given)


def _start(tenant: Tenant, pools: tuple[_SparePool, _SparePool], plan: TunedShares) -> bool:
    """Give a waiting job what it asks for, or at least what it needs; tell whether there was that much.

    One that fits into what is free is held for other reasons, which are the policy's.
    """
    has, least = tenant.speed_estimate.has, tenant.speed_estimate.least
    if has.cpus <= pools[0].free and has.memory_bytes <= pools[1].free:
        return False
    wanted = [min(has[resource], pool.left(tenant.key)) for resource, pool in enumerate(pools)]
    if any(amount < least[resource] for resource, amount in enumerate(wanted)):
        return False
    plan.parts[tenant.key] = NodeShare(*wanted)
    for pool, amount in zip(pools, wanted, strict=True):
        pool.take(tenant.key, amount, plan)
    return True


def _share_out(tenants: Sequence[Tenant], resource: int, pool: _SparePool, plan: TunedShares) -> None:
    """Give running jobs more, the one first that gains most by each unit."""
    takers = [tenant for tenant in tenants
              if tenant.takes and tenant.speed_estimate.best[resource] > _has(tenant, resource)]
    for tenant in sorted(takers, key=lambda tenant: (-_worth(tenant, resource, pool), tenant.key)):
        amount = _useful(tenant, resource, pool)
        if amount and _speed(tenant, resource, amount) >= LEAST_GAIN:
            plan.parts[tenant.key] = _changed(plan.parts[tenant.key], resource, amount)
            pool.take(tenant.key, amount, plan)


def _worth(tenant: Tenant, resource: int, pool: _SparePool) -> float:
    """Return GPUs' worth of speed by unit, if it were given all that is there."""
    amount = _useful(tenant, resource, pool)
    return _speed(tenant, resource, amount) * tenant.gpus / amount if amount else 0.0


def _useful(tenant: Tenant, resource: int, pool: _SparePool) -> int:
    return min(tenant.speed_estimate.best[resource] - _has(tenant, resource), pool.left(tenant.key))


def _speed(tenant: Tenant, resource: int, amount: int) -> float:
    """Return by how much faster a job is with more."""
    return tenant.speed_estimate.speed(_changed(tenant.speed_estimate.has, resource, amount)).estimate - 1


def _has(tenant: Tenant, resource: int) -> int:
    return tenant.speed_estimate.has[resource]


def _only(resource: int, amount: int) -> NodeShare:
    return NodeShare(amount, 0) if resource == 0 else NodeShare(0, amount)


def _changed(part: NodeShare, resource: int, amount: int) -> NodeShare:
    return NodeShare(part.cpus + amount, part.memory_bytes) if resource == 0 else NodeShare(part.cpus,
                                                                                            part.memory_bytes + amount)


def by_pair(gifts: Iterable[Gift]) -> Mapping[tuple[Key | None, Key], NodeShare]:
    """Return what each gives each, all resources together."""
    shares: dict[tuple[Key | None, Key], NodeShare] = {}
    for giver, taker, part in gifts:
        before = shares.get((giver, taker), NodeShare(0, 0))
        shares[giver, taker] = NodeShare(before.cpus + part.cpus, before.memory_bytes + part.memory_bytes)
    return shares
