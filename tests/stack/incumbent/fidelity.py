"""The same submissions through a real Slurm and through the replay of it, and how far apart they are."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass, replace

import numpy as np
from judge.slurm import Rejected, Slurm, wait_for
from numpy.typing import NDArray

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import SchedulerSnapshot

from .controller_log import ENDED, STARTED, SUBMITTED, ControllerRecord
from .oracle import snapshot
from .site import GPUS, NODES, USERS

Floats = NDArray[np.float64]
INCUMBENT = "multifactor+slurm-placement+slurm-backfill"
_MASTERS = tuple(USERS)


@dataclass(frozen=True)
class Submission:
    """One job: when, by whom, what, and for how long."""

    at_s: float
    options: tuple[str, ...]
    seconds: int


@dataclass(frozen=True)
class Likeness:
    """How alike the waits of a real Slurm and of the replay are."""

    jobs: int
    waited: int
    """Jobs that really waited longer than a moment."""
    real_s: float
    """Mean waits, of all jobs."""
    replayed_s: float
    spread_s: float
    """Standard deviation of the mean wait from replay to replay."""
    rank_correlation: float
    """Of the starts and their means over the replays, Spearman's."""
    of_one: float
    """The same with a single replay, on the mean."""
    among: float
    """The same of one replay with another: what chance alone leaves."""
    apart: float
    """Mean absolute difference of the starts of those that waited over their mean wait."""

    @property
    def off(self) -> float:
        """Return how much longer the mean wait is in the replay, as a share of the real one."""
        return self.replayed_s / self.real_s - 1

    def __str__(self) -> str:
        """Return the figures."""
        return (f"{self.jobs} jobs, {self.waited} waited; mean wait {self.real_s:.2f} s, replayed "
                f"{self.replayed_s:.2f} s ({self.off:+.1%}), {self.spread_s / self.replayed_s:.1%} from replay to "
                f"replay; rank correlation of starts {self.rank_correlation:.4f}, with one replay {self.of_one:.4f}, "
                f"of two replays {self.among:.4f}; starts of those that waited are {self.apart:.1%} of their mean wait "
                "apart")


def submissions(seed: int, jobs: int, load: float, mean_s: float, qos: tuple[int, ...] = (8, 2, 1)) -> list[Submission]:
    """Return jobs of all users with the given load on the GPUs; limits are two to ten times as long as they run.

    ``qos`` is how many are of which quality of service: normal, high, urgent.
    """
    chance, at, made = random.Random(seed), 0.0, list[Submission]()
    for _ in range(jobs):
        gpus, nodes = chance.choices(((1, 1), (2, 1), (4, 1), (8, 2), (0, 1)), (45, 20, 15, 8, 12))[0]
        seconds = max(2, round(chance.lognormvariate(0, 0.7) * mean_s))
        account, user = chance.choice(_MASTERS)
        limit = max(1, round(seconds * chance.uniform(1.5, 8) / 60))
        made.append(Submission(at, (
            "-A", account, f"--uid={user}", f"-t{limit}", f"-N{nodes}", f"--ntasks-per-node={chance.choice((1, 2, 6))}",
            *((f"--gpus-per-node={gpus // nodes}",) if gpus else ()),
            f"--qos={chance.choices(('normal', 'high', 'urgent'), qos)[0]}",
            f"--partition={chance.choices(('all', 'fast'), (4, 1))[0]}"), seconds))
        at += chance.expovariate(1.0) * 1.9 * mean_s * 1.28 / (NODES * GPUS * load)
    return made


def run(slurm: Slurm, plan: list[Submission]) -> SchedulerSnapshot:
    """Submit at the planned times, wait until all is over, and return what the queue then tells of these jobs."""
    before, began = len(slurm.queue()), time.monotonic()
    for job in plan:
        # Not a wait for something: the moments of submission are what is to be replayed.
        time.sleep(max(0.0, began + job.at_s - time.monotonic()))
        submit(slurm, job)
    wait_for(lambda: not slurm.run("squeue", "-h"), 900)
    seen = snapshot(slurm)
    return replace(seen, jobs=tuple(job for job in seen.jobs if int(job.job_id) > before))


def submit(slurm: Slurm, job: Submission) -> None:
    """Submit a job, once more where the controller was too busy."""
    for again in (True, False):
        try:
            slurm.submit(job.options, job.seconds)
            return
        except Rejected:
            if not again:
                raise


def last_reckoning(slurm: Slurm) -> float:
    """Return when the controller last reckoned priorities."""
    return (slurm.conf.parents[1] / "state/priority_last_decay_ran").stat().st_mtime


def replayed(seen: SchedulerSnapshot, record: ControllerRecord, reckoned_s: float, replays: int = 60) -> Likeness:
    """Compare a queue that is over with replays of its submissions.

    Jobs come and run by the controller's log, to the millisecond, and both schedulers look as often as they really did.
    When each of them first looks is drawn for every replay, as it is up to when the controller was started.
    """
    jobs = [job for job in seen.jobs if job.start_s is not None and job.end_s is not None]
    cluster, policy = looking(seen, record, reckoned_s), named(INCUMBENT)
    workload, chance = as_logged(Workload.from_records(jobs), record), np.random.default_rng(1)
    started, starts = record.first(STARTED), []
    for _ in range(replays):
        begun, moved, shift_s = some_time(cluster, workload, chance)
        starts.append(engine.run(begun, moved, policy).start - shift_s)
    return likeness(workload, np.array([started[int(number)] for number in workload.ids]), np.array(starts))


def looking(seen: SchedulerSnapshot, record: ControllerRecord, reckoned_s: float) -> Cluster:
    """Return the cluster of a snapshot, whose schedulers look as often as a controller's log tells."""
    empty = ClusterState.from_snapshot(replace(seen, jobs=()), seen.time_s).cluster
    told = empty.scheduling
    often = replace(told.backfill, looks_s=record.pass_period_s(),
                    interval_s=record.round_period_s(told.backfill.interval_s))
    # The priorities that are told of jobs which are over are those of their ends.
    return replace(empty, scheduling=replace(told, current=False, reckoned_s=reckoned_s, backfill=often))


def some_time(cluster: Cluster, workload: Workload, chance: np.random.Generator) -> tuple[Cluster, Workload, float]:
    """Return a cluster whose schedulers are anywhere in their seconds when the first job comes, and jobs that are late.

    The third is by how much. The main scheduler looks at whole multiples of its period, so whoever comes later is at
    another place between two looks; the backfill looks when its last walk lets it.
    """
    backfill, shift_s = cluster.scheduling.backfill, float(chance.random())
    first_walk_s = workload.submit.min() + shift_s + backfill.looks_s * chance.random()
    begun = replace(backfill, began_s=first_walk_s - backfill.interval_s)
    return (replace(cluster, scheduling=replace(cluster.scheduling, backfill=begun)),
            replace(workload, submit=workload.submit + shift_s), shift_s)


def as_logged(workload: Workload, record: ControllerRecord) -> Workload:
    """Return jobs that came and ran as a controller's log tells, which knows fractions of seconds."""
    came, started, ended = (record.first(kind) for kind in (SUBMITTED, STARTED, ENDED))
    numbers = [int(number) for number in workload.ids]
    return replace(workload, submit=np.array([came[number] for number in numbers]),
                   run=np.array([ended[number] - started[number] for number in numbers]))


def likeness(workload: Workload, real: Floats, starts: Floats) -> Likeness:
    """Compare the starts with those of replays, [replay, job]."""
    waits, means = real - workload.submit, (starts - workload.submit).mean(axis=1)
    waited = waits > 2.0
    return Likeness(
        len(workload), int(waited.sum()), float(waits.mean()), float(means.mean()), float(means.std(ddof=1)),
        rank_correlation(real, starts.mean(axis=0)),
        float(np.mean([rank_correlation(real, one) for one in starts])),
        float(np.mean([rank_correlation(one, other) for one, other in itertools.pairwise(starts)])),
        float(np.abs(starts - real)[:, waited].mean() / waits[waited].mean()) if waited.any() else 0.0)


def apart(one: tuple[SchedulerSnapshot, ControllerRecord], other: tuple[SchedulerSnapshot, ControllerRecord],
          ) -> tuple[float, float, float]:
    """Return the mean waits of two real runs of the same submissions, and the rank correlation of their starts."""
    waits, starts = [], []
    for seen, record in (one, other):
        came, started = record.first(SUBMITTED), record.first(STARTED)
        numbers = sorted(int(job.job_id) for job in seen.jobs)
        waits.append(float(np.mean([started[number] - came[number] for number in numbers])))
        starts.append(np.array([started[number] for number in numbers]))
    return waits[0], waits[1], rank_correlation(*starts)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's."""
    ranks = np.array([np.argsort(np.argsort(starts, kind="stable")) for starts in (one, other)], np.float64)
    return float(np.atleast_2d(np.corrcoef(ranks))[0, 1])
