"""How many pods may be taken away at once: PodDisruptionBudgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ...storage.steering import Budget
from ..text import clean
from .fields import Meta, ObjectPart, Text
from .objects import Selector
from .pods import PodFacts
from .rules import Terms, meets, selector_of


class _BudgetSpec(ObjectPart, frozen=True):
    """Which pods are protected."""

    selector: Selector | None = None


class _BudgetStatus(ObjectPart, frozen=True):
    """How many may go."""

    disruptions_allowed: int = 0


class _Budget(ObjectPart, frozen=True):
    """A rule on how many pods may be taken away."""

    metadata: Meta = Meta()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


_BUDGET = msgspec.json.Decoder(_Budget)


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """A rule on how many pods of a namespace may be taken away."""

    namespace: str
    name: str
    selector: Terms | None
    allowed: int


def parse_budget(raw: Text) -> BudgetFacts:
    """Return a budget."""
    found = _BUDGET.decode(raw)
    return BudgetFacts(clean(found.metadata.namespace), clean(found.metadata.name), selector_of(found.spec.selector),
                       max(0, found.status.disruptions_allowed))


def by_namespace(budgets: Iterable[BudgetFacts]) -> Mapping[str, list[BudgetFacts]]:
    """Return budgets by the namespace that they are of."""
    found: dict[str, list[BudgetFacts]] = {}
    for one in budgets:
        found.setdefault(one.namespace, []).append(one)
    return found


def budgets_of(pods: Iterable[PodFacts], budgets: Mapping[str, list[BudgetFacts]]) -> tuple[Budget, ...]:
    """Return the budgets that some pods are under, with how many of them are."""
    if not budgets:
        return ()
    counts: Counter[BudgetFacts] = Counter(
        one for pod in pods for one in budgets.get(pod.namespace, ())
        if one.selector is not None and meets(one.selector, pod.labels))
    return tuple(Budget(f"{one.namespace}/{one.name}", one.allowed, count) for one, count in counts.items())
