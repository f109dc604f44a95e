"""What time limits that are missing, alike or leak run times make of a policy, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..replay.time_limits import LimitFault, faults
from ..replay.workload import Workload
from .registry import parse

BY_LIMIT = frozenset({"sjf-limit", "limit-aged", "wfp3"})
"""Orders that look at limits."""
WITHOUT = {"wfp3": "goes by waits and sizes alone here"}
"""What becomes of an order whose limits tell nothing, where that is not first come, first served."""


def unfit(policy: str, work: Workload) -> str:
    """Return why a policy is no candidate on this history; '' when nothing speaks against it."""
    order = parse(policy).order
    if order.oracle:
        return f"{order.name} knows true run times"
    if order.name not in BY_LIMIT:
        return ""
    return next((f"{fault.said}: {_becomes(order.name, fault)}" for fault in faults(work) if fault.grave), "")


def doubts(policies: list[str], work: Workload) -> Iterator[str]:
    """Yield what is wrong with the limits that these policies go by, each with whom it concerns."""
    ordering = [policy for policy in policies if parse(policy).order.name in BY_LIMIT]
    looking = [policy for policy in policies if policy in ordering or parse(policy).walking.estimates]
    for fault in faults(work) if looking else ():
        if fault.kind == "missing":
            yield f"{fault.said}, which {', '.join(looking)} go{_s(looking)} by"
        if fault.kind == "leaking" and looking != ordering:
            rest = [policy for policy in looking if policy not in ordering and not parse(policy).order.oracle]
            yield from [f"{fault.said}: the backfill of {', '.join(rest)} knows when jobs end"] if rest else ()
        for policy in ordering if fault.grave else ():
            yield f"{fault.said}: {_becomes(policy, fault)}, and no candidate"


def knowing(policies: Iterable[str], work: Workload) -> tuple[str, ...]:
    """Return the policies that order by limits which tell run times."""
    ordering = tuple(policy for policy in policies if parse(policy).order.name in BY_LIMIT)
    return ordering if any(fault.kind == "leaking" for fault in (faults(work) if ordering else ())) else ()


def _becomes(policy: str, fault: LimitFault) -> str:
    """Return what an order by limits is where they have a fault."""
    if fault.kind == "leaking":
        return f"{policy} is an oracle here, for nobody knows run times beforehand"
    return f"{policy} {WITHOUT.get(policy.split('+')[0], 'is first come, first served here')}"


def _s(names: list[str]) -> str:
    return "es" if len(names) == 1 else ""
