"""Gangs of Volcano, of KAI and of Kubernetes itself: in which queue they are, and why nobody starts them.

KAI need not say on pods why a gang waits; its group always does, with a reason of one word.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..text import clean
from .fields import Condition, Meta, ObjectPart, Text, seconds, some

_NOT_YET = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""What Kubernetes' own group is not while it waits; the older name is that of its alpha."""


class _Fit(ObjectPart, frozen=True):
    """One reason of KAI's for not starting a gang."""

    reason: str = ""
    message: str = ""


class _OnPool(Condition, frozen=True):
    """What KAI found on one pool of nodes."""

    reasons: list[_Fit] | None = None


class _PodGroupSpec(ObjectPart, frozen=True):
    queue: str = ""


class _PodGroupStatus(ObjectPart, frozen=True):
    conditions: list[Condition] | None = None
    scheduling_conditions: list[_OnPool] | None = None


class _PodGroup(ObjectPart, frozen=True):
    metadata: Meta = Meta()
    spec: _PodGroupSpec = _PodGroupSpec()
    status: _PodGroupStatus = _PodGroupStatus()


_GANG = msgspec.json.Decoder(_PodGroup)


@dataclass(frozen=True, slots=True)
class GangFacts:
    """A gang."""

    namespace: str
    name: str
    queue: str = ""
    reason: str = ""
    """Why it is not started, in a word of its scheduler; '' where that says nothing."""
    message: str = ""


def parse_gang(raw: Text) -> GangFacts:
    """Return a gang."""
    gang = _GANG.decode(raw)
    reason, message = _why(gang.status)
    return GangFacts(clean(gang.metadata.namespace), clean(gang.metadata.name), clean(gang.spec.queue), clean(reason),
                     clean(message))


def _why(status: _PodGroupStatus) -> tuple[str, str]:
    """Return reason and message of the last condition that explains why it is not started."""
    pools = [condition for condition in some(status.scheduling_conditions) if condition.status == "True"]
    if pools:
        fit = next(iter(some(pools[-1].reasons)), None)
        return (fit.reason, fit.message) if fit else (pools[-1].reason, pools[-1].message)
    conditions = [condition for condition in some(status.conditions) if condition.type in _NOT_YET or (
        condition.type in ("Unschedulable", "Scheduled") and condition.status == "True")]
    last = max(conditions, key=lambda condition: seconds(condition.last_transition_time) or 0.0, default=None)
    waits = last is not None and (last.type == "Unschedulable" or (last.type in _NOT_YET and last.status == "False"))
    return (last.reason, last.message) if last is not None and waits else ("", "")
