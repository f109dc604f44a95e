"""The best schedule is that of an exhaustive search, and no schedule beats a bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.optimum import OptimumError, best_schedule, jct_mean_bound, makespan_bound
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.published.helios import HeliosJob, replay


def workload(*jobs):
    submit, run, gpus = zip(*jobs, strict=True)
    return Workload.of(submit, run, gpus)


def test_one_gpu_serves_the_shortest_first():
    found = best_schedule(Cluster.from_spec("1x1"), workload((0, 30, 1), (0, 10, 1), (0, 20, 1)))
    assert (found.value, found.proven) == (pytest.approx((10 + 30 + 60) / 3), True)
    assert found.start_s == (30, 0, 10)


def test_it_waits_for_a_short_job_that_comes_soon():
    found = best_schedule(Cluster.from_spec("1x8"), workload((0, 100, 8), (1, 1, 8)))
    assert found.start_s == (2, 1)
    assert found.value == pytest.approx((102 + 1) / 2)


def test_it_keeps_a_node_whole_for_a_job_that_needs_one():
    found = best_schedule(Cluster.from_spec("2x4"), workload((0, 10, 2), (0, 10, 2), (1, 10, 4)))
    assert found.placements[0] == found.placements[1] != found.placements[2]
    assert found.value == 10


def test_a_job_across_nodes_takes_whole_ones_and_a_rest():
    found = best_schedule(Cluster.from_spec("3x4"), workload((0, 10, 10)), "makespan_s")
    assert (found.value, len(set(found.placements[0]))) == (10, 3)


def test_the_last_end_and_the_mean_are_different_aims():
    jobs = workload((0, 10, 1), (0, 10, 1), (0, 21, 1))
    mean, span = (best_schedule(Cluster.from_spec("1x2"), jobs, aim) for aim in ("jct_mean_s", "makespan_s"))
    assert (mean.start_s, span.value) == ((0, 0, 10), 21)


def test_ten_jobs_on_two_servers_are_proven():
    random = np.random.default_rng(7)
    jobs = workload(*[(submit, run, gpus) for submit, run, gpus in zip(
        np.sort(random.integers(0, 100, 10)), random.integers(10, 200, 10), random.choice([1, 2, 4, 8], 10),
        strict=True)])
    found = best_schedule(Cluster.from_spec("2x8"), jobs)
    assert found.proven
    assert jct_mean_bound(jobs, 16) <= found.value


def test_a_search_that_gives_up_says_between_what_the_optimum_lies():
    jobs = workload(*[(number, 10 + number * 7 % 5, 1 + number % 3) for number in range(10)])
    found = best_schedule(Cluster.from_spec("2x3"), jobs, states=50)
    assert not found.proven
    assert found.bound <= found.value


@pytest.mark.parametrize("jobs", [[(0, 1, 1)] * 13, [(0, 1, 99)]])
def test_what_cannot_be_searched_is_an_error(jobs):
    with pytest.raises(OptimumError):
        best_schedule(Cluster.from_spec("2x4"), workload(*jobs))


def test_no_jobs_need_no_time():
    empty = Workload.of([], [], [])
    assert (jct_mean_bound(empty, 8), makespan_bound(empty, 8)) == (0, 0)


JOBS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 15), st.integers(1, 4)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(JOBS, st.sampled_from(["jct_mean_s", "makespan_s"]))
def test_the_best_schedule_is_that_of_an_exhaustive_search(jobs, aim):
    jobs = workload(*jobs)
    found = best_schedule(Cluster.from_spec("2x4"), jobs, aim)
    ends = exhaustive(jobs, nodes=2, size=4)
    expected = (min(sum(end) for end in ends) - jobs.submit.sum()) / len(jobs) if aim == "jct_mean_s" else (
        min(max(end) for end in ends) - jobs.submit.min())
    assert found.value == pytest.approx(expected)


def exhaustive(jobs, nodes, size):
    """Yield the ends of every schedule that starts jobs of one list on given nodes as early as they fit."""
    for order in itertools.permutations(range(len(jobs))):
        for places in itertools.product(range(nodes), repeat=len(jobs)):
            taken = np.zeros((nodes, 150), int)
            ends = []
            for job, node in zip(order, places, strict=True):
                start, run = int(jobs.submit[job]), int(jobs.run[job])
                while (taken[node, start:start + run] + jobs.gpus[job] > size).any():
                    start += 1
                taken[node, start:start + run] += jobs.gpus[job]
                ends.append(start + run)
            yield ends


MANY = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 80), st.sampled_from([1, 2, 4, 8, 16])), min_size=1,
                max_size=25)


@settings(max_examples=60, deadline=None)
@given(MANY, st.sampled_from(["fifo", "sjf", "srtf"]))
def test_no_policy_beats_the_bounds(jobs, policy):
    replayed = [HeliosJob(submit, number, gpus, run) for number, (submit, run, gpus) in enumerate(jobs)]
    mean, _ = replay(replayed, 3, policy)
    span = max(job.end_s for job in replayed) - min(job.submit_s for job in replayed)
    bound = jct_mean_bound(workload(*jobs), 24)
    assert bound <= mean + 1e-9
    assert makespan_bound(workload(*jobs), 24) <= span + 1e-9


def test_the_bound_is_reached_where_one_machine_serves_the_shortest():
    jobs = workload((0, 30, 8), (0, 10, 8), (5, 20, 8))
    assert jct_mean_bound(jobs, 8) == pytest.approx(best_schedule(Cluster.from_spec("1x8"), jobs).value)
