"""What kube-scheduler asks an extender that keeps its own copy of the nodes, and how it is answered.

Its request is an ``ExtenderArgs`` of ``k8s.io/kube-scheduler/extender/v1``: a pod and the names of nodes that are left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ..text import quoted
from .groups import gather
from .pods import parse_pod

HIGHEST = 10
"""The best score that an extender may give (MaxExtenderPriority)."""
MOST_NODES = 20_000


class _Arguments(msgspec.Struct, frozen=True, gc=False):
    """A pod, and the names of the nodes that it may go to; lists may be null, as Go writes them."""

    pod: msgspec.Raw = msgspec.field(name="Pod", default=msgspec.Raw(b"null"))
    node_names: list[str] | None = msgspec.field(name="NodeNames", default=None)


_ARGUMENTS = msgspec.json.Decoder(_Arguments)


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """Which of these nodes a pod had better go to; amounts are of the one pod."""

    job_id: str
    """As its job is called here, as far as the pod tells: of a CronJob it names the batch job."""
    gpus: int
    slices: int
    """Parts of GPUs that it asks for."""
    cpus: float
    memory_bytes: float
    nodes: tuple[str, ...]


def parse_question(body: bytes) -> PodQuestion:
    """Return the question; raise ``ValueError`` where it is no such question, in words for the caller."""
    try:
        arguments = _ARGUMENTS.decode(body)
        pod = parse_pod(bytes(arguments.pod))
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"no ExtenderArgs: {quoted(str(error), 120)}") from error
    names = arguments.node_names or []
    if not names:
        raise ValueError("NodeNames is empty: the extender has to be configured with nodeCacheCapable: true")
    if len(names) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES} nodes")
    groups = [f"{group.namespace}/{group.name}" for group in gather([pod], (), (), ())]
    return PodQuestion(next(iter(groups), pod.full_name), pod.amount.gpus, pod.amount.slices, pod.amount.cpus,
                       pod.amount.memory_bytes, tuple(names))


def scores_answer(scores: Mapping[str, int]) -> str:
    """Return scores by node as a ``HostPriorityList``."""
    return json.dumps([{"Host": name, "Score": score} for name, score in scores.items()])
