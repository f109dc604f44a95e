"""A scorer of one site, evaluated on other sites: of another size, another generator, or another trace.

When the scorer abstains, the site's own order decides. Where the two take turns, the result can be worse than either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ...advice.inference import why_later
from ...advice.wait_estimate import compared
from ...agents.histories import subset
from ...agents.kinds import TraceWindow, TrainingConfig, figures
from ...agents.scorer.agent import Scorer, load
from ...agents.scorer.train import train
from ...policies import named
from ...replay import engine
from ...replay.arrays import NOW, Floats
from ...replay.cluster import Cluster
from ...replay.outcome import paired_ratio
from ...replay.state import ClusterState
from ...replay.timeline import begun, proceed
from ..packaged import GPUS, TraceSite, workload_of
from ..scorer.regimes import INCUMBENT, Regime, drawn, judging
from ..scorer.trial import FIRST_SELECTED, OBJECTIVE
from ..value.deciding import Decider, Deciders
from ..value.sites import TRACES

LOOK_S = 900.0
"""Interval at which the agent may abstain, s; the chosen policy decides until a job waits at a later check."""
WINDOW, LEARNED, LOADS, SELECT = 800, 2 / 3, (0.7, 1.2), 10
"""Jobs of a part of a trace to learn from, all of the first part of it, at any of these loads; how many choose."""
MOST_JOBS = 4000
EACH = 5
"""Number of histories of each site: one replay of a long queue says little."""
MOVED_S = LOOK_S
"""Greatest shift of a submission in a copy of a trace, s."""
DRAWS = 8
"""Futures in which what the agent changes is forecast; a daemon draws 20 unless it is told otherwise."""
SHORTER = {"Venus vcvGl": 16}
"""Number of nodes on which a trace's jobs wait, for traces whose jobs do not wait on their own cluster."""


@dataclass(frozen=True, slots=True)
class Home:
    """Training site of a scorer: generated jobs or a trace's jobs, and the number of nodes."""

    trace: str
    """Beginning of the trace's name; '' for generated jobs."""
    nodes: int

    @property
    def name(self) -> str:
        """Return the name of the training site in words."""
        return f"{self.trace or 'generated jobs'}, {self.nodes} nodes"

    def fit(self, traces: Path) -> Callable[[int], TraceWindow]:
        """Return the generator of training windows."""
        return partial(_part, traces, self) if self.trace else partial(drawn, self.nodes)


HOMES = (Home("", 4), Home("", 8), Home("", 20), Home("Venus vcvGl", 4), Home("Philly 0e4a51", 4),
         Home("Philly 0e4a51", 20))
MADE_UP = tuple(Regime(nodes, limits, 0.9) for nodes in (4, 8, 20) for limits in ("informative", "lazy", "no"))
REAL = ("Venus vcvGl", "Philly 0e4a51 on", "Philly 7f04ca on", "Philly 11cb48", "openb")


@dataclass(frozen=True, slots=True)
class Served:
    """Result of one scorer on one site: ratios of mean completion times to that of the site's own order.

    A ratio is the geometric mean over the site's histories.
    """

    home: str
    site: str
    chance: float
    alone: float
    """Ratio of the scorer when it never abstains."""
    doubting: float
    """Ratio when the site's own order decides while the scorer abstains."""
    interval: tuple[float, float] | None
    """95 % interval of ``doubting`` over the histories, by Student's t on logarithms; None with one history."""
    worst: float
    """``doubting`` of the history where it is greatest."""
    rounds: int
    """Number of rounds with a waiting job."""
    doubts: Mapping[str, int]
    """Number of rounds in which the scorer abstained, by the first reason."""


def served(home: Home, traces: Path, folder: Path, budget_s: float, steps: int | None = None) -> Iterator[Served]:
    """Train a scorer on its home site, for so long or for so many steps, and yield its result on each site."""
    fit = home.fit(traces)
    later = [fit(FIRST_SELECTED + number) for number in range(SELECT)]
    for _ in train(TrainingConfig(fit, later, INCUMBENT, 0, budget_s, folder, OBJECTIVE, steps=steps)):
        pass
    agent = load(folder / "best")
    for name, windows in sites(traces):
        yield tried(agent, home.name, name, windows)


def tried(agent: Scorer, home: str, site: str, windows: Sequence[TraceWindow]) -> Served:
    """Replay a site's histories under its own order, at random, and under a scorer with and without abstaining."""
    jct_s, rounds, doubts = np.empty((len(windows), 4)), 0, Counter[str]()
    for row, window in zip(jct_s, windows, strict=True):
        abstaining, rounds_here, doubts_here = doubting(agent, window)
        rounds, doubts = rounds + rounds_here, doubts + Counter(doubts_here)
        row[:] = [figures(done, window.since_s).jct_mean_s for done in (*(
            engine.run(window.cluster, window.workload, policy)
            for policy in (named(INCUMBENT), named("random-feasible"), agent)), abstaining)]
    chance, alone, ratio = (paired_ratio(column, jct_s[:, 0]) for column in jct_s[:, 1:].T)
    return Served(home, site, chance.estimate, alone.estimate, ratio.estimate,
                  (ratio.low, ratio.high) if len(windows) > 1 else None, float((jct_s[:, 3] / jct_s[:, 0]).max()),
                  rounds, dict(doubts))


def doubting(agent: Scorer, window: TraceWindow) -> tuple[engine.Run, int, Mapping[str, int]]:
    """Replay a site under a scorer that may abstain; also return all rounds and the abstained rounds by reason."""
    work, abstained = window.workload, Counter[str]()
    incumbent, scorer = (Decider(policy, work.limit, work.prediction) for policy in (named(INCUMBENT), agent))
    active = incumbent

    def choose(state: ClusterState, time_s: float) -> Decider:
        nonlocal active
        if len(state.waiting):
            about, _ = next(agent.doubts(state), ("", ""))
            if not about and why_later(compared(state, agent, incumbent.policy, DRAWS)):
                about = "later"
            abstained[about] += 1
            active = incumbent if about else scorer
        return active

    deciders = Deciders(incumbent, LOOK_S, choose)
    done, event_list = begun(window.cluster, work, deciders.policy)
    time_s, until = float(work.submit[0]), float(work.submit[-1])
    while time_s < until or len(done.state.waiting):
        proceed(done.state, event_list, deciders.policy, time_s)
        done.state.arrays.clock[NOW] = time_s
        deciders.look(done.state, time_s)
        time_s += LOOK_S * (1 if len(done.state.waiting) else _idle_looks(work.submit, time_s))
    proceed(done.state, event_list, deciders.policy, np.inf)
    rounds = abstained.total()
    del abstained[""]
    return done, rounds, dict(abstained)


def _idle_looks(submit: Floats, time_s: float) -> int:
    """Return after how many checks a job may wait again (at least 1), given that none waits now."""
    later = submit[np.searchsorted(submit, time_s, side="right"):]
    return max(1, int((later[0] - time_s) // LOOK_S)) if len(later) else 1


def sites(traces: Path) -> Iterator[tuple[str, Sequence[TraceWindow]]]:
    """Yield the name and the histories of each site on which scorers are evaluated."""
    for regime in MADE_UP:
        yield f"generated jobs, {regime.name}", [judging(regime, number) for number in range(EACH)]
    for name in REAL:
        trace = trace_of(name)
        yield trace.name, copies(slice_of(trace, traces))
    for name, nodes in SHORTER.items():
        trace = replace(trace_of(name), nodes=nodes)
        yield f"{name} on {nodes} nodes", copies(slice_of(trace, traces))


def copies(history: TraceWindow) -> list[TraceWindow]:
    """Return a history and copies of it whose jobs come a little earlier or later, as they may have come as well."""
    return [history, *(_moved(history, number) for number in range(1, EACH))]


def _moved(history: TraceWindow, number: int) -> TraceWindow:
    work, random = history.workload, np.random.default_rng([19, number])
    submit = work.submit + random.uniform(-MOVED_S, MOVED_S, len(work))
    order = np.argsort(submit, kind="stable")
    return replace(history, workload=subset(work, order, submit=submit[order]))


def files() -> set[str]:
    """Return the paths of the required traces in the folder of traces."""
    return {trace_of(name).file for name in (*REAL, *(home.trace for home in HOMES if home.trace))}


def trace_of(name: str) -> TraceSite:
    """Return the trace with this name, or with a name that begins so."""
    return next(trace for trace in TRACES if trace.name.startswith(name))


def slice_of(trace: TraceSite, traces: Path) -> TraceWindow:
    """Return the first jobs of a trace that fit its nodes, all in one partition."""
    work = workload_of(traces / trace.file)
    rows = trace.rows(work)
    rows = rows[(work.gpus[rows] > 0) & (work.gpus[rows] <= GPUS * trace.nodes) & (work.run[rows] > 0)][:MOST_JOBS]
    some = subset(work, rows, partition=np.zeros(len(rows), np.int32))
    return TraceWindow(Cluster.from_spec(f"{trace.nodes}x{GPUS}"), replace(some, partition_names=("default",)), -np.inf)


def _part(traces: Path, home: Home, number: int) -> TraceWindow:
    """Return one part of a trace's earlier jobs, compressed in time so that jobs wait on so many nodes."""
    random = np.random.default_rng([13, number, home.nodes])
    whole = slice_of(replace(trace_of(home.trace), nodes=home.nodes), traces)
    first = int(random.integers(0, max(1, int(LEARNED * len(whole.workload)) - WINDOW)))
    some = subset(whole.workload, np.arange(first, min(first + WINDOW, len(whole.workload))))
    wanted_s = float((some.run * some.gpus).sum()) / (GPUS * home.nodes * random.uniform(*LOADS))
    submit = (some.submit - some.submit[0]) * wanted_s / max(1.0, float(np.ptp(some.submit)))
    return TraceWindow(whole.cluster, replace(some, submit=submit), float(submit[len(some) // 8]))
