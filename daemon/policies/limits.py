"""What time limits that are missing, alike or leak run times make of a policy, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..replay.time_limits import NOTICED, LimitFault, faults
from ..replay.workload import Workload
from .registry import parse

BY_LIMIT = frozenset({"sjf-limit", "limit-aged", "wfp3"})
"""Orders that look at limits."""
UNLESS_PREDICTED = frozenset({"sjf-prediction", "qssf", "prediction-aged"})
"""Orders that look at the limit of a job for which no run time is predicted."""
WITHOUT = {"wfp3": "goes by waits and sizes alone here"}
"""What becomes of an order whose limits tell nothing, where that is not first come, first served."""


def unfit(policy: str, *history: Workload) -> str:
    """Return why a policy is no candidate on a history, window by window; '' when nothing speaks against it."""
    order = parse(policy).order.name
    if parse(policy).order.oracle:
        return f"{order} knows true run times"
    if order not in BY_LIMIT | UNLESS_PREDICTED:
        return ""
    spoilt = (fault for work in history for fault in faults(work) if _spoils(fault, order, work))
    return next((f"{fault.text}: {_becomes(order, fault)}" for fault in spoilt), "")


def doubts(policies: Sequence[str], work: Workload) -> Iterator[str]:
    """Yield what is wrong with the limits that these policies go by, each with the policies that it concerns."""
    orders = {policy: parse(policy).order.name for policy in policies if not parse(policy).order.oracle}
    looking = [policy for policy in policies
               if parse(policy).walking.estimates or orders.get(policy) in BY_LIMIT]
    for fault in faults(work) if looking or UNLESS_PREDICTED & {*orders.values()} else ():
        spoilt = [policy for policy, order in orders.items() if _spoils(fault, order, work)]
        if fault.kind == "missing" and looking:
            yield f"{fault.text}, which {', '.join(looking)} go{'es' if len(looking) == 1 else ''} by"
        unspoilt = [policy for policy in looking if policy in orders and policy not in spoilt]
        if fault.kind == "leaking" and unspoilt:
            yield f"{fault.text}: the backfill of {', '.join(unspoilt)} knows when jobs end"
        for policy in spoilt:
            yield f"{fault.text}: {_becomes(policy, fault)}, and no candidate"


def knowing(policies: Iterable[str], work: Workload) -> tuple[str, ...]:
    """Return the policies that order by limits which tell run times."""
    leaks = [fault for fault in faults(work) if fault.kind == "leaking"]
    return tuple(policy for policy in policies for fault in leaks if _spoils(fault, parse(policy).order.name, work))


def _spoils(fault: LimitFault, order: str, work: Workload) -> bool:
    """Tell whether a fault of limits makes another order of one that looks at them."""
    if order in UNLESS_PREDICTED and fault.kind == "leaking":
        return bool(np.isnan(work.prediction).mean() >= NOTICED)
    return order in BY_LIMIT and fault.grave


def _becomes(policy: str, fault: LimitFault) -> str:
    """Return what an order by limits is where they have a fault."""
    if fault.kind == "leaking":
        return f"{policy} is an oracle here, for nobody knows run times beforehand"
    return f"{policy} {WITHOUT.get(policy.split('+')[0], 'is first come, first served here')}"
