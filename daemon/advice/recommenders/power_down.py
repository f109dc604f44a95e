"""Empty nodes worth powering down: until when nobody needs them, and what that would save.

A node is listed if it is measured and idle, and if no known job needs it (``advice.power_down_after`` and
``advice.spare_nodes``). Until when is read from the recorded past: how soon so many more nodes were in use, see
``node_demand``. A known job that needs it earlier comes first. What is saved leaves out the time that the node takes to
come up. Where too little of the past tells, until when is unknown, and no saving is claimed. Nothing is powered down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from ....exporters.metrics.declared import ADVICE, Labelled
from ....storage.history import History
from ....storage.power_down import PowerDown
from ....storage.records import Node
from ...durations import ago
from ...settings.recommenders import PowerDownSettings
from ...waste import NodeVerdict
from ..advisor import Advice, is_empty
from ..node_demand import DAY_S, HORIZON, STEP_S, STEPS, NodeDemand, demands, in_use
from ..recommender import Recommendations, RecommenderContext, RecommenderKind, register
from ..spare import spare_nodes

MOST_READ = 7
"""Days of the past that are read in one round: a year-old database is not read at once."""
STALE_S = 120.0
"""An older assessment does not show which nodes are empty now."""


class PowerDownRecommender:
    """Remembers which nodes were in use, and forecasts when each idle one is needed."""

    def __init__(self, settings: PowerDownSettings, history: History) -> None:
        self._settings, self._history = settings, history
        self._names: tuple[str, ...] = ()
        self._used: dict[int, NDArray[np.uint8]] = {}
        """By day since the epoch, a bit for each node and step: four weeks of a thousand nodes are 1 MB, not 8."""

    def recommend(self, context: RecommenderContext) -> Recommendations:
        """Return the nodes, those that save most first; of an assessment that is too old, none."""
        assessment, advice = context.assessment, context.advice
        if assessment is None or advice is None or advice.withdrawn or context.now_s - assessment.time_s > STALE_S:
            return Recommendations(context.now_s)
        verdicts = {verdict.node: verdict for verdict in assessment.nodes}
        worth = spare_nodes(advice.power_down, verdicts).worth
        self._remember(context)
        pools: dict[tuple[str, ...], list[Node]] = {}
        for node in context.snapshot.nodes:
            pools.setdefault(node.partitions, []).append(node)
        rows = [row for nodes in pools.values() for row in self._pool(nodes, worth, verdicts, advice, context.now_s)]
        rows.sort(key=lambda row: (-(row.saved_mid_joules or 0.0), -row.watts, row.nodes))
        return Recommendations(context.now_s, tuple(rows), _metrics(rows[:ADVICE]))

    def _remember(self, context: RecommenderContext) -> None:
        """Read the days that are not known yet, the latest first; today goes on, and yesterday may be recorded late."""
        names = tuple(node.name for node in context.snapshot.nodes)
        if names != self._names:
            self._names, self._used = names, {}
        today = int(context.now_s // DAY_S)
        wanted = range(today, today - max(1, math.ceil(self._settings.past / DAY_S)), -1)
        self._used = {day: used for day, used in self._used.items() if day in wanted and day < today - 1}
        rows = {name: row for row, name in enumerate(names)}
        for day in [day for day in wanted if day not in self._used][:MOST_READ]:
            held = self._history.load_placements(day * DAY_S, (day + 1) * DAY_S)
            self._used[day] = np.packbits(in_use(held, rows, day * DAY_S), axis=1)

    def _pool(self, nodes: Sequence[Node], worth: Mapping[str, str], verdicts: Mapping[str, NodeVerdict],
              advice: Advice, now_s: float) -> Iterator[PowerDown]:
        """Yield the nodes of some partitions: the first is needed when all other empty ones are in use, and so on."""
        idle = [node for node in nodes if node.name in worth]
        empty = sum(map(is_empty, nodes))
        more = np.array([max(1, empty - row) for row in range(len(idle))], np.intp)
        for node, demand in zip(idle, self._demands(nodes, more, now_s), strict=True):
            verdict = verdicts[node.name]
            if verdict.wall_watts is not None:
                by_job_s = advice.needed_s.get(node.name, math.inf) - now_s
                row = self._row(node, verdict.wall_watts, demand, by_job_s, worth[node.name], now_s)
                yield replace(row, power_source=verdict.source)

    def _demands(self, nodes: Sequence[Node], more: np.ndarray[tuple[int], np.dtype[np.intp]],
                 now_s: float) -> Sequence[NodeDemand | None]:
        days = _recorded({day: bool(used.any()) for day, used in self._used.items()})
        in_pool = np.isin(self._names, [node.name for node in nodes])
        counts = [np.unpackbits(self._used[day][in_pool], axis=1, count=STEPS).sum(axis=0, dtype=np.intp)
                  for day in days]
        if counts:  # what is still to come of today is no past
            counts[-1] = counts[-1][:max(0, int((now_s - days[-1] * DAY_S) // STEP_S))]
        return demands(counts, days[0] * DAY_S if days else now_s, now_s, len(nodes), more)

    def _row(self, node: Node, watts: float, demand: NodeDemand | None, by_job_s: float, reason: str,
             now_s: float) -> PowerDown:
        after_s = None if demand is None else [min(needed_s, by_job_s) for needed_s in demand.after_s]
        saved = None if after_s is None else [self._saved(watts, needed_s) for needed_s in after_s]
        early, middle, late = (None if not math.isfinite(needed_s) else now_s + needed_s
                               for needed_s in after_s or (math.inf,) * 3)
        return PowerDown(
            "", 0.0, node.partitions[0] if node.partitions else "", now_s, (node.name,), node.gpus, watts, early,
            middle, late,
            None if saved is None else (saved[0], saved[2]), None if saved is None else saved[1],
            0 if demand is None else demand.days, reason)

    def _saved(self, watts: float, after_s: float) -> float:
        down_s = max(0.0, min(after_s, HORIZON * STEP_S) - self._settings.wake)
        return down_s * max(0.0, watts - self._settings.standby)


def _recorded(used: Mapping[int, bool]) -> Sequence[int]:
    """Return the last days that follow one another, from the day after the first on which anything ran.

    What is before was not recorded, and the first day is not whole.
    """
    days = sorted(used)
    start = next((row for row in range(len(days) - 1, 0, -1) if days[row] - days[row - 1] > 1), 0)
    first = next((row for row in range(start, len(days)) if used[days[row]]), len(days))
    return days[first + 1:]


def _cells(row: Mapping[str, object]) -> Mapping[str, object]:
    return {**row, "node": ",".join(map(str, _list(row["nodes"]))), "again": _again(row), "saves": _saves(row)}


def _metrics(rows: Sequence[PowerDown]) -> dict[str, Labelled]:
    """Return when nodes are needed again and what that saves; nothing of those of which nobody knows it."""
    needed = {(row.nodes[0], bound): moment for row in rows for bound, moment in (
        ("estimate", row.needed_mid_s), ("low", row.needed_from_s), ("high", row.needed_until_s))}
    saved: Labelled = {
        (row.nodes[0], bound): joules for row in rows if row.saved_joules is not None for bound, joules in (
            ("estimate", row.saved_mid_joules), ("low", row.saved_joules[0]), ("high", row.saved_joules[1]))}
    return {"power_down_needed_timestamp_seconds": {key: when for key, when in needed.items() if when is not None},
            "power_down_saving_joules": saved}


def idle_text(row: PowerDown) -> str:
    """Return until when a node is not needed and what that saves, in words."""
    columns = asdict(row)
    again, saves = _again(columns), _saves(columns)
    if again is None or saves is None:
        return "until when is not known, as too little of the past is recorded"
    return f"needed again in {again}, until then it saves {saves}, by {row.days} days of the past"


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _again(row: Mapping[str, object]) -> str | None:
    """Return in what time the node is needed again: ``3h 5m to 1d 2h``."""
    low, high, now = row["needed_from_s"], row["needed_until_s"], row["issued_s"]
    if not isinstance(now, (int, float)) or not row["days"]:
        return None
    ends = [f"over {ago(HORIZON * STEP_S)}" if not isinstance(end, (int, float)) else ago(end - now)
            for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _saves(row: Mapping[str, object]) -> str | None:
    """Return the energy with its interval: ``1.2 kWh (0.4 to 5.6)``; beyond two days ``over`` what they would save."""
    middle, ends = row["saved_mid_joules"], _list(row["saved_joules"])
    if not isinstance(middle, (int, float)):
        return None
    figures = [("" if when is not None else "over ") + f"{float(str(joules)) / 3.6e6:.1f}" for when, joules in zip(
        (row["needed_from_s"], row["needed_mid_s"], row["needed_until_s"]), (ends[0], middle, ends[1]), strict=True)]
    low, usual, high = figures
    return f"{usual} kWh" if low == high else f"{usual} kWh ({low} to {high})"


register(RecommenderKind("power_down", PowerDown, lambda settings, history: PowerDownRecommender(settings, history), {
    "node": "node", "partition": "partition", "watts": "W", "power_source": "measured by", "again": "needed again in",
    "saves": "saves", "days": "days", "reason": "why"}, _cells, "no node is known to be idle and unneeded"))
