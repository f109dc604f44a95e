"""Slurm's words for why a job waits, translated to ours."""

from __future__ import annotations

import re

from ...storage.waiting import WaitReason

DEPENDENCY = "Dependency"
_NO_REASON = ("", "None")
_MEANINGS = tuple((re.compile(words), meaning) for words, meaning in (
    # The first that is found decides.
    (r"^Resources$", WaitReason.RESOURCES),
    (r"^Priority$", WaitReason.PRIORITY),
    (r"Invalid|AccountNotAllowed|QOSNotAllowed|ReservationDeleted", WaitReason.INVALID),
    (DEPENDENCY, WaitReason.DEPENDENCY),
    # Also as sentences: "launch failed requeued held", "job requeued in held state".
    (r"JobHeld|JobHoldMaxRequeue|requeued[ _](in[ _])?held", WaitReason.HELD),
    (r"Licenses", WaitReason.LICENSES),
    (r"BeginTime", WaitReason.BEGIN_TIME),
    (r"JobArrayTaskLimit", WaitReason.ARRAY_LIMIT),
    (r"PartitionTimeLimit|PartitionNodeLimit|PartitionConfig", WaitReason.QUEUE_LIMIT),
    (r"PartitionDown|PartitionInactive", WaitReason.QUEUE_CLOSED),
    (r"Reservation$", WaitReason.RESERVATION),
    (r"DeadLine", WaitReason.DEADLINE),
    (r"Cleaning|Prolog|^BurstBuffer|FedJobLock", WaitReason.PREPARING),
    (r"BadConstraints", WaitReason.CONSTRAINT),
    (r"ReqNodeNotAvail|NodeDown", WaitReason.NODES_UNAVAILABLE),
    (r"Assoc|QOS|Account|^Max[A-Z]|^Power(NotAvail|Reserved)", WaitReason.QUOTA),
))


def wait_reason(word: str) -> WaitReason:
    """Return what Slurm's word for a job's wait means."""
    if word in _NO_REASON:
        return WaitReason.NONE
    return next((meaning for known, meaning in _MEANINGS if known.search(word)), WaitReason.OTHER)


def reason_text(word: str) -> str:
    """Return Slurm's word as people are shown it; '' where it is none."""
    return "" if word in _NO_REASON else word
