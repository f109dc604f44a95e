"""A pod, reduced to what jobs are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ..text import clean
from .asks import Amount, asked, expression, keys_of, named_nodes
from .fields import Owner, condition, seconds, some
from .objects import Pod, PodSpec, Toleration

_POD = msgspec.json.Decoder(Pod)
QUEUE, KAI_QUEUE = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
_GANGS = ("kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group")
TEMPLATE_HASH, JOBSET = "pod-template-hash", "jobset.sigs.k8s.io/jobset-name"
LEADER_WORKER_SET, RAY = "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster"
RAY_KIND, RAY_NAME = "ray.io/originated-from-crd", "ray.io/originated-from-cr-name"
_READ = frozenset((QUEUE, KAI_QUEUE, *_GANGS, TEMPLATE_HASH, JOBSET, LEADER_WORKER_SET, RAY, RAY_KIND, RAY_NAME,
                   "component", "notebook-name"))
RESERVATIONS = "kai-resource-reservation"
"""The namespace in which KAI holds whole GPUs for those who share them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod asks of nodes beside amounts."""

    features: str = ""
    keys: frozenset[str] = frozenset()
    """The labels that this is about."""
    nodes: tuple[str, ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    """Key, operator, value and effect of each."""

    @property
    def tolerated(self) -> list[Toleration]:
        """Return the tolerations as they were."""
        return [Toleration(*parts) for parts in self.tolerations]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod; times in seconds since the epoch, None for what has not happened."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None
    gang: str
    volcano_queue: str
    labels: Mapping[str, str]
    """Those that grouping and the configuration ask for."""
    amount: Amount
    wish: Wish
    node: str
    phase: str
    created_s: float
    scheduled_s: float | None
    deleted_s: float | None
    ended_s: float | None
    wait: tuple[str, str] = ("", "")
    """Reason and message of why it is not scheduled."""
    gates: tuple[str, ...] = ()
    ready: bool = False
    """It has begun, or need not wait for anything more to do so."""
    starting: str = ""
    """Why a container has not begun."""
    nominated: str = ""
    restarts: int = 0
    priority: float | None = None
    priority_class: str = ""
    limit_s: float | None = None
    exit_code: int | None = None
    end_reason: str = ""
    disrupted: str = ""
    """Who ended it, where it was not itself."""
    interactive: bool = False

    @property
    def over(self) -> bool:
        """Tell whether it will not run any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds(self) -> bool:
        """Tell whether it holds what it asked for, be it only while its image is pulled."""
        return bool(self.node) and not self.over

    @property
    def full_name(self) -> str:
        """Return how exporters name it."""
        return f"{self.namespace}/{self.name}"


def parse_pod(raw: bytes, wanted: Iterable[str] = ()) -> PodFacts:
    """Return a pod; of its labels those that are needed and those that are ``wanted`` besides."""
    pod = _POD.decode(raw)
    meta, spec, status = pod.metadata, pod.spec, pod.status
    labels = {name: clean(value) for name, value in (meta.labels or {}).items() if name in _READ or name in wanted}
    scheduled, disrupted = condition(status.conditions, "PodScheduled"), condition(status.conditions,
                                                                                   "DisruptionTarget")
    bound = bool(spec.node_name)
    return PodFacts(
        namespace=clean(meta.namespace), name=clean(meta.name), uid=meta.uid, owner=meta.controller, gang=_gang(pod),
        volcano_queue=clean(meta.annotations.volcano_queue) if meta.annotations else "", labels=labels,
        amount=asked(spec), wish=wish_of(spec), node=clean(spec.node_name), phase=status.phase,
        created_s=_created(meta.creation_timestamp),
        scheduled_s=_scheduled(pod) if bound else None, deleted_s=seconds(meta.deletion_timestamp),
        ended_s=_ended(pod), gates=tuple(gate.name for gate in some(spec.scheduling_gates)),
        wait=(scheduled.reason, clean(scheduled.message)) if scheduled and not bound else ("", ""),
        ready=status.phase == "Running", starting=_starting(pod), nominated=clean(status.nominated_node_name),
        restarts=sum(max(0, one.restart_count) for one in some(status.container_statuses)),
        priority=None if spec.priority is None else float(spec.priority),
        priority_class=clean(spec.priority_class_name),
        limit_s=spec.active_deadline_seconds, exit_code=_exit_code(pod), end_reason=_end_reason(pod),
        disrupted=disrupted.reason if disrupted and disrupted.status == "True" else "",
        interactive=_interactive(pod, labels))


def _created(text: str | None) -> float:
    created_s = seconds(text)
    if created_s is None:
        raise ValueError("it has no creation time")
    return created_s


def _gang(pod: Pod) -> str:
    notes, group = pod.metadata.annotations, pod.spec.scheduling_group
    named = (group.pod_group_name if group else "", notes.volcano if notes else "", notes.kai if notes else "",
             *(pod.metadata.label(name) for name in _GANGS))
    return clean(next(filter(None, named), ""))


def wish_of(spec: PodSpec) -> Wish:
    """Return what a pod, or a template of pods, asks of nodes."""
    found = tuple((one.key, one.operator, one.value, one.effect) for one in some(spec.tolerations))
    return Wish(expression(spec), keys_of(spec), named_nodes(spec), found)


def _scheduled(pod: Pod) -> float | None:
    """Return since when a pod holds what it asked for: the same time while it lives."""
    found = condition(pod.status.conditions, "PodScheduled")
    told = seconds(found.last_transition_time) if found and found.status == "True" else None
    return next((time_s for time_s in (told, seconds(pod.status.start_time), seconds(pod.metadata.creation_timestamp))
                 if time_s is not None), None)


def _ended(pod: Pod) -> float | None:
    """Return when the last container ended, of a pod that has ended."""
    if pod.status.phase not in ("Succeeded", "Failed"):
        return None
    times = [seconds(one.state.terminated.finished_at) for one in some(pod.status.container_statuses)
             if one.state and one.state.terminated]
    return max((time_s for time_s in times if time_s is not None), default=None)


def _exit_code(pod: Pod) -> int | None:
    codes = [one.state.terminated.exit_code for one in some(pod.status.container_statuses)
             if one.state and one.state.terminated]
    return max(codes, key=abs, default=None)


def _end_reason(pod: Pod) -> str:
    told = [one.state.terminated.reason for one in some(pod.status.container_statuses)
            if one.state and one.state.terminated]
    return clean(pod.status.reason or next((reason for reason in told if reason != "Completed"), ""))


def _starting(pod: Pod) -> str:
    waits = [one.state.waiting.reason for one in some(pod.status.container_statuses) if one.state and one.state.waiting]
    return clean(next(filter(None, waits), ""))


def _interactive(pod: Pod, labels: Mapping[str, str]) -> bool:
    """Tell whether somebody sits before it: a terminal, a notebook of JupyterHub or Kubeflow."""
    return (any(one.tty for one in some(pod.spec.containers)) or labels.get("component") == "singleuser-server"
            or "notebook-name" in labels)
