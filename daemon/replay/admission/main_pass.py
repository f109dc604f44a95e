"""What is left where Slurm only looks at a job: weights of the nodes, and nodes that it keeps for nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ....storage.recommendations import Placement
from ....storage.records import Job
from ....storage.waiting import WaitReason
from .cons_tres import weigh
from .gate import LIMIT, Gate, Hold, PartitionNodes
from .node_resources import LOOKED_AT, Mask, NodeResources
from .node_search import find_nodes
from .node_space import NodeSpace
from .resource_demand import ResourceDemand, choices, counts

COUNTED = re.compile(r" (?:GPU|CPU|node|byte)")
"""Limits on what Slurm counts once it knows the nodes; those on jobs and times come first."""
Earliest = Callable[[PartitionNodes, Callable[[NodeResources], Placement | None]], tuple[float, Placement] | None]
"""What finds when something fits on some nodes, and where."""


def tried_by_main(gate: Gate, jobs: Iterable[Job], planning: bool) -> None:
    """Leave the weights behind that the main scheduler does, in all of the possible pasts.

    A job that does not start is looked at on all that nodes have: on those that are not stopped, or on all of its
    partition where it could run on none of them. Such a job stops its reservation or, where nodes are kept for waiting
    jobs, its partition, or the nodes that it names; heterogeneous jobs always stop their own, with all partitions of no
    other nodes.
    """
    resources, failed, reserved = gate.resources, set[str](), set[str]()
    stopped = np.zeros(len(resources.nodes), bool)
    for job in jobs:
        demand, ways, required = gate.demand(job), gate.ways(job), job.request.required_nodes
        if not ways or ways[0].partition in failed or job.request.reservation in reserved:
            continue
        members = resources.members(ways[0].partition)
        if job.group or stopped[members].all() or too_few_available(gate, job, stopped):
            failed.add(ways[0].partition)
            stopped |= members
            continue
        if names_out_of_reach(job):
            stopped |= withheld_in_vain(gate, job, stopped)
            continue
        starts = isinstance(gate.find_beside(job, stopped), Placement)
        seen = resources if starts else resources.empty()
        features, nowhere = job.request.features, unavailable(gate, job, stopped)
        listed = members & resources.large_enough(job)
        resources.weights[:, listed & resources.featured(features, demand.least) if features else listed] = LOOKED_AT
        weigh_listed(job, demand, seen, listed if nowhere else listed & ~stopped)
        if out_of_reach(job) or never_runs(gate, job):
            continue
        if not starts and len(required) >= demand.least:
            stopped |= resources.named(required)
        elif not starts and job.request.reservation:
            reserved.add(job.request.reservation)
        elif not starts and planning and not nowhere:
            failed.add(ways[0].partition)
            stopped |= members


def leave_alike(gate: Gate, job: Job, kept: Mask | None, resources: NodeResources) -> None:
    """Leave the weights behind that a start does: all nodes alike that the scheduler looks at, then by their GPUs.

    The main scheduler looks at all nodes of the partition that are large enough, the backfill at those of them that are
    kept for nobody; both at what was free before.
    """
    looked = resources.members(gate.ways(job)[0].partition) & resources.large_enough(job)
    resources.weights[:, looked if kept is None else looked & ~kept] = LOOKED_AT
    leave_weighed(gate, job, kept, resources)


def leave_weighed(gate: Gate, job: Job, kept: Mask | None, resources: NodeResources) -> None:
    """Leave the weights behind that a job does which is tried on what is free and not kept for others."""
    for way in gate.ways(job):
        weigh_listed(job, gate.demand(job), resources, way.usable if kept is None else way.usable & ~kept)


def weigh_listed(job: Job, demand: ResourceDemand, resources: NodeResources, usable: Mask) -> None:
    """Weigh the nodes that would do for a job, unless fewer nodes are usable at all than it needs."""
    if int((usable & resources.configured(job, demand)).sum()) >= demand.least:
        able = usable & resources.suited(job, demand, job.request.features) & resources.shared(demand, job.user)
        weigh(resources, demand, resources.capacity(demand, able, demand.least)[0])


def out_of_reach(job: Job) -> bool:
    """Tell whether a job's reported reason is nodes that are down, drained or reserved, and that it does not name."""
    waits = job.reason in (WaitReason.NODES_UNAVAILABLE, WaitReason.RESERVATION)
    return waits and not (job.request.required_nodes or job.request.reservation)


def names_out_of_reach(job: Job) -> bool:
    """Tell whether a job's reported reason is that nodes which it names are down, drained or reserved."""
    return job.reason in (WaitReason.NODES_UNAVAILABLE, WaitReason.RESERVATION) and bool(job.request.required_nodes)


def never_runs(gate: Gate, job: Job) -> bool:
    """Tell whether a job cannot run in its partition, whatever ends there: Slurm's main scheduler looks past it then.

    Slurm refuses such a job when it is submitted, unless it lists other partitions as well.
    """
    return _lacks_nodes(gate, job, gate.resources.members(job.partition))


def unavailable(gate: Gate, job: Job, stopped: Mask) -> bool:
    """Tell whether a job cannot run on what is in service and not stopped in its partition, whatever ends there.

    Slurm's main scheduler looks past it then ("Required node not available (down, drained or reserved)").
    """
    return _lacks_nodes(gate, job, _available(gate, job, stopped))


def stops_partition(gate: Gate, job: Job, stopped: Mask, planning: bool) -> bool:
    """Tell whether a job that finds no room stops Slurm's main scheduler for all behind it in its partition."""
    return not never_runs(gate, job) if job.group else planning and not unavailable(gate, job, stopped)


def _lacks_nodes(gate: Gate, job: Job, usable: Mask) -> bool:
    """Tell whether a job would not fit on some nodes if nothing ran there."""
    demand, empty = gate.demand(job), gate.resources.empty()
    fits = np.zeros(len(usable), bool)
    for features in choices(job.request.features):
        if counts(features):
            return False  # any node may do for what its features leave
        fits |= empty.capacity(demand, usable & empty.suited(job, demand, features), demand.least)[0]
    return int(fits.sum()) < demand.least or int(empty.gpus[fits].sum()) < demand.gpus


def fails_for_reservation(gate: Gate, job: Job, avoid: Mask, now: Earliest) -> bool:
    """Tell whether Slurm fails to start a job and keeps no nodes for it ("Requested reservation is in use").

    It says so of a job that counts features, in brackets, and takes for one of them what another one needs, whatever
    ends there, if nodes of its partition are reserved while it would run.
    """
    if not _lacks_a_term(gate, job, avoid, now):
        return False
    members = gate.resources.members(job.partition)
    met = gate.meets(job, gate.now_s, gate.now_s + max(way.limit_s for way in gate.ways(job)))
    return any((gate.resources.named(gate.reservations[name].nodes) & members).any() for name in met)


def _lacks_a_term(gate: Gate, job: Job, avoid: Mask, now: Earliest) -> bool:
    """Tell whether one of the features that a job counts has too few nodes beside those that others of them take."""
    demand, resources, features = gate.demand(job), gate.resources, job.request.features
    ways = gate.ways(job)
    if "[" not in features or not demand.per_node or not ways:
        return False
    members, empty = resources.members(job.partition), resources.empty()
    way, taken = replace(ways[0], usable=ways[0].usable & ~avoid), np.zeros(len(members), bool)
    for name, number in counts(features):
        found = _term(gate, job, way, taken, (name, number), now)
        if found is None:
            able = members & ~taken & empty.suited(job, demand, name)
            return int(empty.capacity(demand, able, number)[0].sum()) < number
        taken |= resources.named(found[1].nodes)
    return False


def chosen_by_slurm(gate: Gate, job: Job, avoid: Mask | None) -> Placement | None:
    """Return where Slurm itself starts a job now, in the first of its partitions in which it can."""
    for way in gate.ways(job):
        resources = gate.resources_of(way).copy()
        resources.as_planned = True
        usable = way.usable if avoid is None else way.usable & ~avoid
        found = gate.sought(job, replace(way, usable=usable), resources)
        if isinstance(found, Placement):
            return found
    return None


def own_nodes(gate: Gate, job: Job) -> Mask | None:
    """Return the nodes that are named for a job, by the advice or by itself, as many as it takes."""
    required = job.request.required_nodes
    return gate.resources.named(required) if len(required) >= gate.demand(job).least else None


def withheld_in_vain(gate: Gate, job: Job, stopped: Mask) -> Mask:
    """Return the nodes that the main scheduler gives to nobody behind a job that names them out of its reach.

    Slurm tries it all the same, and fails, where it breaks no limit on jobs, has its licences and its partition enough
    nodes; a job whose nodes it called unavailable, only while all of them are in use and no earlier job's.
    """
    own, nobodys = own_nodes(gate, job), np.zeros(len(stopped), bool)
    if own is None or job.group or passed_over_by_main(gate, job):
        return nobodys
    left = gate.opened_to_any() & ~stopped
    members = np.logical_or.reduce([gate.resources.members(name) for name in job.partition.split(",")])
    unavailable = job.reason is WaitReason.NODES_UNAVAILABLE and bool((own & ~left).any())
    broken = gate.limits_bar(job)
    fails = unavailable or int((left & members).sum()) < gate.demand(job).least or gate.license_bars(job) is not None
    return nobodys if fails or (broken is not None and not counted(broken)) else own


def too_few_available(gate: Gate, job: Job, stopped: Mask) -> bool:
    """Tell whether a job needs more nodes than its partition has that are neither out of service nor stopped.

    Slurm's main scheduler looks no further then and stops the partition, whatever else the job waits for, whichever
    nodes it names, and also where nothing is planned ("Nodes required for job are DOWN, DRAINED or reserved").
    """
    if job.group or job.request.reservation:
        return False
    return int(_available(gate, job, stopped).sum()) < gate.demand(job).least


def _available(gate: Gate, job: Job, stopped: Mask) -> Mask:
    """Return the nodes of a job's partition that are in service, be they reserved, and not stopped."""
    in_service = gate.opened_to_any() | gate.opened(job, waking=True)
    return in_service & gate.resources.members(job.partition) & ~stopped


def passed_over_by_main(gate: Gate, job: Job) -> bool:
    """Tell whether only the backfill looks at a job in its reservation, be that flexible.

    So it is where the reservation has fewer nodes of the job's partition than Slurm expects the job to take.
    """
    known = gate.reservations.get(job.request.reservation)
    if known is None:
        return False
    expected = job.request.details.nodes_expected or gate.demand(job).least
    return expected > int((gate.resources.named(known.nodes) & gate.resources.members(job.partition)).sum())


def counted_separately(gate: Gate, job: Job, nodes: Mask | None = None) -> bool:
    """Tell whether a job may fail to start where it fits: Slurm looks for each of its features with all its GPUs.

    Of features in brackets, where GPUs are requested by node, each takes its nodes in turn: a job fails where one of
    the first may take a node that a later one needs. Without brackets a node that is found for one feature has to have
    the next as well, of those that the job may be on, and all GPUs have to be free on the nodes of the first.
    """
    demand, features, resources = gate.demand(job), job.request.features, gate.resources
    if demand.gpus == 0 or not any(len(counts(choice)) > 1 for choice in choices(features)):
        return False
    if not demand.per_node and ("[" in features or nodes is None or not _first_has_all(gate, job, nodes)):
        return True
    if "[" in features:
        return nodes is not None and not all(
            _each_in_turn([nodes & resources.featured(name, 1) for name, _ in terms], [number for _, number in terms])
            for terms in map(counts, choices(features)))
    within = ~resources.named(job.request.excluded_nodes) if nodes is None else nodes
    have = [within & resources.featured(name, 1) for name, _ in counts(features)]
    return any((first & ~second).any() for first, second in pairwise(have))


def _first_has_all(gate: Gate, job: Job, nodes: Mask) -> bool:
    """Tell whether all of a job's GPUs are free where its first feature is, and all features count as many nodes."""
    (name, number), *others = counts(job.request.features)
    if any(count != number for _, count in others):
        return False
    first = replace(job, request=replace(job.request, features=name, required_nodes=()))
    want = replace(gate.demand(job), least=number, most=number)
    return find_nodes(gate.resources, first, want, nodes & gate.resources.featured(name, 1)) is not None


def may_fail(gate: Gate, job: Job, avoid: Mask) -> bool:
    """Tell whether a job that counts features may fail to start now where it fits beside nodes to be avoided."""
    found = gate.find_beside(job, avoid)
    return isinstance(found, Hold) or counted_separately(gate, job, gate.resources.named(found.nodes))


def found_apart(gate: Gate, job: Job, avoid: Mask) -> Placement | None:
    """Return where a job that counts features fits, if one feature may take a node there that another one needs.

    Slurm's backfill then fails to start it ("Requested node configuration is not available"), and keeps these nodes.
    """
    if not counts(job.request.features) or counted_separately(gate, job):
        return None
    found = gate.find_beside(job, avoid)
    if isinstance(found, Placement) and counted_separately(gate, job, gate.resources.named(found.nodes)):
        return found
    return None


def _each_in_turn(have: Sequence[Mask], numbers: Sequence[int]) -> bool:
    """Tell whether each feature finds its number of nodes, whichever of theirs the features before it take.

    Seen on Slurm 22.05: ``[dgx*1&hopper*1]`` is refused on a node with dgx and a smaller one with both, which the
    first feature takes; ``[hopper*1&dgx*1]`` starts there.
    """
    for place, (own, number) in enumerate(zip(have, numbers, strict=True)):
        shared = sum((own & earlier for earlier in have[:place]), np.zeros(len(own), bool))
        if int(own.sum()) - min(int(shared.sum()), sum(numbers[:place])) < number:
            return False
    return True


def unlimited_by_terms(gate: Gate, job: Job) -> bool:
    """Tell whether a job that counts features is planned though it breaks a limit.

    Slurm's backfill looks for each of them by itself, last for what is missing, and counts the GPUs that it found last.
    """
    demand, terms = gate.demand(job), counts(job.request.features)
    if not (terms and demand.per_node):
        return False
    missing = demand.least - sum(number for _, number in terms)
    nodes = missing if missing > 0 else terms[-1][1]
    last = replace(job.request, gpus=demand.per_node * nodes, nodes=nodes)
    return gate.limits_bar(replace(job, job_id=f"{job.job_id}~last", request=last)) is None


def first_by_terms(gate: Gate, job: Job, way: PartitionNodes, earliest: Earliest) -> tuple[float, Placement] | None:
    """Return when a job that counts features could start by what Slurm's backfill finds, and where.

    Each term is looked for by itself with all GPUs of the job, until one finds nothing; for what is missing then any
    nodes will do. When that is free is not checked: what counts is when the last of the terms is (``_try_sched``).
    """
    demand, resources = gate.demand(job), gate.resources
    taken, begin_s, found = np.zeros(len(resources.nodes), bool), None, None
    for term in counts(job.request.features):
        found = _term(gate, job, way, taken, term, earliest)
        if found is None:
            break
        begin_s = max(begin_s or 0.0, found[0])
        taken |= resources.named(found[1].nodes)
    missing = demand.least - int(taken.sum())
    if begin_s is not None and missing > 0:
        found = _term(gate, job, way, taken, ("", missing), earliest)
        taken |= resources.named(found[1].nodes if found else ())
    if begin_s is None or found is None:
        return None
    names = tuple(resources.nodes[row].name for row in np.flatnonzero(taken))
    return begin_s, Placement(names, (0,) * len(names))


def _term(gate: Gate, job: Job, way: PartitionNodes, taken: Mask, term: tuple[str, int], earliest: Earliest,
          ) -> tuple[float, Placement] | None:
    """Return when and where one of the features that a job counts finds its number of nodes, beside those taken."""
    (name, number), demand, resources = term, gate.demand(job), gate.resources
    usable = way.usable & ~taken & (resources.featured(name, 1) if name else True)
    one_term = replace(job, request=replace(job.request, features=name))
    want = replace(demand, least=number, gpus=demand.per_node * number or demand.gpus)
    return earliest(replace(way, usable=usable), lambda free: find_nodes(free, one_term, want, usable))


def counted(hold: Hold) -> bool:
    """Tell whether a hold is for a limit that Slurm looks at last, once it knows the nodes."""
    return hold.cause == LIMIT and COUNTED.search(hold.reason) is not None


def tries_again(gate: Gate, space: NodeSpace, job: Job, way: PartitionNodes, within: tuple[float, float],
                ) -> float | None:
    """Return when a job is tried again that cannot have nodes within a time: once a plan or some reservation ends.

    Reservations count where the job's partition meets one, be it another that ends.
    """
    members, (begin_s, end_s) = gate.resources.members(way.partition), within
    moments = [space.later(way.usable, begin_s, end_s)]
    met = (gate.reservations[name] for name in gate.meets(job, begin_s, end_s))
    if any((gate.resources.named(one.nodes) & members).any() for one in met):
        moments += [-(-one.end_s // space.resolution_s) * space.resolution_s + 1
                    for one in gate.reservations.values() if one.end_s >= begin_s]
    return min((moment for moment in moments if moment is not None), default=None)
