"""By which objects a job of Kubernetes can be told where and when to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...storage.steering import Steering
from ..text import clean
from .budgets import BudgetFacts, budgets_of
from .groups import Group
from .pods import PodFacts
from .queues import WorkloadFacts


@dataclass(frozen=True, slots=True)
class Levers:
    """What a site has to be told by, at one moment."""

    gate: str = ""
    check: str = ""
    budgets: Mapping[str, list[BudgetFacts]] | None = None
    """None where nobody shows them."""
    first: Mapping[str, WorkloadFacts] = field(default_factory=dict)
    """Who comes first of those who wait, by queue of the cluster."""

    def awaits(self, group: Group, waiting: Sequence[PodFacts]) -> bool:
        """Tell whether a group waits for advice alone: behind our gate, or our admission check."""
        work = group.work
        if work is not None and not work.admitted:
            return bool(self.gate and work.gated_by == (self.gate,)) or (
                work.reserved and work.pending_checks == (self.check,))
        return bool(self.gate and waiting) and all(pod.gates == (self.gate,) for pod in waiting)

    def steering(self, group: Group, pods: Sequence[PodFacts], queue: str) -> Steering:
        """Return by what a group can be told: one that waits, or one that runs."""
        work = group.work if group.work is not None and not group.work.admitted else None
        if len(pods) == 1 and pods[0].holds:
            return self._running(group, pods[0])
        running = [pod for pod in pods if pod.holds]
        containers = {(pod.container, pod.limited) for pod in pods if pod.amount.any_gpu}
        only, limited = containers.pop() if len(containers) == 1 else ("", False)
        runs = Steering(
            group.namespace, owner=_resource(group), pods=tuple([pod.name for pod in running]), container=only,
            limited=limited, movable=self._movable(running), budgets=budgets_of(running, self.budgets or {}))
        return runs if len(running) == len(pods) > 0 else self._waiting(runs, group, pods, work, queue)

    def _running(self, group: Group, pod: PodFacts) -> Steering:
        """Return it for a job of one pod, as most are."""
        movable = self.budgets is not None and pod.owner is not None and not pod.wish.rules and pod.deleted_s is None
        return Steering(group.namespace, owner=_resource(group), pods=(pod.name,), container=pod.container,
                        limited=pod.limited, movable=movable, budgets=budgets_of((pod,), self.budgets or {}))

    def _waiting(self, steering: Steering, group: Group, pods: Sequence[PodFacts], work: WorkloadFacts | None,
                 queue: str) -> Steering:
        """Return it with what a job is told by that waits, or some pods of it."""
        gated = tuple(pod.name for pod in pods if self.gate and pod.gates == (self.gate,))
        bound = any(pod.wish.nodes or pod.wish.terms for pod in pods) or any(
            part.wish.terms for part in (work.parts if work else ()))
        steering = replace(steering, suspended=_unmade(group), gated=gated, gate=self.gate, bound=bound,
                           check_name=self.check)
        if work is None:
            return steering
        return replace(steering, admission_gated=self.gate in work.gated_by, workload=work.name,
                       pod_sets=work.pod_sets, boost=self._boost(work, queue), reserved=work.reserved,
                       check=work.checks.index(self.check) if self.check in work.pending_checks else None)

    def _movable(self, running: Sequence[PodFacts]) -> bool:
        """Tell whether pods are made again when they are evicted, as far as that and its bounds are known."""
        return self.budgets is not None and bool(running) and all(
            pod.owner is not None and not pod.overhead and not pod.wish.rules and pod.deleted_s is None
            for pod in running)

    def _boost(self, work: WorkloadFacts, queue: str) -> int:
        """Return the boost with which a workload is the first of its queue; 0 where it is."""
        first = self.first.get(queue)
        if first is None or (first.namespace, first.name) == (work.namespace, work.name):
            return 0
        return max(0, int(work.boost + first.effective_priority - work.effective_priority) + 1)


def first_waiting(works: Iterable[WorkloadFacts], queue_of: Mapping[tuple[str, str], str]) -> dict[str, WorkloadFacts]:
    """Return who comes first in each queue: the highest priority with its boost, of equal ones the oldest."""
    found: dict[str, WorkloadFacts] = {}
    for work in works:
        if not work.admitted and not work.finished and work.active:
            queue = queue_of.get((work.namespace, work.queue), work.queue)
            first = found.get(queue)
            if first is None or _turn(work) < _turn(first):
                found[queue] = work
    return found


def _turn(work: WorkloadFacts) -> tuple[float, float, str, str]:
    return -work.effective_priority, work.created_s, work.namespace, work.name


def _resource(group: Group) -> str:
    """Return the owner of a group as commands name it, '' for what no command names."""
    owner = group.owner
    if owner is None or not owner.kind:
        return ""
    return f"{_kind(owner.kind, owner.api_version)}/{clean(owner.name)}"


@lru_cache(maxsize=1024)
def _kind(kind: str, version: str) -> str:
    """Return a kind as commands name it: ``job.batch``."""
    group = version.rpartition("/")[0]
    return f"{clean(kind).lower()}.{clean(group)}" if group else clean(kind).lower()


def _unmade(group: Group) -> bool:
    """Tell whether its owner is a Job that is suspended and has never made pods: its template may be changed."""
    return group.batch is not None and group.batch.suspended and not group.batch.begun and not group.pods

