"""What equal policies draw at the wall and hold of the GPUs in made-up years, worked out from starts and nodes.

A site of nodes alike under EASY with best fit, the daemon's default watts, and empty nodes that are powered down after
half an hour. It comes to what the engine does (``test_null_years.py``), some twenty times as fast.
"""

import numpy as np
from null_sites import Ran, better, blocks, key, pair, site
from one_node_easy import Jobs, replay

from idlewatt.daemon.learning.pairs import MARK_S, POWER_DOWN_S, USE_MARK_S
from idlewatt.daemon.replay.power import PowerModel

GPUS = 8
"""Of each node."""


def null_energy(null, size, load, days, seed):
    """Return the blocks of two draws of a null: completion times, and joules with empty nodes powered down."""
    cluster, work = site(days, load=load, seed=seed, **size)
    done = [replay(Jobs.of(work, key(null, work, np.random.default_rng([seed, which]))), len(cluster.names))
            for which in (0, 1)]
    edges, *jct = blocks(*(Ran(work, one.start, one.start + work.run) for one in done))
    energy = [_drawn(work, one, len(cluster.names), edges, PowerModel()) for one in done]
    return {"edges": edges, "jct": np.array(jct), "energy": np.array(energy)}


def null_use(null, size, days, seed):
    """Return the blocks of two draws of a null: completion times, and what jobs held."""
    cluster, work = site(days, seed=seed, **size)
    return _used(cluster, *pair(null, cluster, work, seed))


def agent_use(weight, size, days, seed):
    """Return the same of an agent that looks at limits a little, and of FIFO."""
    cluster, work = site(days, seed=seed, **size)
    return _used(cluster, *better(cluster, work, weight))


def _used(cluster, ours, theirs):
    edges, *jct = blocks(ours, theirs)
    use = [_held(one, edges, GPUS * len(cluster.names)) for one in (ours, theirs)]
    return {"edges": edges, "jct": np.array(jct), "use": np.array(use)}


def _held(ran, edges, gpus):
    """Return the share of all GPUs that jobs held in each block times its length, read each hour as the gate does."""
    held = ran.workload.gpus / gpus
    return _integrated([(ran.start, held), (ran.end, -held)], edges, ran.workload.submit[-1], USE_MARK_S)


def _drawn(work, done, nodes, edges, model):
    """Return the joules of each block, read every four hours as the gate does."""
    end, held = done.start + work.run, work.gpus * (model.at_load(model.load) - model.idle)
    steps = [(done.start, held), (end, -held)]
    for node in range(nodes):
        here = done.node == node
        steps += _steps_of_node(done.start[here], end[here], work.submit[0], model)
    return _integrated(steps, edges, work.submit[-1], MARK_S)


def _steps_of_node(start, end, since_s, model):
    """Return when the watts of a node change, and by how much, but for what jobs add to idle GPUs."""
    order = np.argsort(start, kind="stable")
    empty_from = np.maximum.accumulate(np.append(since_s, end[order]))
    empty_until = np.append(start[order], np.inf)
    slept = empty_from + POWER_DOWN_S < empty_until
    woken = empty_until[slept & np.isfinite(empty_until)]
    on = model.host + GPUS * model.idle
    return [(np.zeros(1), np.full(1, on)),
            (empty_from[slept] + POWER_DOWN_S, np.full(slept.sum(), model.standby - on)),
            (woken, np.full(len(woken), on - model.standby))]


def _integrated(steps, edges, last_s, mark_s):
    """Return the integral of what changes in steps over each block, between marks as if it grew evenly."""
    moments, change = (np.concatenate(column) for column in zip(*steps, strict=True))
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    grown = np.append(0.0, np.cumsum(np.cumsum(change[order])[:-1] * np.diff(moments)))
    marks = np.append(np.arange(0.0, last_s, mark_s), last_s)
    return np.diff(np.interp(edges, marks, np.interp(marks, moments, grown)))
