"""What is left where Slurm only looks at a job: weights of the nodes, and nodes that it keeps for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from .gate import Gate
from .ground import LOOKED_AT, Mask
from .node_space import NodeSpace
from .pick import weigh
from .seek import seek
from .wish import counts


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
        ground.weights[histories, members] = LOOKED_AT
        able = members & seen.suited(job, wish, job.request.features) & ~stopped
        weigh(seen, wish, seen.capacity(wish, able, wish.least)[0], histories)
        if not starts and len(required) >= wish.least:
            stopped |= ground.named(required)
        elif not starts and planning:
            failed.add(ways[0].partition)
            stopped |= members


def counted_apart(gate: Gate, job: Job) -> bool:
    """Tell whether a job may fail to start where it fits: Slurm looks for each of its features with all its GPUs.

    Of those that stand in brackets none was seen to fail.
    """
    return gate.wish(job).gpus > 0 and len(counts(job.request.features)) > 1 and "[" not in job.request.features


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
