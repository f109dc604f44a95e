"""Pods that are not understood: what they hold all the same, as far as that can be told part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ..text import clean
from .asks import WHOLE, Amount, asked, is_slice
from .fields import Amounts, Identity, ObjectPart, Text, quantity
from .objects import Container, PodSpec, Resources

Part = TypeVar("Part")


class _PodSections(ObjectPart, frozen=True):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Place(ObjectPart, frozen=True):
    node_name: str = ""


class _Phase(ObjectPart, frozen=True):
    phase: str = ""


class _ContainerRequests(ObjectPart, frozen=True):
    resources: dict[str, dict[str, str | int | float] | None] | None = None
    restart_policy: str | None = None


class _PodRequests(ObjectPart, frozen=True):
    containers: list[_ContainerRequests] | None = None
    init_containers: list[_ContainerRequests] | None = None
    overhead: Amounts | None = None
    resource_claims: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class StrangePod:
    """What a pod holds that is not understood."""

    node: str | None
    """None where not even that can be told."""
    amount: Amount | None
    """None where its GPUs cannot be told: it may hold all of the node's."""


def held_by_strange(raw: Text) -> StrangePod | None:
    """Return what a pod holds that is not understood, None where it waits or is over."""
    parts = told(raw, _PodSections)
    if parts is None:
        return StrangePod(None, None)
    identity, place, status = (told(parts.metadata, Identity), told(parts.spec, _Place), told(parts.status, _Phase))
    if status is not None and status.phase in ("Succeeded", "Failed"):
        return None
    if place is None or identity is None or not identity.name:
        return StrangePod(None, None)
    return StrangePod(clean(place.node_name), _amount(parts.spec)) if place.node_name else None


def told(raw: Text, kind: type[Part]) -> Part | None:
    """Return a part of an object, None where it is not understood."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _amount(raw: Text) -> Amount | None:
    """Return what a pod asks for; of CPUs and memory what can be told."""
    spec = told(raw, _PodRequests)
    if spec is None or spec.resource_claims:
        return None
    try:
        return asked(PodSpec(containers=_containers(spec.containers), init_containers=_containers(spec.init_containers),
                             overhead=_readable(spec.overhead)))
    except ValueError:
        return None


def _containers(found: list[_ContainerRequests] | None) -> list[Container]:
    return [Container(resources=Resources(*(_readable((one.resources or {}).get(name)) for name in (
        "requests", "limits"))), restart_policy=one.restart_policy) for one in found or ()]


def _readable(amounts: Amounts | None) -> Amounts:
    """Return the amounts that are some; raise ``ValueError`` where one of GPUs is none."""
    readable: Amounts = {}
    for name, value in (amounts or {}).items():
        try:
            quantity(value)
        except ValueError:
            if name in WHOLE or is_slice(name):
                raise
        else:
            readable[name] = value
    return readable
