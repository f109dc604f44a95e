"""What binds pods to labels of nodes and to other pods, hashable, and on which nodes that leaves them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .fields import some
from .objects import PodAffinity, PodSpec, PodTerm, Requirement, Selector, Spread

if TYPE_CHECKING:
    from .nodes import NodeFacts
    from .pods import PodFacts

NEAR, APART, EVEN = "near", "apart", "even"
HOSTNAME = "kubernetes.io/hostname"
Terms = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Key, operator and values of requirements that have to be met together."""
NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class PodRule:
    """Pods beside which one has to be, or must not be, or has to be spread with."""

    kind: str
    key: str
    """The label of nodes that says what is one place."""
    selector: Terms | None
    """None selects nobody, () everybody."""
    namespaces: tuple[str, ...] = ()
    """Of those pods; () for its own."""
    skew: int = 1


def terms_of(spec: PodSpec) -> tuple[Terms, ...]:
    """Return what a pod asks of labels of its node: alternatives, () for nothing."""
    chosen = tuple((key, "In", (value,)) for key, value in sorted((spec.node_selector or {}).items()))
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    found = [(*_terms(term.match_expressions), *_terms(term.match_fields))
             for term in (some(required.node_selector_terms) if required else ())]
    alternatives = [term for term in found if term]
    if required is not None and not alternatives:
        return (((NAME, "In", ()),),)  # an empty term matches no node
    return tuple((*chosen, *term) for term in alternatives) if alternatives else ((chosen,) if chosen else ())


def rules_of(spec: PodSpec) -> tuple[tuple[PodRule, ...], tuple[str, ...]]:
    """Return how a pod is bound to other pods, and what of that cannot be judged here, in words."""
    rules, unknown = list[PodRule](), list[str]()
    affinity = spec.affinity
    for kind, bound in ((NEAR, affinity.pod_affinity if affinity else None),
                        (APART, affinity.pod_anti_affinity if affinity else None)):
        for term in _required(bound):
            if term.namespace_selector is not None:
                unknown.append("namespaces that are chosen by their labels (affinity of pods)")
            else:
                rules.append(PodRule(kind, term.topology_key, _selected(term.label_selector),
                                     tuple(sorted(term.namespaces or ()))))
    rules += (PodRule(EVEN, one.topology_key, _selected(one.label_selector), skew=one.max_skew)
              for one in some(spec.topology_spread_constraints)
              if one.when_unsatisfiable == "DoNotSchedule" and not one.match_label_keys)
    if any(one.match_label_keys for one in _hard(spec.topology_spread_constraints)):
        unknown.append("topology spread by matchLabelKeys")
    return tuple(rules), tuple(dict.fromkeys(unknown))


def _hard(found: list[Spread] | None) -> Iterator[Spread]:
    return (one for one in some(found) if one.when_unsatisfiable == "DoNotSchedule")


def _required(bound: PodAffinity | None) -> Iterable[PodTerm]:
    return some(bound.required) if bound is not None else ()


def _terms(found: list[Requirement] | None) -> Terms:
    return tuple((one.key, one.operator, tuple(one.values or ())) for one in some(found))


def _selected(selector: Selector | None) -> Terms | None:
    if selector is None:
        return None
    named = tuple((key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    return (*named, *_terms(selector.match_expressions))


def selector_of(selector: Selector | None) -> Terms | None:
    """Return a selector of pods, hashable."""
    return _selected(selector)


def meets(terms: Terms, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet all of some requirements; an operator that nobody knows is never met."""
    return all(_meets(labels.get(key), operator, values) for key, operator, values in terms)


def _meets(value: str | None, operator: str, values: Collection[str]) -> bool:
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    bound, number = _number(next(iter(values), None)), _number(value)
    if bound is None or number is None:
        return False
    return number > bound if operator == "Gt" else number < bound if operator == "Lt" else False


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and len(text) < 20 and text.removeprefix("-").isdecimal() else None


def suits(alternatives: Collection[Terms], node: NodeFacts) -> bool:
    """Tell whether a node has the labels, or the name, that are asked for."""
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
        found = set[str]()
        for rule in rules:
            found |= self._barred(rule, namespace, labels, terms)
        for (rule, where), places in self._enemies().items():
            if namespace in (rule.namespaces or (where,)) and rule.selector is not None \
                    and meets(rule.selector, labels):
                found |= {name for name, node in self.nodes.items() if node.labels.get(rule.key) in places}
        return found

    def _barred(self, rule: PodRule, namespace: str, labels: Mapping[str, str], terms: Collection[Terms]) -> set[str]:
        counts = self._count(rule, namespace)
        own = rule.selector is not None and meets(rule.selector, labels) and namespace in (
            rule.namespaces or (namespace,))
        places = {name: node.labels.get(rule.key) for name, node in self.nodes.items()}
        if rule.kind == APART:
            return {name for name, place in places.items() if place is not None and counts[place]}
        if rule.kind == NEAR:
            if own and not counts:  # the first of those who want to be together may be anywhere
                return {name for name, place in places.items() if place is None}
            return {name for name, place in places.items() if place is None or not counts[place]}
        usable = {place for name, place in places.items()
                  if place is not None and suits(terms, self.nodes[name])}
        least = min((counts[place] for place in usable), default=0)
        return {name for name, place in places.items()
                if place is None or counts[place] + own - least > max(1, rule.skew)}

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
        own = rule.selector is not None and meets(rule.selector, labels) and namespace in (
            rule.namespaces or (namespace,))
        if not own:
            continue
        if rule.kind == APART and rule.key == HOSTNAME:
            alone = True
        else:
            what = {NEAR: "affinity", APART: "anti-affinity", EVEN: "topology spread"}[rule.kind]
            unknown.append(f"{what} of several of its pods by {rule.key}")
    return alone, unknown


def exact(alternatives: Iterable[Terms], most: int) -> bool:
    """Tell whether an expression of features says all of it: no numbers are compared, no lists are too long."""
    found = list(alternatives)
    return len(found) <= most and all(
        operator in ("In", "NotIn", "Exists", "DoesNotExist") and 0 < len(values) + (operator[0] in "ED") <= most
        and key != NAME for terms in found for key, operator, values in terms)

