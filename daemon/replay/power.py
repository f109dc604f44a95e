"""What a replayed cluster draws: idle floor, context, load curve, host overhead, and nodes that power down.

Node watts = hosts that are on + GPUs. A free GPU draws its idle floor ``b``; an allocated one its context floor
``c`` plus ``(L - c) x share``, where the share is the job's own ``draw`` if it has one, else the curve's at the model's
``load``. A node that has been empty for longer than the run's ``power_down_s`` draws standby.

Of the classes of waste a replay knows idle, underused and empty. What a job makes of its GPUs is not replayed, so
that idle and hung allocations are within ``allocated_underused``; stranded and planned GPUs are within
``idle_unallocated``, and the fragmentation tells how many of them waiting jobs could not have used.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from ...storage.power_classes import PowerClass
from . import arrays as a
from .engine import Run
from .state import ClusterState

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


Watts = float | Floats
"""One value for all nodes, or [node]."""
LINEAR = ((0.0, 0.0), (1.0, 1.0))


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Watts of nodes; measure them, the defaults only have the right order of magnitude for an A100 node."""

    idle: Watts = 55.0
    """GPU without a context."""
    context: Watts = 95.0
    """GPU with a job's context and nothing to do."""
    limit: Watts = 400.0
    """GPU at full load."""
    host: Watts = 800.0
    """CPUs, fans, switches of a node that is on."""
    standby: Watts = 20.0
    """Node that is powered down, all in."""
    load: float = 0.9
    """The load of an allocated GPU, 0..1."""
    curve: tuple[tuple[float, float], ...] = LINEAR
    """(load, share of the way from ``context`` to ``limit``) by rising load, linear in between."""
    host_busy: Watts | None = None
    """The host's watts on a node with a job; None where these are ``host``."""

    def at_load(self, load: float) -> Watts:
        """Return the watts of an allocated GPU at a load of 0..1."""
        return self.context + (self.limit - self.context) * self.share(load)

    def share(self, load: float) -> float:
        """Return how far the watts at a load are on the way from ``context`` to ``limit``."""
        loads, shares = zip(*self.curve, strict=True)
        return float(np.interp(load, loads, shares))

    @property
    def as_numbers(self) -> tuple[object, ...]:
        """Return the model's watts as plain numbers."""
        return tuple(value.tolist() if isinstance(value, np.ndarray) else value for value in astuple(self))


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules over a window, by class of power; ``total`` is their sum."""

    productive: float
    """GPUs at work, less the floor of their idle part."""
    allocated_underused: float
    """The floor that bought no work: ``c x (1 - load)`` of allocated GPUs."""
    idle_unallocated: float
    """Free GPUs of nodes that are on."""
    node_overhead_empty: float
    """Hosts of empty nodes that are on."""
    host_active: float
    """Hosts of nodes with a job."""
    unavailable: float
    """Nodes that are powered down."""

    @property
    def total(self) -> float:
        """Return all joules."""
        return (self.productive + self.allocated_underused + self.idle_unallocated + self.node_overhead_empty
                + self.host_active + self.unavailable)

    @property
    def wasted(self) -> float:
        """Return the joules of the classes that are called wasted."""
        return float(sum(getattr(self, part.name) for part in fields(self) if PowerClass(part.name).wasted))


@dataclass(frozen=True, slots=True)
class Occupation:
    """How the nodes spent their time from the first submission to ``until``, in seconds; arrays are [node]."""

    until: float
    busy: Floats
    """Seconds with at least one job."""
    empty: Floats
    """Seconds on without a job."""
    down: Floats
    """Powered down."""
    gpu: Floats
    """GPU-seconds held."""
    since: Floats
    """When nodes last became busy or empty."""
    delay: Floats | float
    """Seconds after which an empty node is powered down, or was."""
    known: Floats | float = 0.0
    """GPU-seconds held by jobs whose own watts are known,"""
    load: Floats | float = 0.0
    """these times their activity,"""
    draw: Floats | float = 0.0
    """and times how far their watts are on the way from those of an idle context to those of full load."""

    def later(self, until: float) -> Occupation:
        """Return the occupation up to a later moment, if nothing runs any more: nodes stay empty or powered down."""
        before, after = (np.minimum(end - self.since, self.delay) for end in (self.until, until))
        return replace(self, until=until, empty=self.empty + after - before,
                       down=self.down + (until - self.until) - (after - before))


def occupation(run: Run, until: float | None = None) -> Occupation:
    """Return how nodes spent their time up to ``until``, which must not lie before the last event of the run."""
    state = run.state.arrays
    # Columns of plain arrays: a record array looks for each name for longer than all of this takes.
    meters, busy = np.asarray(state.meters), np.asarray(state.nodes)["busy"] > 0
    changed, slept = meters["changed"], meters["slept"]
    last = run.state.now if until is None else until
    if np.isfinite(run.state.now) and last < run.state.now:
        raise ValueError(f"time is metered up to {run.state.now}, not up to {last}")
    left = np.where(np.isfinite(changed), last - changed, 0.0)
    delay = float(state.costs[a.POWER_DOWN])
    if np.isfinite(slept).any():
        delay = np.minimum(delay, slept - changed)
    gpu, known, load, draw = _held_by_running(run.state, last)
    return Occupation(
        last, meters["busy"] + np.where(busy, left, 0.0),
        meters["empty"] + np.where(busy, 0.0, np.minimum(left, delay)),
        meters["down"] + np.where(busy, 0.0, np.maximum(0.0, left - delay)),
        meters["gpu"] + gpu, np.where(np.isfinite(changed), changed, last), delay,
        meters["known"] + known, meters["load"] + load, meters["draw"] + draw)


def _held_by_running(state: ClusterState, until: float) -> tuple[Floats, ...]:
    """Return what running jobs have held since they were last metered, as ``gpu, known, load, draw`` of nodes."""
    jobs, parts, running = np.asarray(state.arrays.jobs), np.asarray(state.arrays.held), state.running
    begin, nodes_held, since, load, draw = (
        jobs[name][running] for name in ("held", "nodes_held", "since", "load", "draw"))
    first = np.repeat(begin - (np.cumsum(nodes_held) - nodes_held), nodes_held)
    part = first + np.arange(len(first))
    held_s = parts["gpus"][part] * np.repeat(until - since, nodes_held)
    known_s = np.where(np.repeat(np.isnan(draw), nodes_held), 0.0, held_s)
    load, draw = (np.repeat(np.where(np.isnan(column), 0.0, column), nodes_held) for column in (load, draw))
    return by_node(parts["node"][part], len(state.arrays.nodes), held_s, known_s, known_s * load, known_s * draw)


def by_node(node: Counts, nodes: int, *columns: Floats) -> tuple[Floats, ...]:
    """Return the sum of each column by node, of so many nodes."""
    return tuple(np.bincount(node, weights=column, minlength=nodes).astype(np.float64) for column in columns)


def energy(run: Run, model: PowerModel, *, until: float | None = None) -> Energy:
    """Return the joules of a run from its first submission to ``until``, by default to its last event.

    To compare runs give them the same ``until``: the shorter run then pays for the idle cluster at its end.
    """
    return joules(occupation(run, until), run.cluster.gpus, model)


def joules(spent: Occupation, gpus: Counts, model: PowerModel) -> Energy:
    """Return the joules of nodes with so many ``gpus`` each that spent their time like this."""
    return Energy(**{name: float(column.sum()) for name, column in joules_of_nodes(spent, gpus, model).items()})


def joules_of_nodes(spent: Occupation, gpus: Counts, model: PowerModel) -> dict[str, Floats]:
    """Return the joules of each node by class, under the names of :class:`Energy`."""
    unknown = spent.gpu - spent.known
    idle_s = spent.gpu - spent.load - unknown * model.load
    share_s = spent.draw + unknown * model.share(model.load)
    held = model.context * spent.gpu + (model.limit - model.context) * share_s
    underused = np.minimum(model.context * idle_s, held)
    free = gpus * (spent.busy + spent.empty) - spent.gpu
    return {"productive": held - underused, "allocated_underused": underused, "idle_unallocated": free * model.idle,
            "node_overhead_empty": spent.empty * model.host,
            "host_active": spent.busy * (model.host if model.host_busy is None else model.host_busy),
            "unavailable": spent.down * model.standby}
