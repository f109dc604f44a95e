"""How often starts come within the interval that was foretold: ``python tests/benchmarks/start_coverage.py [TRACES]``.

The jobs of Venus vcvGl run on one node of 32 GPUs under FIFO with EASY backfill, with limits of 1.2 to 4 times what
they run, drawn with a fixed seed. Starts are foretold as the daemon does, whenever somebody begins to wait or to run.
"""

import heapq
import sys
from pathlib import Path

import numpy as np
from runtimes import VENUS, jobs_of

from idlewatt.daemon.advice.wait_estimate import StartForecasts
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.runtime_prediction import JobFeatures, predicted_columns
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

GPUS, FUTURES, WAITED_S, EVERY_S, NOW = 32, 64, 60.0, 300.0, 1e9
POLICY = "fifo+best-fit+easy"


def backfilled(now, queue, running, free, jobs):
    """Return who of the queue starts now."""
    gpus, limit, start = jobs["gpus"], jobs["limit"], jobs["start"]
    begun = []
    while queue and gpus[queue[0]] <= free:
        begun.append(queue[0])
        free -= gpus[queue.pop(0)]
    if not queue:
        return begun
    ends = sorted([(start[job] + limit[job], gpus[job]) for job in running]
                  + [(now + limit[job], gpus[job]) for job in begun])
    there = free + np.cumsum([size for _, size in ends])
    place = int(np.argmax(there >= gpus[queue[0]]))
    shadow, extra = ends[place][0], there[place] - gpus[queue[0]]
    for job in queue[1:]:
        if gpus[job] <= free and (now + limit[job] <= shadow or gpus[job] <= extra):
            extra -= gpus[job] if now + limit[job] > shadow else 0
            free -= gpus[job]
            begun.append(job)
    queue[:] = [job for job in queue if job not in begun]
    return begun


def schedule(jobs):
    """Fill in starts."""
    events = [(when, False, job) for job, when in enumerate(jobs["submit"])]
    heapq.heapify(events)
    queue, running, free = [], [], GPUS
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, ends, job = heapq.heappop(events)
            if ends:
                running.remove(job)
                free += jobs["gpus"][job]
            else:
                queue.append(job)
        for job in backfilled(now, queue, running, free, jobs):
            jobs["start"][job] = now
            running.append(job)
            free -= jobs["gpus"][job]
            heapq.heappush(events, (now + jobs["run"][job], True, job))


def record(job, now, jobs):
    """Return a job as a scheduler tells it."""
    size, start = int(jobs["gpus"][job]), jobs["start"][job]
    request, limit_s = Request(size), float(jobs["limit"][job])
    if start > now:
        return Job(str(job), jobs["submit"][job], JobState.PENDING, "all", request, limit_s=limit_s)
    state = JobState.RUNNING if start + jobs["run"][job] > now else JobState.COMPLETED
    return Job(str(job), jobs["submit"][job], state, "all", request, start_s=start, limit_s=limit_s,
               allocations=(Allocation("a", size),))


def looked(now, jobs, known, book, policy):
    """Take one look at the cluster."""
    end = jobs["start"] + jobs["run"]
    here = [record(job, now, jobs) for job in np.flatnonzero((jobs["submit"] <= now) & (end > now - 86400))]
    there = tuple(job for job in here if job.state is not JobState.COMPLETED)
    used = sum(job.request.gpus for job in there if job.start_s is not None)
    book._count([job for job in here if job.state is JobState.COMPLETED])

    def told(some):
        rows = [int(job.job_id) for job in some]
        return {name: known[name][rows] if name in known else np.full(len(rows), np.nan) for name in PREDICTED_COLUMNS}
    snapshot = SchedulerSnapshot(now, (Node("a", ("all",), GPUS, gpus_allocated=used),), jobs=there)
    book.renewed(ClusterState.from_snapshot(snapshot, now, predictor=told), policy, FUTURES)


def main():
    """Print how many starts came within their interval, earlier and later."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/traces")
    work = jobs_of(folder / VENUS, "vcvGl", 0)
    kept = work.gpus <= GPUS
    jobs = {"submit": NOW + work.submit[kept], "run": work.run[kept], "gpus": work.gpus[kept].astype(int)}
    chance = np.random.default_rng(0)
    jobs["limit"] = np.ceil(jobs["run"] * chance.uniform(1.2, 4.0, len(jobs["run"])) / 3600) * 3600
    jobs["start"] = np.full(len(jobs["run"]), np.nan)
    schedule(jobs)
    known = predicted_columns(submit_s=jobs["submit"], run_s=jobs["run"], ended_s=jobs["start"] + jobs["run"],
                              started_s=jobs["start"], limit_s=jobs["limit"],
                              features=JobFeatures(jobs["gpus"], np.where(work.user[kept] < 0, -1, work.user[kept])))
    waited = jobs["start"] - jobs["submit"] > WAITED_S
    looks = np.unique(np.ceil(np.concatenate([jobs["submit"][waited], jobs["start"][waited]]) / EVERY_S) * EVERY_S)
    book, policy = StartForecasts(), named(POLICY)
    for now in looks:
        looked(now, jobs, known, book, policy)
    counts = {result: count for (_, result), count in book.counts.items()}
    within = counts.get("within", 0) / max(sum(counts.values()), 1)
    print(f"{len(kept)} jobs, {waited.sum()} waited, {len(looks)} looks: {counts}, {within:.1%} within")


if __name__ == "__main__":
    main()
