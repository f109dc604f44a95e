"""What the daemon finds of agents day by day on made-up histories: replays of windows, from what really ran before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon/learning"))

import numpy as np
from gate_years import SIZES
from null_sites import key, looking_at_limits, site
from one_node_easy import Jobs, really, replay, scene, standings

from idlewatt.daemon.learning.pairs import DAY_S

WINDOW_S, WARM_UP_S = 8 * 3600.0, DAY_S
"""The daemon replays windows of an hour; of eight, a year takes a sixth of the time."""


def turning(weights, size, days, seed):
    """Return the log ratios of days of an agent that changes, and how it truly did under each weight.

    It looks at limits with the first of ``weights`` for the first of ``days``, and with the next ones after; below 0 it
    is worse than FIFO, which really decides.
    """
    cluster, work = site(float(sum(days)), seed=seed, **SIZES[size])
    phase = np.searchsorted(np.cumsum(days)[:-1] * DAY_S, work.submit, side="right")
    keys = looking_at_limits(work, np.array(weights)[phase])
    nodes = len(cluster.names)
    ours, real = (replay(Jobs.of(work, one), nodes).start + work.run - work.submit for one in (keys, work.submit))
    true = [ours[phase == one].sum() / real[phase == one].sum() for one in range(len(days))]
    return {"logs": _logs(work, keys, work.submit, nodes), "true": np.array(true)}


def equal(null, size, days, seed):
    """Return the log ratios of days of an agent that is neither better nor worse than what really decides."""
    cluster, work = site(float(days), seed=seed, **SIZES[size])
    ours, theirs = (key(null, work, np.random.default_rng([seed, which])) for which in (0, 1))
    return {"logs": _logs(work, ours, theirs, len(cluster.names))}


def _logs(work, ours, theirs, nodes):
    """Return the logarithm of the time that jobs spend in the system each day over that under what really decides."""
    real = Jobs.of(work, theirs)
    timeline, windows = replay(real, nodes), work.submit[-1] // WINDOW_S
    span = (WINDOW_S, WARM_UP_S, windows)
    spent = standings(Jobs.of(work, ours), timeline, scene(nodes, 8, len(work)), span), really(real, timeline, span)
    a_day = round(DAY_S / WINDOW_S)
    days = [one[:len(one) // a_day * a_day].reshape(-1, a_day).sum(axis=1) for one in spent]
    return np.log(days[0] / days[1])
