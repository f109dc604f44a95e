"""The wall power of one node, and what of it belongs to no GPU: CPUs, fans, switches, losses."""

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
    """The meter has fallen silent: what the node draws beside its GPUs is what it drew then."""


def wall(reading: NodeReading | None, gpus_watts: float | None, overhead_watts: float | None,
         lost_watts: float | None = None) -> Wall:
    """Return ``P* = max(P, sum of gpus)`` of a node.

    Args:
        reading: the wall meter, None when there is none fresh.
        gpus_watts: sum over measured GPUs, None when none is measured.
        overhead_watts: configured draw beside the GPUs, for nodes without a meter.
        lost_watts: last draw beside the GPUs of a meter that has fallen silent, None once that is too long ago.
    """
    metered = reading.power_watts if reading is not None else None
    if reading is not None and metered is not None and not (metered == 0.0 and gpus_watts):
        # A service processor that says 0 W while GPUs draw power is not measuring.
        gpus = gpus_watts or 0.0
        return Wall(max(metered, gpus), reading.power_source, max(0.0, gpus - metered))
    if lost_watts is not None:
        return Wall((gpus_watts or 0.0) + lost_watts, "estimated", silent=True)
    if gpus_watts is None:
        return Wall(None, "")
    if overhead_watts is None:
        return Wall(gpus_watts, "gpus")
    return Wall(gpus_watts + overhead_watts, "estimated")
