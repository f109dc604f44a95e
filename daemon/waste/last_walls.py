"""The last metered wall watts of servers whose meters have fallen silent."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

MOST_METERS = 65_536
"""Wall meters that are remembered, far more than any site has: a page may name what servers it likes."""


@dataclass(frozen=True, slots=True)
class _LastWall:
    time_s: float
    watts: float
    gpus: Mapping[str, float]
    """Watts of the measured GPUs at that time, by uuid."""


class LastWalls:
    """Remember the last metered wall watts of every node, for a bounded time.

    A meter that falls silent switches no server off: for a while the node is taken to draw what it drew last beside
    its GPUs.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._nodes: dict[str, _LastWall] = {}

    def note(self, node: str, time_s: float, watts: float, gpus: Mapping[str, float]) -> None:
        """Remember what a meter reported at ``time_s`` and what the measured GPUs drew when it was first seen."""
        last = self._nodes.get(node)
        if last is None and len(self._nodes) >= MOST_METERS:
            return
        if last is None or time_s > last.time_s:
            self._nodes[node] = _LastWall(time_s, watts, gpus)

    def beside(self, node: str, gpus: Mapping[str, float]) -> float | None:
        """Return what the node drew last beside the GPUs that are measured now, None where nobody remembers.

        A GPU that is measured now and was not then takes its present watts out of what was left then.
        """
        last = self._nodes.get(node)
        if last is None:
            return None
        return max(0.0, last.watts - sum(last.gpus.get(uuid, watts) for uuid, watts in gpus.items()))

    def forget(self, now_s: float, early_s: float) -> None:
        """Drop what is too old, or more than ``early_s`` in the future: a clock that was set back."""
        self._nodes = {node: last for node, last in self._nodes.items()
                       if -early_s <= now_s - last.time_s <= self._longest_s}

    def drop(self, nodes: Set[str]) -> None:
        """Drop nodes that are not there any more."""
        for node in nodes & self._nodes.keys():
            del self._nodes[node]

    @property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that are remembered."""
        return frozenset(self._nodes)
