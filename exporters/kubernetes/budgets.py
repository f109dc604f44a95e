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
    budget = _BUDGET.decode(raw)
    return BudgetFacts(clean(budget.metadata.namespace), clean(budget.metadata.name), selector_of(budget.spec.selector),
                       max(0, budget.status.disruptions_allowed))


def by_namespace(budgets: Iterable[BudgetFacts]) -> Mapping[str, list[BudgetFacts]]:
    """Return budgets by the namespace that they are of."""
    grouped: dict[str, list[BudgetFacts]] = {}
    for budget in budgets:
        grouped.setdefault(budget.namespace, []).append(budget)
    return grouped


def budgets_of(pods: Iterable[PodFacts], budgets: Mapping[str, list[BudgetFacts]]) -> tuple[Budget, ...]:
    """Return the budgets that some pods are under, with how many of them are."""
    if not budgets:
        return ()
    counts: Counter[BudgetFacts] = Counter(
        budget for pod in pods for budget in budgets.get(pod.namespace, ())
        if budget.selector is not None and meets(budget.selector, pod.labels))
    return tuple(Budget(f"{budget.namespace}/{budget.name}", budget.allowed, count) for budget, count in counts.items())
