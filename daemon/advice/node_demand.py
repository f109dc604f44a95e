"""How soon an empty node is needed again, from how soon as many more nodes were in use in the recorded past.

For each moment of the past at about the same time of day, the wait is taken until so many more nodes of the same
partitions ran jobs than at that moment. Moments at which there were not so many more nodes are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage.placements import PlacementColumns

DAY_S, STEP_S = 86400.0, 300.0
STEPS = int(DAY_S / STEP_S)
"""The steps of a day: a node is in use in a step if a job ran on it at any time within the step."""
HORIZON = 2 * STEPS
"""Steps that are looked ahead from a moment."""
BESIDE_S = (-7200.0, -3600.0, 0.0, 3600.0, 7200.0)
"""Moments of a past day, against the same time of day."""
LEAST_DAYS = 7
"""Moments from fewer days forecast nothing."""
BESIDE = 0.05
"""Share of days on either side of the interval."""

Floats = NDArray[np.float64]
InUse = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """When so many more nodes are needed."""

    after_s: tuple[float, float, float]
    """Seconds from now: the ends of an interval that holds in nine of ten cases, between them its middle; infinite for
    later than two days."""
    days: int
    """The number of recorded days from which the moments are."""


def in_use(held: PlacementColumns, rows: Mapping[str, int], since_s: float) -> InUse:
    """Return which nodes ran jobs in which steps of a day, [node, step]; a run without an end goes on."""
    known = np.array([rows.get(name, -1) for name in held.vocabularies["node"]], np.intp)
    node = known[held.node] if len(held) else np.empty(0, np.intp)
    known_node = node >= 0
    first = np.clip(np.floor((held.start_s[known_node] - since_s) / STEP_S), 0, STEPS).astype(np.intp)
    end = np.nan_to_num(held.end_s[known_node], nan=np.inf)
    last = np.ceil(np.clip((end - since_s) / STEP_S, 0, STEPS)).astype(np.intp)
    change = np.zeros((len(rows), STEPS + 1), np.int32)
    np.add.at(change, (node[known_node], first), 1)
    np.add.at(change, (node[known_node], np.maximum(first, last)), -1)
    return np.asarray(change.cumsum(axis=1)[:, :-1] > 0)


def demands(counts: Sequence[NDArray[np.int_]], since_s: float, now_s: float, nodes: int,
            more: NDArray[np.intp]) -> list[NodeDemand | None]:
    """Return for each number of further nodes when so many more than now are needed; None where too little is known.

    ``counts`` are the nodes in use, a row of steps for each day from ``since_s`` on, of ``nodes`` in all.
    """
    used = np.concatenate(counts) if counts else np.empty(0, np.int_)
    moments = _moments(len(used), since_s, now_s)
    passed = np.array([passages(used, moment, nodes, more) for moment in moments]).reshape(len(moments), len(more))
    days = np.array([moment // STEPS for moment in moments], np.intp)
    return [_demand(passed[:, column], days) for column in range(len(more))]


def _moments(steps: int, since_s: float, now_s: float) -> list[int]:
    """Return the steps that lie at about this time of day, each with its whole horizon in the past."""
    ages = (day * DAY_S - beside_s for day in range(1, 2 + steps // STEPS) for beside_s in BESIDE_S)
    steps_back = (int((now_s - age_s - since_s) // STEP_S) for age_s in ages)
    return sorted(step for step in steps_back if step >= 0 and step + HORIZON < steps)


def passages(used: NDArray[np.int_], moment: int, nodes: int, more: NDArray[np.intp]) -> Floats:
    """Return the seconds until so many more nodes were in use: infinite beyond the horizon, NaN beyond all nodes."""
    highest = np.maximum.accumulate(used[moment + 1:moment + 1 + HORIZON])
    wanted = used[moment] + more
    after_s: Floats = (1.0 + np.searchsorted(highest, wanted)) * STEP_S
    after_s[after_s > len(highest) * STEP_S] = np.inf
    after_s[wanted > nodes] = np.nan
    return after_s


def _demand(after_s: Floats, days: NDArray[np.intp]) -> NodeDemand | None:
    known = ~np.isnan(after_s)
    count = len(np.unique(days[known]))
    if count < LEAST_DAYS:
        return None
    # Moments of a day are not independent, days are: with fewer than 19 the interval holds all that was seen
    # (conformal prediction; Vovk, Gammerman and Shafer 2005).
    share = math.floor(BESIDE * (count + 1)) / count
    early, middle, late = np.quantile(after_s[known], (share, 0.5, 1.0 - share), method="inverted_cdf").tolist()
    return NodeDemand((early, middle, late), count)
