"""The arrays that compiled code works on: the cluster, its jobs, its queue.

Indexes: ``node`` and ``job`` number the rows of a :class:`~.cluster.Cluster` and a :class:`~.workload.Workload`;
``pool`` numbers sets of nodes that a job may use (partition, GPU model, features, named nodes folded into one row).

Nodes and jobs are record arrays: ``state.jobs.submit`` is a column, ``state.jobs[job].submit`` a value, in Python as in
compiled code. A job is touched as a whole far more often than a column is, and every array that is not there need not
be handed from function to function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Masks = NDArray[np.bool_]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Words = NDArray[np.uint64]
Records = Any
"""A numpy record array; its columns are listed beside its dtype below."""

WAITING, RUNNING, ENDED, FUTURE, HELD, REJECTED = 0, 1, 2, 3, 4, 5
"""States of a job: not yet submitted is FUTURE, waiting for a dependency HELD, unable ever to run REJECTED."""

NOW, WAKE = 0, 1
"""Places in ``State.clock``: the present; when the order may change although nothing happens."""

RUNNING_JOBS, STARTED, MAX_STARTS, KEEP_ESTIMATES, DEPTH = range(5)
WAITING_JOBS, PREEMPTIONS, ENDED_JOBS, CHANGED, ALIKE, RESIZING, COUPLED, DIVIDED, RETURNING = range(5, 14)
"""Places in ``State.counts``; CHANGED is 1 if anything happened that could let a blocked line move on, ALIKE
whether the jobs of a line ask for the same, RESIZING whether the rules resize running jobs, COUPLED whether speeds
depend on neighbours or on CPUs and memory, DIVIDED whether nodes have islands of GPUs, RETURNING how many jobs were
requeued and may not begin yet."""

OVERHEAD, POWER_DOWN, RESIZE, GRANT, SLOT, STEP, WAKE_UP = range(7)
"""Places in ``State.costs``, in seconds: what a preemption costs a job, when an empty node is powered down, what a
change of GPUs and one of CPUs or memory cost, how long a slot is; bytes per GPU between columns of ``State.grants``;
how long a node takes to come up that was powered down."""

STARTED_NOW, PREEMPTED_NOW, RESIZED_NOW, KINDS = 0, 1, 2, 4
"""Entries of ``State.log``: ``job * KINDS + kind``."""

RANDOM, DIGEST = 0, 1
"""Places in ``State.words``: the one random generator; the digest of the event log so far."""

NODE = np.dtype([
    ("gpus", "i8"), ("cpus", "i8"), ("memory", "i8"), ("free_gpus", "i8"), ("free_cpus", "i8"), ("free_memory", "i8"),
    ("open", "i4"),  # 1 where jobs may start now, 0 on a drained or failed node
    ("joined", "i4"),  # of the spine of this number, as ``Cluster.joined``: nothing of the node
    ("busy", "i8"),  # jobs that run here
    ("stirred", "i8"),  # 1 where a job came or went since speeds were looked at, which is done where neighbours matter
    ("leaf", "i8"), ("spine", "i8"),
    ("score", "i8"),  # scratch: what a placement ranks nodes by
    ("time", "f8"),  # of imagined nodes: from when on they are like this
    ("ends", "f8"),  # when its last job is expected to end, where a learned rule keeps account of it
], align=True)

JOB = np.dtype([
    # What was requested; never changes during a run.
    ("submit", "f8"), ("run", "f8"), ("limit", "f8"), ("prediction", "f8"), ("priority", "f8"),
    ("memory", "i8"), ("cpus", "i4"),  # on each full chunk
    ("gpus", "i4"), ("minimum", "i4"), ("maximum", "i4"), ("widest", "i4"),  # the last: most GPUs on one node
    ("chunk", "i4"), ("chunks", "i4"), ("rest", "i4"), ("rests", "i4"),  # as in :class:`Ask`
    ("pool", "i4"), ("queue", "i4"), ("user", "i4"), ("model", "i4"),
    ("dependency", "i4"), ("first_child", "i4"), ("next_child", "i4"),  # rows, -1 for none
    # How far it has come.
    ("start", "f8"), ("end", "f8"), ("since", "f8"),  # first start; end; last start or resize
    ("remaining", "f8"), ("as_of", "f8"),  # seconds of work at speed 1, at the moment since which it has its speed
    ("estimate", "f8"),  # when it ends at the latest, by its limit
    ("rate", "f8"), ("attained", "f8"),  # speed; GPU-seconds received before ``since``
    ("held", "i8"),  # where its nodes begin in ``State.held``
    ("nodes_held", "i4"), ("gpus_held", "i4"),  # nodes and GPUs held now, or last
    ("memory_held", "i8"), ("cpus_held", "i4"),  # granted to each ``chunk`` GPUs, be it less or more than requested
    ("rank", "i4"), ("place", "i4"),  # in the order; in the heap of running jobs
    ("preempted", "i4"), ("room", "i4"),  # how often; most nodes it can ever hold
    ("preemptible", "i4"), ("status", "i4"),
    ("whole", "i4"),  # 1 for a job that shares no node
    ("tasked", "i4"),  # 1 for one that says how many tasks a node runs
    ("load", "f4"), ("draw", "f4"),  # as in :class:`~.workload.Workload`
], align=True)

METER = np.dtype([
    ("changed", "f8"),  # when the node last became busy or empty
    ("busy", "f8"), ("empty", "f8"), ("down", "f8"),  # seconds with a job; on without one; powered down
    ("gpu", "f8"),  # GPU-seconds held
    ("known", "f8"), ("load", "f8"), ("draw", "f8"),  # of these by jobs whose watts are known; times their watts
    ("slept", "f8"), ("ready", "f8"),  # when a command powered it down; when it is or was up again
    ("woken", "i8"),  # how often it had to come up
], align=True)
"""How a node spent its time up to ``changed``; jobs that still run are not in ``gpu`` yet."""

SHARE = np.dtype([("node", "i4"), ("gpus", "i4")], align=True)
"""A part of a node that a job holds."""

LINE = np.dtype([("head", "i8"), ("blocked", "i8")], align=True)
"""Scratch of a line: rank under consideration, rank of the first job that did not fit."""


class PlacementView(NamedTuple):
    """What a placement may look at."""

    nodes: Records
    """[node] of NODE"""
    eligible: NDArray[np.int8]
    """[pool, node] 1 where jobs of the pool may run."""
    demand: Floats
    """[GPUs] share of the workload's jobs that want this many GPUs on a node."""
    words: Words
    weights: Floats
    traits: Floats
    """Traits of jobs, as in :class:`State`."""


class Ask(NamedTuple):
    """What one job needs: ``chunks`` different nodes with ``gpus`` each, and ``rests`` more with ``rest``."""

    pool: int
    gpus: int
    cpus: int
    memory: int
    chunks: int
    rest: int
    rests: int
    whole: int
    """1 for a job that shares no node: it takes all CPUs, of nodes where nothing runs."""
    job: int
    tasked: int = 0
    """1 for a job that says how many tasks a node runs, and so can use no more CPUs than those."""


class State(NamedTuple):
    """The complete state of a replay at one moment."""

    nodes: Records
    """[node] of NODE"""
    eligible: NDArray[np.int8]
    demand: Floats
    jobs: Records
    """[job] of JOB, in order of (submit, id)"""
    held: Records
    """of SHARE; a job's begin at its ``held``"""
    order: Ints
    """[rank] job"""
    leaves: Words
    """[line, word] waiting jobs by rank: a 64-ary tree of bits, so the next in order is a few words away."""
    branches: Words
    roots: Words
    lines: Records
    """[line] of LINE"""
    heap: Ints
    """Running jobs by (end, job)."""
    estimates: Ints
    """Running jobs by (estimate, job), sorted; kept only where a rule asks for it."""
    occupant: NDArray[np.int32]
    """[node, slot] job on this GPU; -1 when free, -2 where there is none."""
    islands: NDArray[np.int32]
    """[node, slot] which of its node's NVSwitch or NUMA domains the GPU is in."""
    speed: Floats
    """[model, GPUs] speed relative to other sizes."""
    spread: Floats
    """[model, level] speed on one island, one node, one leaf, one spine, further."""
    company: Floats
    """[model, model] part of its speed that is left to the first beside the second on a node."""
    grants: Floats
    """[model, CPUs per GPU, steps of memory per GPU] speed."""
    clock: Floats
    counts: Longs
    words: Words
    costs: Floats
    meters: Records
    """[node] of METER"""
    usage: Floats
    """[user, resource] GPUs, CPUs and bytes in use."""
    log: Ints
    """What was done in the present decision, in order."""
    chosen: Longs
    """Scratch: nodes that a placement chose, full chunks first."""
    shares: Longs
    """Scratch: GPUs on each chosen node."""
    imagined: Records
    """Scratch: [level, node] of NODE, clusters to try things out on, since compiled rules make no arrays of their own.
    There are two, more where a rule asks for them."""
    listed: Ints
    """Scratch: [job] jobs being sorted."""
    keys: Floats
    """Scratch: [job] what they are sorted by."""
    weights: Floats
    """Weights of learned rules; empty for all others. Only the rule knows their meaning."""
    kin: Floats
    """Runs of similar jobs, for orders that predict from them; empty for others. Only the order knows the layout."""
    traits: Floats
    """[job, trait] features of each job that learned rules compute before the first decision."""
    scratch: Floats
    """Scratch: features of cluster and queue that learned rules compute at a decision; numbers that Slurm's rules keep
    from one round to the next. Only the rule knows their meaning."""
    outlook: Longs
    """Scratch: what a look-ahead rule remembers of nodes; empty for all others. Only the rule knows the layout. It
    notices every change except one of ``eligible``: code that changes ``eligible`` sets all of this to 0."""
