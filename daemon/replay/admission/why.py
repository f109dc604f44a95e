"""Why a job finds no nodes now: the constraint that binds, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job, Node, NodeState
from .gate import NEVER, NODES, ROOM, Gate, Hold, PartitionNodes
from .ground import Mask
from .seek import seek
from .wish import Wish, choices

MOST_NAMED = 3


def why_no_nodes(gate: Gate, job: Job) -> Hold:
    """Return what keeps a job from the nodes of its partitions; of plain lack of room the words are left out."""
    kind = gate.kind(job)
    if kind not in gate.whys:
        gate.whys[kind] = _why(gate, job)
    return gate.whys[kind]


def _why(gate: Gate, job: Job) -> Hold:
    ways, wish = gate.ways(job), gate.wish(job)
    partition = "/".join(way.partition for way in ways) or job.partition
    members = _any(gate, [gate.ground.members(way.partition) for way in ways])
    capable = _capable(gate, job, wish, members)
    if not _could(gate, job, ways, lambda way: gate.ground.members(way.partition)):
        return Hold(NEVER, f"can never run: {_never(job, wish, partition, int(capable.sum()))}"
                    if members.any() else "can never run: the cluster has no such partition")
    if not _could(gate, job, ways, lambda way: way.usable):
        return Hold(NODES, _kept(gate, job, wish, capable, _any(gate, [way.usable for way in ways])))
    reserved = _reserved_only(gate, job, ways)
    if reserved:
        return Hold(ROOM, reserved)  # it waits for those that are not reserved, which are busy
    named = _described(job, wish)
    usable = capable & _any(gate, [way.usable for way in ways])
    if named and not _fits_now(gate, wish, usable).any():
        busy = int(usable.sum())
        if wish.least == 1 and busy == 1:
            node = gate.ground.nodes[int(np.flatnonzero(usable)[0])].name
            return Hold(ROOM, f"the only node {named}, {node}, is busy")
        return Hold(ROOM, f"no node {named} is free ({busy} of {int(capable.sum())} busy)")
    if wish.contiguous and wish.least > 1:
        return Hold(ROOM, f"no {wish.least} free nodes stand side by side in {partition}")
    return Hold(ROOM, "")


def _reserved_only(gate: Gate, job: Job, ways: Sequence[PartitionNodes]) -> str:
    """Say which free nodes would do if they were not reserved; '' when there are none."""
    for way in ways:
        usable = gate.ground.members(way.partition) & gate.opened_to_any()
        found = seek(gate.ground, job, gate.wish(job), usable) if gate.reservations else None
        if found is not None:
            kept = [gate.ground.nodes[gate.ground.row[name]] for name in found.nodes
                    if not way.usable[gate.ground.row[name]]]
            told = "; ".join(f"{node.name} {_cause(gate, job, node, True)}" for node in kept[:MOST_NAMED])
            return f"nodes that are free are kept for others: {told}"
    return ""


def _any(gate: Gate, masks: Sequence[Mask]) -> Mask:
    return np.logical_or.reduce(masks) if masks else np.zeros(len(gate.ground.nodes), bool)


def _capable(gate: Gate, job: Job, wish: Wish, members: Mask) -> Mask:
    """Return the nodes on which a part of the job would fit if nothing ran there."""
    empty, found = gate.ground.empty(), np.zeros(len(gate.ground.nodes), bool)
    required = gate.ground.named(job.request.required_nodes) if len(job.request.required_nodes) >= wish.least else None
    for features in choices(job.request.features):
        fits, _, _ = empty.capacity(wish, members & gate.ground.suited(job, wish, features), wish.least)
        found |= fits
    return found if required is None or not job.request.required_nodes else found & required


def _fits_now(gate: Gate, wish: Wish, usable: Mask) -> Mask:
    fits, _, _ = gate.ground.capacity(wish, usable & gate.ground.shared(wish, wish.alone), wish.least)
    return fits


def could_ever(gate: Gate, job: Job) -> bool:
    """Tell whether a job could start if nothing ran in its partitions, by what Slurm itself would count for it."""
    kind = ("ever", *gate.kind(job))
    if kind not in gate.whys:
        able = _could(gate, job, gate.ways(job), lambda way: gate.ground.members(way.partition))
        gate.whys[kind] = Hold(ROOM if able else NEVER, "")
    return gate.whys[kind].cause == ROOM


def _could(gate: Gate, job: Job, ways: Sequence[PartitionNodes], nodes: object) -> bool:
    """Tell whether a job could start if nothing ran on some nodes."""
    empty = gate.ground.empty()
    return any(seek(empty, job, gate.wish(job), nodes(way)) is not None for way in ways)  # type: ignore[operator]


def _described(job: Job, wish: Wish) -> str:
    """Return what is particular about the nodes that a job asks for; '' when any of the partition will do."""
    request, said = job.request, list[str]()
    if request.features:
        said.append(f"with feature {request.features}")
    if request.gpu_model:
        said.append(f"with GPUs of type {request.gpu_model}")
    if request.required_nodes:
        said.append(f"among {_listed(request.required_nodes)}")
    if request.excluded_nodes:
        said.append(f"other than {_listed(request.excluded_nodes)}")
    if request.reservation:
        said.append(f"of reservation {request.reservation}")
    if wish.exclusive:
        said.append("without other jobs")
    return " and ".join(said)


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _never(job: Job, wish: Wish, partition: str, able: int) -> str:
    named = _described(job, wish)
    many = "no node" if able == 0 else f"only {able} node{'s' if able > 1 else ''}"
    size = f" of the size asked for ({_gpus(wish.per_node or wish.gpus)})" if wish.gpus else " of the size asked for"
    return f"{many} of {partition}{' ' + named if named else size} can hold it, it needs {wish.least}"


def _kept(gate: Gate, job: Job, wish: Wish, capable: Mask, usable: Mask) -> str:
    """Say which of the nodes that fit are out of use or kept for others."""
    out, count = capable & ~usable, int(capable.sum())
    nodes = [gate.ground.nodes[row] for row in np.flatnonzero(out).tolist()]
    opened = gate.opened(job)
    causes = [_cause(gate, job, node, bool(opened[gate.ground.row[node.name]])) for node in nodes]
    if count == 1 and nodes:
        return f"the only node that fits, {nodes[0].name}, {causes[0]}"
    told = "; ".join(f"{_listed([node.name for node, other in zip(nodes, causes, strict=True) if other == cause])} "
                     f"{_plural(cause, causes.count(cause))}" for cause in dict.fromkeys(causes))
    return f"{len(nodes)} of the {count} nodes that fit cannot be used: {told}" if nodes else \
        f"its nodes are reserved or out of use: it needs {wish.least}"


def _cause(gate: Gate, job: Job, node: Node, opened: bool) -> str:
    if not opened:
        state = {NodeState.DRAINING: "is draining", NodeState.DRAINED: "is drained",
                 NodeState.RESERVED: f"is reserved ({node.reservation})",
                 NodeState.POWERED_DOWN: "is powered down"}.get(node.state, f"is {node.state.value.replace('_', ' ')}")
        return f"{state}{f' ({node.reason[:80]})' if node.reason and node.state is not NodeState.RESERVED else ''}"
    for name in gate.in_the_way(job, job.limit_s or float("inf")):
        one = gate.reservations[name]
        if node.name in one.nodes:
            when = "now" if one.start_s <= gate.now_s else f"in {max(1, round((one.start_s - gate.now_s) / 60))} min"
            return f"is reserved ({name}, {when})"
    return f"is reserved ({node.reservation})" if node.reservation else "is not in its reservation"


def _plural(cause: str, number: int) -> str:
    return cause if number == 1 else cause.replace("is ", "are ", 1)


def with_whom(victims: Sequence[Job], placement: Placement) -> str:
    """Say at whose cost a job starts on a placement."""
    told = ", ".join(f"{job.job_id} of {job.user or 'nobody'} ({_gpus(sum(part.gpus for part in job.allocations))})"
                     for job in victims[:MOST_NAMED])
    more = f" and {len(victims) - MOST_NAMED} more" if len(victims) > MOST_NAMED else ""
    return f"starts by preempting {told}{more} on {_listed(placement.nodes)}"
