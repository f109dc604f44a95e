"""The compiled part of DL2's own agent: its observation of a window of jobs, its open actions and its choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...replay.arrays import Floats, Longs, Masks, Singles
from ...replay.compiled import compiled, compiled_apart
from .kernel import BUNDLE, SERVER, WORKER, ArenaCluster, ArrivedJobs, bundle_each, fits, grant, share

MODELS = 8
PER_JOB = MODELS + 5
"""Inputs of a job: one-hot model, slots in the system, remaining part, dominant share, workers, servers (§4.2)."""
LONG_STAY = 10.0
"""Number of slots in the system that is scaled to 1."""
ACTION_OF = (1, 0, 2)
"""Place of server, worker and bundle among a job's three actions; the last of all actions ends the slot."""
IMPOSSIBLE = 1e-20
"""Exploration takes no action with a smaller probability under the policy."""


class PolicyNetwork(NamedTuple):
    """Weights of the policy network in the form that compiled code reads."""

    first: Singles
    first_bias: Singles
    second: Singles
    second_bias: Singles
    out: Singles
    out_bias: Singles


class Trail(NamedTuple):
    """Record of decisions with their states; without rows nothing is recorded."""

    states: Singles
    allowed: Masks
    actions: Longs
    chances: Floats
    """Probability of each taken action under the policy."""
    taken: Longs
    """[1] number of used rows."""


class DecisionScratch(NamedTuple):
    """Scratch arrays of one decision."""

    seen: Longs
    """[row] job, -1 for none."""
    state: Singles
    allowed: Masks
    first: Singles
    second: Singles
    scores: Singles
    """[action] outputs of the last layer."""
    chances: Floats


@compiled_apart
def look(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, desk: DecisionScratch) -> int:
    """Fill in the window, its state and the open actions; return how many are open. Full jobs are left out."""
    desk.seen[:] = -1
    desk.state[:] = 0.0
    desk.allowed[:] = False
    row, tasks = 0, 0
    for job in range(jobs.model.size):
        servers, workers = jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
        if row == desk.seen.size or (servers >= cluster.most and workers >= cluster.most):
            continue
        first = row * PER_JOB
        desk.seen[row] = job
        desk.state[first + jobs.model[job]] = 1.0
        desk.state[first + MODELS] = jobs.stay[job] / LONG_STAY
        desk.state[first + MODELS + 1] = jobs.remaining[job] / jobs.epochs[job]
        desk.state[first + MODELS + 2] = share(cluster, jobs, job) * cluster.nodes / cluster.most
        desk.state[first + MODELS + 3] = workers / cluster.most
        desk.state[first + MODELS + 4] = servers / cluster.most
        for what in range(3):
            if ((what == WORKER or servers < cluster.most) and (what == SERVER or workers < cluster.most)
                    and _somewhere(cluster, jobs, used, job, what)):
                desk.allowed[3 * row + ACTION_OF[what]] = True
                tasks += 1
        row += 1
    desk.allowed[desk.allowed.size - 1] = True
    return tasks


@compiled
def _somewhere(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, job: int, what: int) -> bool:
    """Return whether any node has room."""
    for node in range(used.shape[0]):  # noqa: SIM110 (numba compiles no generators here)
        if fits(cluster, jobs, used, job, what, node):
            return True
    return False


@compiled
def _layer(inputs: Singles, weights: Singles, bias: Singles, outputs: Singles) -> None:
    """Compute a linear layer; zero inputs, which are most, are skipped."""
    for column in range(outputs.size):
        outputs[column] = bias[column]
    for row in range(inputs.size):
        value = inputs[row]
        if value != 0.0:
            for column in range(outputs.size):
                outputs[column] += value * weights[row, column]


@compiled_apart
def think(net: PolicyNetwork, desk: DecisionScratch) -> None:
    """Compute the probabilities of all actions: a softmax over the open actions."""
    _layer(desk.state, net.first, net.first_bias, desk.first)
    for unit in range(desk.first.size):
        desk.first[unit] = max(desk.first[unit], np.float32(0.0))
    _layer(desk.first, net.second, net.second_bias, desk.second)
    for unit in range(desk.second.size):
        desk.second[unit] = max(desk.second[unit], np.float32(0.0))
    _layer(desk.second, net.out, net.out_bias, desk.scores)
    highest, total = -1e30, 0.0
    for action in range(desk.scores.size):
        if desk.allowed[action]:
            highest = max(highest, float(desk.scores[action]))
    for action in range(desk.scores.size):
        desk.chances[action] = np.exp(desk.scores[action] - highest) if desk.allowed[action] else 0.0
        total += desk.chances[action]
    for action in range(desk.scores.size):
        desk.chances[action] /= total


@compiled
def choose(chances: Floats, draw: float) -> int:
    """Return a random action by its probability; the most likely action if the draw is negative."""
    best, passed = 0, 0.0
    for action in range(chances.size):
        if draw >= 0.0:
            passed += chances[action]
            if chances[action] > 0.0:
                best = action
                if passed > draw:
                    return best
        elif chances[action] > chances[best]:
            best = action
    return best


@compiled
def _aware(jobs: ArrivedJobs, desk: DecisionScratch, draws: Floats) -> int:
    """Return the action that job-aware exploration prefers (§4.3), -1 for none.

    A job that has only one of the two roles gets the other; so does one that has ten times as many, or rather (as the
    code has it) 3 to 7 times; and a job that has a third to a fifth of the tasks of the richest gets more.
    """
    ratio, poorest, least, most = 3 + int(5 * draws[2]), -1, 1 << 60, 0
    for row in range(desk.seen.size):
        job = desk.seen[row]
        if job < 0:
            break
        servers, workers = jobs.tasks[job, SERVER], jobs.tasks[job, WORKER]
        if (servers == 0) != (workers == 0):
            return 3 * row + ACTION_OF[SERVER if servers == 0 else WORKER]
        if max(servers, workers) > ratio * min(servers, workers) and draws[3] < 0.5:
            return 3 * row + ACTION_OF[SERVER if servers < workers else WORKER]
        if servers + workers < least:
            poorest, least = row, servers + workers
        most = max(most, servers + workers)
    if poorest >= 0 and least > 0 and most > least * (3 + int(3 * draws[2])):
        return 3 * poorest + ACTION_OF[BUNDLE if draws[3] < 0.5 else WORKER]
    return -1


@compiled
def note(trail: Trail, desk: DecisionScratch, action: int) -> None:
    """Record a decision, as long as there are free rows."""
    row = trail.taken[0]
    if row < trail.actions.size:
        for place in range(desk.state.size):
            trail.states[row, place] = desk.state[place]
        for place in range(desk.allowed.size):
            trail.allowed[row, place] = desk.allowed[place]
        trail.actions[row], trail.chances[row] = action, desk.chances[action]
        trail.taken[0] += 1


@compiled
def by_window(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, net: PolicyNetwork, desk: DecisionScratch,
              draws: Floats, exploration: float, trail: Trail) -> int:
    """Give every job a bundle, then one task for each decision until the policy ends the slot or nothing fits.

    ``draws`` [decision, 4] are uniform; a negative first draw selects the most likely action. Return the number of
    decisions.
    """
    bundle_each(cluster, jobs, used)
    for decision in range(draws.shape[0]):
        if look(cluster, jobs, used, desk) == 0:
            return decision
        think(net, desk)
        action = choose(desk.chances, draws[decision, 0])
        if draws[decision, 1] < exploration:
            aware = _aware(jobs, desk, draws[decision])
            if aware >= 0 and desk.chances[aware] > IMPOSSIBLE:
                action = aware
        note(trail, desk, action)
        if action == desk.allowed.size - 1:
            return decision + 1
        grant(cluster, jobs, used, desk.seen[action // 3], _kind(action), True)
    return len(draws)


@compiled
def _kind(action: int) -> int:
    """Return the kind of task that an action gives."""
    if action % 3 == ACTION_OF[BUNDLE]:
        return BUNDLE
    return SERVER if action % 3 == ACTION_OF[SERVER] else WORKER


@compiled
def rebuild(cluster: ArenaCluster, jobs: ArrivedJobs, used: Longs, taught: ArrivedJobs, desk: DecisionScratch,
            trail: Trail) -> None:
    """Record a teacher's actions as decisions of the agent, which begins with a bundle for every job.

    A grant that the bundle covers is not recorded; a grant for a job outside the window is applied but not recorded.
    """
    bundle_each(cluster, jobs, used)
    for job in range(jobs.model.size):
        taught.tasks[job, SERVER] = taught.tasks[job, WORKER] = 0
    for step in range(taught.steps[0]):
        job, what = taught.given[step, 0], taught.given[step, 1]
        taught.tasks[job, SERVER] += what != WORKER
        taught.tasks[job, WORKER] += what != SERVER
        server = taught.tasks[job, SERVER] > jobs.tasks[job, SERVER]
        worker = taught.tasks[job, WORKER] > jobs.tasks[job, WORKER]
        if not (server or worker) or look(cluster, jobs, used, desk) == 0:
            continue
        missing = BUNDLE if server and worker else SERVER if server else WORKER
        for row in range(desk.seen.size):
            if desk.seen[row] == job and desk.allowed[3 * row + ACTION_OF[missing]]:
                note(trail, desk, 3 * row + ACTION_OF[missing])
        grant(cluster, jobs, used, job, missing, True)
