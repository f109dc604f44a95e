"""How rules become policies: each rule registers itself under a name; names joined by ``+`` make a policy.

To add a rule, write one file in this folder. An order is a key, a placement picks nodes, a backfill walks the queue.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..replay import engine
from ..replay.arrays import State
from ..replay.cluster import Cluster
from ..replay.priority.calculator import PriorityCalculator
from ..replay.queue_groups import PARTITION
from ..replay.rules import Key, Place, Rules, Wake, Walk, pointer_to
from ..replay.state import Actions, ClusterState
from ..replay.workload import Workload

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Order:
    """Which job goes first."""

    name: str
    key: Key
    moving: bool = False
    preemptive: bool = False
    one_at_a_time: bool = False
    oracle: bool = False
    """It looks at true run times; a live daemon must not be run by it."""
    wake: Wake | None = None
    calculator: Callable[[Cluster, Workload, State], PriorityCalculator] | None = None
    """Computes the order from time to time; the key then only tells the rank."""
    ready: Callable[[ClusterState], State] | None = None
    """Returns the arrays as it wants them before any decision."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a job goes."""

    name: str
    place: Place
    repeatable: bool = True
    """Asked twice about the same cluster, it finds nodes both times or neither."""


@dataclass(frozen=True, slots=True)
class Walking:
    """What happens when the first in line does not fit."""

    name: str
    walk: Walk
    levels: int = 2
    """Clusters that it imagines."""
    estimates: bool = False
    """It needs running jobs by their estimated end."""
    own_order: bool = False
    """It sorts for itself, waiting and running jobs."""
    resizing: bool = False
    """It resizes running jobs, so it is asked although nobody waits."""
    patient: bool = False
    """It does nothing for a line whose first job is blocked."""
    lines: str = PARTITION
    """Which jobs stand in line together."""
    turns: bool | None = None
    """A live queue is walked job by job, with plans for waiting jobs (True) or without; None: the engine decides."""
    ready: Callable[[ClusterState], State] | None = None
    """Returns the arrays as it wants them before any decision."""
    instead: Callable[[ClusterState, bool], Walk | None] | None = None
    """Returns the way through the queue that does where the site's configuration asks for another, compiled then; it
    is told whether the order has a calculator, which lets jobs that preempt go first."""


@dataclass(frozen=True)
class Registry:
    """All rules by name."""

    orders: dict[str, Order] = field(default_factory=dict)
    placements: dict[str, Placing] = field(default_factory=dict)
    backfills: dict[str, Walking] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    """Policies with a name of their own."""


_RULES = Registry()


def order(name: str, **facts: Any) -> Callable[[Function], Function]:
    """Register the decorated key function ``(state, job) -> float`` as an order."""
    return lambda key: _keep(_RULES.orders, Order(name, key, **facts), key)


def placement(name: str, **facts: Any) -> Callable[[Function], Function]:
    """Register the decorated function ``(nodes, ask, chosen) -> count`` as a placement."""
    return lambda place: _keep(_RULES.placements, Placing(name, place, **facts), place)


def backfill(name: str, **facts: Any) -> Callable[[Function], Function]:
    """Register the decorated function ``(state, key, place)`` as a way through the queue."""
    return lambda walk: _keep(_RULES.backfills, Walking(name, walk, **facts), walk)


def alias(name: str, policy: str) -> None:
    """Give a composed policy a name of its own."""
    _RULES.whole[name] = policy


def _keep(family: dict[str, Any], rule: Any, function: Function) -> Function:
    if rule.name in family and getattr(family[rule.name], "__module__", "") != rule.__module__:
        raise ValueError(f"two rules call themselves {rule.name!r}")
    family[rule.name] = rule
    return function


def rules() -> Registry:
    """Return every rule of this folder, importing the files on first use."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return _RULES


@dataclass(frozen=True)
class Recipe:
    """The rules that a policy is made of."""

    order: Order
    placing: Placing
    walking: Walking

    def compile(self) -> Rules:
        """Return the function pointers for the engine."""
        return Rules(
            pointer_to("key", self.order.key), pointer_to("place", self.placing.place),
            pointer_to("walk", self.walking.walk), pointer_to("wake", self.order.wake or never),
            self.order.moving and not self.walking.own_order, self.order.one_at_a_time,
            self.order.wake is not None,
            self.walking.patient and self.placing.repeatable and not self.order.moving,
            self.walking.estimates, self.walking.own_order, self.walking.levels, resizing=self.walking.resizing,
            lines=self.walking.lines, turns=self.walking.turns, calculator=self.order.calculator,
            ready=self._ready if self.order.ready and self.walking.ready else self.order.ready or self.walking.ready,
            instead=self.walking.instead and self._instead)

    def _ready(self, state: ClusterState) -> State:
        for rule in (self.order, self.walking):
            state.arrays = state.arrays if rule.ready is None else rule.ready(state)
        return state.arrays

    def _instead(self, state: ClusterState) -> Walk | None:
        walk = self.walking.instead and self.walking.instead(state, self.order.calculator is not None)
        return walk and pointer_to("walk", walk)


def never(state: object) -> float:
    """Return infinity: this order changes only when something happens."""
    return float("inf")


def parse(name: str) -> Recipe:
    """Return the rules of ``order[+placement][+backfill]``; ValueError lists what exists when a part is unknown."""
    known = rules()
    parts = known.whole.get(name, name).split("+")
    if parts[0] not in known.orders:
        raise ValueError(_unknown(name, parts[0], known))
    chosen = known.orders[parts[0]]
    placing = known.placements["best-fit"]
    walking = known.backfills["preempt" if chosen.preemptive else "none"]
    for part in parts[1:]:
        if part in known.placements:
            placing = known.placements[part]
        elif part in known.backfills:
            walking = known.backfills[part]
        else:
            raise ValueError(_unknown(name, part, known))
    return Recipe(chosen, placing, walking)


FORMER_NAMES = {"oracle": "sjf-oracle+best-fit+easy"}
"""Names that misled and are no longer understood, with those in their place; nothing that is recorded needs them."""


def _unknown(name: str, part: str, known: Registry) -> str:
    if name in FORMER_NAMES:
        return f"policy {name!r} is now called {FORMER_NAMES[name]}"

    def listed(family: dict[str, Any]) -> str:
        return ", ".join(sorted(family))

    return (f"policy {name!r}: {part!r} is no rule. A policy is order[+placement][+backfill]; "
            f"orders: {listed(known.orders)}; placements: {listed(known.placements)}; "
            f"backfills: {listed(known.backfills)}; also: {listed(known.whole)}")


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
