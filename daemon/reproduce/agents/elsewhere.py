"""A scorer of one site, asked on others: of another size, of another generator, of made-up jobs on a trace and back.

Wherever it has a doubt the site's own order decides. So what it may spoil is what it decides without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ...agents.histories import subset
from ...agents.kinds import TraceWindow, TrainingConfig, figures
from ...agents.scorer.agent import Scorer, load
from ...agents.scorer.train import train
from ...policies import named
from ...replay import engine
from ...replay.arrays import NOW, Floats
from ...replay.cluster import Cluster
from ...replay.state import ClusterState
from ...replay.timeline import begun, proceed
from ..packaged import GPUS, TraceSite, workload_of
from ..scorer.regimes import INCUMBENT, Regime, drawn, judging
from ..scorer.trial import FIRST_SELECTED, OBJECTIVE
from ..value.deciding import Decider, Deciders
from ..value.sites import TRACES

LOOK_S = 900.0
"""How often the agent is asked for a doubt; the policy that decides then decides until a job waits at a later look."""
WINDOW, LEARNED, LOADS, SELECT = 800, 2 / 3, (0.7, 1.2), 10
"""Jobs of a part of a trace to learn from, all of the first part of it, at any of these loads; how many choose."""
MOST_JOBS = 4000
SHORTER = {"Venus vcvGl": 16}
"""Nodes on which jobs of a trace wait that do not on its own."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where a scorer learns: jobs that are made up, or a trace's, on so many nodes."""

    trace: str
    """The beginning of its name; '' for made-up jobs."""
    nodes: int

    @property
    def name(self) -> str:
        """Return it in words."""
        return f"{self.trace or 'made-up jobs'}, {self.nodes} nodes"

    def fit(self, traces: Path) -> Callable[[int], TraceWindow]:
        """Return what draws windows to learn from."""
        return partial(_part, traces, self) if self.trace else partial(drawn, self.nodes)


HOMES = (Home("", 4), Home("", 8), Home("", 20), Home("Venus vcvGl", 4), Home("Philly 0e4a51", 4),
         Home("Philly 0e4a51", 20))
MADE_UP = tuple(Regime(nodes, limits, 0.9) for nodes in (4, 8, 20) for limits in ("informative", "lazy", "no"))
REAL = ("Venus vcvGl", "Philly 0e4a51 on", "Philly 7f04ca on", "Philly 11cb48", "openb")


@dataclass(frozen=True, slots=True)
class Served:
    """What came of one scorer on one site, mean completion times over that of the site's own order."""

    home: str
    site: str
    chance: float
    alone: float
    """As if it never had a doubt."""
    doubting: float
    """Where it has a doubt the site's own order decides."""
    rounds: int
    """At which somebody waited."""
    doubts: Mapping[str, int]
    """Rounds by what the first doubt was about."""


def served(home: Home, traces: Path, folder: Path, budget_s: float) -> Iterator[Served]:
    """Teach a scorer at home and yield what comes of it on each site."""
    fit = home.fit(traces)
    later = [fit(FIRST_SELECTED + number) for number in range(SELECT)]
    for _ in train(TrainingConfig(fit, later, INCUMBENT, 0, budget_s, folder, OBJECTIVE)):
        pass
    agent = load(folder / "best")
    for name, window in sites(traces):
        yield tried(agent, home.name, name, window)


def tried(agent: Scorer, home: str, site: str, window: TraceWindow) -> Served:
    """Replay a site under its own order, by chance, and under a scorer with and without its doubts."""
    own, chance, alone = (figures(engine.run(window.cluster, window.workload, policy), window.since_s).jct_mean_s
                          for policy in (named(INCUMBENT), named("random-feasible"), agent))
    done, rounds, doubts = doubting(agent, window)
    heeded = figures(done, window.since_s).jct_mean_s
    return Served(home, site, chance / own, alone / own, heeded / own, rounds, doubts)


def doubting(agent: Scorer, window: TraceWindow) -> tuple[engine.Run, int, Mapping[str, int]]:
    """Replay a site under a scorer that yields to the incumbent in doubt; also return rounds in all and by doubt."""
    work, found = window.workload, Counter[str]()
    own, other = (Decider(policy, work.limit, work.prediction) for policy in (named(INCUMBENT), agent))
    active = own

    def choose(state: ClusterState, time_s: float) -> Decider:
        nonlocal active
        if len(state.waiting):
            about, _ = next(agent.doubts(state), ("", ""))
            found[about] += 1
            active = own if about else other
        return active

    deciders = Deciders(own, LOOK_S, choose)
    done, event_list = begun(window.cluster, work, deciders.policy)
    time_s, until = float(work.submit[0]), float(work.submit[-1])
    while time_s < until or len(done.state.waiting):
        proceed(done.state, event_list, deciders.policy, time_s)
        done.state.arrays.clock[NOW] = time_s
        deciders.look(done.state, time_s)
        time_s += LOOK_S * (1 if len(done.state.waiting) else _idle_looks(work.submit, time_s))
    proceed(done.state, event_list, deciders.policy, np.inf)
    rounds = found.total()
    del found[""]
    return done, rounds, dict(found)


def _idle_looks(submit: Floats, time_s: float) -> int:
    """Return how many looks later somebody may wait again, at least one, where nobody waits now."""
    later = submit[np.searchsorted(submit, time_s, side="right"):]
    return max(1, int((later[0] - time_s) // LOOK_S)) if len(later) else 1


def sites(traces: Path) -> Iterator[tuple[str, TraceWindow]]:
    """Yield the sites on which scorers are asked, with their names."""
    for regime in MADE_UP:
        yield f"made-up jobs, {regime.name}", judging(regime, 0)
    for name in REAL:
        trace = trace_of(name)
        yield trace.name, slice_of(trace, traces)
    for name, nodes in SHORTER.items():
        trace = replace(trace_of(name), nodes=nodes)
        yield f"{name} on {nodes} nodes", slice_of(trace, traces)


def files() -> set[str]:
    """Return the traces that it needs, by their places in the folder of traces."""
    return {trace_of(name).file for name in (*REAL, *(home.trace for home in HOMES if home.trace))}


def trace_of(name: str) -> TraceSite:
    """Return the trace that is called so, or begins so."""
    return next(trace for trace in TRACES if trace.name.startswith(name))


def slice_of(trace: TraceSite, traces: Path) -> TraceWindow:
    """Return the first jobs of a trace that fit its nodes, all of one partition."""
    work = workload_of(traces / trace.file)
    rows = trace.rows(work)
    rows = rows[(work.gpus[rows] > 0) & (work.gpus[rows] <= GPUS * trace.nodes) & (work.run[rows] > 0)][:MOST_JOBS]
    some = subset(work, rows, partition=np.zeros(len(rows), np.int32))
    return TraceWindow(Cluster.from_spec(f"{trace.nodes}x{GPUS}"), replace(some, partition_names=("default",)), -np.inf)


def _part(traces: Path, home: Home, number: int) -> TraceWindow:
    """Return the part of this number of a trace's earlier jobs, as dense as makes them wait on so many nodes."""
    random = np.random.default_rng([13, number, home.nodes])
    whole = slice_of(replace(trace_of(home.trace), nodes=home.nodes), traces)
    first = int(random.integers(0, max(1, int(LEARNED * len(whole.workload)) - WINDOW)))
    some = subset(whole.workload, np.arange(first, min(first + WINDOW, len(whole.workload))))
    wanted_s = float((some.run * some.gpus).sum()) / (GPUS * home.nodes * random.uniform(*LOADS))
    submit = (some.submit - some.submit[0]) * wanted_s / max(1.0, float(np.ptp(some.submit)))
    return TraceWindow(whole.cluster, replace(some, submit=submit), float(submit[len(some) // 8]))
