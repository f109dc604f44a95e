"""Speed of the replay engine: 64 nodes of 8 GPUs, Poisson arrivals, offered load 0.95.

The bounds hold on a quiet core that runs the loop of ``minimal_fifo`` at ``QUIET`` jobs a second. On a slower or busier
one they are scaled by how fast that loop is in the same minute; they are never scaled up.
"""

import heapq
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from synthetic import synthetic

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, events
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.settings.priority import PrioritySettings

CLUSTER = Cluster.from_spec("64x8")
QUIET = 4.8e6
"""Jobs a second of a minimal compiled loop on the 2-core machine that the bounds were set on."""


def seconds(workload, policy, repeats=7):
    """Return the least CPU seconds of the compiled loop, ready to start; the machine may be shared."""
    rules = named(policy).rules
    engine.run(CLUSTER, workload, named(policy), until=0.0)  # compile
    return min(once(workload, rules) for _ in range(repeats))


def once(workload, rules):
    """Return CPU seconds of one compiled loop."""
    state = ClusterState.of(CLUSTER, workload)
    engine.prepare(state, rules)
    began = time.process_time()
    engine.loop(state.arrays, events.event_list_of(CLUSTER), rules.calls, np.inf)
    return time.process_time() - began


@numba.njit
def release_ended(now, ends, jobs, count, free, held, gpus):
    """Free what ended by now; return how many still run. The heap is by end."""
    while count > 0 and ends[0] <= now:
        for part in range(max(1, gpus[jobs[0]] // 8)):
            free[held[jobs[0], part]] += min(8, gpus[jobs[0]])
        count -= 1
        end, job, hole = ends[count], jobs[count], 0
        while 2 * hole + 1 < count:
            child = 2 * hole + 1
            if child + 1 < count and ends[child + 1] < ends[child]:
                child += 1
            if ends[child] >= end:
                break
            ends[hole], jobs[hole], hole = ends[child], jobs[child], child
        ends[hole], jobs[hole] = end, job
    return count


@numba.njit
def fit(free, wanted, held):
    """Write down the fullest node, or the first whole ones, that hold a job; tell whether there are any."""
    found, least = 0, 9
    for node in range(free.size):
        if wanted > 8:
            if free[node] == 8 and found < wanted // 8:
                held[found] = node
                found += 1
        elif wanted <= free[node] < least:
            held[0], least, found = node, free[node], 1
    return found == max(1, wanted // 8)


@numba.njit
def minimal_fifo(submit, run, gpus):
    """Return the mean JCT of strict FIFO with best fit on 64 nodes of 8, and do nothing else: the calibration."""
    ends, jobs, held = np.empty(513), np.empty(513, np.int64), np.empty((submit.size, 2), np.int64)
    free, now, spent, count = np.full(64, 8), 0.0, 0.0, 0
    for job in range(submit.size):
        now = max(now, submit[job])
        count = release_ended(now, ends, jobs, count, free, held, gpus)
        while not fit(free, gpus[job], held[job]):
            now = ends[0]
            count = release_ended(now, ends, jobs, count, free, held, gpus)
        for part in range(max(1, gpus[job] // 8)):
            free[held[job, part]] -= min(8, gpus[job])
        end, hole = now + run[job], count
        while hole > 0 and ends[(hole - 1) >> 1] > end:
            ends[hole], jobs[hole] = ends[(hole - 1) >> 1], jobs[(hole - 1) >> 1]
            hole = (hole - 1) >> 1
        ends[hole], jobs[hole], count = end, job, count + 1
        spent += end - submit[job]
    return spent / submit.size


def minimal_rate(workload):
    """Return the jobs per CPU second of the minimal loop."""
    columns = workload.submit, workload.run, workload.gpus.astype(np.int64)
    assert round(minimal_fifo(*columns), 2) == 19107.10
    seconds = []
    for _ in range(7):
        began = time.process_time()
        minimal_fifo(*columns)
        seconds.append(time.process_time() - began)
    return len(workload) / min(seconds)


def plain_fifo(workload):
    """Return CPU seconds and mean JCT of strict FIFO with best fit in pure Python: a heap and a list."""
    submit, run, gpus = (column.tolist() for column in (workload.submit, workload.run, workload.gpus))
    free, ends, now, waited = [8] * 64, [], 0.0, 0.0
    began = time.process_time()
    for job, size in enumerate(gpus):
        now = max(now, submit[job])
        while True:
            while ends and ends[0][0] <= now:
                for node, part in heapq.heappop(ends)[2]:
                    free[node] += part
            if size <= 8:
                able = [(left, node) for node, left in enumerate(free) if left >= size]
                chosen = [(min(able)[1], size)] if able else []
            else:
                whole = [node for node, left in enumerate(free) if left == 8][:size // 8]
                chosen = [(node, 8) for node in whole] if len(whole) == size // 8 else []
            if chosen:
                break
            now = ends[0][0]
        for node, part in chosen:
            free[node] -= part
        heapq.heappush(ends, (now + run[job], job, chosen))
        waited += now + run[job] - submit[job]
    return time.process_time() - began, waited / len(gpus)


@pytest.mark.parametrize(("policy", "bound"), [("fifo", 2e6), ("sjf-oracle", 2e6), ("fifo+easy", 3e5),
                                               ("sjf-oracle+easy", 3e5)])
def test_jobs_per_second(policy, bound):
    workload = synthetic(100_000, 0.95)
    plain, mean = plain_fifo(workload)
    assert round(mean, 2) == 19107.10
    before = minimal_rate(workload)
    rate = len(workload) / seconds(workload, policy)
    minimal = min(before, minimal_rate(workload))
    print(f"\n{policy}: {rate / 1e6:.2f} M jobs/s, {rate * plain / len(workload):.0f} times pure Python FIFO "
          f"({len(workload) / plain / 1e3:.0f} k jobs/s), {rate / minimal:.2f} times a minimal compiled FIFO "
          f"({minimal / 1e6:.1f} M jobs/s)")
    assert rate >= bound * min(1.0, minimal / QUIET)


def test_chance_is_through_with_a_million_jobs_although_half_of_them_pile_up():
    workload = synthetic(1_000_000, 1.2)
    before = minimal_rate(synthetic(100_000, 0.95))
    rate = len(workload) / seconds(workload, "random-feasible", repeats=1)
    print(f"\nrandom-feasible at an offered load of 1.2: {rate / 1e6:.2f} M jobs/s")
    assert rate >= 2e5 * min(1.0, before / QUIET)


def test_conservative_backfill_plans_a_hundred_jobs_at_every_event():
    workload = synthetic(10_000, 0.95)
    before = minimal_rate(synthetic(100_000, 0.95))
    rate = len(workload) / seconds(workload, "fifo+conservative", repeats=1)
    print(f"\nfifo+conservative with a queue of hundreds: {rate:.0f} jobs/s")
    assert rate >= 400 * min(1.0, before / QUIET)


SITE = Scheduling(PrioritySettings(age=1000, fair_share=10_000, job_size=500, partition=100, qos=2000))
"""Weights of a usual kind; fair-share makes the order change at every reckoning."""


def queue_of(workload, run):
    """Return the mean and the largest number of waiting jobs, as newcomers find it."""
    arrived = np.arange(1, len(workload) + 1)
    waiting = arrived - np.searchsorted(np.sort(run.start), workload.submit, side="right")
    return waiting.mean(), waiting.max()


@pytest.mark.parametrize("policy", ["fifo+slurm-placement+slurm-backfill",
                                    "multifactor+slurm-placement+slurm-backfill"])
@pytest.mark.parametrize(("load", "bound"), [(0.95, 40_000), (1.05, 20_000), (1.1, 15_000)])
def test_slurms_own_backfill_replays_thousands_of_jobs_a_second(policy, load, bound):
    users = np.random.default_rng(1).integers(0, 40, 10_000).astype(str)
    cluster = replace(CLUSTER, scheduling=SITE)
    workload = replace(synthetic(10_000, load), user=users.astype(np.int32), user_names=tuple(map(str, range(40))))
    before = minimal_rate(synthetic(100_000, 0.95))
    engine.run(cluster, workload, named(policy), until=0.0)  # compile
    spent = []
    for _ in range(3):
        began = time.process_time()
        run = engine.run(cluster, workload, named(policy))
        spent.append(time.process_time() - began)
    rate, (mean, most) = len(workload) / min(spent), queue_of(workload, run)
    print(f"\n{policy} at an offered load of {load}: {rate:.0f} jobs/s with {mean:.0f} jobs waiting on the mean, "
          f"{most} at most")
    assert rate >= bound * min(1.0, before / QUIET)


def test_cost_grows_linearly_from_ten_thousand_to_a_million_jobs():
    rates = {}
    for jobs in (10_000, 100_000, 1_000_000):
        workload = synthetic(jobs, 0.75)
        rates[jobs] = jobs / seconds(workload, "fifo", repeats=3)
    print("\n" + ", ".join(f"{jobs}: {rate / 1e6:.2f} M jobs/s" for jobs, rate in rates.items()))
    assert rates[1_000_000] > rates[10_000] / 2.5


MILLION = """
import re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from synthetic import synthetic
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
engine.run(Cluster.from_spec("64x8"), synthetic(1_000_000, 0.75), named("fifo+easy"))
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def test_a_million_jobs_take_less_than_600_mb():
    engine.run(CLUSTER, synthetic(100, 0.75), named("fifo+easy"))  # compiled here, so that the child only loads it
    folder = Path(__file__).parents[1] / "daemon" / "replay"
    child = subprocess.run([sys.executable, "-c", MILLION, str(folder)], capture_output=True, text=True, check=True)
    print(f"\npeak resident memory with 1 M jobs under fifo+easy: {float(child.stdout):.0f} MB")
    assert float(child.stdout) < 600
