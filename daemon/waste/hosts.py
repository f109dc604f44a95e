"""The wall power of one node, and what of it belongs to no board: CPUs, fans, switches, losses."""

from __future__ import annotations

from dataclasses import dataclass

from ...storage.telemetry import NodeReading


@dataclass(frozen=True, slots=True)
class Wall:
    """Watts of a whole node and where they come from."""

    watts: float | None
    source: str
    disagreement_watts: float = 0.0
    silent: bool = False
    """The meter has fallen silent: what the node draws beside its boards is what it drew then."""


def wall(reading: NodeReading | None, boards_watts: float | None, overhead_watts: float | None,
         lost_watts: float | None = None) -> Wall:
    """Return ``P* = max(P, sum of boards)`` of a node.

    Args:
        reading: the wall meter, None when there is none fresh.
        boards_watts: sum over measured boards, None when none is measured.
        overhead_watts: configured draw beside the boards, for nodes without a meter.
        lost_watts: last draw beside the boards of a meter that has fallen silent, None once that is too long ago.
    """
    metered = reading.power_watts if reading is not None else None
    if reading is not None and metered is not None and not (metered == 0.0 and boards_watts):
        # A service processor that says 0 W while boards draw power is not measuring.
        boards = boards_watts or 0.0
        return Wall(max(metered, boards), reading.power_source, max(0.0, boards - metered))
    if lost_watts is not None:
        return Wall((boards_watts or 0.0) + lost_watts, "estimated", silent=True)
    if boards_watts is None:
        return Wall(None, "")
    if overhead_watts is None:
        return Wall(boards_watts, "boards")
    return Wall(boards_watts + overhead_watts, "estimated")
