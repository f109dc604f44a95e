"""What an API server of Kubernetes keeps: objects with rising versions, and the changes since the last compaction.

Lists are pages of one moment, watches go on from a version; what is older than the last compaction has expired. Objects
are written to JSON once, when they change.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace ('' for what has none) and name."""
MOST_CHANGES = 50_000
"""Older changes are forgotten, as by the compaction of etcd."""
_MOST_MOMENTS = 64


class ExpiredError(Exception):
    """What was requested is older than the last compaction."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object that is served."""

    group: str
    """'' for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the group with its version, as objects name it."""
        return f"{self.group}/{self.version}" if self.group else self.version


_KUEUE, _VOLCANO = ("kueue.x-k8s.io", "v1beta2"), ("scheduling.volcano.sh", "v1beta1")
NODES, PODS = Resource("", "v1", "nodes", "Node", False), Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
JOBS = Resource("batch", "v1", "jobs", "Job")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
WORKLOADS = Resource(*_KUEUE, "workloads", "Workload")
LOCAL_QUEUES = Resource(*_KUEUE, "localqueues", "LocalQueue")
CLUSTER_QUEUES = Resource(*_KUEUE, "clusterqueues", "ClusterQueue", False)
FLAVORS = Resource(*_KUEUE, "resourceflavors", "ResourceFlavor", False)
TOPOLOGIES = Resource(*_KUEUE, "topologies", "Topology", False)
HYPER_NODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False)
COHORTS = Resource(*_KUEUE, "cohorts", "Cohort", False)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
POD_GROUPS = Resource(*_VOLCANO, "podgroups", "PodGroup")
KAI_GROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
NATIVE_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CORE = (NODES, PODS, NAMESPACES, JOBS, PRIORITY_CLASSES, BUDGETS, CLAIMS, SLICES, DEPLOYMENTS)
ALL = (*CORE, WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS, COHORTS, POD_GROUPS, KAI_GROUPS, NATIVE_GROUPS,
       TOPOLOGIES, HYPER_NODES)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object at one version."""

    version: int
    name: Name
    content: Object
    text: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to an object."""

    version: int
    kind: str
    """``ADDED``, ``MODIFIED`` or ``DELETED``."""
    stored: StoredObject


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list."""

    version: int
    items: Sequence[StoredObject]
    more: str = ""
    """What the next page is requested with; '' after the last one."""
    remaining: int = 0


@dataclass(slots=True)
class _Shelf:
    """The objects of one resource."""

    objects: dict[Name, StoredObject] = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES))
    forgotten: int = 0
    """The newest change that is forgotten."""


class Store:
    """All objects, safe for many threads; ``changed`` is notified of each change."""

    def __init__(self, resources: Iterable[Resource] = ALL) -> None:
        self.resources = tuple(resources)
        self.version = 1
        self.changed = threading.Condition()
        self._shelves = {resource: _Shelf() for resource in self.resources}
        self._moments: dict[int, tuple[int, tuple[StoredObject, ...]]] = {}
        """Version and objects of lists that are being read, by number."""
        self._lists = 0

    def put(self, resource: Resource, content: Object) -> None:
        """Create an object, or replace the one of its name; nothing happens where it is the same."""
        metadata = content["metadata"]
        name = metadata.get("namespace", "") if resource.namespaced else "", metadata["name"]
        with self.changed:
            known = self._shelves[resource].objects.get(name)
            if known is not None and known.content == content:
                return
            self._note(resource, "ADDED" if known is None else "MODIFIED", name, content)

    def delete(self, resource: Resource, name: Name) -> None:
        """Remove an object, if it is there."""
        with self.changed:
            known = self._shelves[resource].objects.get(name)
            if known is not None:
                self._note(resource, "DELETED", name, known.content)

    def _note(self, resource: Resource, kind: str, name: Name, content: Object) -> None:
        self.version += 1
        stored = StoredObject(self.version, name, content, written(resource, content, self.version))
        shelf = self._shelves[resource]
        if kind == "DELETED":
            del shelf.objects[name]
        else:
            shelf.objects[name] = stored
        if len(shelf.changes) == MOST_CHANGES:
            shelf.forgotten = shelf.changes[0].version
        shelf.changes.append(Change(self.version, kind, stored))
        self.changed.notify_all()

    def names(self, resource: Resource) -> list[Name]:
        """Return the names of all objects of a resource."""
        with self.changed:
            return list(self._shelves[resource].objects)

    def get(self, resource: Resource, name: Name) -> StoredObject | None:
        """Return an object by its name."""
        with self.changed:
            return self._shelves[resource].objects.get(name)

    def expire(self) -> None:
        """Forget all changes and the moments of lists under way, as a compaction does."""
        with self.changed:
            self.version += 1
            for shelf in self._shelves.values():
                shelf.changes.clear()
                shelf.forgotten = self.version
            self._moments.clear()
            self.changed.notify_all()

    def page(self, resource: Resource, wanted: Callable[[StoredObject], bool], limit: int, token: str = "") -> ListPage:
        """Return a page of a list, 0 for no limit; all pages of a list are of the moment of the first.

        Raises:
            ExpiredError: the moment of the list is forgotten, or the token is none of ours.
        """
        with self.changed:
            number, start = _place(token) if token else (self._open(resource, wanted), 0)
            if number not in self._moments:
                raise ExpiredError("The provided continue parameter is too old to display a consistent list result")
            version, items = self._moments[number]
            end = start + limit if limit else len(items)
            if end >= len(items):
                del self._moments[number]
            more = _token(number, end) if end < len(items) else ""
            return ListPage(version, items[start:end], more, max(0, len(items) - end))

    def _open(self, resource: Resource, wanted: Callable[[StoredObject], bool]) -> int:
        """Keep the objects of this moment for a list; return its number."""
        objects = self._shelves[resource].objects
        self._lists += 1
        self._moments[self._lists] = self.version, tuple(
            objects[name] for name in sorted(objects) if wanted(objects[name]))
        for old in sorted(self._moments)[:-_MOST_MOMENTS]:
            del self._moments[old]
        return self._lists

    def since(self, resource: Resource, version: int) -> tuple[int, list[Change]]:
        """Return the present version and what has changed after one.

        Raises:
            ExpiredError: changes after it are forgotten.
        """
        with self.changed:
            shelf = self._shelves[resource]
            if version < shelf.forgotten:
                raise ExpiredError(f"too old resource version: {version} ({shelf.forgotten})")
            changes = []
            for change in reversed(shelf.changes):
                if change.version <= version:
                    break
                changes.append(change)
            return self.version, changes[::-1]

    def sync(self, resource: Resource, contents: Iterable[Object]) -> None:
        """Make the objects of a resource those that are given."""
        left = set(self.names(resource))
        for content in contents:
            self.put(resource, content)
            left.discard((content["metadata"].get("namespace", "") if resource.namespaced else "",
                          content["metadata"]["name"]))
        for name in left:
            self.delete(resource, name)


def written(resource: Resource, content: Mapping[str, Any], version: int) -> bytes:
    """Return an object as it goes over the wire."""
    metadata = {**content["metadata"], "resourceVersion": str(version)}
    return json.dumps({"kind": resource.kind, "apiVersion": resource.api_version, **content, "metadata": metadata},
                      separators=(",", ":")).encode()


def _token(number: int, start: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([number, start]).encode()).decode()


def _place(token: str) -> tuple[int, int]:
    try:
        number, start = json.loads(base64.urlsafe_b64decode(token))
        return int(number), int(start)
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise ExpiredError("continue key is not valid") from error
