"""What happened to nodes within a part of a history, which begins with how they were before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..replay.cluster import NodeEvent
from ..replay.timeline import Reserved


def events_within(events: Sequence[NodeEvent], begin_s: float, end_s: float) -> Iterator[NodeEvent]:
    """Yield the states of nodes at the beginning, and their events until the end."""
    latest = {event.node: NodeEvent(begin_s, event.node, "up") for event in events}
    later = []
    for event in events:
        if event.time <= begin_s:
            latest[event.node] = replace(event, time=begin_s)
        elif event.time < end_s:
            later.append(event)
    yield from latest.values()
    yield from later


def reserved_within(reserved: Sequence[Reserved], begin_s: float, end_s: float) -> Iterator[Reserved]:
    """Yield which reservation nodes are for at the beginning, and what changes of that until the end."""
    latest = {change.node: Reserved(begin_s, change.node, "") for change in reserved}
    later = []
    for change in reserved:
        if change.time_s <= begin_s:
            latest[change.node] = replace(change, time_s=begin_s)
        elif change.time_s < end_s:
            later.append(change)
    yield from latest.values()
    yield from later
