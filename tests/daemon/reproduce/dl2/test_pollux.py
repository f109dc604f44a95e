"""Elastic rules in Pollux's arena."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.reproduce.dl2.pollux import RandomSizes, RelativeGain, best_batch, freed, most, packed
from idlewatt.daemon.reproduce.dl2.pollux_trial import hours, made_up
from idlewatt.daemon.reproduce.published.pollux import NODE_GPUS, NODES, Artifact


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 16), max_size=12).filter(lambda sizes: sum(sizes) <= NODES * NODE_GPUS))
def test_every_job_gets_its_size_and_no_node_more_than_it_has(sizes):
    wanted = {f"job-{place}": size for place, size in enumerate(sizes)}
    placed = packed(wanted, {})
    assert {name: len(nodes) for name, nodes in placed.items()} == wanted
    taken = [node for nodes in placed.values() for node in nodes]
    assert all(taken.count(node) <= NODE_GPUS for node in range(NODES))


def test_who_keeps_its_size_on_the_fewest_nodes_stays():
    held = {"stays": [3, 3], "spread": [1, 2]}
    placed = packed({"stays": 2, "spread": 2}, held)
    assert placed["stays"] == [3, 3]
    assert len(set(placed["spread"])) == 1


@pytest.fixture(scope="module")
def artifact(traces):
    return Artifact(traces)


def mean_h(jobs, haste):
    return hours(jobs, RelativeGain(haste)).mean()


def test_the_plain_rule_gives_what_is_known_of_it(artifact):
    assert mean_h(artifact.jobs("1.0", 1), 0.0) == pytest.approx(2337 / 3600, rel=0.01)


def test_short_jobs_first_is_better_on_a_workload_it_was_not_chosen_on(artifact):
    assert mean_h(artifact.jobs("1.0", 2), 0.3) < mean_h(artifact.jobs("1.0", 2), 0.0)


def test_nobody_gets_more_gpus_than_its_batch_can_feed(artifact):
    jobs = artifact.jobs("1.0", 1)[:10]
    sizes = RelativeGain().sizes(jobs)
    assert sum(sizes) <= NODES * NODE_GPUS
    assert all(size <= most(job) for size, job in zip(sizes, jobs, strict=True))


def test_chance_gives_out_all_gpus_that_anybody_can_use(artifact):
    jobs = artifact.jobs("1.0", 1)[:10]
    placed = RandomSizes(random.Random(0)).decide(60, jobs, {})
    assert all(1 <= len(placed[job.name]) <= most(job) for job in jobs)
    assert sum(map(len, placed.values())) == min(NODES * NODE_GPUS, sum(map(most, jobs)))


def test_more_jobs_than_gpus_leave_the_last_in_file_order_waiting(artifact):
    jobs = artifact.jobs("1.0", 1)[:NODES * NODE_GPUS + 5]
    assert RelativeGain().sizes(jobs) == [1] * (NODES * NODE_GPUS) + [0] * 5


@pytest.mark.parametrize("gpus", [1, 4, 6])
def test_a_free_batch_learns_no_slower_than_the_rows(artifact, gpus):
    placement = (4,) * (gpus // 4) + ((gpus % 4,) if gpus % 4 else ())
    for job in artifact.jobs("1.0", 1)[:20]:
        found = best_batch(job.application, placement, 0)
        rates = [job.application.goodput(placement, job.application.split(size, gpus), 0)
                 for size in (found, job.batch)]
        assert rates[0] >= 0.98 * rates[1], job.name  # the sizes tried are a grid


def test_a_free_batch_takes_less_time_over_a_workload(artifact):
    assert mean_h(freed(artifact.jobs("0.5", 1)), 0.3) < mean_h(artifact.jobs("0.5", 1), 0.3)


def test_made_up_workloads_are_the_same_for_a_seed(artifact):
    known = {job.application.name: job.application for job in artifact.jobs("1.0", 1) + artifact.jobs("1.0", 2)}
    first, again = (made_up(known, 1, jobs=20) for _ in range(2))
    assert [(job.name, job.submit_s, job.batch) for job in first] == [(job.name, job.submit_s, job.batch)
                                                                      for job in again]
