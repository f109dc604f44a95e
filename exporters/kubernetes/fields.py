"""What all objects of Kubernetes share, how they are listed and watched, and their times and quantities.

Lists may be null where they are empty, as Go writes them. Of annotations those that name a gang are read alone: users
keep whole files in others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from ...storage.time_bounds import believable

Item = TypeVar("Item")
Text = bytes | msgspec.Raw
"""An object as it came, or the place of it in a longer answer: it is not copied to be read."""
Amounts = dict[str, str | int | float]
"""Quantities by resource."""
_SUFFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
             "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_QUANTITY = re.compile(r"\+?([0-9]{1,25}(?:\.[0-9]{0,25})?|\.[0-9]{1,25})"
                       r"(?:([eE][+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
_MOST = 2.0**62


class ObjectPart(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A part of an object; every field has a default, since the server leaves out what is empty."""


class Owner(ObjectPart, frozen=True):
    """The owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = False


class Annotations(ObjectPart, frozen=True):
    """The annotations that name a gang, and what annotations configure in Kueue."""

    volcano: str = msgspec.field(name="scheduling.k8s.io/group-name", default="")
    kai: str = msgspec.field(name="pod-group-name", default="")
    volcano_queue: str = msgspec.field(name="volcano.sh/queue-name", default="")
    fraction: str = msgspec.field(name="gpu-fraction", default="")
    gpu_memory: str = msgspec.field(name="gpu-memory", default="")
    hami: str = msgspec.field(name="hami.io/vgpu-devices-allocated", default="")
    gated_by: str = msgspec.field(name="kueue.x-k8s.io/admission-gated-by", default="")
    boost: str = msgspec.field(name="kueue.x-k8s.io/priority-boost", default="")


class Meta(ObjectPart, frozen=True):
    """The identity of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: Annotations | None = None
    owner_references: list[Owner] | None = None

    @property
    def controller(self) -> Owner | None:
        """Return the owner that manages it."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None

    def label(self, name: str) -> str:
        """Return the value of a label, '' where it has none."""
        return (self.labels or {}).get(name, "")


class Condition(ObjectPart, frozen=True):
    """What holds of an object, since when and why."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ListMeta(ObjectPart, frozen=True):
    """The moment of a list, and where it goes on."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListOf(ObjectPart, Generic[Item], frozen=True):
    """A page of a list."""

    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[Item] | None = None


Listing = ListOf[msgspec.Raw]
"""A page whose items are each read on their own, so that a strange one costs itself alone."""


class Event(ObjectPart, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class ServerStatus(ObjectPart, frozen=True):
    """How a server says no."""

    code: int = 0
    message: str = ""


class Identity(ObjectPart, frozen=True):
    """What tells one object from another: most objects whose other fields are nonsense have it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Identified(ObjectPart, frozen=True):
    """An object of which only what tells it from others is read."""

    metadata: Identity = Identity()


class Bare(ObjectPart, frozen=True):
    """An object of which only its metadata are read."""

    metadata: Meta = Meta()


class ApiGroup(ObjectPart, frozen=True):
    """A group of kinds that a server has."""

    name: str = ""
    versions: list[dict[str, str]] | None = None


class ApiGroups(ObjectPart, frozen=True):
    """All groups but the core."""

    kind: str = ""
    groups: list[ApiGroup] | None = None


def some(items: list[Item] | None) -> Iterable[Item]:
    """Return a list that may be null."""
    return items or ()


def condition(conditions: list[Condition] | None, kind: str) -> Condition | None:
    """Return the condition of a kind, None where there is none."""
    return next((condition for condition in some(conditions) if condition.type == kind), None)


@lru_cache(maxsize=8192)
def seconds(text: str | None) -> float | None:
    """Return seconds since the epoch of a time such as ``2026-11-22T10:00:00Z``; None for none, or nonsense."""
    if not text:
        return None
    try:
        time_s = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return time_s if believable(time_s) else None


@lru_cache(maxsize=4096)
def quantity(value: str | int | float) -> float:
    """Return the number that a quantity such as ``100m``, ``1.5``, ``64Gi`` or ``1e3`` stands for.

    Raises:
        ValueError: it stands for none that there can be.
    """
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{str(value)[:40]!a} is no quantity")
    number = float(match[1] + (match[2] or "")) * _SUFFIXES[match[3] or ""]
    if number > _MOST:
        raise ValueError(f"{str(value)[:40]!a} is more than there can be")
    return number
