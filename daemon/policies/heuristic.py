"""A policy made of compiled rules: order x placement x backfill."""

from __future__ import annotations

import functools

from ..replay import engine
from ..replay.state import Actions, ClusterState
from .registry import Recipe, parse, rules


class Heuristic:
    """Order x placement x backfill, the same object live and replayed."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.name = name
        self.recipe = recipe
        self.rules = recipe.compile()

    @property
    def oracle(self) -> bool:
        """Tell whether it looks at true run times and so has no place in a live daemon."""
        return self.recipe.order.oracle

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start, and preempt, now; the state stays as it is."""
        if not (len(state.waiting) or self.rules.resizing):
            return ()
        return engine.act(state.copy(), self.rules)

    def __repr__(self) -> str:
        """Return how to build it again."""
        return f"named({self.name!r})"


@functools.cache
def named(name: str) -> Heuristic:
    """Return the policy called ``order[+placement][+backfill]``, e.g. ``sjf-limit+best-fit+easy``.

    Without a placement it is best-fit, without a backfill none (preemptive orders preempt). ValueError lists what
    exists when a part is unknown.
    """
    return Heuristic(name, parse(name))


def names() -> tuple[str, ...]:
    """Return the names of all orders and of the policies that have a name of their own."""
    known = rules()
    return (*sorted(known.orders), *sorted(known.whole))
