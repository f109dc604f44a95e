"""On which nodes the rules of pods leave them, by which pods are where at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .nodes import NodeFacts
from .pods import PodFacts
from .rules import APART, EVEN, NAME, NEAR, PodRule, Terms, meets

HOSTNAME = "kubernetes.io/hostname"


def suits(alternatives: Collection[Terms], node: NodeFacts) -> bool:
    """Tell whether a node has the labels, or the name, that are required."""
    return not alternatives or any(meets(terms, {**node.labels, NAME: node.name}) for terms in alternatives)


@dataclass(slots=True)
class Neighbourhood:
    """Which pods are where, at one moment; what is worked out once is kept."""

    nodes: Mapping[str, NodeFacts]
    pods: Iterable[PodFacts]
    _counts: dict[tuple[PodRule, str], Counter[str]] = field(default_factory=dict)
    _against: dict[tuple[PodRule, str], set[str]] | None = None

    @property
    def watched(self) -> bool:
        """Tell whether pods that are there want some others away."""
        return bool(self._enemies())

    def barred(self, rules: Iterable[PodRule], namespace: str, labels: Mapping[str, str],
               terms: Collection[Terms]) -> set[str]:
        """Return the nodes on which rules, its own and those of the pods that are there, do not let one pod be."""
        barred_nodes = set[str]()
        for rule in rules:
            barred_nodes |= self._barred(rule, namespace, labels, terms)
        for (rule, where), places in self._enemies().items():
            if namespace in (rule.namespaces or (where,)) and rule.selector is not None \
                    and meets(rule.selector, labels):
                barred_nodes |= {name for name, node in self.nodes.items() if node.labels.get(rule.key) in places}
        return barred_nodes

    def _barred(self, rule: PodRule, namespace: str, labels: Mapping[str, str], terms: Collection[Terms]) -> set[str]:
        counts = self._count(rule, namespace)
        selected = rule.selects(namespace, labels)
        places = {name: node.labels.get(rule.key) for name, node in self.nodes.items()}
        if rule.kind == APART:
            return {name for name, place in places.items() if place is not None and counts[place]}
        if rule.kind == NEAR:
            if selected and not counts:  # the first of pods that want to be together may be anywhere
                return {name for name, place in places.items() if place is None}
            return {name for name, place in places.items() if place is None or not counts[place]}
        usable = {place for name, place in places.items()
                  if place is not None and suits(terms, self.nodes[name])}
        least = min((counts[place] for place in usable), default=0)
        return {name for name, place in places.items()
                if place is None or counts[place] + selected - least > max(1, rule.skew)}

    def _count(self, rule: PodRule, namespace: str) -> Counter[str]:
        """Return how many pods a rule is about in each place."""
        key = rule, "" if rule.namespaces else namespace
        if key not in self._counts:
            wanted, counts, selector = rule.namespaces or (namespace,), Counter[str](), rule.selector
            for pod in self.pods if selector is not None else ():
                if pod.holds and pod.namespace in wanted and meets(selector or (), pod.labels):
                    place = self.nodes[pod.node].labels.get(rule.key) if pod.node in self.nodes else None
                    if place is not None:
                        counts[place] += 1
            self._counts[key] = counts
        return self._counts[key]

    def _enemies(self) -> dict[tuple[PodRule, str], set[str]]:
        """Return the places in which pods stay that want others away, by rule and their namespace."""
        if self._against is None:
            self._against = {}
            for pod in self.pods:
                if pod.wish.rules and pod.holds and pod.node in self.nodes:
                    for rule in pod.wish.rules:
                        place = self.nodes[pod.node].labels.get(rule.key)
                        if rule.kind == APART and place is not None:
                            self._against.setdefault((rule, pod.namespace), set()).add(place)
        return self._against


def several(rules: Iterable[PodRule], namespace: str, labels: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Return whether like pods each want a node of their own, and what of their rules nobody can judge for several."""
    alone, unknown = False, list[str]()
    for rule in rules:
        if not rule.selects(namespace, labels):
            continue
        if rule.kind == APART and rule.key == HOSTNAME:
            alone = True
        else:
            what = {NEAR: "affinity", APART: "anti-affinity", EVEN: "topology spread"}[rule.kind]
            unknown.append(f"{what} of several of its pods by {rule.key}")
    return alone, unknown
