"""Why a job finds no nodes now: the constraint that binds, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job, Node, NodeState
from .gate import NEVER, NODES, ROOM, UNKNOWN, Gate, Hold, PartitionNodes
from .node_resources import Mask
from .node_search import find_nodes
from .resource_demand import ResourceDemand, choices

MOST_NAMED = 3


def why_no_nodes(gate: Gate, job: Job) -> Hold:
    """Return what keeps a job from the nodes of its partitions; of plain lack of room the words are left out."""
    kind = gate.kind(job)
    if kind not in gate.whys:
        gate.whys[kind] = _why(gate, job)
    return gate.whys[kind]


def _why(gate: Gate, job: Job) -> Hold:
    ways, demand = gate.ways(job), gate.demand(job)
    partition = "/".join(way.partition for way in ways) or job.partition
    members = _any(gate, [gate.resources.members(way.partition) for way in ways])
    capable = _capable(gate, job, demand, members)
    if not _could(gate, job, ways, lambda way: gate.resources.members(way.partition)):
        return Hold(NEVER, f"can never run: {_never(job, demand, partition, int(capable.sum()))}"
                    if members.any() else "can never run: the cluster has no such partition")
    doubt = _in_doubt(gate, job, ways)
    if doubt:
        return Hold(UNKNOWN, doubt)
    if not _could(gate, job, ways, lambda way: way.usable):
        return Hold(NODES, _kept(gate, job, demand, capable, _any(gate, [way.usable for way in ways])))
    reserved = _reserved_only(gate, job, ways)
    if reserved:
        return Hold(ROOM, reserved)  # it waits for those that are not reserved, which are busy
    named = _described(job, demand)
    usable = capable & _any(gate, [way.usable for way in ways])
    if named and not _fits_now(gate, demand, usable).any():
        busy = int(usable.sum())
        if demand.least == 1 and busy == 1:
            node = gate.resources.nodes[int(np.flatnonzero(usable)[0])].name
            return Hold(ROOM, f"the only node {named}, {node}, is busy")
        return Hold(ROOM, f"no node {named} is free ({busy} of {int(capable.sum())} busy)")
    if demand.adjacent:
        return Hold(ROOM, f"no {demand.least} free nodes stand side by side in {partition}")
    return Hold(ROOM, "")


def _in_doubt(gate: Gate, job: Job, ways: Sequence[PartitionNodes]) -> str:
    """Say which nodes would do if enough of them is left beside reservations of others; '' when there are none."""
    for way in ways:
        perhaps = gate.perhaps(job, way)
        if (perhaps & ~way.usable).any():
            found = find_nodes(gate.resources, job, gate.demand(job, way.partition), perhaps)
            kept = [name for name in found.nodes if not way.usable[gate.resources.row[name]]] if found else []
            if kept:
                return f"unknown: how much of {_listed(kept)} is left beside its reservation is not known"
    return ""


def _reserved_only(gate: Gate, job: Job, ways: Sequence[PartitionNodes]) -> str:
    """Say which free nodes would do if they were not reserved; '' when there are none."""
    for way in ways:
        usable = gate.resources.members(way.partition) & gate.opened_to_any()
        found = find_nodes(gate.resources, job, gate.demand(job, way.partition), usable) if gate.reservations else None
        if found is not None:
            kept = [gate.resources.nodes[gate.resources.row[name]] for name in found.nodes
                    if not way.usable[gate.resources.row[name]]]
            reserved = "; ".join(f"{node.name} {_cause(gate, job, node, True)}" for node in kept[:MOST_NAMED])
            return f"nodes that are free are kept for others: {reserved}"
    return ""


def _any(gate: Gate, masks: Sequence[Mask]) -> Mask:
    return np.logical_or.reduce(masks) if masks else np.zeros(len(gate.resources.nodes), bool)


def _capable(gate: Gate, job: Job, demand: ResourceDemand, members: Mask) -> Mask:
    """Return the nodes on which a part of the job would fit if nothing ran there."""
    empty, found = gate.resources.empty(), np.zeros(len(gate.resources.nodes), bool)
    names = job.request.required_nodes
    required = gate.resources.named(names) if len(names) >= demand.least else None
    for features in choices(job.request.features):
        fits, _, _ = empty.capacity(demand, members & gate.resources.suited(job, demand, features), demand.least)
        found |= fits
    return found if required is None or not job.request.required_nodes else found & required


def _fits_now(gate: Gate, demand: ResourceDemand, usable: Mask) -> Mask:
    fits, _, _ = gate.resources.capacity(demand, usable & gate.resources.shared(demand, demand.alone), demand.least)
    return fits


def could_ever(gate: Gate, job: Job) -> bool:
    """Tell whether a job could start if nothing ran in its partitions, by what Slurm itself would count for it."""
    kind = ("ever", *gate.kind(job))
    if kind not in gate.whys:
        able = _could(gate, job, gate.ways(job), lambda way: gate.resources.members(way.partition))
        gate.whys[kind] = Hold(ROOM if able else NEVER, "")
    return gate.whys[kind].cause == ROOM


def _could(gate: Gate, job: Job, ways: Sequence[PartitionNodes], nodes: object) -> bool:
    """Tell whether a job could start if nothing ran on some nodes."""
    empty = gate.resources.empty()
    return any(find_nodes(empty, job, gate.demand(job, way.partition), nodes(way)) is not None  # type: ignore[operator]
               for way in ways)


def _described(job: Job, demand: ResourceDemand) -> str:
    """Return what is particular about the nodes that a job asks for; '' when any of the partition will do."""
    request, conditions = job.request, list[str]()
    if request.features:
        conditions.append(f"with feature {request.features}")
    if request.gpu_model:
        conditions.append(f"with GPUs of type {request.gpu_model}")
    if request.required_nodes:
        conditions.append(f"among {_listed(request.required_nodes)}")
    if request.excluded_nodes:
        conditions.append(f"other than {_listed(request.excluded_nodes)}")
    if request.reservation:
        conditions.append(f"of reservation {request.reservation}")
    if demand.exclusive:
        conditions.append("without other jobs")
    return " and ".join(conditions)


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _never(job: Job, demand: ResourceDemand, partition: str, able: int) -> str:
    named = _described(job, demand)
    many = "no node" if able == 0 else f"only {able} node{'s' if able > 1 else ''}"
    gpus = f" ({_gpus(demand.per_node or demand.gpus)})" if demand.gpus else ""
    size = f" of the requested size{gpus}"
    return f"{many} of {partition}{' ' + named if named else size} can hold it, it needs {demand.least}"


def _kept(gate: Gate, job: Job, demand: ResourceDemand, capable: Mask, usable: Mask) -> str:
    """Say which of the nodes that fit are out of use or kept for others."""
    out, count = capable & ~usable, int(capable.sum())
    nodes = [gate.resources.nodes[row] for row in np.flatnonzero(out).tolist()]
    opened = gate.opened(job)
    causes = [_cause(gate, job, node, bool(opened[gate.resources.row[node.name]])) for node in nodes]
    if count == 1 and nodes:
        return f"the only node that fits, {nodes[0].name}, {causes[0]}"
    listed = "; ".join(f"{_listed([node.name for node, other in zip(nodes, causes, strict=True) if other == cause])} "
                       f"{_plural(cause, causes.count(cause))}" for cause in dict.fromkeys(causes))
    return f"{len(nodes)} of the {count} nodes that fit cannot be used: {listed}" if nodes else \
        f"its nodes are reserved or out of use: it needs {demand.least}"


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
    listed = ", ".join(f"{job.job_id} of {job.user or 'nobody'} ({_gpus(sum(part.gpus for part in job.allocations))})"
                       for job in victims[:MOST_NAMED])
    more = f" and {len(victims) - MOST_NAMED} more" if len(victims) > MOST_NAMED else ""
    return f"starts by preempting {listed}{more} on {_listed(placement.nodes)}"
