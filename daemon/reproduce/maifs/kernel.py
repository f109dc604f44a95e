"""The compiled state of nodes: the placement, CPUs, memory and speed of jobs.

All jobs of at most a node's GPUs sit on one node; larger ones take whole nodes with all that is in them. Memory counts
in units of a third of the fair share, so that a node has as many of them as CPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled, compiled_apart

GPU, CPU, MEMORY = 0, 1, 2
"""Columns of a node's free resources."""
WAITING = -1
"""Value of ``SubmittedJobs.node`` for a job without a node."""
THROUGHPUT, SAVED = 0, 1
"""Criteria by which ``divide`` gives the next share: speed, or time saved (Optimus)."""
LEAN, FAIR, BEST = 0, 1, 2
"""Levels at which a task is accepted: half the fair CPUs; the fair share; what it can use at most. Never more than
that. What a node has beyond the levels of its jobs is divided again whenever they change."""


class Site(NamedTuple):
    """The constant facts of a cluster and its models."""

    rates: Floats
    """[model, GPUs, CPUs, memory] speed of a job, relative to its fair share."""
    best: Longs
    """[model, GPUs, CPUs or memory] the least that is as fast as a whole node."""
    options: Longs
    """[model, GPUs, option, CPUs or memory] grants worth having, by rising CPUs; 0 beyond the last."""
    interference: Floats
    """[model, neighbour's] part of its speed that is left on a shared node; the worst neighbour counts."""
    moves: Floats
    """[GPUs] time that a job loses when it is moved or resumed, s."""
    crossing: Floats
    """[model, leaf switches less 1] part of its speed that a job on several nodes keeps; the last serves all further.
    """
    traits: Floats
    """[model, trait] inputs of node agents on a task's model."""
    draw: Floats
    """[GPUs held] power of a node, relative to its power when all are held; index 0 is a node that is on and empty."""
    leaf: Longs
    """[node] number of its leaf switch, 0, 1, ..."""
    nodes: int
    size: int = 8
    """Number of GPUs of a node."""
    shares: int = 24
    """Number of CPUs, and of units of memory, of a node."""
    round_s: float = 300.0
    regrant_s: float = 0.63
    """Seconds that a change of CPUs or memory costs a running job: DL2's slowest hot scaling."""


class SubmittedJobs(NamedTuple):
    """All jobs by submission, [job]."""

    submit: Floats
    work: Floats
    """Seconds at the fair share."""
    gpus: Longs
    model: Longs
    left: Floats
    """Seconds at the fair share."""
    attained: Floats
    """Attained service, GPU-seconds."""
    end: Floats
    """End of each job, s; NaN before its end."""
    node: Longs
    """Node of each job, one of them for a job with several; WAITING for none."""
    cpus: Longs
    memory: Longs
    level: Longs
    """Level at which each job was accepted."""
    speed: Floats
    before: Longs
    """[job, node or CPUs or memory] placement and grants of the last round."""


class NodeArrays(NamedTuple):
    """All nodes, [node]."""

    free: Longs
    """[node, GPUs or CPUs or memory] free resources."""
    members: Longs
    """[node, place] jobs that share it, in ``seated`` places."""
    seated: Longs
    owner: Longs
    """The job that holds the whole node, and others with it, or -1."""
    busy: Floats
    """Time of the last round for which some job held the node, s."""


@compiled
def whole(site: Site, gpus: int) -> int:
    """Return the number of whole nodes that a job takes, 0 if it shares a node."""
    return (gpus + site.size - 1) // site.size if gpus > site.size else 0


@compiled
def put(jobs: SubmittedJobs, nodes: NodeArrays, job: int, node: int, cpus: int, memory: int) -> None:
    """Place a job on a node that has room."""
    free = nodes.free[node]
    free[GPU] -= jobs.gpus[job]
    free[CPU] -= cpus
    free[MEMORY] -= memory
    jobs.node[job], jobs.cpus[job], jobs.memory[job] = node, cpus, memory
    nodes.members[node, nodes.seated[node]] = job
    nodes.seated[node] += 1


@compiled
def regrant(jobs: SubmittedJobs, nodes: NodeArrays, job: int, cpus: int, memory: int) -> None:
    """Change the CPUs and memory of a placed job."""
    free = nodes.free[jobs.node[job]]
    free[CPU] += jobs.cpus[job] - cpus
    free[MEMORY] += jobs.memory[job] - memory
    jobs.cpus[job], jobs.memory[job] = cpus, memory


@compiled_apart
def take_off(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int) -> None:
    """Take a job off its nodes."""
    node = jobs.node[job]
    jobs.node[job] = WAITING
    if whole(site, jobs.gpus[job]):
        for other in range(site.nodes):
            if nodes.owner[other] == job:
                nodes.owner[other] = -1
                nodes.free[other] = (site.size, site.shares, site.shares)
        return
    free = nodes.free[node]
    free[GPU] += jobs.gpus[job]
    free[CPU] += jobs.cpus[job]
    free[MEMORY] += jobs.memory[job]
    last = nodes.seated[node] - 1
    for place in range(last):
        if nodes.members[node, place] == job:
            nodes.members[node, place] = nodes.members[node, last]
    nodes.seated[node] = last


@compiled
def floor_of(site: Site, jobs: SubmittedJobs, job: int, level: int, what: int) -> int:
    """Return the CPUs or the memory (``what`` 0 or 1) that a level guarantees a job."""
    gpus = jobs.gpus[job]
    best = site.best[jobs.model[job], gpus, what]
    fair = gpus * site.shares // site.size
    if level == BEST:
        return best
    if level == LEAN and what == 0:
        fair = max(1, fair // 2)
    return min(best, fair)


@compiled_apart
def divide(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, form: int, taste: Floats) -> float:
    """Divide a node among its jobs: the guaranteed part to each, the rest by largest gain; return their total speed.

    ``taste`` has the powers of a job's remaining work and of its GPUs in its weight. The speed is in GPUs.
    """
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        level = min(jobs.level[job], FAIR)
        regrant(jobs, nodes, job, floor_of(site, jobs, job, level, 0), floor_of(site, jobs, job, level, 1))
    for place in range(nodes.seated[node]):  # the best is assured only as long as nobody's fair share is needed for it
        job = nodes.members[node, place]
        cpus, memory = floor_of(site, jobs, job, BEST, 0), floor_of(site, jobs, job, BEST, 1)
        if jobs.level[job] == BEST and fits(jobs, nodes, job, cpus, memory):
            regrant(jobs, nodes, job, cpus, memory)
    while _give_next(site, jobs, nodes, node, form, taste):
        pass
    speed = 0.0
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        speed += jobs.gpus[job] * rate_of(site, jobs, job)
    return speed


@compiled
def rate_of(site: Site, jobs: SubmittedJobs, job: int) -> float:
    """Return the speed of a job on a shared node, without the effect of neighbours."""
    return site.rates[jobs.model[job], jobs.gpus[job], jobs.cpus[job], jobs.memory[job]]


@compiled
def fits(jobs: SubmittedJobs, nodes: NodeArrays, job: int, cpus: int, memory: int) -> bool:
    """Return whether a placed job can have a number of CPUs and an amount of memory."""
    free = nodes.free[jobs.node[job]]
    return cpus - jobs.cpus[job] <= free[CPU] and memory - jobs.memory[job] <= free[MEMORY]


@compiled
def _give_next(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, form: int, taste: Floats) -> bool:
    """Give the next grant to the job of a node with most gain for its share; return False if no grant helps."""
    best, most, cpus_then, memory_then = -1, 1e-12, 0, 0
    for place in range(nodes.seated[node]):
        job = nodes.members[node, place]
        rate = rate_of(site, jobs, job)
        options = site.options[jobs.model[job], jobs.gpus[job]]
        for index in range(options.shape[0]):
            if options[index, 0] == 0:
                break
            cpus, memory = max(jobs.cpus[job], options[index, 0]), max(jobs.memory[job], options[index, 1])
            then = site.rates[jobs.model[job], jobs.gpus[job], cpus, memory]
            if then <= rate or not fits(jobs, nodes, job, cpus, memory):
                continue
            worth = _worth(jobs, job, rate, then, form, taste) / (cpus - jobs.cpus[job] + memory - jobs.memory[job])
            if worth > most:
                best, most, cpus_then, memory_then = job, worth, cpus, memory
    if best >= 0:
        regrant(jobs, nodes, best, cpus_then, memory_then)
    return best >= 0


@compiled
def _worth(jobs: SubmittedJobs, job: int, rate: float, then: float, form: int, taste: Floats) -> float:
    if form == SAVED:
        return jobs.left[job] * (1.0 / rate - 1.0 / then)
    weight = np.exp(taste[0] * np.log(jobs.left[job] + 60.0) + taste[1] * np.log(jobs.gpus[job]))
    return weight * (then - rate)


@compiled
def divide_all(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, form: int, taste: Floats) -> None:
    """Divide every shared node among its jobs."""
    for node in range(site.nodes):
        if nodes.seated[node] > 0:
            divide(site, jobs, nodes, node, form, taste)


@compiled
def update_speeds(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, live: Longs) -> None:
    """Write the speeds of all jobs, with the effect of the worst neighbour."""
    for job in live:
        node = jobs.node[job]
        if node < 0:
            jobs.speed[job] = 0.0
        elif whole(site, jobs.gpus[job]):
            jobs.speed[job] = _together(site, jobs, nodes, job)
        else:
            jobs.speed[job] = rate_of(site, jobs, job) * beside(site, jobs, nodes, node, jobs.model[job], job)


@compiled
def _together(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int) -> float:
    """Return the speed of a job on whole nodes, by the number of their leaf switches."""
    crossing, touched, last = site.crossing[jobs.model[job]], 0, -1
    for node in range(site.nodes):  # nodes of a leaf switch follow each other
        if nodes.owner[node] == job and site.leaf[node] != last:
            touched, last = touched + 1, site.leaf[node]
    return crossing[min(touched, crossing.size) - 1]


@compiled
def beside(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, node: int, model: int, job: int) -> float:
    """Return the part of its speed that a model keeps beside the worst neighbour on a node, other than ``job``."""
    left = 1.0
    for place in range(nodes.seated[node]):
        other = nodes.members[node, place]
        if other != job:
            left = min(left, site.interference[model, jobs.model[other]])
    return left


@compiled
def advance(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, live: Longs, now: float, meters: Floats) -> int:
    """Advance all jobs by a round; keep unfinished jobs in ``live`` and return their number.

    ``meters`` add up the GPU-seconds held and the node-seconds with a job.
    """
    remaining = 0
    nodes.busy[:] = 0.0
    for job in live:
        held = _run(site, jobs, job, now)
        meters[0] += held * jobs.gpus[job]
        _occupy(site, jobs, nodes, job, held)
        if np.isnan(jobs.end[job]):
            live[remaining] = job
            remaining += 1
        else:
            take_off(site, jobs, nodes, job)
        jobs.before[job] = (jobs.node[job], jobs.cpus[job], jobs.memory[job])
    meters[1] += nodes.busy.sum()
    return remaining


@compiled
def _run(site: Site, jobs: SubmittedJobs, job: int, now: float) -> float:
    """Advance a job by a round, or to its end; return the time for which it held its GPUs, s."""
    if jobs.node[job] < 0 or jobs.speed[job] <= 0.0:
        return 0.0
    pause = _pause(site, jobs, job)
    needed = pause + jobs.left[job] / jobs.speed[job]
    held = min(site.round_s, needed)
    done = max(0.0, held - pause) * jobs.speed[job]
    if needed <= site.round_s:
        jobs.end[job], done = now + held, jobs.left[job]
    jobs.left[job] -= done
    jobs.attained[job] += held * jobs.gpus[job]
    return held


@compiled
def _occupy(site: Site, jobs: SubmittedJobs, nodes: NodeArrays, job: int, held: float) -> None:
    """Extend the busy time of a job's nodes to the time for which the job held them, s."""
    if held <= 0.0:
        return
    if not whole(site, jobs.gpus[job]):
        nodes.busy[jobs.node[job]] = max(nodes.busy[jobs.node[job]], held)
        return
    for node in range(site.nodes):
        if nodes.owner[node] == job:
            nodes.busy[node] = held


@compiled
def _pause(site: Site, jobs: SubmittedJobs, job: int) -> object:
    """Return the time that a job loses to the decision of a round, s; 0 at its first start."""
    if jobs.attained[job] == 0.0:
        return 0.0
    if jobs.before[job, 0] != jobs.node[job]:
        return site.moves[min(jobs.gpus[job], site.moves.size - 1)]
    if jobs.before[job, CPU] != jobs.cpus[job] or jobs.before[job, MEMORY] != jobs.memory[job]:
        return site.regrant_s
    return 0.0
