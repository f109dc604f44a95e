"""What binds pods to labels of nodes and to other pods, hashable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from .fields import some
from .objects import PodAffinity, PodSpec, PodTerm, Requirement, Selector, Spread

NEAR, APART, EVEN = "near", "apart", "even"
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

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the pod that has the rule, of this namespace and labels, is one of those that it is about."""
        return (self.selector is not None and meets(self.selector, labels)
                and namespace in (self.namespaces or (namespace,)))


def terms_of(spec: PodSpec) -> tuple[Terms, ...]:
    """Return what a pod asks of labels of its node: alternatives, () for nothing."""
    chosen = tuple((key, "In", (value,)) for key, value in sorted((spec.node_selector or {}).items()))
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    terms = [(*_terms(term.match_expressions), *_terms(term.match_fields))
             for term in (some(required.node_selector_terms) if required else ())]
    alternatives = [term for term in terms if term]
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
                rules.append(PodRule(kind, term.topology_key, selector_of(term.label_selector),
                                     tuple(sorted(term.namespaces or ()))))
    rules += (PodRule(EVEN, constraint.topology_key, selector_of(constraint.label_selector), skew=constraint.max_skew)
              for constraint in some(spec.topology_spread_constraints)
              if constraint.when_unsatisfiable == "DoNotSchedule" and not constraint.match_label_keys)
    if any(constraint.match_label_keys for constraint in _hard(spec.topology_spread_constraints)):
        unknown.append("topology spread by matchLabelKeys")
    return tuple(rules), tuple(dict.fromkeys(unknown))


def _hard(constraints: list[Spread] | None) -> Iterator[Spread]:
    return (constraint for constraint in some(constraints) if constraint.when_unsatisfiable == "DoNotSchedule")


def _required(bound: PodAffinity | None) -> Iterable[PodTerm]:
    return some(bound.required) if bound is not None else ()


def _terms(rules: list[Requirement] | None) -> Terms:
    return tuple((expression.key, expression.operator, tuple(expression.values or ())) for expression in some(rules))


def selector_of(selector: Selector | None) -> Terms | None:
    """Return a selector of pods, hashable."""
    if selector is None:
        return None
    named = tuple((key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    return (*named, *_terms(selector.match_expressions))


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


def exact(alternatives: Iterable[Terms], most: int) -> bool:
    """Tell whether an expression of features says all of it: no numbers are compared, no lists are too long."""
    listed = list(alternatives)
    return len(listed) <= most and all(
        operator in ("In", "NotIn", "Exists", "DoesNotExist") and 0 < len(values) + (operator[0] in "ED") <= most
        and key != NAME for terms in listed for key, operator, values in terms)
