"""What the pods of a job ask for together, as one request: where they may be, and what of that nobody can judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...storage.details import Details
from ...storage.records import Request
from .asks import NOTHING, WHOLE, Amount, tolerates
from .neighbours import Neighbourhood, several, suits
from .nodes import NodeFacts
from .objects import Toleration
from .pods import PodConstraints, PodFacts
from .queues import WorkloadPods
from .rules import Terms

_SHARED = WHOLE[0]
_Barred = tuple[str, ...]


@dataclass(slots=True)
class Grounds:
    """Nodes and pods at one moment, and what was worked out of them."""

    nodes: Mapping[str, NodeFacts]
    neighbours: Neighbourhood
    widest: int
    """GPUs of the largest node."""
    _kinds: dict[tuple[Terms, ...], set[bool]] = field(default_factory=dict)
    _held: dict[tuple[object, ...], Request] = field(default_factory=dict)
    _wanted: dict[tuple[object, ...], Request] = field(default_factory=dict)
    _tainted: dict[tuple[object, ...], _Barred] = field(default_factory=dict)
    _beside: dict[tuple[object, ...], set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[NodeFacts], pods: Sequence[PodFacts]) -> Grounds:
        """Return what there is now."""
        known = {node.name: node for node in nodes}
        return cls(known, Neighbourhood(known, pods), max((node.gpus for node in nodes), default=0))

    def held(self, parts: Sequence[WorkloadPods], queue: str = "") -> Request:
        """Return what pods that run requested; where they might be otherwise was judged when they were placed."""
        key = tuple(parts), queue
        if key not in self._held:
            self._held[key] = self._request(parts, "", {}, queue, placed=True)
        return self._held[key]

    def wanted(self, parts: Sequence[WorkloadPods], namespace: str, labels: Mapping[str, str],
               queue: str = "") -> Request:
        """Return what pods that wait ask for."""
        if any(part.wish.rules for part in parts) or self.neighbours.watched:
            return self._request(parts, namespace, labels, queue)
        key = tuple(parts), queue, namespace
        if key not in self._wanted:
            self._wanted[key] = self._request(parts, namespace, labels, queue)
        return self._wanted[key]

    def _request(self, parts: Sequence[WorkloadPods], namespace: str, labels: Mapping[str, str], queue: str = "", *,
                 placed: bool = False) -> Request:
        together = sum((part.amount.times(part.count) for part in parts), NOTHING)
        with_gpus = [part for part in parts if part.amount.any_gpu]
        count, each = sum(part.count for part in with_gpus), {part.amount.gpus for part in with_gpus}
        wish = with_gpus[0].wish if with_gpus else PodConstraints()
        alone, unknown = (False, []) if placed or count < 2 else several(wish.rules, namespace, labels)
        gpus = each.pop() if len(each) == 1 else 0
        whole, slices, lacking = self._counted(together, wish)
        apart = count > 1 and (alone or 2 * gpus > self.widest) and gpus > 0
        if not placed:
            unknown += [*wish.unknown, *lacking, *_uneven(with_gpus, slices)]
        return Request(
            gpus=whole, nodes=count if apart else 1, gpus_per_node=gpus or None if whole and (apart or count == 1)
            else None, cpus=math.ceil(together.cpus), memory_bytes=int(together.memory_bytes),
            features=wish.features, required_nodes=wish.nodes,
            excluded_nodes=self._tainted_for(wish, whole) if placed else self._barred(wish, namespace, labels, whole),
            details=Details(gpus_per_task=gpus if count > 1 and whole else 0, tasks=max(1, count), slices=slices,
                            unknown=tuple(dict.fromkeys(unknown)), queue=queue))

    def _counted(self, together: Amount, wish: PodConstraints) -> tuple[int, tuple[tuple[str, int], ...], list[str]]:
        """Return whole GPUs, parts of GPUs, and what of that is not known.

        Where devices are shared under their own name, what is called a GPU is a turn on one, or an instance.
        """
        slices = ((together.profile, together.slices),) if together.slices else ()
        if not together.gpus:
            return 0, slices, []
        if wish.terms not in self._kinds:
            self._kinds[wish.terms] = {node.shares for node in self.nodes.values()
                                       if _hands_out(node) and suits(wish.terms, node)}
        kinds = self._kinds[wish.terms]
        if kinds == {True}:
            return 0, (*slices, (_SHARED, together.gpus)), []
        mixed = ["GPUs are shared under the same name on some nodes and whole on others"] if len(kinds) > 1 else []
        return together.gpus, slices, mixed

    def _barred(self, wish: PodConstraints, namespace: str, labels: Mapping[str, str], whole: int) -> _Barred:
        """Return the nodes on which one pod may not be, by taints, labels or other pods."""
        tainted = self._tainted_for(wish, whole)
        key = wish, namespace, frozenset(labels.items())
        if key not in self._beside:
            self._beside[key] = self.neighbours.barred(wish.rules, namespace, labels, wish.terms)
        beside = self._beside[key]
        return tuple(sorted(beside.union(tainted))) if beside else tainted

    def _tainted_for(self, wish: PodConstraints, whole: int) -> _Barred:
        """Return the nodes that have a taint which a pod does not tolerate, or not what an expression cannot say.

        A pod that wants whole GPUs may not be on a node that cuts all of its GPUs into parts either.

        Taints that are named as GPUs keep away pods that ask for none; a pod that asks is let in, often not before it
        is made.
        """
        terms = wish.terms if wish.inexact else ()
        key = wish.tolerations, terms, whole > 0
        if key not in self._tainted:
            tolerated: list[Toleration] = wish.tolerated
            self._tainted[key] = tuple(
                name for name, node in self.nodes.items()
                if not suits(terms, node) or (whole and node.slices and not _hands_out(node))
                or not all(taint.key in WHOLE or tolerates(tolerated, taint) for taint in node.taints))
        return self._tainted[key]


def _hands_out(node: NodeFacts) -> bool:
    """Tell whether a node hands out anything under the name of a GPU."""
    return any(node.amounts.get(name, 0.0) > 0 for name in WHOLE)


def _uneven(parts: Sequence[WorkloadPods], slices: Sequence[tuple[str, int]]) -> Iterable[str]:
    """Yield why one request cannot say what several unlike pods need."""
    if len({part.amount.gpus for part in parts}) > 1:
        yield "its pods ask for different numbers of GPUs"
    if len({(part.wish.terms, part.wish.rules) for part in parts}) > 1:
        yield "its pods ask for different nodes"
    if slices and sum(part.count for part in parts) > 1:
        yield "several of its pods ask for parts of GPUs"


def parts_of(pods: Iterable[PodFacts]) -> list[WorkloadPods]:
    """Return pods that are alike as one."""
    members = list(pods)
    amount, wish = members[0].amount, members[0].wish
    for pod in members:
        if pod.amount is not amount or pod.wish is not wish:
            break
    else:  # what most jobs are
        return [WorkloadPods(len(members), amount, wish)]
    counts: dict[tuple[Amount, PodConstraints], int] = {}
    for pod in members:
        counts[pod.amount, pod.wish] = counts.get((pod.amount, pod.wish), 0) + 1
    return [WorkloadPods(count, amount, wish) for (amount, wish), count in counts.items()]
