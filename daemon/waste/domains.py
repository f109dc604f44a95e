"""Whether jobs of a whole NVLink domain would find one: domains that are free, in use, or broken into pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...storage.records import Node

STATES = ("free", "broken", "full", "out")
"""All GPUs of all its nodes free; some free and some not, or a node that is not up; none free; no node up."""


@dataclass(frozen=True, slots=True)
class Domain:
    """An NVLink domain at one moment."""

    name: str
    nodes: int
    gpus: int
    free: int
    """GPUs of nodes that are up and that nobody holds."""
    state: str
    """One of ``STATES``."""


def domains(nodes: Iterable[Node]) -> list[Domain]:
    """Return the NVLink domains by name."""
    members_by_domain = sorted(_members(nodes).items())
    return [Domain(name, len(members), sum(node.gpus for node in members), free, state)
            for name, members in members_by_domain for state, free in (_state(members),)]


def domain_states(nodes: Iterable[Node]) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Return domains by partition and state, and the free GPUs of broken domains by partition.

    Broken domains are the fragmentation that owners of NVL72 racks feel: their free GPUs serve no job that needs a
    whole domain.
    """
    states, lost = Counter[tuple[str, str]](), Counter[str]()
    for members in _members(nodes).values():
        state, free = _state(members)
        for partition in sorted({name for node in members for name in node.partitions}):
            states[partition, state] += 1
            lost[partition] += free if state == "broken" else 0
    partitions = {partition for partition, _ in states}
    return ({(partition, state): states[partition, state] for partition in partitions for state in STATES},
            {partition: lost[partition] for partition in partitions})


def domain_totals(nodes: Iterable[Node]) -> tuple[dict[str, int], int | None]:
    """Return domains by state and the free GPUs of broken ones, each once whatever partitions it serves.

    Without any domain there is nothing to tell: ``{}`` and None.
    """
    states = [_state(members) for members in _members(nodes).values()]
    counts = Counter(state for state, _ in states)
    return ({state: counts[state] for state in STATES} if states else {},
            sum(free for state, free in states if state == "broken") if states else None)


def _members(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    nodes_by_domain: dict[str, list[Node]] = {}
    for node in nodes:
        if node.domain and node.gpus:
            nodes_by_domain.setdefault(node.domain, []).append(node)
    return nodes_by_domain


def _state(members: list[Node]) -> tuple[str, int]:
    up = [node for node in members if node.state.schedulable]
    free = sum(max(0, node.gpus - node.gpus_allocated) for node in up)
    if not up:
        return "out", 0
    if not free:
        return "full", 0
    return ("free" if len(up) == len(members) and free == sum(node.gpus for node in up) else "broken"), free
