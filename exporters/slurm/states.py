"""Slurm's states of nodes and jobs, with suffixes and flags, folded to ours."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...storage.records import JobState, NodeState

_SUFFIXES = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED",
}
_OFF = {"POWERED_DOWN", "POWERING_DOWN", "POWER_SAVING"}
_WAKING = {"POWERING_UP", "POWER_UP", "REBOOT_ISSUED"}
_BROKEN = {"DOWN", "ERROR", "FAIL", "INVAL", "INVALID", "INVALID_REG", "NOT_RESPONDING", "NO_RESPOND"}
_MAINTAINED = {"MAINT", "MAINTENANCE"}
_LEAVING = {"DRAIN", "DRAINED", "DRAINING", "FAILING", "POWER_DOWN"}
_BUSY = {"ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP", "DRAINING", "FAILING"}
_FREE = {"IDLE", "BLOCKED"}

_JOB_STATES = {
    "PENDING": JobState.PENDING, "RUNNING": JobState.RUNNING, "SUSPENDED": JobState.SUSPENDED,
    "COMPLETING": JobState.COMPLETING, "COMPLETED": JobState.COMPLETED, "CANCELLED": JobState.CANCELLED,
    "FAILED": JobState.FAILED, "TIMEOUT": JobState.TIMEOUT, "NODE_FAIL": JobState.NODE_FAILED,
    "PREEMPTED": JobState.PREEMPTED, "BOOT_FAIL": JobState.START_FAILED, "DEADLINE": JobState.DEADLINE,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}
_SPELLED = {state: word for word, state in _JOB_STATES.items()}
_JOB_FLAGS = {
    # Flags that squeue prints in place of the base state, or beside it from data_parser 0.0.40 on.
    "CONFIGURING": JobState.RUNNING, "RESIZING": JobState.RUNNING, "SIGNALING": JobState.RUNNING,
    "POWER_UP_NODE": JobState.RUNNING, "STAGE_OUT": JobState.COMPLETING, "STOPPED": JobState.SUSPENDED,
    "REQUEUED": JobState.PENDING, "REQUEUE_HOLD": JobState.PENDING, "REQUEUE_FED": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING, "SPECIAL_EXIT": JobState.PENDING, "EXPEDITING": JobState.PENDING,
    "REVOKED": JobState.CANCELLED, "LAUNCH_FAILED": JobState.FAILED, "RECONFIG_FAIL": JobState.FAILED,
}


def node_state(words: Iterable[str]) -> NodeState:
    """Return what a node's state and flags mean: ``["mixed", "DRAIN"]``, ``["idle~"]``, ``["IDLE+PLANNED"]``."""
    flags = {flag for word in words for part in word.upper().split("+") for flag in _unsuffixed(part)}
    busy = bool(flags & _BUSY)
    # The first line that holds decides: a node that is off burns nothing, whatever else is reported of it, and one that
    # still runs jobs is not yet unavailable.
    verdicts = (
        (_OFF, NodeState.POWERED_DOWN),
        (_WAKING, NodeState.POWERING_UP),
        (_BROKEN, NodeState.DOWN),
        (_MAINTAINED, NodeState.DRAINING if busy else NodeState.MAINTENANCE),
        (_LEAVING, NodeState.DRAINING if busy else NodeState.DRAINED),
        ({"RESERVED", "RESV"}, NodeState.RESERVED),
        ({"PLANNED", "PLND"}, NodeState.PLANNED),
        (_BUSY | _FREE, NodeState.UP),
    )
    return next((state for names, state in verdicts if flags & names), NodeState.UNKNOWN)


def wakes(words: Iterable[str]) -> bool:
    """Tell whether a node is off or waking, and nothing else keeps the scheduler from starting jobs on it."""
    flags = {flag for word in words for part in word.upper().split("+") for flag in _unsuffixed(part)}
    able = {"POWERED_DOWN", "POWER_SAVING", "POWERING_UP", "POWER_UP"}
    return bool(flags & able) and not flags & (_MAINTAINED | _LEAVING | (_BROKEN - {"NOT_RESPONDING", "NO_RESPOND"})
                                               | {"POWERING_DOWN", "REBOOT_ISSUED", "REBOOT_REQUESTED"})


def _unsuffixed(word: str) -> Iterable[str]:
    while word and word[-1] in _SUFFIXES:
        yield _SUFFIXES[word[-1]]
        word = word[:-1]
    if word:
        yield word


def job_state(words: Iterable[str]) -> JobState:
    """Return the state of a job from its base state and flags; ``CANCELLED by 1001`` is CANCELLED."""
    states = [_folded(match[0]) for word in words if (match := re.match(r"[A-Z_]+", word.strip().upper()))]
    # The base state comes first; COMPLETING beside a final state means that nodes are still being freed.
    return JobState.COMPLETING if JobState.COMPLETING in states else next(iter(states), JobState.UNKNOWN)


def _folded(word: str) -> JobState:
    return _JOB_STATES.get(word) or _JOB_FLAGS.get(word, JobState.UNKNOWN)


def spelled(state: JobState) -> str:
    """Return Slurm's word for a state of a job."""
    return _SPELLED.get(state, "PENDING")
