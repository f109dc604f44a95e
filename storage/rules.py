"""What a scheduler enforces beside free resources: reservations, licences, limits, and what it does by its settings.

Amounts are named as trackable resources are: ``gpu``, ``gpu:a100``, ``cpu``, ``mem`` (bytes), ``node``, ``jobs``,
``billing``, ``license/x``. ``gpu seconds`` are GPUs times the time that their jobs may still run, ``gpu seconds used``
GPUs times the time that jobs have run so far, ``seconds used`` the time of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .quotas import Flavored, Queue

Amounts = tuple[tuple[str, float], ...]
"""Ceilings (or least amounts) by name of the resource."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept for somebody between two times (seconds since the epoch)."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    maintenance: bool = False
    users: tuple[str, ...] = ()
    """Users who may use it; with a leading ``-``, users who may not."""
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    whole: bool = True
    """It keeps all of its nodes, not some GPUs of them."""
    cpus: int = 0
    """CPUs that it keeps, over all of its nodes; 0 where nobody tells."""

    def admits(self, user: str, account: str, above: tuple[str, ...] = ()) -> bool:
        """Tell whether somebody may use it whose account stands below others, which count as well.

        Of groups nobody knows the members, so they are not ruled out.
        """
        named = [who for who in (*self.users, *self.accounts) if not who.startswith("-")]
        denied = {who[1:] for who in (*self.users, *self.accounts) if who.startswith("-")}
        accounts = {account, *above}
        if user in denied or accounts & denied:
            return False
        return not named or user in self.users or bool(accounts & set(self.accounts))

    def keeps_all(self, cpus: Mapping[str, int]) -> bool:
        """Tell whether it leaves nothing of its nodes, each of which has so many CPUs, to others."""
        return self.whole and not 0 < self.cpus < sum(cpus.get(name, 0) for name in self.nodes)

    def overlaps(self, from_s: float, until_s: float) -> bool:
        """Tell whether it is in force at any time of a span."""
        return self.start_s < until_s and from_s < self.end_s


@dataclass(frozen=True, slots=True)
class License:
    """Licences of one name, cluster-wide."""

    name: str
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Return how many a job could take now."""
        return max(0, self.total - self.used - self.reserved)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What may be used at most, by a group, a user, an account or a job."""

    group: Amounts = ()
    """By all jobs of it."""
    user: Amounts = ()
    """By all jobs of one user in it."""
    account: Amounts = ()
    """By all jobs of one account in it."""
    job: Amounts = ()
    node: Amounts = ()
    """By one job on one node."""
    least: Amounts = ()
    """What a job must ask for at least."""
    wall_s: float | None = None
    """Longest time limit of a job."""
    unreported: tuple[str, ...] = ()
    """Limits of which the source does not report whether they are set, as the scheduler names them."""

    @property
    def on_the_past(self) -> bool:
        """Tell whether any of them is on what jobs have used so far."""
        return any(name.endswith("seconds used") for name, _ in self.group)


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service: its ceilings, and the others whose jobs it may preempt."""

    name: str
    ceilings: Ceilings = Ceilings()
    priority: float = 0.0
    preempts: tuple[str, ...] = ()
    preempt_mode: tuple[str, ...] = ()
    """How its jobs are preempted, upper case; () as the cluster says."""
    flags: tuple[str, ...] = ()
    exempt_s: float = 0.0
    """A job of it cannot be preempted before it has run so long."""
    usage_factor: float = 1.0
    """How much of what its jobs use is booked."""


@dataclass(frozen=True, slots=True)
class Association:
    """An account, or a user in it (perhaps in one partition only), and its ceilings."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str = ""
    """The account above."""
    ceilings: Ceilings = Ceilings()
    shares: int | None = 1
    """Of what its siblings have together; None for one that shares what its parent has."""
    priority: float | None = None
    """What PriorityWeightAssoc weighs, 0 where none is set; None where the source does not tell."""


@dataclass(frozen=True, slots=True)
class CountedUsage:
    """What an account, a user in one or a quality of service has used so far, as the scheduler itself counts it."""

    time_s: float
    """When it was reported."""
    qos: str = ""
    account: str = ""
    user: str = ""
    partition: str = ""
    used: Amounts = ()
    """``gpu seconds used`` and the like, less what has decayed or was reset."""
    promised: Amounts = ()
    """``gpu seconds``: what jobs that ran then may still use."""

    @property
    def holder(self) -> tuple[str, ...]:
        """Return the quality of service or the association that it belongs to."""
        return ("qos", self.qos) if self.qos else ("association", self.account, self.user, self.partition)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Settings of the scheduler that decide about starts; None where they are unknown."""

    preempt_type: str | None = None
    """``none``, ``qos`` or ``partition_prio``."""
    preempt_mode: tuple[str, ...] | None = None
    """Upper case: ``REQUEUE``, ``CANCEL``, ``SUSPEND``, ``GANG``, ``OFF``."""
    exempt_s: float = 0.0
    returns_s: float = 121.0
    """How long after its end a requeued job may begin again: as long as a credential lives, and a second."""
    room_again_s: float = 40.0
    """How long after it had others preempted a job may do so again: ``KillWait`` and ``MessageTimeout``."""
    enforced: tuple[str, ...] | None = None
    """What of accounting is enforced, lower case: ``limits``, ``qos``, ``associations``, ``safe``."""
    memory_counts: bool | None = None
    """Memory is allocated, not only reported."""
    cores_whole: bool | None = None
    """CPUs are handed out in whole cores."""
    tree: bool | None = None
    """Jobs may ask for few switches, and get them."""
    parameters: tuple[str, ...] = ()
    """``SchedulerParameters`` as they are."""
    priority: tuple[tuple[str, str], ...] = ()
    """Settings of priorities by name, as they are."""
    power_down_s: float | None = None
    """After so long an empty node is powered down by the scheduler; None where it is never, or unknown."""


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """All of it, at one moment."""

    reservations: tuple[Reservation, ...] = ()
    licenses: tuple[License, ...] | None = None
    """None where the source cannot tell."""
    qos: tuple[Qos, ...] | None = None
    associations: tuple[Association, ...] | None = None
    usage: tuple[CountedUsage, ...] | None = None
    """What has been used of ceilings on the past; None where there are none or the source cannot tell."""
    site: SchedulerSettings = field(default_factory=SchedulerSettings)
    queues: tuple[Queue, ...] = ()
    """Queues with quotas that lend to one another."""
    flavors: tuple[Flavored, ...] = ()
