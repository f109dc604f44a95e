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
    """A rule that decides which job goes first."""

    name: str
    key: Key
    moving: bool = False
    preemptive: bool = False
    one_at_a_time: bool = False
    oracle: bool = False
    """It uses true run times, which a live daemon does not know."""
    wake: Wake | None = None
    calculator: Callable[[Cluster, Workload, State], PriorityCalculator] | None = None
    """Computes the order from time to time; the key then only returns the rank."""
    ready: Callable[[ClusterState], State] | None = None
    """Returns the arrays prepared for this order, before any decision."""


@dataclass(frozen=True, slots=True)
class Placing:
    """A rule that decides where a job goes."""

    name: str
    place: Place
    repeatable: bool = True
    """For the same job and cluster it always finds nodes, or never."""


@dataclass(frozen=True, slots=True)
class Walking:
    """A rule that decides what happens when the first job of a queue does not fit."""

    name: str
    walk: Walk
    levels: int = 2
    """Number of hypothetical clusters that it needs."""
    estimates: bool = False
    """It needs running jobs sorted by their estimated end."""
    own_order: bool = False
    """It sorts waiting and running jobs itself."""
    resizing: bool = False
    """It resizes running jobs, so it is called even when no job waits."""
    patient: bool = False
    """It does nothing for a queue whose first job is blocked."""
    lines: str = PARTITION
    """Which jobs share a queue."""
    turns: bool | None = None
    """A live queue is walked job by job, with plans for waiting jobs (True) or without; None: the engine decides."""
    ready: Callable[[ClusterState], State] | None = None
    """Returns the arrays prepared for this walk, before any decision."""
    instead: Callable[[ClusterState, bool], Walk | None] | None = None
    """Returns another walk where the site's configuration needs one, which is compiled only then. The second argument
    is whether the order has a calculator, which puts jobs that preempt first."""


@dataclass(frozen=True)
class Registry:
    """All rules by name."""

    orders: dict[str, Order] = field(default_factory=dict)
    placements: dict[str, Placing] = field(default_factory=dict)
    backfills: dict[str, Walking] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Policies that also have a short name."""


_RULES = Registry()


def order(name: str, **attributes: Any) -> Callable[[Function], Function]:
    """Register the decorated key function ``(state, job) -> float`` as an order."""
    return lambda key: _keep(_RULES.orders, Order(name, key, **attributes), key)


def placement(name: str, **attributes: Any) -> Callable[[Function], Function]:
    """Register the decorated function ``(nodes, ask, chosen) -> count`` as a placement."""
    return lambda place: _keep(_RULES.placements, Placing(name, place, **attributes), place)


def backfill(name: str, **attributes: Any) -> Callable[[Function], Function]:
    """Register the decorated function ``(state, key, place)`` as a way through the queue."""
    return lambda walk: _keep(_RULES.backfills, Walking(name, walk, **attributes), walk)


def alias(name: str, policy: str) -> None:
    """Give a composed policy a name of its own."""
    _RULES.aliases[name] = policy


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
    """Return infinity: this order changes at events only."""
    return float("inf")


def parse(name: str) -> Recipe:
    """Return the rules of ``order[+placement][+backfill]``; ValueError lists what exists when a part is unknown."""
    registry = rules()
    parts = registry.aliases.get(name, name).split("+")
    if parts[0] not in registry.orders:
        raise ValueError(_unknown_rule(name, parts[0], registry))
    chosen = registry.orders[parts[0]]
    placing = registry.placements["best-fit"]
    walking = registry.backfills["preempt" if chosen.preemptive else "none"]
    for part in parts[1:]:
        if part in registry.placements:
            placing = registry.placements[part]
        elif part in registry.backfills:
            walking = registry.backfills[part]
        else:
            raise ValueError(_unknown_rule(name, part, registry))
    return Recipe(chosen, placing, walking)


FORMER_NAMES = {"oracle": "sjf-oracle+best-fit+easy"}
"""Former names of policies, which are refused, and their replacements; no recorded data needs the former names."""


def _unknown_rule(name: str, part: str, registry: Registry) -> str:
    if name in FORMER_NAMES:
        return f"policy {name!r} is now called {FORMER_NAMES[name]}"

    def listed(family: dict[str, Any]) -> str:
        return ", ".join(sorted(family))

    return (f"policy {name!r}: {part!r} is no rule. A policy is order[+placement][+backfill]; "
            f"orders: {listed(registry.orders)}; placements: {listed(registry.placements)}; "
            f"backfills: {listed(registry.backfills)}; also: {listed(registry.aliases)}")


class Heuristic:
    """Order x placement x backfill, the same object live and replayed."""

    def __init__(self, name: str, recipe: Recipe) -> None:
        self.name = name
        self.recipe = recipe
        self.rules = recipe.compile()

    @property
    def oracle(self) -> bool:
        """Tell whether the policy uses true run times, so that it cannot run in a live daemon."""
        return self.recipe.order.oracle

    def decide(self, state: ClusterState) -> Actions:
        """Return what to start, and preempt, now; the state stays as it is."""
        if not (len(state.waiting) or self.rules.resizing):
            return ()
        return engine.act(state.copy(), self.rules)

    def __repr__(self) -> str:
        """Return the expression that builds the policy again."""
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
    registry = rules()
    return (*sorted(registry.orders), *sorted(registry.aliases))
