"""A pod, reduced to what jobs are made of.

Ten thousand of them are read at every start: what most pods have not is not looked for, and what they have alike is
worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ...storage.gpu_parts import GpuPart
from ..text import clean
from .asks import Amount, expression, image_of, keys_of, requested
from .fields import Condition, ListOf, Owner, Text, seconds, some
from .gpu_parts import parts_of_gpus
from .objects import Container, ContainerStatus, Pod, PodSpec, Toleration
from .rules import NAME, PodRule, Terms, exact, rules_of, terms_of

_POD = msgspec.json.Decoder(Pod)
PODS = msgspec.json.Decoder(ListOf[Pod])
"""Reads a page of them at once."""
QUEUE, KAI_QUEUE = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
_GANGS = ("kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group")
TEMPLATE_HASH, JOBSET = "pod-template-hash", "jobset.sigs.k8s.io/jobset-name"
LEADER_WORKER_SET, RAY = "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster"
RAY_KIND, RAY_NAME = "ray.io/originated-from-crd", "ray.io/originated-from-cr-name"
RESERVATIONS = "kai-resource-reservation"
"""The namespace in which KAI holds whole GPUs for the pods that share them."""
_CEASED = (("DisruptionTarget", "True"), ("Ready", "False"), ("ContainersReady", "False"))
"""Conditions that pods which are over have since they ended."""
_MOST_TERMS = 20
_NO_LABELS: Mapping[str, str] = {}


class PodConstraints(msgspec.Struct, frozen=True):
    """What a pod asks of nodes beside amounts."""

    features: str = ""
    keys: frozenset[str] = frozenset()
    """The labels that this is about."""
    nodes: tuple[str, ...] = ()
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    """Key, operator, value and effect of each."""
    terms: tuple[Terms, ...] = ()
    """All of what it asks of labels and names: alternatives."""
    inexact: bool = False
    """``features`` and ``nodes`` do not say all of that."""
    rules: tuple[PodRule, ...] = ()
    """How it is bound to other pods."""
    unknown: tuple[str, ...] = ()
    """What binds it and cannot be judged, in words."""

    @property
    def tolerated(self) -> list[Toleration]:
        """Return the tolerations as they were."""
        return [Toleration(*parts) for parts in self.tolerations]


ANYWHERE = PodConstraints()


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """A pod; times in seconds since the epoch, None for what has not happened."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None
    gang: str
    volcano_queue: str
    labels: Mapping[str, str]
    """As they are: code that shows one makes it harmless."""
    amount: Amount
    wish: PodConstraints
    node: str
    phase: str
    created_s: float
    scheduled_s: float | None
    deleted_s: float | None
    ended_s: float | None
    wait: tuple[str, str] = ("", "")
    """Reason and message of why it is not scheduled."""
    image: str = ""
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
    """What ended it, where it was not itself."""
    interactive: bool = False
    container: str = ""
    """The name of its only container."""
    limited: bool = False
    """That has limits of CPU and memory."""
    claims: tuple[str, ...] = ()
    """Claims of devices (DRA), by name."""
    devices: tuple[str, ...] = ()
    """The vendor's ids of what its claims were given."""
    unknown_devices: bool = False
    """What its claims were given is not known."""
    parts: tuple[GpuPart, ...] = ()
    """Of GPUs, as annotations tell them."""
    known_as: tuple[str, ...] = ()
    """Other pods by whose names exporters know what it holds."""
    never_restarts: bool = False
    """It is not run again where it failed."""

    @property
    def over(self) -> bool:
        """Tell whether it will not run any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds(self) -> bool:
        """Tell whether it holds what it requested, be it only while its image is pulled."""
        return self.node != "" and self.phase not in ("Succeeded", "Failed")

    @property
    def full_name(self) -> str:
        """Return how exporters name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def overhead(self) -> bool:
        """Tell whether it is of a DaemonSet, or the node's own: every node has it."""
        return self.owner is not None and self.owner.kind in ("DaemonSet", "Node")


def parse_pod(raw: Text) -> PodFacts:
    """Return a pod."""
    return facts_of(_POD.decode(raw))


def facts_of(pod: Pod) -> PodFacts:
    """Return what is kept of a pod; raise ``ValueError`` for what cannot be."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    labels, conditions = meta.labels or _NO_LABELS, {condition.type: condition for condition in some(status.conditions)}
    scheduled, disrupted = conditions.get("PodScheduled"), conditions.get("DisruptionTarget")
    bound, states = spec.node_name != "", status.container_statuses or ()
    over = status.phase in ("Succeeded", "Failed")
    exits = _exits(states)
    only = spec.containers[0] if spec.containers and len(spec.containers) == 1 else None
    return PodFacts(
        namespace=clean(meta.namespace), name=clean(meta.name), uid=meta.uid, owner=meta.controller, gang=_gang(pod),
        volcano_queue=clean(meta.annotations.volcano_queue) if meta.annotations else "", labels=labels,
        amount=_amount(pod), image=image_of(spec.containers), wish=wish_of(spec),
        node=clean(spec.node_name), phase=status.phase,
        created_s=_created(meta.creation_timestamp),
        scheduled_s=_scheduled(pod, scheduled) if bound else None, deleted_s=seconds(meta.deletion_timestamp),
        ended_s=_ended(exits, conditions) if over else None,
        gates=tuple(clean(gate.name) for gate in spec.scheduling_gates) if spec.scheduling_gates else (),
        wait=(clean(scheduled.reason), clean(scheduled.message)) if scheduled and not bound else ("", ""),
        ready=status.phase == "Running", starting=_starting(states) if states else "",
        nominated=clean(status.nominated_node_name),
        restarts=sum(max(0, state.restart_count) for state in states),
        priority=None if spec.priority is None else float(spec.priority),
        priority_class=clean(spec.priority_class_name), limit_s=spec.active_deadline_seconds,
        exit_code=max((code for code, _, _ in exits), key=abs, default=None),
        end_reason=clean(status.reason or next((why for _, why, _ in exits if why != "Completed"), "")),
        disrupted=clean(disrupted.reason) if disrupted and disrupted.status == "True" else "",
        interactive=_interactive(spec.containers, labels), container=clean(only.name) if only else "",
        limited=only is not None and _limited(only), claims=_claims(pod) if spec.resource_claims else (),
        parts=parts_of_gpus(meta.annotations), never_restarts=spec.restart_policy == "Never")


def _created(text: str | None) -> float:
    created_s = seconds(text)
    if created_s is None:
        raise ValueError("it has no creation time")
    return created_s


def _gang(pod: Pod) -> str:
    notes, group, labels = pod.metadata.annotations, pod.spec.scheduling_group, pod.metadata.labels
    if notes is None and group is None and not labels:
        return ""
    named = (group.pod_group_name if group else "", notes.volcano if notes else "", notes.kai if notes else "",
             *((labels or _NO_LABELS).get(name, "") for name in _GANGS))
    return clean(next(filter(None, named), ""))


def _amount(pod: Pod) -> Amount:
    """Return what a pod asks for; a fraction of a GPU that KAI gives is requested by a note alone.

    What HAMi hands out under the name of a GPU is a part of one.
    """
    request, notes = requested(pod.spec), pod.metadata.annotations
    if notes is not None and notes.hami and request.gpus:
        return msgspec.structs.replace(request, gpus=0, slices=request.gpus, profile="hami")
    if notes is not None and (notes.fraction or notes.gpu_memory) and not request.any_gpu:
        return request + Amount(slices=1, profile="gpu-fraction")
    return request


def _claims(pod: Pod) -> tuple[str, ...]:
    """Return the claims of a pod by name; one that is still to be made of a template has none."""
    made = {status.name: status.resource_claim_name for status in some(pod.status.resource_claim_statuses)}
    return tuple(clean(claim.resource_claim_name or made.get(claim.name) or "")
                 for claim in some(pod.spec.resource_claims))


def wish_of(spec: PodSpec) -> PodConstraints:
    """Return what a pod, or a template of pods, asks of nodes."""
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    tolerations = tuple([(toleration.key, toleration.operator, toleration.value, toleration.effect)
                         for toleration in some(spec.tolerations)])
    if not (spec.node_selector or affinity or spread):
        return PodConstraints(tolerations=tolerations) if tolerations else ANYWHERE
    terms = terms_of(spec)
    rules, unknown = rules_of(spec)
    labelled = tuple(expressions for term in terms
                     if (expressions := tuple(expression for expression in term if expression[0] != NAME)))
    named = [requirement for term in terms for requirement in term if requirement[0] == NAME]
    sure = len(terms) == len(named) == 1 and named[0][1] == "In" and len(named[0][2]) == 1
    inexact = not exact(labelled, _MOST_TERMS) or (bool(named) and not sure)
    return PodConstraints(clean(expression(spec)), keys_of(spec), named[0][2] if sure else (), tolerations, terms,
                          inexact, rules, unknown)


def _scheduled(pod: Pod, status: Condition | None) -> float | None:
    """Return since when a pod holds what it requested: the same time while it lives."""
    since_s = seconds(status.last_transition_time) if status and status.status == "True" else None
    if since_s is None:
        since_s = seconds(pod.status.start_time)
    return seconds(pod.metadata.creation_timestamp) if since_s is None else since_s


def _exits(states: Iterable[ContainerStatus]) -> list[tuple[int, str, float | None]]:
    """Return code, reason and time of the containers that have ended."""
    return [(state.state.terminated.exit_code, state.state.terminated.reason,
             seconds(state.state.terminated.finished_at))
            for state in states if state.state and state.state.terminated]


def _ended(exits: Iterable[tuple[int, str, float | None]], conditions: Mapping[str, Condition]) -> float | None:
    """Return when a pod ended: with its last container, else, as of evicted ones, when it ceased to be ready."""
    ends = [time_s for _, _, time_s in exits if time_s is not None]
    if not ends:
        ends = [time_s for kind, status in _CEASED if (condition := conditions.get(kind)) and condition.status == status
                and (time_s := seconds(condition.last_transition_time)) is not None]
    return max(ends, default=None)


def _starting(states: Iterable[ContainerStatus]) -> str:
    waits = [state.state.waiting.reason for state in states if state.state and state.state.waiting]
    return clean(next(filter(None, waits), ""))


def _interactive(containers: list[Container] | None, labels: Mapping[str, str]) -> bool:
    """Tell whether somebody sits before it: a terminal, a notebook of JupyterHub or Kubeflow."""
    for container in containers or ():
        if container.tty:
            return True
    return bool(labels) and (labels.get("component") == "singleuser-server" or "notebook-name" in labels)


def _limited(container: Container) -> bool:
    limits = container.resources.limits if container.resources else None
    return bool(limits) and not {"cpu", "memory"}.isdisjoint(limits or ())
