"""How many pods may be taken away from a batch job before it ends of that."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .fields import some
from .objects import BatchSpec, BatchStatus, FailureRule

_BACKOFF_LIMIT = 6
"""Of Jobs that name none."""
_SIGNALLED = frozenset((137, 143))
"""Exit codes of containers that are told to end."""


def spare_pods(spec: BatchSpec, status: BatchStatus) -> float:
    """Return how many pods of a Job may be taken away at once without an end of it, or of a part of it."""
    action = _on_disruption(some(spec.pod_failure_policy.rules) if spec.pod_failure_policy else ())
    if action == "Ignore":
        return math.inf
    failed, by_index = max(0, status.failed or 0), spec.backoff_limit_per_index
    if action != "Count" or (by_index is not None and failed >= by_index):  # which index failed is not told
        return 0.0
    default = math.inf if by_index is not None else _BACKOFF_LIMIT
    return max(0.0, (default if spec.backoff_limit is None else spec.backoff_limit) - failed)


def _on_disruption(rules: Iterable[FailureRule]) -> str:
    """Return what a Job does with a pod that is taken away: the worst that may be, as exit codes are not known."""
    for rule in rules:
        codes = rule.on_exit_codes
        if codes is not None and rule.action != "Ignore":
            named = _SIGNALLED.intersection(codes.values or ())
            if named if codes.operator == "In" else named != _SIGNALLED:
                return rule.action
        if any(condition.type == "DisruptionTarget" and condition.status in ("True", "")
               for condition in some(rule.on_pod_conditions)):
            return rule.action
    return "Count"
