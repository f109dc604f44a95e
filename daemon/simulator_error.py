"""How far the simulator is from what really happened, when it replays the policy that really decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..storage.power_classes import PowerClass
from ..storage.reading import HistoryReader
from .policies import named
from .recorded_watts import SiteWatts, site_watts
from .recorded_window import RecordedWindow, measured, past
from .replay.engine import Run
from .replay.outcome import NO_SPEEDS, SpeedCoverage, coverage
from .replay.power import joules, joules_of_nodes
from .replay.site_speeds import FLAT_SPEEDS, SiteSpeeds
from .replay.timeline import Floats, energies

Progress = Callable[[float, float], object]
STEPS = 4
"""The watts, the history, the replay, what really ran; what is compared by parts and nodes follows."""
PARTS = 24
"""Into so many the second half is cut, to see whether errors only cancel."""
SPLITS = 7
"""Into so many it is cut to go on learning from each: one split may lie beside a change of what is run."""
WINDOW_S, MOST_READ = 300.0, 500_000
"""Length of the windows of recorded energy, and how many of them times nodes are read for the error by node."""
WATCHED = 0.95
"""Share of a window that must have been watched before its energy is called measured."""
MOMENT_S = 60.0
"""A job that starts within this did not wait: that it starts at once in the replay too says nothing."""
FEWEST_WAITED = 10
"""The fewest jobs that waited of which the daemon tells an error of waits: one job alone would be all of it."""
DAY_S, FEWEST_DAYS = 86400.0, 6
"""The error of waits is no surer than its days are many; of fewer on which jobs waited no limit is given."""
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


OF_REPLAYS = {"jobs_gpus": ("productive", "allocated_underused"), "free_gpus": ("idle_unallocated",),
              "busy_hosts": ("host_active",), "empty_hosts": ("node_overhead_empty", "unavailable")}
"""The parts for which the error of watts is given, and the classes of a replay in each."""


@dataclass(frozen=True, slots=True)
class WattsPart:
    """Joules of one part of the nodes with one type of GPUs, jobs being where they really ran."""

    part: str
    """One of ``OF_REPLAYS``."""
    gpu_model: str
    modelled: float
    known: float
    """The modelled joules, were it known what each job drew."""
    measured: float


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Simulated less real, over one window; None where nothing was measured."""

    policy: str
    jobs: int
    """Jobs that really started in the window, and did in the simulation."""
    jobs_missed: int
    """Jobs that really started but not in the simulation."""
    start_error_s: dict[str, float]
    """Quantiles of simulated less real start."""
    start_error_abs_mean_s: float | None
    measured_joules: float | None
    """In the second half of the window; watts are what was recorded before it."""
    simulated_joules: float
    energy_error_ratio: float | None
    """(Simulated - measured) / measured."""
    schedule_energy_error_ratio: float | None
    """The energy error with the jobs where and when they really ran, which is the power model's part of the error."""
    jobs_waited: int = 0
    """The number of ``jobs`` that waited longer than a moment, really or in the simulation."""
    wait_error_ratio: float | None = None
    """Mean absolute start error of those over their mean real wait; None when nobody waited."""
    wait_error_limit: float | None = None
    """The upper end of its 95 % interval; None where jobs waited on too few days to tell."""
    speeds: SpeedCoverage = NO_SPEEDS
    """What the replay went by."""
    watts: str = ""
    """What the watts rest on, in words; nothing that was recorded in the second half."""
    watts_part_error_ratio: float | None = None
    """The mean absolute energy error over a few dozen parts of the second half, with jobs where they really ran."""

    watts_node_error_ratio: float | None = None
    """The mean absolute energy error over nodes: what one draws too much another may draw too little."""
    watts_steps: tuple[float, ...] = ()
    """The error of each of some parts, one after the other, by what was known when it began; + is too much."""

    watts_known_error_ratio: float | None = None
    """The error of ``schedule``, were it known what each job drew; the remaining error is the guess for new jobs."""
    watts_parts: tuple[WattsPart, ...] = ()
    """What it consists of; empty where energy is not recorded by node."""

    @property
    def of_waits(self) -> str:
        """Return in words how far starts of jobs that waited are off; where somebody waited."""
        limit = "" if self.wait_error_limit is None else f" (surely less than {self.wait_error_limit:.0%})"
        return f"{self.wait_error_ratio:.0%}{limit} of the wait of the {self.jobs_waited} that waited"

    def part_error(self, part: str) -> float | None:
        """Return the error of a part of ``OF_REPLAYS`` over the energy of all parts; None where it is unknown."""
        measured = sum(part.measured for part in self.watts_parts)
        errors = (watts.modelled - watts.measured for watts in self.watts_parts if watts.part == part)
        return sum(errors) / measured if measured > 0 else None

    def row(self) -> dict[str, float | int | str | None]:
        """Return the figures flat."""
        return {"policy": self.policy, "jobs": self.jobs, "jobs_missed": self.jobs_missed,
                **{f"start_error_{name}_s": value for name, value in self.start_error_s.items()},
                "start_error_abs_mean_s": self.start_error_abs_mean_s, "jobs_waited": self.jobs_waited,
                "wait_error_ratio": self.wait_error_ratio, "wait_error_limit": self.wait_error_limit,
                "measured_joules": self.measured_joules, "simulated_joules": self.simulated_joules,
                "energy_error_ratio": self.energy_error_ratio,
                "schedule_energy_error_ratio": self.schedule_energy_error_ratio, "watts": self.watts,
                "watts_part_error_ratio": self.watts_part_error_ratio,
                "watts_node_error_ratio": self.watts_node_error_ratio,
                "watts_known_error_ratio": self.watts_known_error_ratio,
                **{f"watts_{part}_error_ratio": self.part_error(part) for part in OF_REPLAYS},
                "watts_steps_error_ratio": float(np.mean(self.watts_steps)) if self.watts_steps else None,
                **self.speeds.row()}


def check(history: HistoryReader, since_s: float, until_s: float, policy: str,
          speeds: SiteSpeeds = FLAT_SPEEDS, progress: Progress = lambda done, total: None) -> Fidelity:
    """Replay a window of the history under the policy that really decided and compare.

    ``progress`` is called with the number of steps done and of all.
    """
    middle = (since_s + until_s) / 2
    watts = site_watts(history, middle)
    progress(1, STEPS)
    window, then = past(history, since_s, until_s, speeds, watts), measured(history, middle, until_s)
    progress(2, STEPS)
    decider = named(policy)
    run, drawn = energies(window.cluster, window.workload, decider, (since_s, middle, until_s), window.power,
                          reserved=window.reserved, speed=speeds.table_for(decider))
    progress(3, STEPS)
    simulated = float(drawn[2] - drawn[1])
    real = then.total if then.coverage >= WATCHED else None
    as_it_ran = joules(window.occupation(middle, until_s), window.cluster.gpus, window.power).total
    started = _since(since_s, window.started)
    error = (run.start - started)[~np.isnan(started)]
    known_errors = error[~np.isnan(error)]
    waiting = wait_error(window.workload.submit, started, run.start)
    known = _known(window, site_watts(history, middle, until_s))
    as_they_drew = joules(known.occupation(middle, until_s), known.cluster.gpus, known.power).total
    parts = tuple(_parts(history, window, known, middle, until_s))
    progress(4, STEPS)
    return Fidelity(
        policy, len(known_errors), len(error) - len(known_errors),
        {name: float(np.quantile(known_errors, q)) for name, q in QUANTILES.items()} if len(known_errors) else {},
        float(np.abs(known_errors).mean()) if len(known_errors) else None, real, simulated, off(simulated, real),
        off(as_it_ran, real), *waiting, coverage(run, speeds, window.unplaced), watts.summary,
        _part_error(history, window, middle, until_s), _node_error(history, window, middle, until_s),
        tuple(_steps(history, middle, until_s)), off(as_they_drew, real), parts)


def _known(window: RecordedWindow, watts: SiteWatts) -> RecordedWindow:
    """Return a window whose jobs draw what they really drew; nodes draw what they did."""
    users, names = ([getattr(job, column) for job in window.jobs] for column in ("user", "name"))
    return replace(window, workload=watts.with_watts(window.workload, users, names))


def _parts(history: HistoryReader, window: RecordedWindow, known: RecordedWindow, since_s: float,
           until_s: float) -> Iterator[WattsPart]:
    """Yield what nodes with each type of GPUs drew by part, modelled and measured, where all is known by node."""
    measured_joules = _of_nodes(history, window, since_s, until_s)
    if measured_joules is None:
        return
    begin_s, real = measured_joules
    cluster, model = window.cluster, np.array(window.cluster.model)
    modelled, drew = (joules_of_nodes(replayed.occupation(begin_s, until_s), cluster.gpus, replayed.power)
                      for replayed in (window, known))
    for name in sorted(set(model.tolist())):
        for part, columns in OF_REPLAYS.items():
            modelled_joules, known_joules = (sum(float(sums[column][model == name].sum()) for column in columns)
                                             for sums in (modelled, drew))
            yield WattsPart(part, name, modelled_joules, known_joules, float(real[part][model == name].sum()))


def _of_nodes(history: HistoryReader, window: RecordedWindow, since_s: float, until_s: float) \
        -> tuple[float, dict[str, Floats]] | None:
    """Return from when on, as far back as is read at once, and the joules of each node by part; None if too few."""
    cluster = window.cluster
    begin_s = max(since_s, until_s - WINDOW_S * MOST_READ / max(1, len(cluster)))
    windows = history.waste_of_nodes(begin_s, until_s, MOST_READ)
    if sum(length for (_, length), _ in windows) < WATCHED * (until_s - begin_s):
        return None
    row = {name: number for number, name in enumerate(cluster.names)}
    drawn = {part: np.zeros(len(row)) for part in OF_REPLAYS}
    for _, energy_by_node in windows:
        for node in energy_by_node.keys() & row.keys():
            for power_class, amount in energy_by_node[node].items():
                drawn[_part_of(power_class)][row[node]] += amount
    return begin_s, drawn


def _part_of(power_class: PowerClass) -> str:
    """Return the part of ``OF_REPLAYS`` that a class is of; what nobody can judge counts as the hosts'."""
    if power_class is PowerClass.HOST_ACTIVE:
        return "busy_hosts"
    return {"free": "free_gpus", "host": "empty_hosts"}.get(power_class.model_part, "jobs_gpus")


def _steps(history: HistoryReader, since_s: float, until_s: float) -> Iterator[float]:
    """Yield the error of each of some parts by the watts of all that came before it, jobs being where they ran."""
    for begin_s, end_s in pairwise(np.linspace(since_s, until_s, SPLITS + 1).tolist()):
        real = measured(history, begin_s, end_s)
        if real.coverage >= WATCHED:
            window = past(history, begin_s, end_s, watts=site_watts(history, begin_s))
            modelled = joules(window.occupation(begin_s, end_s), window.cluster.gpus, window.power).total
            if (error := off(modelled, real.total)) is not None:
                yield error


def _part_error(history: HistoryReader, window: RecordedWindow, since_s: float, until_s: float) -> float | None:
    """Return the mean absolute error over short parts, jobs being where they ran; None where none was watched."""
    edges = np.linspace(since_s, until_s, PARTS + 1).tolist()
    pairs = [(joules(window.occupation(*span), window.cluster.gpus, window.power).total, then.total)
             for span in pairwise(edges) if (then := measured(history, *span)).coverage >= WATCHED]
    modelled, real = np.array(pairs).reshape(-1, 2).T
    return _relative_error(modelled, real)


def _node_error(history: HistoryReader, window: RecordedWindow, since_s: float, until_s: float) -> float | None:
    """Return the mean absolute error over nodes, as far back from the end as is read at once; None where unmeasured."""
    measured_joules = _of_nodes(history, window, since_s, until_s)
    if measured_joules is None:
        return None
    begin_s, drawn = measured_joules
    modelled = joules_of_nodes(window.occupation(begin_s, until_s), window.cluster.gpus, window.power)
    return _relative_error(np.sum(list(modelled.values()), axis=0), np.sum(list(drawn.values()), axis=0))


def _relative_error(modelled: Floats, real: Floats) -> float | None:
    return float(np.abs(modelled - real).sum() / real.sum()) if real.sum() > 0 else None


def wait_error(submit: Floats, real: Floats, simulated: Floats) -> tuple[int, float | None, float | None]:
    """Return how many jobs waited, their mean absolute start error over their mean real wait, and its upper limit.

    Most jobs of most clusters start at once whatever the policy, so that errors over all jobs flatter every policy.
    Only jobs that started both times are counted; NaN is never. A mean wait of less than a moment counts as a moment.
    """
    waits, simulated_waits = real - submit, simulated - submit
    waited_jobs = np.isfinite(waits) & np.isfinite(simulated_waits) & (np.fmax(waits, simulated_waits) > MOMENT_S)
    if not waited_jobs.any():
        return 0, None, None
    error, wait = np.abs(simulated - real)[waited_jobs], waits[waited_jobs]
    ratio = float(error.mean() / max(MOMENT_S, wait.mean()))
    return int(waited_jobs.sum()), ratio, _upper_limit(submit[waited_jobs], error, wait)


def error_of_waits(run: Run, started: Floats, since_s: float) -> float | None:
    """Return the error of waits of a replay that began at ``since_s``; None where fewer than ten jobs waited.

    ``started`` is when jobs really started: those that ran when the replay began are left out, as ``check`` does.
    """
    jobs, ratio, _ = wait_error(run.workload.submit, _since(since_s, started), run.start)
    return ratio if jobs >= FEWEST_WAITED else None


def _since(since_s: float, started: Floats) -> Floats:
    """Return when jobs started that did so in the replay; NaN for those that ran before it."""
    return np.where(started < since_s, np.nan, started)


def _upper_limit(submit: Floats, error: Floats, wait: Floats) -> float | None:
    """Return the upper end of the 95 % interval of a mean error over a mean wait; None of too few days.

    Jobs submitted on one day share a queue, so days are the samples: Student's t on a ratio of sums (Cochran, Sampling
    Techniques, 3rd ed., 6.4).
    """
    from scipy.special import stdtrit  # slow to import, and the daemon does not want it

    _, day = np.unique(submit // DAY_S, return_inverse=True)
    days = int(day.max()) + 1
    if days < FEWEST_DAYS:
        return None
    total_wait_s = max(MOMENT_S * len(wait), float(wait.sum()))
    ratio = float(error.sum()) / total_wait_s
    beyond = np.bincount(day, weights=error - ratio * wait)
    return ratio + float(stdtrit(days - 1, 0.975) * np.sqrt(days / (days - 1) * (beyond**2).sum())) / total_wait_s


def waited(run: Run, start: Floats, since_s: float, until_s: float) -> float:
    """Return the seconds that the jobs of a run waited in [since, until) if they start at ``start``, NaN for never.

    Jobs that can never run are left out: they would wait just as long under every policy.
    """
    wait = np.fmin(start, until_s) - np.maximum(run.workload.submit, since_s)
    wait[[rejection.job for rejection in run.rejected]] = 0.0
    return float(np.maximum(0.0, wait).sum())


def off(simulated: float, real: float | None) -> float | None:
    """Return the relative error; None where nothing was measured."""
    return (simulated - real) / real if real else None
