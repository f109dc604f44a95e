"""Which nodes are kept when, for planned jobs: the ``node_space`` of Slurm's backfill (``backfill.c``).

The time from now on is cut where a plan begins or ends; in each part some nodes are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from ...settings.priority import BackfillSettings
from .node_resources import Mask


class NodeSpace:
    """The parts of the time that is planned, and the nodes that are kept in each."""

    def __init__(self, nodes: int, now_s: float, settings: BackfillSettings) -> None:
        self._begins, self._until_s = [now_s], now_s + settings.window_s
        self._kept = [np.zeros(nodes, bool)]
        self.resolution_s = settings.resolution_s
        """Plans begin and end at multiples of this, and nothing is kept for less."""

    def whole(self, begin_s: float, limit_s: float) -> tuple[float, float]:
        """Return when a plan begins and ends that is made from a moment on for so long."""
        step_s = self.resolution_s
        return begin_s // step_s * step_s, (begin_s + limit_s) // step_s * step_s

    def add(self, begin_s: float, end_s: float, nodes: Mask) -> None:
        """Keep nodes from one moment to another."""
        begin_s = max(begin_s, self._begins[0])
        end_s = max(end_s, begin_s + self.resolution_s)
        first = self._cut(begin_s)
        last = self._cut(end_s) if end_s < self._until_s else len(self._begins)
        for part in range(first, last):
            self._kept[part] = self._kept[part] | nodes
        self._join(max(0, first - 2), min(last, len(self._begins) - 1))

    def _join(self, first: int, last: int) -> None:
        """Make one part of two of which the same is kept, once, as Slurm does; it decides when Slurm tries again."""
        for part in range(first, last):
            if (self._kept[part] == self._kept[part + 1]).all():
                del self._begins[part + 1], self._kept[part + 1]
                return

    def kept(self, begin_s: float, end_s: float) -> Mask:
        """Return the nodes that are kept at some time from one moment to another, both of them included."""
        return self._kept_in(self._parts(begin_s, end_s))

    def overlapped(self, begin_s: float, end_s: float) -> Mask:
        """Return the nodes that are kept at some time from one moment on and before another.

        Slurm asks for this once it knows when a plan would begin, and for what is kept where it begins to look.
        """
        return self._kept_in(range(self._parts(begin_s, end_s).start, bisect_left(self._begins, end_s)))

    def _kept_in(self, parts: range) -> Mask:
        found = np.zeros_like(self._kept[0])
        for part in parts:
            found |= self._kept[part]
        return found

    def later(self, usable: Mask, begin_s: float, end_s: float) -> float | None:
        """Return when a node comes free that a job could use but cannot have from one moment to another.

        Slurm tries again then; None where it does not.
        """
        parts, left = self._parts(begin_s, end_s), usable
        for part in range(parts.start, min(parts.stop + 1, len(self._begins) - 1)):
            if (usable & ~self._kept[part + 1] & ~(left & ~self._kept[part])).any():
                return self._begins[part + 1]
            left = left & ~self._kept[part]
        return None

    def _parts(self, begin_s: float, end_s: float) -> range:
        return range(max(0, bisect_right(self._begins, begin_s) - 1), bisect_right(self._begins, end_s))

    def _cut(self, moment_s: float) -> int:
        """Cut at a moment; return which part begins then."""
        place = bisect_left(self._begins, moment_s)
        if place == len(self._begins) or self._begins[place] != moment_s:
            self._begins.insert(place, moment_s)
            self._kept.insert(place, self._kept[place - 1].copy())
        return place
