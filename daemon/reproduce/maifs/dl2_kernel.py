"""The hot path of DL2's agent on fungible jobs: what it sees of a window, what it may do, and what comes of that.

DL2 gives every job a bundle before its network decides. Here GPUs do not suffice for all, so a round has two parts: the
network gives bundles, which start jobs, as long as GPUs last; these find their places; then it goes on, with workers
(CPUs) and parameter servers (memory), until it ends the round or nothing is worth having.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs
from ...replay.compiled import compiled, compiled_apart
from ...replay.fungible import MODELS
from ..dl2.flat_kernel import IMPOSSIBLE, Desk, Net, Singles, Trail, choose, note, think
from ..dl2.kernel import Bools
from .kernel import GONE, LEAN, Jobs, Nodes, Site, fits, floor_of, rate_of, regrant, take_off, whole
from .placing import PROPORTIONAL, enqueue, place_all

KINDS = len(MODELS)
PER_JOB = KINDS + 6
"""Inputs: the type (model one-hot, GPUs), time in the system, work that is left, dominant share, CPUs, memory."""
WORKER, SERVER, BUNDLE = 0, 1, 2
"""Places among a job's three actions; the last of all actions ends a part of the round."""


class Slot(NamedTuple):
    """What has been decided of a round."""

    chosen: Bools
    """[job] that has its bundle."""
    left: Longs
    """[1] GPUs for further bundles."""
    queue: Longs
    """Scratch of placement."""


@compiled
def _needed(site: Site, jobs: Jobs, job: int) -> Any:
    """Return the GPUs that a job keeps from others."""
    return max(jobs.gpus[job], whole(site, jobs.gpus[job]) * site.size)


@compiled_apart
def next_grant(site: Site, jobs: Jobs, nodes: Nodes, job: int, what: int) -> int:
    """Return the smallest option worth having of more CPUs, more memory, or more of both; -1 for none, or no room."""
    best, least, rate = -1, 1 << 60, rate_of(site, jobs, job)
    options = site.options[jobs.model[job], jobs.gpus[job]]
    for index in range(options.shape[0]):
        if options[index, 0] == 0:
            break
        cpus, memory = max(jobs.cpus[job], options[index, 0]), max(jobs.memory[job], options[index, 1])
        if ((what == SERVER) == (cpus > jobs.cpus[job])) or ((what == WORKER) == (memory > jobs.memory[job])):
            continue
        if (cpus + memory < least and site.rates[jobs.model[job], jobs.gpus[job], cpus, memory] > rate + 1e-9
                and fits(jobs, nodes, job, cpus, memory)):
            best, least = index, cpus + memory
    return best


@compiled
def _grant(site: Site, jobs: Jobs, nodes: Nodes, job: int, option: int) -> None:
    options = site.options[jobs.model[job], jobs.gpus[job]]
    regrant(jobs, nodes, job, max(jobs.cpus[job], options[option, 0]), max(jobs.memory[job], options[option, 1]))


@compiled
def _is_open(site: Site, jobs: Jobs, nodes: Nodes, slot: Slot, seated: bool, job: int, what: int) -> Any:
    """Tell whether a job may have this now."""
    if not seated:
        return what == BUNDLE and not slot.chosen[job] and _needed(site, jobs, job) <= slot.left[0]
    if jobs.node[job] < 0 or whole(site, jobs.gpus[job]):
        return False
    return next_grant(site, jobs, nodes, job, what) >= 0


@compiled_apart
def look(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, now: float, slot: Slot, seated: bool, desk: Desk) -> int:
    """Fill in the window, its state and what is open; return how many things are.

    Seen are the first by submission that may have something: as DL2 drops whoever has all.
    """
    desk.seen[:] = -1
    desk.state[:] = 0.0
    desk.allowed[:] = False
    row, count = 0, 0
    for job in live:
        if row == desk.seen.size:
            break
        before = count
        for what in range(3):
            if _is_open(site, jobs, nodes, slot, seated, job, what):
                desk.allowed[3 * row + what] = True
                count += 1
        if count > before:
            desk.seen[row] = job
            _describe(site, jobs, job, now, seated, desk.state[row * PER_JOB:(row + 1) * PER_JOB])
            row += 1
    desk.allowed[desk.allowed.size - 1] = True
    return count


@compiled
def _describe(site: Site, jobs: Jobs, job: int, now: float, seated: bool, state: Singles) -> None:
    gpus = jobs.gpus[job]
    state[jobs.model[job]] = 1.0
    state[KINDS] = np.log2(gpus) / 3.0
    state[KINDS + 1] = np.log1p((now - jobs.submit[job]) / site.round_s) / 5.0
    state[KINDS + 2] = np.log1p(jobs.left[job] / 60.0) / 5.0
    if seated:  # what a job had in the last round it does not have so far
        cpus, memory = jobs.cpus[job] / site.shares, jobs.memory[job] / site.shares
        state[KINDS + 3] = max(gpus / site.size, cpus, memory)
        state[KINDS + 4] = cpus * site.size / gpus
        state[KINDS + 5] = memory * site.size / gpus


@compiled
def begin(site: Site, nodes: Nodes, slot: Slot) -> None:
    """Take all bundles back; nobody is moved yet."""
    slot.chosen[:] = False
    slot.left[0] = 0
    for node in range(site.nodes):
        slot.left[0] += 0 if nodes.owner[node] == GONE else site.size


@compiled
def choose_job(site: Site, jobs: Jobs, slot: Slot, job: int) -> None:
    """Give a job its bundle."""
    slot.chosen[job] = True
    slot.left[0] -= _needed(site, jobs, job)


@compiled_apart
def lean(site: Site, jobs: Jobs, nodes: Nodes, live: Longs) -> None:
    """Leave everybody who shares a node what a bundle is worth."""
    for job in live:
        if jobs.node[job] >= 0 and not whole(site, jobs.gpus[job]):
            regrant(jobs, nodes, job, floor_of(site, jobs, job, LEAN, 0), floor_of(site, jobs, job, LEAN, 1))


@compiled_apart
def seat(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, slot: Slot) -> None:
    """Find places for bundles as the heuristics do: whoever runs stays, whoever has none goes."""
    count = 0
    for job in live:
        if jobs.node[job] >= 0 and not slot.chosen[job]:
            take_off(site, jobs, nodes, job)
        elif jobs.node[job] < 0 and slot.chosen[job]:
            count = enqueue(jobs, slot.queue, 0, count, job)
    lean(site, jobs, nodes, live)
    place_all(site, jobs, nodes, slot.queue, count, PROPORTIONAL)
    lean(site, jobs, nodes, live)


@compiled
def _aware(jobs: Jobs, desk: Desk, draws: Floats) -> int:
    """Return the action that job-aware exploration would rather see (§4.3), -1 when nothing is amiss.

    A job that has 3 to 7 times as much of one as of the other gets the other; whoever has a third to a fifth of the
    CPUs per GPU of the richest gets more.
    """
    ratio, poorest, least, most = 3 + int(5 * draws[2]), -1, 1e18, 0.0
    for row in range(desk.seen.size):
        job = desk.seen[row]
        if job < 0:
            break
        cpus, memory = jobs.cpus[job], jobs.memory[job]
        if max(cpus, memory) > ratio * min(cpus, memory) and draws[3] < 0.5:
            return 3 * row + (SERVER if memory < cpus else WORKER)
        each = cpus / jobs.gpus[job]
        if each < least:
            poorest, least = row, each
        most = max(most, each)
    if most > least * (3 + int(3 * draws[2])):
        return 3 * poorest + WORKER
    return -1


@compiled_apart
def _go_on(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, now: float, slot: Slot, seated: bool, net: Net,
           desk: Desk, scores: Singles, draws: Floats, exploration: float, trail: Trail, decision: int) -> int:
    """Take decisions until the policy ends this part of the round or nothing is open; return how many there were."""
    while look(site, jobs, nodes, live, now, slot, seated, desk) > 0:
        think(net, desk, scores)
        draw = draws[decision % draws.shape[0]]
        action = choose(desk.chances, draw[0])
        if seated and draw[1] < exploration:
            aware = _aware(jobs, desk, draw)
            if aware >= 0 and desk.chances[aware] > IMPOSSIBLE:
                action = aware
        note(trail, desk, action)
        decision += 1
        if action == desk.allowed.size - 1:
            break
        job = desk.seen[action // 3]
        if seated:
            _grant(site, jobs, nodes, job, next_grant(site, jobs, nodes, job, action % 3))
        else:
            choose_job(site, jobs, slot, job)
    return decision


@compiled
def by_window(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, now: float, slot: Slot, net: Net, desk: Desk,
              scores: Singles, draws: Floats, exploration: float, trail: Trail) -> int:
    """Give bundles, seat who has one, give workers and servers; return how many decisions that took.

    ``draws`` [decision, 4] are uniform; a negative first one stands for the likeliest action.
    """
    begin(site, nodes, slot)
    count = _go_on(site, jobs, nodes, live, now, slot, False, net, desk, scores, draws, exploration, trail, 0)
    seat(site, jobs, nodes, live, slot)
    return _go_on(site, jobs, nodes, live, now, slot, True, net, desk, scores, draws, exploration, trail, count)


@compiled
def rebuild(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, order: Longs, taught: Longs, now: float, slot: Slot,
            desk: Desk, trail: Trail) -> None:
    """Write down what a teacher did as decisions of the agent, and leave everything as the teacher did.

    ``order`` are those whom it seated, first to last, ``taught`` [job, CPUs or memory] what it gave. What is for a job
    outside of the window is followed silently.
    """
    begin(site, nodes, slot)
    for job in order:
        _note_for(site, jobs, nodes, live, now, slot, False, desk, trail, job, BUNDLE)
        choose_job(site, jobs, slot, job)
    lean(site, jobs, nodes, live)
    for job in order:
        if not whole(site, jobs.gpus[job]):
            _follow(site, jobs, nodes, live, taught, now, slot, desk, trail, job)
    for job in order:
        if not whole(site, jobs.gpus[job]):
            regrant(jobs, nodes, job, taught[job, 0], taught[job, 1])


@compiled
def _follow(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, taught: Longs, now: float, slot: Slot, desk: Desk,
            trail: Trail, job: int) -> None:
    """Give a job one grant after the other as long as the teacher gave as much."""
    options = site.options[jobs.model[job], jobs.gpus[job]]
    what = WORKER
    while what <= BUNDLE:
        option = next_grant(site, jobs, nodes, job, what)
        if (option >= 0 and max(jobs.cpus[job], options[option, 0]) <= taught[job, 0]
                and max(jobs.memory[job], options[option, 1]) <= taught[job, 1]):
            _note_for(site, jobs, nodes, live, now, slot, True, desk, trail, job, what)
            _grant(site, jobs, nodes, job, option)
            what = WORKER
        else:
            what += 1


@compiled_apart
def _note_for(site: Site, jobs: Jobs, nodes: Nodes, live: Longs, now: float, slot: Slot, seated: bool, desk: Desk,
              trail: Trail, job: int, what: int) -> None:
    """Write down an action for a job, if it is seen."""
    look(site, jobs, nodes, live, now, slot, seated, desk)
    for row in range(desk.seen.size):
        if desk.seen[row] == job and desk.allowed[3 * row + what]:
            note(trail, desk, 3 * row + what)
