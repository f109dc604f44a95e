"""What is left where Slurm only looks at a job: weights of the nodes, and nodes that it keeps for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from ....storage.waiting import WaitReason
from .gate import LIMIT, Gate, Hold
from .ground import LOOKED_AT, Mask
from .node_space import NodeSpace
from .pick import weigh
from .seek import seek
from .wish import choices, counts

COUNTED = re.compile(r" (?:GPUs|CPUs|nodes|bytes)")
"""Limits on what Slurm counts once it knows the nodes; those on jobs and times come first."""


def tried_by_main(gate: Gate, jobs: Iterable[Job], planning: bool, histories: slice) -> None:
    """Leave the weights behind that the main scheduler does, in some of the possible pasts.

    It goes by what nodes have where nobody starts. Who does not start stops its partition, where nodes are kept for who
    waits, and the nodes that it names; heterogeneous jobs always stop theirs, with all partitions of no other nodes.
    """
    ground, failed = gate.ground, set[str]()
    stopped = np.zeros(len(ground.nodes), bool)
    for job in jobs:
        wish, ways, required = gate.wish(job), gate.ways(job), job.request.required_nodes
        if not ways or ways[0].partition in failed:
            continue
        members = ground.members(ways[0].partition)
        if job.group or stopped[members].all():
            failed.add(ways[0].partition)
            stopped |= members
            continue
        starts = isinstance(gate.find_beside(job, stopped), Placement)
        seen = ground if starts else ground.empty()
        features = job.request.features
        ground.weights[histories, members & ground.featured(features, wish.least) if features else members] = LOOKED_AT
        able = members & seen.suited(job, wish, job.request.features) & ~stopped
        weigh(seen, wish, seen.capacity(wish, able, wish.least)[0], histories)
        if out_of_reach(job):
            continue
        if not starts and len(required) >= wish.least:
            stopped |= ground.named(required)
        elif not starts and planning:
            failed.add(ways[0].partition)
            stopped |= members


def out_of_reach(job: Job) -> bool:
    """Tell whether a job is said to wait for nodes that are down, drained or reserved, and does not name them."""
    waits = job.reason in (WaitReason.NODES_UNAVAILABLE, WaitReason.RESERVATION)
    return waits and not (job.request.required_nodes or job.request.reservation)


def passed_over_by_main(gate: Gate, job: Job) -> bool:
    """Tell whether only the backfill looks at a job in its reservation, be that flexible.

    So it is where the reservation has fewer nodes of the job's partition than Slurm expects the job to take.
    """
    known = gate.reservations.get(job.request.reservation)
    if known is None:
        return False
    expected = job.request.details.nodes_expected or gate.wish(job).least
    return expected > int((gate.ground.named(known.nodes) & gate.ground.members(job.partition)).sum())


def counted_apart(gate: Gate, job: Job) -> bool:
    """Tell whether a job may fail to start where it fits: Slurm looks for each of its features with all its GPUs.

    Of those that stand in brackets none was seen to fail that asks for GPUs by node.
    """
    wish, features = gate.wish(job), job.request.features
    if wish.gpus == 0 or ("[" in features and wish.per_node):
        return False
    return any(len(counts(choice)) > 1 for choice in choices(features))


def found_by_terms(gate: Gate, job: Job, space: NodeSpace) -> Mask | None:
    """Return the nodes that terms of counted features find now, one after the other; None where one has to wait.

    As in Slurm's backfill, each is looked for with all GPUs of the job; once a term has no node, any will do. What is
    found is kept, though the start fails.
    """
    wish, ways, terms = gate.wish(job), gate.ways(job), counts(job.request.features)
    taken = np.zeros(len(gate.ground.nodes), bool)
    if not ways or not terms:
        return None
    ground = gate.ground_of(ways[0]).copy()
    ground.as_planned = True
    free = ways[0].usable & ~space.kept(gate.now_s, gate.now_s + ways[0].limit_s)
    for name, number in (*terms, ("", 0)):
        missing = number or wish.least - int(taken.sum())
        if name and not (free & ~taken & ground.featured(name, 1)).any():
            name, missing = "", wish.least - int(taken.sum())
        if missing <= 0:
            break
        part = replace(wish, least=missing, gpus=wish.per_node * missing or wish.gpus)
        found = seek(ground, replace(job, request=replace(job.request, features=name)), part, free & ~taken)
        if found is None:
            return None
        taken |= ground.named(found.nodes)
        if not name:
            break
    return taken


def counted(hold: Hold) -> bool:
    """Tell whether a hold is for a limit that Slurm looks at last, once it knows the nodes."""
    return hold.cause == LIMIT and COUNTED.search(hold.words) is not None
