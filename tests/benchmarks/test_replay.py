"""Speed of the replay engine: 64 nodes of 8 GPUs, Poisson arrivals, offered load 0.95."""

import heapq
import resource
import time

import numpy as np
import pytest
from synthetic import synthetic

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState

CLUSTER = Cluster.from_spec("64x8")


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
    engine.loop(state.arrays, engine.agenda_of(CLUSTER), *rules[:8], np.inf)
    return time.process_time() - began


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
    rate = len(workload) / seconds(workload, policy)
    print(f"\n{policy}: {rate / 1e6:.2f} M jobs/s, {rate * plain / len(workload):.0f} times pure Python FIFO "
          f"({len(workload) / plain / 1e3:.0f} k jobs/s)")
    assert rate >= bound


def test_cost_grows_linearly_from_ten_thousand_to_a_million_jobs():
    rates = {}
    for jobs in (10_000, 100_000, 1_000_000):
        workload = synthetic(jobs, 0.75)
        rates[jobs] = jobs / seconds(workload, "fifo", repeats=3)
    print("\n" + ", ".join(f"{jobs}: {rate / 1e6:.2f} M jobs/s" for jobs, rate in rates.items()))
    assert rates[1_000_000] > rates[10_000] / 2.5
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory with 1 M jobs: {peak:.0f} MB")
    assert peak < 600
