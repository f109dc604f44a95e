"""Made-up histories of two policies as the gate sees them: by block, by third of the users, and the longest waits."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from null_sites import better, blocks, pair, site, thirds

from idlewatt.daemon.learning.pairs import OUTSIDE, block_of, p99, sums

SIZES = ({"nodes": 4, "daily": 120}, {"nodes": 8, "daily": 300}, {"nodes": 16, "daily": 600})
FLOOR_S = 300.0
"""A p99 wait counts as this where it is less, as the gate has it."""


def null_history(null, size, days, seed):
    """Return the blocks of two policies of which neither is better."""
    edges, ours, theirs = blocks(*pair(null, *site(days, seed=seed, **SIZES[size]), seed))
    return {"edges": edges, "ours": ours, "theirs": theirs}


def agent_history(agent, size, days, seed):
    """Return the blocks of an agent and of FIFO, as a whole, by third of the users, and of the longest waits."""
    cluster, work = site(days, seed=seed, **SIZES[size])
    ours, theirs = better(cluster, work, *agent)
    edges, *whole = blocks(ours, theirs)
    block, third = block_of(work.submit, edges), thirds(work)
    jct, wait = ([one.end - work.submit for one in (ours, theirs)], [one.start - work.submit for one in (ours, theirs)])
    groups = [[sums(one, np.where(third == number, block, OUTSIDE), len(edges) - 1) for number in range(3)]
              for one in jct]
    longest = [[max(FLOOR_S, p99(one[block == number])) for number in range(len(edges) - 1)] for one in wait]
    true = [jct[0].sum() / jct[1].sum(), *(jct[0][third == one].sum() / jct[1][third == one].sum() for one in range(3)),
            max(FLOOR_S, p99(wait[0])) / max(FLOOR_S, p99(wait[1]))]
    return {"edges": edges, "settled": settled(edges, theirs), "ours": whole[0], "theirs": whole[1],
            "groups": np.array(groups), "longest": np.array(longest), "whole": wholes(block, wait),
            "true": np.array(true)}


def settled(edges, ran):
    """Return for each edge when the last job that was submitted before it has ended; until then its block waits."""
    last = np.maximum.accumulate(np.concatenate([[0.0], ran.end]))
    return np.maximum(edges, last[np.searchsorted(ran.workload.submit, edges)])


def wholes(block, wait):
    """Return the p99 wait over the other's of all jobs up to the end of each block."""
    descending = [np.argsort(-one, kind="stable") for one in wait]
    found = []
    for look in range(block.max(initial=-1) + 1):
        seen = (block != OUTSIDE) & (block <= look)
        jobs = seen.sum()
        top = [one[order[seen[order]][:2 + jobs // 50]] for one, order in zip(wait, descending, strict=True)]
        longest = [max(FLOOR_S, np.interp(0.01 * (jobs - 1), np.arange(len(one)), one)) for one in top]
        found.append(longest[0] / longest[1])
    return np.array(found)
