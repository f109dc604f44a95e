"""Pods that are not understood: what they hold all the same, as far as that can be read part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ..text import clean
from .asks import NOTHING, WHOLE, Amount, is_slice, requested
from .fields import Amounts, Identity, ObjectPart, Text, quantity
from .objects import Container, PodSpec, Resources

Part = TypeVar("Part")
EVERYTHING = frozenset(("gpu", "cpu", "memory"))


class _PodSections(ObjectPart, frozen=True):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Place(ObjectPart, frozen=True):
    node_name: str = ""


class _Phase(ObjectPart, frozen=True):
    phase: str = ""


class _ContainerRequests(ObjectPart, frozen=True):
    resources: Resources | None = None
    restart_policy: str | None = None


class _PodRequests(ObjectPart, frozen=True):
    containers: list[_ContainerRequests] | None = None
    init_containers: list[_ContainerRequests] | None = None
    overhead: Amounts | None = None
    resources: Resources | None = None
    resource_claims: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class StrangePod:
    """What a pod holds that is not understood."""

    node: str | None
    """None where not even that is known."""
    amount: Amount = NOTHING
    """As far as it is known."""
    unknown: frozenset[str] = EVERYTHING
    """Of what it may hold all that the node has: ``gpu``, ``cpu``, ``memory``."""


def held_by_strange(raw: Text) -> StrangePod | None:
    """Return what a pod holds that is not understood, None where it waits or is over."""
    parts = decoded(raw, _PodSections)
    if parts is None:
        return StrangePod(None)
    identity, place = decoded(parts.metadata, Identity), decoded(parts.spec, _Place)
    status = decoded(parts.status, _Phase)
    if status is not None and status.phase in ("Succeeded", "Failed"):
        return None
    if place is None or identity is None or not identity.name:
        return StrangePod(None)
    return StrangePod(clean(place.node_name), *_requested(parts.spec)) if place.node_name else None


def decoded(raw: Text, kind: type[Part]) -> Part | None:
    """Return a part of an object, None where it is not understood."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _requested(raw: Text) -> tuple[Amount, frozenset[str]]:
    """Return what a pod asks for as far as it can be read, and what cannot be read."""
    spec = decoded(raw, _PodRequests)
    if spec is None:
        return NOTHING, EVERYTHING
    unknown = {"gpu"} if spec.resource_claims else set[str]()
    containers, preparing = ([_container(container, unknown) for container in containers_read or ()]
                             for containers_read in (spec.containers, spec.init_containers))
    whole = _readable((spec.resources.requests if spec.resources else None) or {}, unknown)
    pod = PodSpec(containers=containers, init_containers=preparing, overhead=_readable(spec.overhead or {}, unknown),
                  resources=Resources(whole))
    return requested(pod), frozenset(unknown)


def _container(container: _ContainerRequests, unknown: set[str]) -> Container:
    resources = container.resources or Resources()
    given = {**(resources.limits or {}), **(resources.requests or {})}
    return Container(resources=Resources(_readable(given, unknown)), restart_policy=container.restart_policy)


def _readable(amounts: Amounts, unknown: set[str]) -> Amounts:
    """Return the amounts that are some; note of what there are others."""
    readable: Amounts = {}
    for name, value in amounts.items():
        try:
            quantity(value)
        except ValueError:
            unknown.add("gpu" if name in WHOLE or is_slice(name) else name)
        else:
            readable[name] = value
    return readable
