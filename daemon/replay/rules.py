"""What a compiled rule looks like from the engine: the function pointers that it calls, and nothing else.

*key* gives a job its place in the order (lowest first), *place* finds nodes for one job, *walk* goes through the queue
and starts jobs. The engine is compiled once for all rules; a rule when a policy that uses it is first built.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numba
from numba import types as numba_types

from .arrays import Ask, Longs, PlacementView, State
from .cluster import Cluster
from .compiled import pointer
from .priority.calculator import PriorityCalculator
from .queue_groups import PARTITION
from .state import ClusterState
from .workload import Workload

Key = Callable[[State, int], float]
"""(state, job) -> sort key; ties go by (submit, id)."""

Place = Callable[[PlacementView, Ask, Longs], int]
"""(site, ask, chosen) -> how many entries of ``chosen`` were filled with different nodes that fit; 0 when none do."""

Walk = Callable[[State, Key, Place], None]
"""(state, key, place): start, and preempt, whatever should be now."""

Wake = Callable[[State], float]
"""(state) -> when the order may change by itself; infinite when it cannot."""


types: Any = numba_types
typeof: Any = numba.typeof


class Rules(NamedTuple):
    """A composed policy as the engine sees it."""

    key: Key
    place: Place
    walk: Walk
    wake: Wake
    moving: bool
    """The keys change with time or use, so the queue is sorted again at every decision."""
    one_at_a_time: bool
    """Every start changes the keys of the others."""
    waking: bool
    """The order may change although nothing happens; ``wake`` returns when."""
    patient: bool
    """A blocked line stays blocked until something is released: nothing need be tried before."""
    estimates: bool
    """The walk needs running jobs by their estimated end."""
    own_order: bool
    """The walk sorts for itself."""
    levels: int = 2
    """How many clusters the walk imagines."""
    ready: Callable[[ClusterState], State] | None = None
    """Returns the arrays with ``weights``, ``traits`` and ``scratch`` as a rule wants them, before any decision."""
    resizing: bool = False
    """The walk resizes running jobs, so it is called although no job waits."""
    lines: str = PARTITION
    """The rule by which jobs stand in line together, as in :mod:`.queue_groups`."""
    turns: bool | None = None
    """A live queue is walked job by job as the scheduler does it, with plans for waiting jobs or without; None leaves
    it to the engine."""
    calculator: Callable[[Cluster, Workload, State], PriorityCalculator] | None = None
    """Ranks the jobs of a run, where the order is computed from time to time; ``key`` then only returns the rank."""

    instead: Callable[[ClusterState], Walk | None] | None = None
    """Returns another walk where the cluster's scheduler is configured in a way that this walk does not cover."""

    @property
    def calls(self) -> Calls:
        """Return what the compiled loop goes by."""
        return Calls(self.key, self.place, self.walk, self.wake, self.moving, self.one_at_a_time, self.waking,
                     self.patient)

    def calls_on(self, state: ClusterState) -> Calls:
        """Return what the compiled loop goes by on a prepared state."""
        return self.calls if state.walk is None else self.calls._replace(walk=cast(Walk, state.walk))


class Calls(NamedTuple):
    """The part of the rules that the compiled loop goes by; each field is that of :class:`Rules`."""

    key: Key
    place: Place
    walk: Walk
    wake: Wake
    moving: bool
    one_at_a_time: bool
    waking: bool
    patient: bool


class Signatures(NamedTuple):
    """The numba types of the three kinds of rules."""

    key: object
    place: object
    walk: object
    wake: object


@functools.cache
def signatures() -> Signatures:
    """Return the types of rules, taken from a small real state so that they cannot drift from it."""
    state = ClusterState.of(Cluster.from_spec("1x1"), Workload.of([0.0], [1.0], [1])).arrays
    site = PlacementView(state.nodes, state.eligible, state.demand, state.words, state.weights, state.traits)
    state_type, site_type, chosen_type = (typeof(part) for part in (state, site, state.chosen))
    ask = types.NamedUniTuple(types.int64, len(Ask._fields), Ask)
    key = types.float64(state_type, types.int64)
    place = types.int64(site_type, ask, chosen_type)
    walk = types.void(state_type, types.FunctionType(key), types.FunctionType(place))
    return Signatures(key, place, walk, types.float64(state_type))


@functools.cache
def pointer_to(kind: str, function: Callable[..., object]) -> Any:
    """Return the pointer to a rule of this kind, compiled once per process and cached on disk."""
    return pointer(function, getattr(signatures(), kind))
