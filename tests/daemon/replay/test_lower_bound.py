"""No policy is below the limit, and where the limit is a schedule somebody can be at it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import lower_bound as bounds
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.lower_bound import lower_bound
from idlewatt.daemon.replay.outcome import row
from idlewatt.daemon.replay.workload import Workload

JOBS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 9), st.sampled_from("ab")),
                min_size=1, max_size=14)
TWO_PARTS = Cluster.from_mapping({"nodes": [{"name": "a", "count": 2, "gpus": 4, "partitions": ["a"]},
                                            {"name": "b", "count": 1, "gpus": 8, "partitions": ["b"]}]})


def workload(jobs):
    submit, seconds, gpus, partition = zip(*jobs, strict=True)
    return Workload.of(submit, seconds, gpus, partition=partition)


@settings(max_examples=40, deadline=None)
@given(JOBS, st.sampled_from(["fifo", "sjf-oracle+best-fit+easy", "srtf", "random-feasible"]))
def test_no_policy_is_below_its_limit(jobs, policy):
    work = workload(jobs)
    figures, least = row(run(TWO_PARTS, work, named(policy))), lower_bound(TWO_PARTS, work)
    columns = least.row(figures["jct_mean_s"], preemptions=figures["preemptions"], ended=True)
    assert columns["distance"] is None or columns["distance"] >= -1e-9


def test_few_jobs_have_an_optimum_and_many_a_bound():
    few, many = workload([(0, 30, 4, "a"), (0, 10, 8, "a")]), workload([(n, 10, 4, "a") for n in range(11)])
    assert lower_bound(TWO_PARTS, few).row(25.0, preemptions=0, ended=True) == {
        "jct_bound_s": 25.0, "jct_bound_kind": "optimum", "distance": 0.0}
    assert lower_bound(TWO_PARTS, many).row(50.0, preemptions=0, ended=True)["jct_bound_kind"] == "bound"


def test_partitions_that_share_no_node_are_bounded_each_for_itself():
    crowded = workload([(0, 100, 8, "b") for _ in range(12)])
    assert lower_bound(TWO_PARTS, crowded).bound_s == pytest.approx(100 * np.arange(1, 13).mean())


def test_jobs_that_can_never_run_are_not_counted():
    work = workload([(0, 10, 4, "a"), (0, 10, 99, "a")])
    assert lower_bound(TWO_PARTS, work).uninterrupted_s == 10.0


def test_an_outage_or_a_dependency_makes_the_optimum_a_bound():
    work = workload([(0, 10, 4, "a"), (0, 10, 4, "a")])
    assert lower_bound(TWO_PARTS, work).exact
    assert not lower_bound(TWO_PARTS.with_events([NodeEvent(1, "a0", "down")]), work).exact
    assert not lower_bound(TWO_PARTS, Workload.of([0, 0], [5, 5], [1, 1], dependency=[-1, 0])).exact


@pytest.mark.parametrize(("work", "why"), [
    (workload([(0, 10, 99, "a")]), "no job can run"),
    (Workload.of([0], [9], [1], maximum=[4]), "elastic"),
])
def test_a_limit_that_is_not_known_says_why(work, why):
    found = lower_bound(TWO_PARTS, work)
    assert found.bound_s is None
    columns = found.row(5.0, preemptions=0, ended=True)
    assert (columns["jct_bound_s"], columns["distance"]) == (None, None)
    assert why in columns["jct_bound_kind"]


def test_too_many_jobs_have_no_bound(monkeypatch):
    monkeypatch.setattr(bounds, "MANY", 3)
    assert "more than 3 jobs" in lower_bound(TWO_PARTS, workload([(0, 1, 1, "a")] * 4)).why


def test_a_policy_that_left_jobs_behind_has_no_distance():
    assert lower_bound(TWO_PARTS, workload([(0, 9, 1, "a")])).row(9.0, preemptions=0, ended=False)["distance"] is None
