"""Which empty nodes are worth powering down: never one that is not known to be idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...storage.power_classes import PowerClass
from ..waste import NodeVerdict


@dataclass(frozen=True, slots=True)
class Spare:
    """Nodes that no known job needs, with the reason for each."""

    worth: Mapping[str, str]
    """Measured and idle."""
    unknown: Mapping[str, str]
    """Why it is not known: not measured, or busy although the scheduler knows of nothing there."""


def spare_nodes(advised: Mapping[str, str], verdicts: Mapping[str, NodeVerdict]) -> Spare:
    """Return the advised nodes by what is known of them."""
    unknown = {node: doubt for node in advised if (doubt := _doubt(verdicts.get(node)))}
    return Spare({node: reason for node, reason in advised.items() if node not in unknown}, unknown)


def _doubt(verdict: NodeVerdict | None) -> str:
    if verdict is None or verdict.wall_watts is None:
        return "nothing of it is measured"
    if verdict.unmeasured_gpus or verdict.host_class is PowerClass.UNMEASURED:
        return "it is not wholly measured"
    return "" if verdict.host_class is PowerClass.NODE_OVERHEAD_EMPTY else "a GPU of it is busy"
