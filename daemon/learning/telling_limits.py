"""Whether time limits tell anything: a policy that orders by them is no candidate where they do not, or tell too much.

Where limits are missing or nearly all alike, the shortest limit first is first come, first served under another name.
Where they are the very run times, whoever orders by them knows what nobody can know.
"""

from __future__ import annotations

import numpy as np

from ..policies.registry import parse
from ..replay.workload import Workload

BY_LIMIT = frozenset({"sjf-limit", "limit-aged", "wfp3"})
"""Orders that look at limits."""
MISSING, ALIKE, LEAKED = 0.5, 0.8, 0.5
"""Share of jobs from which limits count as missing, as the same, or as run times."""
CLOSE = 0.001
"""A limit that is nearer to the run time than this share of it is the run time."""


def unfit(policy: str, work: Workload) -> str:
    """Return why a policy is no candidate on this history; '' when nothing speaks against it."""
    order = parse(policy).order
    if order.oracle:
        return f"{order.name} knows true run times"
    if order.name not in BY_LIMIT or not len(work):
        return ""
    return limits_tell_nothing(work, order.name) or limits_leak(work)


def limits_tell_nothing(work: Workload, order: str) -> str:
    """Return why an order by limits does not tell jobs apart; '' where it does."""
    told = np.isfinite(work.limit)
    if told.mean() <= 1 - MISSING:
        return f"{1 - told.mean():.0%} of the jobs have no time limit: {order} is first come, first served here"
    _, counts = np.unique(work.limit[told], return_counts=True)
    common = counts.max() / len(work)
    return (f"{common:.0%} of the jobs have the same time limit: {order} is first come, first served here"
            if common >= ALIKE else "")


def limits_leak(work: Workload) -> str:
    """Return why limits cannot have been known beforehand; '' where they can.

    Jobs that are ended at their limit ran for just that long: only those that asked for an odd number of seconds tell.
    """
    told = np.isfinite(work.limit) & (work.run > 0) & (work.limit % 60.0 != 0)
    leaked = told & (np.abs(work.limit - work.run) <= CLOSE * work.run)
    share = leaked.sum() / max(1, len(work))
    return f"the time limits of {share:.0%} of the jobs are their very run times" if share >= LEAKED else ""
