"""Why pods and workloads wait, from the words of kube-scheduler and Kueue to ours.

kube-scheduler says it in free text of a stable form: ``0/M nodes are available: N reason, N reason. preemption: …``.
A reason that would let the pod start as soon as somebody leaves decides, if any node has it; else why nodes are ruled
out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...storage.waiting import WaitReason

_AVAILABLE = re.compile(r"\d+/\d+ nodes are available: ?(.*)", re.DOTALL)
_PREEMPTION = re.compile(r"\.? *(?:no new claims to deallocate, *)?preemption: .*", re.DOTALL)
_PART = re.compile(r"(\d+) ((?:[^,{}]|\{[^}]*\})+)")
_LONGEST = 4096
"""Characters of a message that are looked at."""

_MEANINGS = tuple((re.compile(words, re.IGNORECASE), meaning) for words, meaning in (
    # The first that is found in any part decides.
    (r"^Insufficient |Too many pods|cannot allocate all claims|free ports", WaitReason.RESOURCES),
    (r"topology spread|pod affinity|anti-affinity|pod group topology", WaitReason.TOPOLOGY),
    (r"exceed(s|ed)? max volume count", WaitReason.RESOURCES),
    (r"node\(s\) were unschedulable|were not ready|unreachable|not-ready|node\.kubernetes\.io/|out of disk|pressure",
     WaitReason.NODES_UNAVAILABLE),
    (r"untolerated taint|had taint|had taints|didn't tolerate|node affinity|node selector|node\(s\) didn't match|"
     r"volume node affinity|no available volume zone|didn't satisfy plugin", WaitReason.CONSTRAINT),
    (r"unbound immediate|didn't find available persistent volumes|waiting for .*claim|not been (bound|created)",
     WaitReason.PREPARING),
))
_WHOLE = tuple((re.compile(words, re.IGNORECASE), meaning) for words, meaning in (
    # Messages that are about the pod, or its gang, as a whole.
    (r"persistentvolumeclaim .* not found|resourceclaim.* not found|(storageclass|priorityclass).* not found",
     WaitReason.INVALID),
    (r"unbound immediate|persistentvolumeclaim|resourceclaim|waiting for resource driver", WaitReason.PREPARING),
    (r"quota|over ?limit|capability", WaitReason.QUOTA),
    (r"topology", WaitReason.TOPOLOGY),
    (r"pod ?group|gang|minavailable|minmember|tasks in gang|rejected by unreserve", WaitReason.RESOURCES),
    (r"no nodes available|waiting for .* node", WaitReason.NODES_UNAVAILABLE),
    (r"Insufficient |not enough resources|enough resources:", WaitReason.RESOURCES),
))
_CONSIDERED = "SchedulingGated"

_GANG = {
    "NonPreemptibleOverQuota": WaitReason.QUOTA, "OverLimit": WaitReason.QUOTA,
    "QueueDoesNotExist": WaitReason.INVALID, "NotEnoughTasks": WaitReason.PREPARING,
}
"""Words of KAI and Volcano that say it all; others only that a gang waits, and the message why."""
_KUEUE = {
    "Deactivated": WaitReason.HELD, "OnHold": WaitReason.HELD, "Misconfigured": WaitReason.INVALID,
    "Inadmissible": WaitReason.INVALID, "NoMatchingFlavor": WaitReason.CONSTRAINT,
    "Suspended": WaitReason.QUEUE_CLOSED, "AdmissionGated": WaitReason.HELD,
    "WaitingForPodsReady": WaitReason.PRIORITY, "ExceedsMaxQuota": WaitReason.INVALID,
    "WaitingForQuota": WaitReason.QUOTA, "TopologyPlacementFailed": WaitReason.TOPOLOGY,
    "WaitingForPreemptedWorkloads": WaitReason.RESOURCES, "PendingEvaluation": WaitReason.PRIORITY,
    "UnsatisfiedAdmissionChecks": WaitReason.PREPARING,
}
_KUEUE_TEXT = tuple((re.compile(words, re.IGNORECASE), meaning) for words, meaning in (
    # Before the reasons of KEP 10852 all stood in the message, under the reason Pending.
    (r"topology|no topology domains", WaitReason.TOPOLOGY),
    (r"insufficient unused quota|borrowing limit", WaitReason.QUOTA),
    (r"insufficient quota|exceed.* maximum capacity|exceeds? max", WaitReason.INVALID),
    (r"untolerated taint|doesn't match node affinity|flavor .* not found|no matching", WaitReason.CONSTRAINT),
    (r"is stopped|is inactive|is terminating|doesn't exist", WaitReason.QUEUE_CLOSED),
    (r"preempt", WaitReason.RESOURCES),
    (r"podsready", WaitReason.PRIORITY),
))
_WANTED = re.compile(r"(?:quota|unused quota) for ([\w./-]+) in flavor")


def pod_reason(reason: str, message: str) -> WaitReason:
    """Return what the condition ``PodScheduled`` says of a pod that is not scheduled."""
    if reason == _CONSIDERED:
        return WaitReason.HELD
    if not reason and not message:
        return WaitReason.NONE  # nobody has looked at it yet
    decided = _first(_MEANINGS, [text for _, text in parts_of(message)])
    return decided or _first(_WHOLE, [_PREEMPTION.sub("", message[:_LONGEST])]) or WaitReason.OTHER


def gang_reason(reason: str, message: str) -> WaitReason:
    """Return what the group of a gang says of why nobody starts it."""
    decided = _GANG.get(reason) or pod_reason(reason, message)
    return WaitReason.RESOURCES if decided is WaitReason.OTHER and reason == "NotEnoughResources" else decided


def parts_of(message: str) -> list[tuple[int, str]]:
    """Return how many nodes are ruled out for what, in the order of a message; [] where it does not say."""
    match = _AVAILABLE.search(_PREEMPTION.sub("", message[:_LONGEST]))
    return [(int(count[:9]), text.strip().rstrip(".")) for count, text in _PART.findall(match[1])] if match else []


def shortened(message: str) -> str:
    """Return what people are shown of a message: without what preemption would have changed."""
    return _PREEMPTION.sub("", message[:_LONGEST]).strip().rstrip(".")[:300]


def workload_reason(reason: str, message: str, *, enough: bool) -> WaitReason:
    """Return what the condition ``QuotaReserved`` says of a workload.

    ``enough`` tells whether the quota is at least what its nodes have: then it is no limit, and a workload that waits
    for it waits for nodes.
    """
    decided = _KUEUE.get(reason) or _first(_KUEUE_TEXT, [message[:_LONGEST]])
    if decided is None:
        return WaitReason.PRIORITY if not message else WaitReason.OTHER
    return WaitReason.RESOURCES if decided is WaitReason.QUOTA and enough else decided


def wanted_resource(message: str) -> str:
    """Return the resource whose quota a workload waits for, '' where its message names none."""
    match = _WANTED.search(message[:_LONGEST])
    return match[1] if match else ""


def _first(table: Iterable[tuple[re.Pattern[str], WaitReason]], texts: Iterable[str]) -> WaitReason | None:
    known = list(texts)
    return next((meaning for pattern, meaning in table if any(pattern.search(text) for text in known)), None)
