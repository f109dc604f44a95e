"""GPUs that KAI shares: a pod of its own holds each, and exporters name that, not the pods that have fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from .pods import RESERVATIONS, PodFacts

_GROUP = "runai-gpu-group"
"""The label that fractions of a GPU and its reservation have alike; of several GPUs each has a label behind a slash."""
_MOST = 64


def with_reservations(pods: Sequence[PodFacts]) -> Sequence[PodFacts]:
    """Return pods with the names of the reservations on their node by which exporters know what they hold."""
    reserved: dict[tuple[str, str], str] = {}
    for pod in pods:
        if pod.namespace == RESERVATIONS and pod.holds:
            reserved |= dict.fromkeys(((pod.node, group) for group in _groups(pod)), pod.full_name)
    return [_known(pod, reserved) for pod in pods] if reserved else pods


def _known(pod: PodFacts, reserved: dict[tuple[str, str], str]) -> PodFacts:
    if pod.namespace == RESERVATIONS or not pod.labels:
        return pod
    names = tuple(dict.fromkeys(reserved[pod.node, group] for group in _groups(pod) if (pod.node, group) in reserved))
    return msgspec.structs.replace(pod, known_as=names) if names else pod


def _groups(pod: PodFacts) -> Iterator[str]:
    group_names = (value or key for key, value in pod.labels.items()
                   if key == _GROUP or key.startswith(f"{_GROUP}/"))
    yield from (group for _, group in zip(range(_MOST), group_names, strict=False))
