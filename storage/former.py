"""The words of versions before 0009, which were one scheduler's own: databases and facts on disk may still hold them.

What an old word meant does not change any more, whatever the scheduler's source learns to translate.
"""

from __future__ import annotations

import re
from typing import Any

from .waiting import WaitReason

STATES = {"NODE_FAIL": "node_failed", "BOOT_FAIL": "start_failed"}
"""States that are called otherwise now; of all others only the case has changed."""
USES = {"slurm": "accounts"}
"""Sources of uses that are called otherwise now."""
NO_REASON = ("", "None")
"""Words of jobs that do not wait for anything."""
REASONS = (
    (r"^Resources$", WaitReason.RESOURCES), (r"^Priority$", WaitReason.PRIORITY),
    (r"Invalid|AccountNotAllowed|QOSNotAllowed", WaitReason.INVALID), (r"Dependency", WaitReason.DEPENDENCY),
    (r"JobHeld", WaitReason.HELD), (r"Licenses", WaitReason.LICENSES), (r"BeginTime", WaitReason.BEGIN_TIME),
    (r"JobArrayTaskLimit", WaitReason.ARRAY_LIMIT),
    (r"PartitionTimeLimit|PartitionNodeLimit", WaitReason.QUEUE_LIMIT),
    (r"PartitionDown|PartitionInactive", WaitReason.QUEUE_CLOSED), (r"Reservation$", WaitReason.RESERVATION),
    (r"DeadLine", WaitReason.DEADLINE), (r"Cleaning|Prolog", WaitReason.PREPARING),
    (r"BadConstraints", WaitReason.CONSTRAINT), (r"ReqNodeNotAvail|NodeDown", WaitReason.NODES_UNAVAILABLE),
    (r"Assoc|QOS|Account|^Max[A-Z]", WaitReason.QUOTA),
)
"""Patterns of words and what they mean, the first that is found; any other word is ``other``."""


def reason_of(word: str) -> WaitReason:
    """Return what an old word for a wait means."""
    if word in NO_REASON:
        return WaitReason.NONE
    return next((meaning for pattern, meaning in REASONS if re.search(pattern, word)), WaitReason.OTHER)


def renewed(kind: str, facts: Any) -> object:
    """Return facts of a kind, as JSON holds them, in today's words; ones that are in them already stay as they are."""
    if kind == "seen":
        return facts | {"jobs": [_job(job) for job in facts["jobs"]]}
    if kind == "finished":
        return [_job(job) for job in facts]
    if kind == "uses":
        return [use | {"source": USES.get(use["source"], use["source"])} for use in facts]
    return facts


def _job(job: dict[str, Any]) -> dict[str, object]:
    if "reason_text" in job:
        return job
    waits, word, array = job["state"] in ("PENDING", "UNKNOWN"), job.get("reason", ""), job["job_id"].partition("_")
    return job | {
        "state": STATES.get(job["state"], job["state"].lower()), "reason_text": word,
        "reason": (reason_of(word) if waits else WaitReason.NONE).value,
        "array": job.get("array") or (array[0] if array[1] else "")}
