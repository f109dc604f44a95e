"""Kubernetes as a source: what its watches have gathered, put together as one snapshot whenever it is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...storage.records import Job, Node, Partition, SchedulerSnapshot
from ...storage.rules import SchedulerRules
from ..bulk import uncollected
from ..fetch import Refused
from ..source import Clock, Role, SourceError, TargetHealth
from ..text import clean
from .access import reach
from .api import ApiClient
from .batches import BATCHES, BatchFacts, KnownBatches, StrangeBatch, batch_of, nameable, parse_batch, strange_batch
from .budgets import by_namespace, parse_budget
from .claims import Devices, parse_claim, parse_slice
from .fields import Text
from .gangs import GangFacts, parse_gang
from .groups import JobPods, gather
from .lists import served
from .nodes import NodeFacts, node_of, parse_node
from .options import KubernetesOptions
from .pods import KAI_QUEUE, PODS, QUEUE, PodFacts, facts_of, parse_pod
from .queues import (
    Queues,
    by_name,
    parse_cluster_queue,
    parse_cohort,
    parse_flavor,
    parse_local_queue,
    parse_workload,
)
from .reflector import Reflector, WatchPatience, Wholesale
from .request import Grounds
from .reservations import with_reservations
from .runs import JobRuns, Surroundings
from .steer import Levers, first_waiting, hosts_of
from .strange_pods import StrangePod, held_by_strange

log = logging.getLogger(__name__)

SHARED = "shared"
"""The partition of free GPUs that not exactly one queue may use."""
_ANYWHERE = "where a pod is that cannot be understood"
"""It may hold GPUs of any node."""
_DISCOVER_S = 600.0
_LOOK_S = 0.05
"""How often it is looked whether a first list has failed."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A list that is watched where the server has it."""

    name: str
    group: str
    versions: tuple[str, ...]
    plural: str
    parse: Callable[[Text], object]
    fact: str
    """What is not known without it."""


_KUEUE, _KUEUE_VERSIONS = "kueue.x-k8s.io", ("v1beta2", "v1beta1")
_DRA = ("v1", "v1beta2", "v1beta1")
_OPTIONAL = (
    _Kind("jobs", "batch", ("v1",), "jobs", parse_batch, "owners, limits and ends of batch jobs"),
    _Kind("workloads", _KUEUE, _KUEUE_VERSIONS, "workloads", parse_workload, "what waits in Kueue's queues"),
    _Kind("localqueues", _KUEUE, _KUEUE_VERSIONS, "localqueues", parse_local_queue, "Kueue's queues of namespaces"),
    _Kind("clusterqueues", _KUEUE, _KUEUE_VERSIONS, "clusterqueues", parse_cluster_queue, "Kueue's queues"),
    _Kind("resourceflavors", _KUEUE, _KUEUE_VERSIONS, "resourceflavors", parse_flavor, "the nodes of Kueue's queues"),
    _Kind("cohorts", _KUEUE, ("v1beta2", "v1beta1", "v1alpha1"), "cohorts", parse_cohort, "quotas of Kueue's cohorts"),
    _Kind("budgets", "policy", ("v1",), "poddisruptionbudgets", parse_budget, "whether pods may be moved"),
    _Kind("claims", "resource.k8s.io", _DRA, "resourceclaims", parse_claim, "devices that pods claim (DRA)"),
    _Kind("slices", "resource.k8s.io", _DRA, "resourceslices", parse_slice, "devices of nodes (DRA)"),
    _Kind("volcano", "scheduling.volcano.sh", ("v1beta1",), "podgroups", parse_gang, "Volcano's queues and reasons"),
    _Kind("kai", "scheduling.run.ai", ("v2alpha2",), "podgroups", parse_gang, "KAI's queues and reasons"),
    _Kind("podgroups", "scheduling.k8s.io", ("v1beta1", "v1alpha3"), "podgroups", parse_gang, "why gangs wait"),
)
_REQUIRED = ("nodes", "pods")
_NAMING = ("jobs", "workloads")
"""What tells the names and the times of submission by which jobs are recorded; required where the server shows it."""
_LASTING = ("jobs", "claims", "slices")
"""Lists that are believed however old: who owns a Job, and what a claim was given, never changes.

Without them what runs would have another name, or seem to have ended.
"""
_WHOLESALE: Mapping[str, Wholesale[Any]] = {"pods": Wholesale(PODS, facts_of), "jobs": Wholesale(BATCHES, batch_of)}
"""How the longest lists are read."""
_SALVAGE: Mapping[str, Callable[[Text], object]] = {"pods": held_by_strange, "jobs": strange_batch}
"""What is known of objects that are not understood."""


class KubernetesSource:
    """Reads a cluster by watching it; without nodes and pods there is no snapshot, of the rest each may be missing.

    What names jobs may be missing where the server has no such list or refuses it, but is waited for otherwise.

    The watches begin with the first read. A snapshot is current while nodes and pods are being watched, else of when
    the server last answered; after ``silence`` without an answer there is none.
    """

    role: Role = "scheduler"

    def __init__(self, config: KubernetesOptions, clock: Clock) -> None:
        self.name = config.name or config.kind
        self._config, self._clock = config, clock
        self._api: ApiClient | None = None
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._patience = WatchPatience(config.watch, config.silence, config.resync)
        self._runs, self._batches = JobRuns(), KnownBatches()
        self._looked = float("-inf")
        self._missing = set[str]()
        self._forbidden: dict[str, str] = {}
        self._closed = False

    def read(self) -> SchedulerSnapshot:
        """Return what is known now; raise ``SourceError`` where nodes or pods are not."""
        self._begin()
        self._discover()
        for name in _REQUIRED:
            self._await(name)
        self._await_names()
        now_s = min(self._clock(), *(self._known_s(self._reflectors[name]) for name in _REQUIRED))
        optional = {kind.name: self._optional(kind.name) for kind in _OPTIONAL}
        with uncollected():
            return self._snapshot(now_s, optional)

    def completed(self, since_s: float) -> Sequence[Job]:
        """Return the runs that have ended since a time, as far as this source has seen them or their pods are left."""
        return self._runs.ended(since_s)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each list fares that the server has."""
        # Copies: a read on another thread may find one more list to watch.
        healths = [self._fares(name, reflector) for name, reflector in tuple(self._reflectors.items())]
        return (*healths, *(TargetHealth(name, False, 0.0, error) for name, error in tuple(self._forbidden.items())))

    def close(self) -> None:
        """End all watches."""
        self._closed = True
        for reflector in tuple(self._reflectors.values()):
            reflector.stop()
        if self._api is not None:
            self._api.close()

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the version that each list has come to."""
        return {name: reflector.version for name, reflector in self._reflectors.items()}

    def _begin(self) -> None:
        if self._closed:
            raise SourceError("is not read any more")
        if self._api is None:
            self._api = ApiClient(reach(self._config.url, self._config.kubeconfig, self._config.context),
                                  self._config.http)
        if not self._reflectors:
            self._watch(self._api, "nodes", "/api/v1/nodes", parse_node)
            self._watch(self._api, "pods", "/api/v1/pods", parse_pod)

    def _watch(self, api: ApiClient, name: str, path: str, parse: Callable[[Text], object]) -> None:
        self._reflectors[name] = Reflector(api, path, parse, self._clock, self._patience, _WHOLESALE.get(name),
                                           _SALVAGE.get(name))
        self._reflectors[name].start()

    def _discover(self) -> None:
        """Begin to watch the lists that the server has by now; one that is missing costs its own fact."""
        assert self._api is not None
        if time.monotonic() - self._looked < _DISCOVER_S:
            return
        try:
            groups = served(self._api)
        except SourceError as error:
            self._forbidden["apis"] = f"which lists there are is not known: {error}"[:300]
            if isinstance(error, Refused) and error.status == 403:
                self._looked = time.monotonic()
            return
        self._forbidden.pop("apis", None)
        self._looked = time.monotonic()
        for kind in _OPTIONAL:
            version = next((candidate for candidate in kind.versions if candidate in groups.get(kind.group, ())), "")
            path = f"/apis/{kind.group}/{version}/{kind.plural}"
            before = self._reflectors.get(kind.name)
            if version and (before is None or _moved(before, path)):
                if before is not None:
                    before.stop()
                self._watch(self._api, kind.name, path, kind.parse)
                self._missing.discard(kind.name)
            elif not version and kind.name not in self._missing:
                self._missing.add(kind.name)
                log.info("%s: %s is not there, nor is known: %s", self.name, kind.group, kind.fact)

    def _await(self, name: str) -> None:
        """Wait for the first list; raise ``SourceError`` where a list is not there, or not believed any more."""
        reflector = self._reflectors[name]
        self._first(reflector)
        if not reflector.synced.is_set():
            raise SourceError(f"{name} cannot be listed: {reflector.error or 'no answer yet'}",
                              permanent=reflector.refused in (401, 403))
        if reflector.silent_for_s() > self._config.silence:
            raise SourceError(f"{name}: no answer for {reflector.silent_for_s():.0f} s: "
                              f"{reflector.error or 'the watch says nothing'}")
        if reflector.refused in (401, 403):
            raise SourceError(f"{name} are not shown any more: {reflector.error}", permanent=True)

    def _await_names(self) -> None:
        """Wait for the first lists of what names jobs: without them the same job would be recorded under two names."""
        if self._looked == float("-inf"):
            raise SourceError(self._forbidden["apis"])
        for name in _NAMING:
            reflector = self._reflectors.get(name)
            if reflector is not None:
                self._first(reflector)
                if not reflector.synced.is_set() and reflector.refused not in (403, 404):
                    raise SourceError(f"{name} cannot be listed, and jobs would be recorded under names that change: "
                                      f"{reflector.error or 'no answer yet'}")

    def _first(self, reflector: Reflector[object]) -> None:
        """Wait until a list was read once, or could not be."""
        end = time.monotonic() + self._config.http.timeout
        while not (reflector.error or self._closed or time.monotonic() > end) and not reflector.synced.wait(_LOOK_S):
            pass

    def _known_s(self, reflector: Reflector[object]) -> float:
        """Return the time of a list: the present while it is watched."""
        return self._clock() if not reflector.error or reflector.last_answer_s is None else reflector.last_answer_s

    def _optional(self, name: str) -> list[Any]:
        """Return what is kept of a list, nothing of one that has not been read for long."""
        reflector = self._reflectors.get(name)
        if reflector is None:
            return []
        self._first(reflector)  # half of the first picture would look like another cluster
        return reflector.kept() if name in _LASTING or self._believed(reflector) else []

    def _believed(self, reflector: Reflector[object]) -> bool:
        """Tell whether a list that may be missing is known now."""
        return reflector.synced.is_set() and reflector.silent_for_s() <= self._config.silence \
            and reflector.refused not in (401, 403, 404)

    def _fares(self, name: str, reflector: Reflector[object]) -> TargetHealth:
        fact = next((kind.fact for kind in _OPTIONAL if kind.name == name), "")
        error = f"{reflector.error}{f'; not known: {fact}' if fact else ''}" if reflector.error else ""
        skipped = reflector.skipped
        if not error and skipped:
            error = f"{len(skipped)} skipped, first {skipped[0]}"
        up = reflector.synced.is_set() and not reflector.error
        return TargetHealth(name, up, 0.0, error, reflector.last_answer_s, skipped=len(skipped))

    def _snapshot(self, now_s: float, optional: Mapping[str, list[Any]]) -> SchedulerSnapshot:
        devices = Devices.of(optional["claims"], optional["slices"])
        facts = devices.equipped(self._reflectors["nodes"].kept())
        # Those that have gone before those that are there: none may be in neither.
        gone, pods = (with_reservations(devices.laid_over(read_pods())) for read_pods in (
            self._reflectors["pods"].gone, self._reflectors["pods"].kept))
        queues = Queues(by_name(optional["localqueues"]), {queue.name: queue for queue in optional["clusterqueues"]},
                        dict(optional["resourceflavors"]), _gangs(optional),
                        tuple(facts), frozenset(filter(None, optional["cohorts"])))
        groups = self._groups(pods, gone, optional)
        works = self._reflectors.get("workloads")
        scene = Surroundings(Grounds.of(facts, pods), queues, partial(self._partition, queues), self._user,
                             partial(queue_of, queues=queues), self._levers(optional, queues, facts),
                             blind=works is not None and not self._believed(works))
        jobs = self._runs.look(groups, scene, now_s)
        strange = self._strange()
        if None in strange:
            jobs = [job.with_unknown((_ANYWHERE,)) for job in jobs]
        nodes = self._nodes(facts, pods, jobs, queues, strange)
        known_queues, flavors = queues.snapshot()
        return SchedulerSnapshot(now_s, nodes, partitions_of(nodes), tuple(jobs), SchedulerRules(queues=known_queues,
                                                                                                 flavors=flavors))

    def _groups(self, pods: Sequence[PodFacts], gone: Sequence[PodFacts],
                optional: Mapping[str, list[Any]]) -> list[JobPods]:
        """Return the jobs that there are, each under the name that it keeps."""
        reflector = self._reflectors.get("jobs")
        strange_jobs = [now for before, now in reflector.strange() if before is None] if reflector else []
        batches = self._batches.look(
            [*(batch for batch in strange_jobs if isinstance(batch, BatchFacts)), *optional["jobs"]],
            reflector.gone() if reflector else (), (*pods, *gone))
        known = {batch.uid for batch in batches}
        strange = [batch for batch in strange_jobs if isinstance(batch, StrangeBatch)]
        return gather(nameable(pods, known, strange), nameable(gone, known, strange), batches, optional["workloads"])

    def _strange(self) -> dict[str | None, list[StrangePod]]:
        """Return by node what pods hold that are not understood, and of which nothing is kept that holds it."""
        pods_by_node: dict[str | None, list[StrangePod]] = {}
        for before, now in self._reflectors["pods"].strange():
            if now is not None and not (before is not None and before.holds):
                pods_by_node.setdefault(now.node, []).append(now)
        return pods_by_node

    def _levers(self, optional: Mapping[str, list[Any]], queues: Queues, facts: Sequence[NodeFacts]) -> Levers:
        budgets = self._reflectors.get("budgets")
        shown = budgets is not None and budgets.synced.is_set() and budgets.refused not in (401, 403, 404)
        return Levers(self._config.gate, self._config.admission_check,
                      by_namespace(optional["budgets"]) if shown else None, hosts_of(facts),
                      first_waiting(optional["workloads"], queues.local))

    def _nodes(self, facts: Sequence[NodeFacts], pods: Sequence[PodFacts], jobs: Sequence[Job],
               queues: Queues, strange: Mapping[str | None, list[StrangePod]]) -> tuple[Node, ...]:
        """Return the nodes with the partitions that may use them: their queues, and whatever else jobs came by."""
        here: dict[str, list[PodFacts]] = {}
        for pod in pods:
            if pod.node:
                here.setdefault(pod.node, []).append(pod)
        keys = frozenset(key for pod in pods for key in pod.wish.keys)
        others = tuple(sorted({job.partition for job in jobs} - queues.clusters.keys()))
        return tuple(node_of(node, here.get(node.name, ()), (*home(queues.serving(node)), *others), keys,
                             strange.get(node.name, ()))
                     for node in sorted(facts, key=lambda node: node.name))

    def _partition(self, queues: Queues, group: JobPods) -> str:
        """Return the partition of a job by the rule that is configured."""
        rule, _, label = self._config.partition.partition(":")
        if rule == "label":
            return _label(group, label) or SHARED
        return (queue_of(group, queues) if rule == "queue" else "") or group.namespace

    def _user(self, group: JobPods) -> str:
        rule, _, label = self._config.user.partition(":")
        return _label(group, label) if rule == "label" else group.namespace


def _gangs(optional: Mapping[str, list[GangFacts]]) -> dict[tuple[str, str], GangFacts]:
    """Return the gangs of all schedulers by namespace and name."""
    gangs = (gang for kind in ("podgroups", "volcano", "kai") for gang in optional[kind])
    return {(gang.namespace, gang.name): gang for gang in gangs}


def queue_of(group: JobPods, queues: Queues) -> str:
    """Return the queue of a job: Kueue's, KAI's or Volcano's, '' for none."""
    if group.queue is None:
        group.queue = _queue_of(group, queues)
    return group.queue


def _queue_of(group: JobPods, queues: Queues) -> str:
    if group.work is not None and group.work.admitted_to:
        return group.work.admitted_to
    if group.work is None and group.plain:
        return ""
    named = (group.work.queue if group.work else "") or _label(group, QUEUE)
    if named:
        return queues.local.get((group.namespace, named), named)
    pods = (*group.pods, *group.gone)
    volcano = next((pod.volcano_queue for pod in pods if pod.volcano_queue), "")
    gang = next((pod.gang for pod in pods if pod.gang), "")
    known = queues.gangs.get((group.namespace, gang))
    return _label(group, KAI_QUEUE) or volcano or (known.queue if known else "")


def _label(group: JobPods, name: str) -> str:
    """Return a label of a job's pods, else of its workload."""
    label = clean(next((pod.labels[name] for pod in (*group.pods, *group.gone) if name in pod.labels), ""))
    return label or (group.work.labels.get(name, "") if group.work else "")


def home(serving: Sequence[str]) -> tuple[str, ...]:
    """Return the partitions of a node by the queues that may use it; if these are not one, its free GPUs are shared."""
    return tuple(serving) if len(serving) == 1 else (SHARED, *serving)


def partitions_of(nodes: Sequence[Node]) -> tuple[Partition, ...]:
    """Return the partitions that nodes serve."""
    names = sorted({name for node in nodes for name in node.partitions})
    return tuple(Partition(name, tuple(node.name for node in nodes if name in node.partitions),
                           default=name == SHARED) for name in names)


def _moved(reflector: Reflector[Any], path: str) -> bool:
    """Tell whether a list is at another path now: an upgrade took away the version that is watched."""
    return reflector.path != path and reflector.refused == 404
